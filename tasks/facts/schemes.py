"""Quantization schemes as their writers spell them -> (format word, group size). Pure tables and readings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from recon.agent.api import Json


class Word(NamedTuple):
    """A format in the fixed words, with the group size in elements where it has groups."""

    format: str
    group: int | None = None


UNKNOWN: Final = Word("unknown")
PLAIN: Final = Word("plain")  # left in the dtype the model had; which one is the caller's to say
INTEGERS: Final = {3: "w3a16-int3", 4: "w4a16-int4", 8: "w8a16-int8"}

# ModelOpt `quant_algo` (modelopt/torch/export/quant_utils.py and SGLang 0.5.23 model_config.py). A weight in 4-bit floats
# with 8-bit activations is stored like the 4-bit format, which is what the word is about.
ALGORITHMS: Final[dict[str, Word]] = {
    "FP8": Word("fp8-tensor"), "FP8_PER_CHANNEL_PER_TOKEN": Word("fp8-channel"), "FP8_PB_WO": Word("fp8-block128", 128),
    "FP8_PB_REAL": Word("fp8-block128", 128), "FP8_BLOCK_SCALES": Word("fp8-block128", 128),
    "NVFP4": Word("nvfp4", 16), "NVFP4_AWQ": Word("nvfp4", 16), "NVFP4_SVD": Word("nvfp4", 16),
    "W4A8_NVFP4_FP8": Word("nvfp4", 16), "W4A16_NVFP4": Word("nvfp4-w4a16", 16), "MXFP8": Word("mxfp8", 32),
    "MXFP4": Word("mxfp4", 32), "W4A8_MXFP4_FP8": Word("mxfp4", 32), "W4A16_AWQ": Word("w4a16-int4", 128),
    "INT4_AWQ": Word("w4a16-int4", 128), "W4A16": Word("w4a16-int4"), "W4A8_AWQ": Word("w4afp8", 128),
    "W8A16": Word("w8a16-int8"), "W8A8_SQ_PER_CHANNEL": Word("w8a8-int8"),
    "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": Word("w8a8-int8"), "INT8_SQ": Word("w8a8-int8"), "INT8": Word("w8a8-int8"),
    "NONE": PLAIN,
}  # fmt: skip
# Methods that engines take as one of those read here (SGLang 0.5.23 and vLLM 0.33 register both names).
ALIASES: Final[dict[str, str]] = {
    "awq_marlin": "awq", "auto_awq": "awq", "gptq_marlin": "gptq", "auto_gptq": "gptq", "auto-round-int8": "auto-round",
    "intel/auto-round": "auto-round", "auto_round": "auto-round", "inc": "auto-round", "deepseek_v4_fp8": "fp8", "gpt_oss_mxfp4": "mxfp4",
    "modelopt_fp8": "modelopt", "modelopt_fp4": "modelopt", "modelopt_mixed": "modelopt", "modelopt_mxfp8": "modelopt",
    "quark_mxfp4": "quark", "quark_int4fp8_moe": "quark", "bitsandbytes_4bit": "bitsandbytes", "bitsandbytes_8bit": "bitsandbytes",
    "compressed_tensors": "compressed-tensors", "fbgemm-fp8": "fbgemm_fp8",
}  # fmt: skip
# One format for every layer they cover, whatever else the block says.
_FIXED: Final[dict[str, Word]] = {
    "fbgemm_fp8": Word("fp8-channel"), "w8a8_fp8": Word("fp8-channel"), "w8a8_int8": Word("w8a8-int8"),
    "blockwise_int8": Word("int8-block128", 128), "mxfp8": Word("mxfp8", 32), "petit_nvfp4": Word("nvfp4", 16),
    "mlx": Word("mlx"),
}  # fmt: skip


def algorithm(text: Json) -> Word | None:
    """The format of a ModelOpt algorithm; None where it names none or several (MIXED_PRECISION)."""
    return ALGORITHMS.get(text.upper()) if isinstance(text, str) else None


def group_of(value: Json) -> int | None:
    """A group size; -1 and 0 mean none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 20 else None


def whole(method: str, block: Mapping[str, Json]) -> Word:
    """The format that a method gives to every layer it covers, where the block does not say it layer by layer."""
    if method in _FIXED:
        return _FIXED[method]
    if method in ("gptq", "awq"):
        return _integer(block)
    if method == "auto-round":
        return _auto_round(block)
    if method == "bitsandbytes":
        return _bitsandbytes(block)
    if method == "fp8":
        return _fp8(block)
    if method == "modelopt":
        return algorithm(block.get("quant_algo")) or UNKNOWN
    if method == "mxfp4":
        return Word("mxfp4", 32)
    return UNKNOWN


def _integer(block: Mapping[str, Json]) -> Word:
    bits = block.get("bits", block.get("w_bit"))
    word = INTEGERS.get(bits) if isinstance(bits, int) else None
    return (
        UNKNOWN if word is None else Word(word, group_of(block.get("group_size", block.get("q_group_size"))))
    )


def _auto_round(block: Mapping[str, Json]) -> Word:
    """AutoRound: `data_type` int, nv_fp, mx_fp or fp beside `bits`; the packing only says which kernel's layout it is."""
    kind, bits = str(block.get("data_type") or "int").lower(), block.get("bits")
    if kind.startswith("nv_fp") and bits == 4:
        return Word("nvfp4", 16) if block.get("act_bits") in (4, None) else Word("nvfp4-w4a16", 16)
    if kind.startswith("mx_fp"):
        return (
            {4: Word("mxfp4", 32), 8: Word("mxfp8", 32)}.get(bits, UNKNOWN)
            if isinstance(bits, int)
            else UNKNOWN
        )
    if kind.startswith("int"):
        acts = block.get("act_bits")
        eight = bits == 8 and acts == 8
        return Word("w8a8-int8") if eight else _integer(block)
    return UNKNOWN


