"""KV cache bytes per token and rank, from the architecture a config declares. Formulas of SGLang 0.5.23's memory pools."""

from __future__ import annotations

from collections.abc import Mapping

from recon.agent.api import Json


def kv_per_token(
    architecture: Mapping[str, Json], *, tp: int, element_bytes: int = 2
) -> dict[str, Json] | None:
    """`{bytes_per_token_per_rank, basis}`; None where the family is not one whose formula is known.

    `element_bytes`: 2 for BF16, 1 for FP8. DeepSeek V4 pools have a fixed FP8 slot and ignore it.
    """
    ratios = architecture.get("compress_ratios")
    if isinstance(ratios, list):
        return _deepseek_v4(architecture, ratios)
    layers = _number(architecture, "layers")
    rank, rope = _number(architecture, "kv_lora_rank"), _number(architecture, "qk_rope_head_dim")
    if layers and rank and rope:
        each = (rank + rope) * layers * element_bytes
        return {"bytes_per_token_per_rank": each, "basis": "MLA latent, whole on every rank"}
    if architecture.get("sliding_window") or architecture.get("linear_attention"):
        return None  # only some layers keep every token; which ones, the window's use decides
    return _grouped(architecture, layers, tp=tp, element_bytes=element_bytes)


def _deepseek_v4(architecture: Mapping[str, Json], ratios: list[Json]) -> dict[str, Json] | None:
    """Slot of 584 bytes (448 FP8 + 64 BF16 rope + 8 scales), indexer 132 bytes; one slot per `ratio` tokens."""
    layers = _number(architecture, "layers") or len(ratios)
    main = ratios[:layers]
    four, far = main.count(4), main.count(128)
    each = four * (584 + 132) / 4 + far * 584 / 128
    basis = f"{four} layers of ratio 4, {far} of ratio 128; sliding-window pool not in it"
    return {"bytes_per_token_per_rank": round(each), "basis": basis}


def _grouped(
    architecture: Mapping[str, Json], layers: int | None, *, tp: int, element_bytes: int
) -> dict[str, Json] | None:  # fmt: skip
    heads, kv_heads = _number(architecture, "attention_heads"), _number(architecture, "kv_heads")
    hidden = _number(architecture, "hidden_size")
    if not layers or not heads:
        return None
    size = _number(architecture, "head_dim") or (hidden // heads if hidden else 0)
    kv = kv_heads or heads
    if not size:
        return None
    both = size + (_number(architecture, "v_head_dim") or size)
    each = max(1, kv // tp) * both * layers * element_bytes
    return {
        "bytes_per_token_per_rank": each,
        "basis": f"{max(1, kv // tp)} KV heads of {size}, {layers} layers",
    }


def _number(architecture: Mapping[str, Json], name: str) -> int | None:
    value = architecture.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
