"""Tensor names: which module a tensor belongs to, and which component of a model that module is."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# Suffixes that make up one module together with its weight. Anything else is a parameter of its own.
SUFFIXES: Final[frozenset[str]] = frozenset(
    {
        "weight", "bias", "weight_packed", "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale",
        "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale", "input_global_scale", "input_zero_point",
        "input_scale_ub", "pre_quant_scale", "scale", "scales", "biases", "qweight", "qzeros", "g_idx", "SCB",
        "trellis", "suh", "svh", "scale_weight", "k_scale", "v_scale", "zero_point",
    }
)  # fmt: skip
SCALE_SUFFIXES: Final[frozenset[str]] = frozenset(
    {
        "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale", "input_scale",
        "input_global_scale", "input_scale_ub", "scale", "scales", "pre_quant_scale", "k_scale", "v_scale",
        "scale_weight",
    }
)  # fmt: skip
# What does not count as a weight when logical parameters are summed.
AUXILIARY: Final[frozenset[str]] = SUFFIXES - {"weight", "bias", "weight_packed", "qweight", "blocks"}

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_GPT_OSS = re.compile(r"^(.*)_(blocks|scales)$")
_FUSED = re.compile(r"^(.*?)(?:_weight)?_(scale_inv|scale_2|scale|input_scale)$")

_COMPONENTS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("mtp", r"(^|\.)(mtp|nextn|eagle\d?|draft|draft_model)(\.|$)"),
        (
            "vision",
            r"(^|\.)(vision\w*|visual|vit|mm_projector|multi_modal_projector|image_\w+|audio\w*)(\.|$)",
        ),
        ("shared_experts", r"shared_expert"),
        ("routed_experts", r"(^|\.)experts(\.|$)|(^|\.)block_sparse_moe\.experts"),
        ("indexer", r"(^|\.)indexer(\.|$)"),
        ("compressor", r"(^|\.)compressor(\.|$)"),
        (
            "linear_attention",
            r"(^|\.)linear_attn\.|(^|\.)mamba\.|(^|\.)mixer\.(in_proj|out_proj|conv1d|A_log|D|dt_bias)",
        ),
        ("router", r"(^|\.)(gate|router|e_score_correction_bias|shared_expert_gate|wg)$|\.gate\.\w+$"),
        (
            "attention",
            r"(^|\.)(self_attn|self_attention|cross_attn|attn|attention|mixer)(\.|$)|\.(att_proj|attn_out)$",
        ),
        ("dense_mlp", r"(^|\.)blocks\.N\.ff_(proj|out)$"),
        ("lm_head", r"(^|\.)(lm_head|head|output|ff_out)$"),
        (
            "embeddings",
            r"(^|\.)(embed|embed_tokens|embeddings|tok_embeddings|wte|word_embeddings|embed_in)(\.|$)",
        ),
        ("dense_mlp", r"(^|\.)(mlp|ffn|feed_forward|ffw)\."),
    )
)


def split_name(name: str) -> tuple[str, str]:
    """A tensor name as (module, suffix): `a.b.weight_scale` -> `a.b`, `weight_scale`.

    Nested bitsandbytes state stays with its weight; gpt-oss `x_blocks`/`x_scales` and fused experts without `.weight`
    become modules of their own name.
    """
    at = name.find(".weight.")
    if at >= 0:
        return name[:at], name[at + 1 :]
    head, _, tail = name.rpartition(".")
    if tail in SUFFIXES:
        return head, tail
    if (match := _GPT_OSS.match(tail)) is not None:
        return f"{head}.{match[1]}", match[2]
    if "experts" in head and (match := _FUSED.match(tail)) is not None:
        return f"{head}.{match[1]}", "input_scale" if match[2] == "input_scale" else f"weight_{match[2]}"
    # Fused experts come without a suffix; any other bare parameter (a bias table, a mixing matrix) is no linear layer.
    return name, "weight" if "experts" in head else "parameter"


def template_of(module: str) -> str:
    """The module name with every number that stands alone between dots replaced by `N`."""
    return _NUMBER.sub("N", module)


def layer_of(module: str) -> int | None:
    """The index of the layer a module is in, where its name has one."""
    match = _LAYER.search(module)
    return None if match is None else int(match[1])


@lru_cache(maxsize=4096)
def component_of(template: str) -> str:
    """The component a module (as a template) belongs to, in the fixed words; `other` for norms and what has no word.

    Draft layers that are numbered after the main layers are the caller's to tell: a template has no numbers.
    """
    for name, pattern in _COMPONENTS:
        if pattern.search(template):
            return name
    return "other"
