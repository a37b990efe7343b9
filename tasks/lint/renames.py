"""What to write instead of a flag that is gone, and instead of another engine's."""

from __future__ import annotations

from typing import Final

# Where the release's own warning did not name the successor. From the release notes and the flags that came with the same
# release (SGLang 0.5.10, 0.5.14, 0.5.16, 0.5.20, 0.5.22).
RENAMED: Final[dict[str, str]] = {
    "--stream-output": "--incremental-streaming-output",
    "--optimistic-prefill-retries": "--optimistic-prefill-attempts",
    "--enable-deepep-waterfill": "--enable-waterfill",
    "--nsa-prefill-backend": "--dsa-prefill-backend",
    "--nsa-decode-backend": "--dsa-decode-backend",
    "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
    "--cuda-graph-bs": "--cuda-graph-bs-decode",
    "--mamba-scheduler-strategy": "--mamba-radix-cache-strategy",
    "--enable-prefill-context-parallel": "--enable-prefill-cp",
    "--prefill-cp-mode": "--cp-strategy",
}
# vLLM's flag -> what SGLang calls the same thing.
OTHER_ENGINES: Final[dict[str, tuple[str, str]]] = {
    "--gpu-memory-utilization": ("vLLM", "--mem-fraction-static"),
    "--max-model-len": ("vLLM", "--context-length"),
    "--max-num-seqs": ("vLLM", "--max-running-requests"),
    "--max-num-batched-tokens": ("vLLM", "--chunked-prefill-size"),
    "--enforce-eager": ("vLLM", "--disable-cuda-graph"),
    "--block-size": ("vLLM", "--page-size"),
    "--enable-expert-parallel": ("vLLM", "--ep-size"),
    "--no-enable-prefix-caching": ("vLLM", "--disable-radix-cache"),
    "--kv-transfer-config": ("vLLM", "--disaggregation-mode and --disaggregation-transfer-backend"),
    "--speculative-config": ("vLLM", "--speculative-algorithm and its kin"),
    "--hf-overrides": ("vLLM", "--json-model-override-args"),
    "--enable-auto-tool-choice": ("vLLM", "--tool-call-parser"),
    "--tokens-per-block": ("TensorRT-LLM", "--page-size"),
    "--n-gpu-layers": ("llama.cpp", "--tp-size"),
    "--ctx-size": ("llama.cpp", "--context-length"),
}
