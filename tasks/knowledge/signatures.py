"""Which format a linear module has, told from the names, dtypes and shapes of its tensors.

The rows follow published writers and loaders of safetensors checkpoints (compressed-tensors 0.20, ModelOpt exports,
AutoGPTQ, AutoAWQ, bitsandbytes, MLX, the native DeepSeek and gpt-oss releases), read in November 2026. The scale tensor
decides: `I8`, `U8` and `weight_scale` each have several meanings. Rules are numbered as in the signature table they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Shape = tuple[int, ...]
Part = tuple[str, Shape]  # dtype as the header spells it, shape

PLAIN: Final[dict[str, str]] = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}
BITS: Final[dict[str, int]] = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
_E8M0: Final[frozenset[str]] = frozenset({"F8_E8M0", "U8", "E8M0", "UE8"})
_FLOATS: Final[frozenset[str]] = frozenset({"BF16", "F16", "F32"})


@dataclass(frozen=True, slots=True)
class Signature:
    """A format with the rule that gave it. `weights_per_element`: logical weights in one stored element."""

    format: str
    rule: str
    group_size: int | None = None
    weights_per_element: float = 1.0
    note: str = ""


def classify(parts: Mapping[str, Part], *, dims: frozenset[int] = frozenset()) -> Signature | None:
    """The signature of one module from its tensors by suffix; None where the module holds no weight (a norm, a bias).

    `dims`: the sizes a linear layer of this architecture can take in, where they are known. A module whose weight has a quantized dtype but no scale that fits is `unknown`, with a note: never guessed.
    """
    if "qweight" in parts:
        return _gptq_or_awq(parts)
    if "weight_packed" in parts:
        return _packed(parts, dims)
    if "blocks" in parts:
        return _gpt_oss(parts)
    if "trellis" in parts:
        return Signature("unknown", "R19", note="EXL3 trellis")
    weight = parts.get("weight")
    if weight is None or len(weight[1]) < 2:
        return None
    dtype = weight[0]
    if dtype == "U32":
        return _mlx(parts, dims)
    if "weight.absmax" in parts:
        return _bitsandbytes(parts)
    if dtype in PLAIN:
        return Signature(PLAIN[dtype], "R20")
    if dtype.startswith("F8_E"):
        return _fp8(parts)
    if dtype == "I8":
        return _int8(parts)
    if dtype in ("U8", "F4"):
        return _uint8(parts)
    if dtype in BITS and not dtype.startswith("F"):
        return None  # an index table: integers that are looked up, not multiplied
    return Signature("unknown", "-", note=f"weight is {dtype}")


def _gptq_or_awq(parts: Mapping[str, Part]) -> Signature:
    qweight, scales = parts["qweight"][1], parts.get("scales")
    if parts["qweight"][0] != "I32" or scales is None or len(scales[1]) != 2 or len(qweight) != 2:
        return Signature("unknown", "R1", note="packed weight without scales that fit")
    rows, n = scales[1]
    if "g_idx" not in parts:
        if qweight[1] * 8 == n:
            return _integer(4, "R2", group=_ratio(qweight[0], rows), note="AWQ, asymmetric")
        if qweight[0] == rows and qweight[1] > n:  # transposed, and the scales padded to whole tiles
            return _integer(4, "R2", group=_group(8 * qweight[1], n), note="AWQ GEMV, asymmetric")
    return _gptq(parts, qweight, rows, n)


def _gptq(parts: Mapping[str, Part], qweight: Shape, rows: int, n: int) -> Signature:
    """Bits from `g_idx`, which has one entry per input; else from the zero points [K/g, N*bits/32]."""
    zeros = parts.get("qzeros")
    if "g_idx" in parts and parts["g_idx"][1] and parts["g_idx"][1][0]:
        k = parts["g_idx"][1][0]
        bits = _exact(32 * qweight[0], k)
    elif zeros is not None and len(zeros[1]) == 2 and n:
        bits = _exact(32 * zeros[1][1], n)
        k = (_exact(32 * qweight[0], bits) or 0) if bits else 0
    else:
        return Signature("unknown", "R1", note="no g_idx and no zero points to tell the bits from")
    if not bits or not k or not rows or qweight[1] != n:
        return Signature("unknown", "R1", note=f"qweight {qweight} does not fit its scales")
    group = _ratio(k, rows)
    return _integer(bits, "R1", group=None if group == k else group, note="GPTQ")


def _group(inputs: int, groups: int) -> int | None:
    """The group size that padded scales allow: the largest usual one that needs no more groups than there are."""
    return next((g for g in (32, 64, 128) if -(-inputs // g) <= groups), None)


def _packed(parts: Mapping[str, Part], dims: frozenset[int]) -> Signature:
    dtype, shape = parts["weight_packed"]
    scale = parts.get("weight_scale")
    if scale is None:
        return Signature("unknown", "R3", note="packed weight without weight_scale")
    if dtype == "I32":
        return _packed_integer(shape, scale[1], parts, dims)
    if dtype == "U8" and shape and scale[1]:
        group = _exact(2 * shape[-1], scale[1][-1])
        if scale[0] == "F8_E4M3" and group == 16:
            weight_only = "input_global_scale" not in parts
            return Signature("nvfp4-w4a16" if weight_only else "nvfp4", "R10", group, 2.0)
        if scale[0] in _E8M0 and group == 32:
            return Signature("mxfp4", "R11", group, 2.0)
    return Signature(
        "unknown", "R10", note=f"packed {dtype} {list(shape)} with {scale[0]} scales {list(scale[1])}"
    )


def _packed_integer(shape: Shape, scale: Shape, parts: Mapping[str, Part], dims: frozenset[int]) -> Signature:
    """Bits from the scale grid [N, K/g]. K is not in the header: 4 bits in groups of g look like 8 bits in groups of g/2.

    The architecture's sizes tell them apart; without them the published group sizes (at most 128) do.
    """
    if len(shape) < 2:
        return Signature("unknown", "R3", note=f"packed {shape}")
    groups, columns = (scale[-1] if len(scale) > 1 else 1), shape[-1]
    zeros = parts.get("weight_zero_point")
    note = "asymmetric" if zeros is not None else ""
    if "weight_g_idx" in parts and columns and (inputs := parts["weight_g_idx"][1]):
        bits = _exact(32 * columns, inputs[0])
        return _integer(bits or 0, "R3", group=_ratio(inputs[0], groups), note=note)
    # Zero points are packed along the outputs: [N*bits/32, K/g].
    if (
        zeros is not None
        and zeros[0] == "I32"
        and len(zeros[1]) >= 2
        and (bits := _exact(32 * zeros[1][-2], shape[-2]))
    ):
        k = _exact(32 * columns, bits) or 0
        return _integer(bits, "R3", group=None if groups <= 1 else _ratio(k, groups), note=note)
    if groups <= 1:
        return _per_channel(columns, dims, note)
    four, eight = _ratio(8 * columns, groups), _ratio(4 * columns, groups)
    if dims and 8 * columns not in dims and 4 * columns in dims:
        return _integer(8, "R3", group=eight, note=note)
    if four in (16, 32, 64, 128) or 8 * columns in dims:
        return _integer(4, "R3", group=four, note=note)
    if eight in (32, 64, 128):
        return _integer(8, "R3", group=eight, note=note)
    return Signature("unknown", "R3", note=f"packed {shape} with scales {scale}")


def _per_channel(columns: int, dims: frozenset[int], note: str) -> Signature:
    fits = [bits for bits in (4, 8) if columns * 32 // bits in dims]
    if len(fits) == 1:
        return _integer(fits[0], "R3", group=None, note=f"{note} per channel".strip())
    return Signature("unknown", "R3", note="packed per channel: the header does not tell 4 from 8 bits")


def _integer(bits: int, rule: str, *, group: int | None, note: str = "") -> Signature:
    word = {3: "w3a16-int3", 4: "w4a16-int4", 8: "w8a16-int8"}.get(bits)
    if word is None:
        return Signature("unknown", rule, group, note=f"{bits}-bit integer weights")
    return Signature(word, rule, group, 32 / bits, note)


def _gpt_oss(parts: Mapping[str, Part]) -> Signature:
    blocks, scales = parts["blocks"], parts.get("scales")
    if blocks[0] == "U8" and scales is not None and scales[0] == "U8" and blocks[1] == (*scales[1], 16):
        return Signature("mxfp4", "R12", 32, 2.0)
    return Signature("unknown", "R12", note="blocks without matching scales")


def _mlx(parts: Mapping[str, Part], dims: frozenset[int]) -> Signature:
    """Bits are not in the header either; where one input size of the architecture fits columns and scales, it tells them."""
    scales, shape = parts.get("scales"), parts["weight"][1]
    if scales is None or not scales[1]:
        return Signature("unknown", "R18", note="U32 weight without scales")
    fits = {
        (bits, k // scales[1][-1])
        for k in dims
        for bits in (2, 3, 4, 5, 6, 8)
        if shape[-1] * 32 == k * bits and scales[1][-1] and k // scales[1][-1] in (16, 32, 64, 128)
    }
    if len(fits) != 1:
        return Signature("mlx", "R18")
    ((bits, group),) = fits
    return Signature("mlx", "R18", group, 32 / bits, f"{bits} bits")


def _bitsandbytes(parts: Mapping[str, Part]) -> Signature:
    kinds = [name.rsplit("__", 1)[-1] for name in parts if "bitsandbytes__" in name]
    each = BITS.get(parts["weight"][0], 8) / 4  # the bytes may be kept in a tensor of another dtype
    if kinds == ["nf4"]:
        return Signature("nf4", "R16", None, each)
    said = kinds[0][:20] if kinds else "state missing"
    return Signature("unknown", "R16", None, each, note=f"bitsandbytes {said}")


def _fp8(parts: Mapping[str, Part]) -> Signature:
    shape = parts["weight"][1]
    for name, rule in (
        ("weight_scale_inv", "R8a"),
        ("scale", "R8b"),
        ("weight_scale", "R8c"),
        ("scale_weight", "R8c"),
    ):
        if name in parts:
            return _fp8_by_scale(shape, parts[name], rule)
    return Signature("unknown", "R6", note="FP8 weight with no scale tensor")


def _fp8_by_scale(shape: Shape, scale: Part, rule: str) -> Signature:
    dtype, grid = scale
    if len(grid) == 0 or _count(grid) == 1:
        return Signature("fp8-tensor", "R6")
    rows, columns = shape[-2], shape[-1]
    if len(shape) == 3 and _count(grid) == shape[0]:  # fused experts: a scale each
        return Signature("fp8-tensor", "R6", note="one scale per expert")
    if dtype in _E8M0 and grid[-1] * 32 == columns and grid[-2:-1] == (rows,):
        return Signature("mxfp8", "R8d", 32)
    if len(grid) >= 2 and grid[-2:] == (_up(rows, 128), _up(columns, 128)) and grid[-1] > 1:
        return Signature("fp8-block128", rule, 128)
    if (len(grid) >= 2 and grid[-2:] == (rows, 1)) or grid == (rows,) or _per_expert(shape, grid):
        return Signature("fp8-channel", "R7")
    if len(grid) >= 2 and grid[-2:] == (_up(rows, 128), _up(columns, 128)):
        return Signature("fp8-block128", rule, 128)
    blocks = (
        f"blocks of {_up(rows, grid[-2])}x{_up(columns, grid[-1])}"
        if len(grid) >= 2 and min(grid) > 0
        else "scales that do not fit"
    )
    return Signature(
        "unknown", rule, note=f"FP8 weight {list(shape)} with {dtype} scales {list(grid)}: {blocks}"
    )


def _per_expert(shape: Shape, grid: Shape) -> bool:
    """Fused experts [E, K, N] keep one scale per expert and column: [E, 1, N]."""
    return len(shape) == 3 and len(grid) == 3 and grid[1] == 1 and grid[2] == shape[2]


def _int8(parts: Mapping[str, Part]) -> Signature:
    shape = parts["weight"][1]
    if "SCB" in parts:
        return Signature("w8a8-int8", "R17", note="bitsandbytes LLM.int8")
    scale = parts.get("scale")
    if scale is not None and scale[0] in _E8M0 and scale[1] and _exact(2 * shape[-1], scale[1][-1]) == 32:
        return Signature("mxfp4", "R13", 32, 2.0)
    inverse = parts.get("weight_scale_inv")
    if inverse is not None and len(inverse[1]) >= 2:
        if inverse[1][-2:] == (_up(shape[-2], 128), _up(shape[-1], 128)):
            return Signature("int8-block128", "R5", 128)
        group = _exact(2 * shape[-1], inverse[1][-1])
        if inverse[1][-2] == shape[-2] and group is not None and group <= 512:
            return Signature("w4afp8", "R15", group, 2.0)
    channel = parts.get("weight_scale")
    if channel is not None and (channel[1] in ((shape[-2], 1), (shape[-2],)) or _count(channel[1]) == 1):
        return Signature("w8a8-int8", "R4")
    return Signature("unknown", "R4", note="I8 weight with no scale that fits")


def _uint8(parts: Mapping[str, Part]) -> Signature:
    """4-bit floats: two in a U8 element, or one in an F4 element, whose shape counts values."""
    dtype, shape = parts["weight"]
    each = 2 if dtype == "U8" else 1
    scale = next(
        (parts[name] for name in ("weight_scale", "scale", "weight_scale_inv") if name in parts), None
    )
    if scale is None or not scale[1]:
        return Signature("unknown", "R9", note=f"{dtype} weight with no scale that fits")
    group = _exact(each * shape[-1], scale[1][-1])
    if scale[0] == "F8_E4M3" and group == 16 and "weight_scale_2" in parts:
        note = "AWQ pre-scaling" if "pre_quant_scale" in parts else ""
        return Signature("nvfp4" if "input_scale" in parts else "nvfp4-w4a16", "R9", group, float(each), note)
    if scale[0] in _E8M0 and group == 32:
        return Signature("mxfp4", "R14", 32, float(each))
    return Signature(
        "unknown", "R9", note=f"{dtype} weight {list(shape)} with {scale[0]} scales {list(scale[1])}"
    )


def _exact(a: int, b: int) -> int | None:
    return a // b if b > 0 and a % b == 0 else None


def _ratio(a: int, b: int) -> int | None:
    return a // b if b > 0 and a % b == 0 else (-(-a // b) if b > 0 else None)


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _count(shape: Shape) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