def _bitsandbytes(block: Mapping[str, Json]) -> Word:
    if block.get("load_in_4bit") or block.get("_load_in_4bit"):
        return Word("nf4") if block.get("bnb_4bit_quant_type") == "nf4" else UNKNOWN
    return Word("w8a8-int8") if block.get("load_in_8bit") or block.get("_load_in_8bit") else UNKNOWN


def _fp8(block: Mapping[str, Json]) -> Word:
    blocks = block.get("weight_block_size")
    if blocks == [128, 128]:
        return Word("fp8-block128")
    if blocks:
        return Word("mxfp8", 32) if blocks == [1, 32] else UNKNOWN  # 32x32 blocks have no word
    # A hybrid export keeps the native block format outside its experts.
    return Word("fp8-block128") if block.get("quant_algo") else Word("fp8-tensor")


def scheme(weights: Mapping[str, Json], activations: Json, *, modelopt: bool = False) -> Word:
    """One compressed-tensors group: `weights` {num_bits, type, strategy, group_size} and `input_activations`."""
    acts = activations if isinstance(activations, Mapping) else {}
    bits, kind, strategy = weights.get("num_bits"), weights.get("type"), str(weights.get("strategy") or "")
    group = group_of(weights.get("group_size"))
    if kind == "float" and bits == 4:
        if group == 16 or strategy == "tensor_group":
            return Word("nvfp4" if acts else "nvfp4-w4a16", 16)
        return Word("mxfp4", 32) if group == 32 else UNKNOWN
    if kind == "float" and bits == 8:
        return _eight_bit_float(weights, strategy, group, modelopt=modelopt)
    if kind != "int" or not isinstance(bits, int):
        return UNKNOWN
    if acts:
        if bits == 4 and acts.get("type") == "float":
            return Word("w4afp8", group)
        if bits == 8 and acts.get("type") in ("int", None):
            return Word("int8-block128", 128) if strategy == "block" else Word("w8a8-int8", group)
        return UNKNOWN  # 4-bit weights with 8-bit integer activations have no word
    return Word(INTEGERS[bits], group) if bits in INTEGERS else UNKNOWN


def _eight_bit_float(
    weights: Mapping[str, Json], strategy: str, group: int | None, *, modelopt: bool
) -> Word:
    if group == 32:
        return Word("mxfp8", 32)
    if strategy == "block":
        return Word("fp8-block128") if weights.get("block_structure") in (None, [128, 128]) else UNKNOWN
    if not strategy and modelopt:
        return Word("fp8-tensor")
    return {"channel": Word("fp8-channel"), "tensor": Word("fp8-tensor")}.get(strategy, UNKNOWN)


def quark(config: Json) -> Word:
    """One Quark layer config: `weight` {dtype, qscheme, group_size, scale_format} and `input_tensors`."""
    if not isinstance(config, Mapping):
        return UNKNOWN
    weight, acts = config.get("weight"), config.get("input_tensors")
    if isinstance(weight, list):  # two levels: FP8, then INT4
        kinds = [str(w.get("dtype")) for w in weight if isinstance(w, Mapping)]
        return (
            Word("w4afp8") if any("int4" in k for k in kinds) and any("fp8" in k for k in kinds) else UNKNOWN
        )
    if not isinstance(weight, Mapping):
        return PLAIN if weight is None and "weight" in config else UNKNOWN
    kind, qscheme, group = (
        str(weight.get("dtype") or ""),
        str(weight.get("qscheme") or ""),
        group_of(weight.get("group_size")),
    )
    if kind == "fp4":
        return Word("mxfp4", 32) if qscheme == "per_group" and group == 32 else UNKNOWN
    if kind.startswith("fp8"):
        return {"per_tensor": Word("fp8-tensor"), "per_channel": Word("fp8-channel")}.get(qscheme, UNKNOWN)
    if kind == "int8":
        return Word("w8a8-int8") if acts else Word("w8a16-int8", group)
    if kind in ("int4", "uint4"):
        return Word("w4a16-int4", group) if not acts else UNKNOWN
    return UNKNOWN


# ModelSlim names a type for every tensor; what has no word here stays unknown.
_MODELSLIM: Final[dict[str, Word]] = {
    "FLOAT": PLAIN, "W8A8": Word("w8a8-int8"), "W8A8_DYNAMIC": Word("w8a8-int8"), "W8A8_MIX": Word("w8a8-int8"),
    "W8A8S": Word("w8a8-int8"), "W8A16": Word("w8a16-int8"), "W4A16": Word("w4a16-int4"),
    "W8A8_MXFP8": Word("mxfp8", 32), "W4A4_MXFP4": Word("mxfp4", 32), "W4A8_MXFP": Word("mxfp4", 32),
}  # fmt: skip


def modelslim(text: Json) -> Word:
    """The format of one ModelSlim type (`W8A8_DYNAMIC`, `FLOAT`)."""
    return _MODELSLIM.get(text.upper(), UNKNOWN) if isinstance(text, str) else UNKNOWN
