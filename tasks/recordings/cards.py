"""Model cards of the composed recording: the published statements, dates and numbers in our own words."""

from __future__ import annotations

from typing import Final

_HEAD: Final = """---
license: mit
base_model: deepseek-ai/DeepSeek-V4-Flash
base_model_relation: quantized
{library}pipeline_tag: text-generation
tags:
{tags}---
<!-- composed for a recorded demo: published statements, retold -->
"""


def _head(library: str, *tags: str) -> str:
    return _HEAD.format(
        library=f"library_name: {library}\n" if library else "", tags="".join(f"- {tag}\n" for tag in tags)
    )


W4A16: Final = (
    _head("vllm", "compressed-tensors", "w4a16", "int4", "fp8", "mtp")
    + """
# DeepSeek-V4-Flash-W4A16-FP8-MTP

Routed experts are INT4 with 16-bit activations: GPTQ, groups of 128, symmetric, packed by compressed-tensors.
Attention is FP8 in blocks of 128x128. The MTP block is kept in BF16, so speculative decoding works.

The checkpoint is about 159 GB in 4 shards.

## Serving

Runs on a patched vLLM: a source build plus four patches to its model files.

1. Build the fork and apply the patches.
2. Download the artifact (159 GiB).
3. Serve with TP=2 or TP=4.

## Hardware, 2026-05-29

| GPU | advice |
|---|---|
| H200 | validated at TP=2 |
| RTX PRO 6000 | On SM 12.0 / RTX PRO 6000 use the NVFP4-FP8-MTP sibling for batched thinking mode |

## Known trouble

2026-05-25: on RTX PRO 6000 (SM 12.0) the Marlin MoE path corrupts tokens at concurrency 4: 14 of 30 long generations were garbled, none at concurrency 1.
A build with native sm_120 code brought that to 0 of 30; a second race then showed as an illegal memory access under sustained concurrency.
"""
)

NVFP4_MTP: Final = (
    _head("vllm", "compressed-tensors", "nvfp4", "fp8", "mtp")
    + """
# DeepSeek-V4-Flash-NVFP4-FP8-MTP

Routed experts are NVFP4 in groups of 16, attention is FP8 in blocks of 128x128. The MTP block (799 tensors) is kept in BF16.

The artifact is 172 GB in 35 safetensors shards.

## Serving

Runs on vLLM with five patches that wait for review.

## Hardware, 2026-05-21

Made for B200 and B300 only.

## Hardware, 2026-05-27

With RTX PRO 6000 for MTP and thinking mode use the W4A16-FP8-MTP sibling: on this GPU the NVFP4 experts run as BF16 in Marlin, without a gain in speed.

## Measured, 2026-05-28

RTX PRO 6000 validated at TP=2 and TP=4.
"""
)

NVFP4_HYBRID: Final = (
    _head("Model Optimizer", "nvidia", "ModelOpt", "DeepSeekV4", "quantized", "NVFP4", "nvfp4")
    + """
# DeepSeek-V4-Flash-NVFP4

Published 2026-05-28: a Model Optimizer build for Blackwell.
Only the routed experts were converted to NVFP4; everything else is as in the native release, the MTP block included.
"""
)

NVFP4_NO_MTP: Final = (
    _head("", "compressed-tensors", "nvfp4", "fp8")
    + """
# DeepSeek-V4-Flash-NVFP4-FP8

NVFP4 experts with FP8 attention, saved through a path that dropped the MTP block.
"""
)
