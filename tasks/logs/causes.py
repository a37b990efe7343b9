"""What ends a start of SGLang, or makes it serve nonsense, by the words it prints; each with what to do.

The order is that of trust: a row further up explains rows below it. Sources: SGLang 0.4 to 0.5.23, Mooncake and Triton, read
in November 2026, and issues of their trackers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Row:
    """One kind of trouble. `pattern` is searched in a line; `says` may use its groups."""

    code: str
    pattern: re.Pattern[str]
    says: str
    remedy: str


def _row(code: str, pattern: str, says: str, remedy: str) -> Row:
    return Row(code, re.compile(pattern), says, remedy)


FATAL: Final[tuple[Row, ...]] = (
    # ---- prefill and decode apart
    _row("pd-page-size", r"Page size mismatch: decode server has page_size=(\d+), but prefill server has page_size=(\d+)",
         "page sizes of the two roles differ: decode {0}, prefill {1}", "give both roles the same --page-size"),
    _row("pd-kv-dtype", r"KV cache dtype mismatch", "KV cache types of the two roles differ", "give both roles the same --kv-cache-dtype"),
    _row("pd-tp-hybrid", r"does NOT support PD different TP sizes for non-MLA",
         "prefill and decode use different tp sizes with a hybrid model (sliding window, Mamba) that is not MLA",
         "give both roles the same --tp-size"),
    _row("pd-session-dead", r"remote mooncake session \S{1,80} is not alive",
         "KV transfer: the prefill side cannot reach the decode side's transfer session",
         "open the transfer ports between the hosts; look why the decode server ended"),
    _row("rdma-no-device", r"RdmaTransport: (?:No available RNIC|cannot initialize RDMA)|No IB devices found|InfiniBand sysfs path not found",
         "RDMA transport: no device that can be used (wrong GID index, or none there)",
         "name a device and GID that work (--disaggregation-ib-device, MC_GID_INDEX), or take mooncake_tcp (0.5.13 and later)"),
    _row("mooncake-init", r"Mooncake Transfer Engine initialization failed", "Mooncake could not be started",
         "look at the lines before it: RDMA device, port, memlock"),
    _row("pd-transfer", r"KVTransferError|(?:Prefill|Decode) transfer failed for request",
         "KV transfer failed at a routed request", "look at the other role's log: the first failure there is the cause"),
    # ---- the model and its kernels
    _row("unsupported-architecture", r"Model architectures \[(.{1,200}?)\] are not supported for now",
         "this release has no model class for {0}", "take a release that has it; recon run says which"),
    _row("fallback-failed", r"^\b$", "no native model class in this release; the Transformers fallback fails at its first request",
         "take a release with a native class for this architecture"),
    _row("no-kernel-image", r"no kernel image is available for execution on the device",
         "an installed kernel package has no code for this GPU", "install a build for this GPU generation (sm_120, sm_121a ...)"),
    _row("ptxas-target", r"ptxas fatal\s{1,10}: Value '(sm_\w{1,8})' is not defined",
         "the ptxas used by Triton does not know {0}", "newer Triton, or TRITON_PTXAS_PATH of a CUDA toolkit that knows it"),
    _row("ptxas-target", r"CalledProcessError.{0,200}ptxas.{0,200}--gpu-name=(sm_\w{1,8})",
         "the ptxas bundled with Triton does not accept the target {0}", "newer Triton, or TRITON_PTXAS_PATH of a newer CUDA toolkit"),
    _row("fp8-before-hopper", r"FlashAttention on Ampere/Ada cards only supports fp16 and bf16",
         "an fp8 tensor reached a FlashAttention kernel that takes only 16-bit types before Hopper",
         "--kv-cache-dtype bfloat16, or another attention backend (flashinfer, triton)"),
    _row("unsupported-gpu", r"TllmGenFmhaRunner|Unsupported architecture", "a TensorRT-LLM kernel that this GPU does not have was chosen",
         "name another attention or MoE backend"),
    _row("shared-memory", r"OutOfResources: out of resource: shared memory, Required: (\d+), Hardware limit: (\d+)",
         "a Triton tile needs {0} bytes of shared memory, the GPU has {1}", "other tuning files, or another MoE backend"),
    _row("moe-config", r"KeyError: 'BLOCK_SIZE_M'", "the fused-MoE kernel found no usable tile configuration for this shape (BLOCK_SIZE_M)",
         "another MoE backend, or tuning files for this shape and GPU"),
    _row("attention-backend", r"cannot unpack non-iterable ForwardMetadata",
         "this attention backend does not fit the model: its metadata is not of the kind the sparse path expects",
         "name the attention backend that the model's recipe names"),
    _row("quantization-mismatch", r"Quantization method specified in the model config \((\S{1,40})\) does not match",
         "--quantization disagrees with the checkpoint, which is {0}", "leave --quantization out"),
    _row("capability", r"The quantization method (\S{1,40}) is not supported for the current GPU",
         "the quantization method {0} needs a newer GPU", "another checkpoint of the same model"),
    _row("mixed-precision", r"For Fused MoE layers, only", "compressed-tensors mixed-precision with integer experts is refused",
         "a checkpoint whose format is pack-quantized, or a patched engine"),
    # ---- memory
    _row("fraction-too-low", r"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=(\d{1,2}\.?\d{0,6}\b).{0,200}?minimum viable = [^=]{0,80}= (\d{1,2}\.\d{1,6})",
         "--mem-fraction-static {0} is smaller than what the weights take; smallest possible {1}", "raise it above that, or use more GPUs"),
    _row("not-enough-memory", r"Not enough memory\. Please try to increase --mem-fraction-static",
         "the weights leave nothing for the KV cache under this --mem-fraction-static", "raise it, use more GPUs, or a smaller format"),
    _row("unbalanced", r"The memory capacity is unbalanced", "another process holds memory of one of the GPUs", "free it, or take other GPUs"),
    _row("swa-pool", r"SWA pool \(\d+ tokens\) cannot hold", "the sliding-window pool is too small for one request", "raise --swa-full-tokens-ratio or the memory fraction"),
    _row("window-pool-cap", r"exceeds the maximum number of tokens: (\d+) > (\d+)",
         "requests are admitted only up to {1} tokens: the window pool of this role, not its full pool",
         "raise --swa-full-tokens-ratio or --mem-fraction-static"),
    _row("out-of-memory", r"(?:torch\.|cuda\.)?OutOfMemoryError|CUDA out of memory|Prefill out of memory",
         "out of GPU memory", "lower --mem-fraction-static or --chunked-prefill-size, fewer graph batch sizes, or more GPUs"),
    # ---- the start
    _row("port", r"Address already in use|address already in use", "a port is taken", "another --port, or end what holds it"),
    _row("missing-shards", r"references \d+ shard file\(s\) missing", "weight files that the index names are missing", "download the rest"),
    _row("numa-list", r"numa_utils\.py.{0,200}IndexError|IndexError: list index out of range.{0,40}numa", "--numa-node is shorter than the highest GPU number",
         "CUDA_VISIBLE_DEVICES in place of --base-gpu-id"),
    _row("arguments", r"error: (unrecognized arguments?|ambiguous option|argument \S{1,60}: invalid choice).{0,300}", "the command line: {0}", "recon lint says what to write"),
    _row("nccl", r"NCCL error|ncclInternalError|ncclUnhandledCudaError|ncclSystemError", "NCCL failed", "NCCL_DEBUG=INFO; on PCIe hosts try NCCL_P2P_DISABLE=1"),
    _row("capture", r"Capture cuda graph failed: (.{1,200})", "CUDA graph capture failed: {0}", "see the error in it"),
    _row("warm-up", r"Initialization failed\. warmup error", "the warm-up request failed", "look at the scheduler's lines before it"),
)  # fmt: skip

# Loads without an error, and answers with garbage or without a part.
SILENT: Final = re.compile(r"not found in params_dict|Some weights are not initialized from checkpoints")
HIDDEN_IMPORT: Final = re.compile(r"Ignore import error when loading (\S{1,200}?)[:.]? (.{1,300})")
FALLBACK: Final = re.compile(r"has no SGLang implementation, falling back to Transformers")
ERROR_LINE: Final = re.compile(r"^\s*(?:[\w.]{1,80}(?:Error|Exception)): (.{1,400})")
ENDED: Final = re.compile(
    r"Received sigquit from a child process|Scheduler hit an exception|Traceback \(most recent call last\)"
)
REFUSED_LENGTH: Final = re.compile(
    r"Input length \((\d+) tokens\) exceeds the maximum allowed length \((\d+) tokens\)"
)
