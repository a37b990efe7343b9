"""Why a model cannot be cut into so many tensor-parallel parts: sizes that do not divide, named.

Checks of SGLang 0.5.23 that end a load: heads in `srt/models/*` (`assert total_num_heads % attn_tp_size == 0`, KV heads
divide or are copied whole), `validate_block_quant_shapes` and `Fp8MoEMethod.create_weights` in `quantization/fp8.py` (128
rows and columns to a block), `verify_marlin_supports_shape` (groups), `MoeWNA16Method` (halves a group, not below 32),
`modelopt_quant.py` (16 to a block); gpt-oss experts are cut between blocks and padded, so nothing has to divide there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from recon.agent.api import Json

_BLOCKS: Final = {
    "fp8-block128": 128, "int8-block128": 128, "mxfp8": 32, "nvfp4": 16, "nvfp4-w4a16": 16, "w4afp8": 128, "mxfp4": 32,
}  # fmt: skip
_GROUPED: Final = frozenset({"w4a16-int4", "w3a16-int3", "w8a16-int8"})
_TOO_MANY: Final = 10**9  # no dimension of a model
_HALVED_TO: Final = 32  # the smallest group that GPTQ and AWQ experts are cut into
_NATIVE_FP4_BLOCK: Final = 128  # FP4 experts of DeepSeek V4 pass the FP8 block check first


@dataclass(frozen=True)
class Limit:
    """One thing that does not divide: a line for people, the arithmetic, and the component it is about."""

    title: str
    detail: str
    component: str = "attention"


def tp_limits(
    architecture: Mapping[str, Json], components: Mapping[str, Mapping[str, Json]], *, tp: int, ep: int = 1
) -> list[Limit]:
    """Everything that ends a load at `tp` ranks; empty where nothing is known that does.

    `components`: name -> {format, group_size?, signature?} as headers or declarations say. `ep`: expert-parallel groups;
    experts are handed out whole to them, and each is cut into tp/ep parts. The bytes of a rank are the same either way.
    """
    if tp <= 1:
        return []
    heads = list(_heads(architecture, tp))
    output = () if heads else _output(architecture, components, tp)
    return [*heads, *output, *_state(architecture, tp), *_widths(architecture, components, tp, ep)]


def _heads(architecture: Mapping[str, Json], tp: int) -> Iterator[Limit]:
    heads, kv = _number(architecture, "attention_heads"), _number(architecture, "kv_heads")
    if heads and heads % tp:
        yield Limit(f"{heads} attention heads do not divide by {tp}", f"{heads} / {tp} is not a whole number")
    if kv and not _number(architecture, "kv_lora_rank"):
        yield from _kv_heads(kv, tp, "KV heads")
    window = _mapping(_mapping(architecture, "cache"), "window")
    if near := _number(window, "kv_heads"):
        yield from _kv_heads(near, tp, "KV heads of the windowed layers")


def _kv_heads(heads: int, tp: int, what: str) -> Iterator[Limit]:
    """Fewer heads than ranks are copied, so the ranks have to divide by them instead."""
    if max(heads, tp) % min(heads, tp):
        yield Limit(
            f"{heads} {what} do not divide by {tp}", f"neither of {heads} and {tp} divides by the other"
        )


def _output(
    architecture: Mapping[str, Json], components: Mapping[str, Mapping[str, Json]], tp: int
) -> Iterator[Limit]:
    """The output projection takes a rank's heads side by side. DeepSeek V4 cuts it by groups of its own."""
    heads, hidden = _number(architecture, "attention_heads"), _number(architecture, "hidden_size")
    size = _number(architecture, "v_head_dim") or _number(architecture, "head_dim")
    if not heads or "compress_ratios" in architecture or not (size or hidden):
        return
    yield from _cut(heads * size if size else hidden or 0, tp, "attention output", "attention", components)


def _state(architecture: Mapping[str, Json], tp: int) -> Iterator[Limit]:
    """Linear layers: heads of the state are divided; key heads too, Mamba groups unless there is one alone."""
    state = _mapping(_mapping(architecture, "cache"), "state")
    heads, groups = _number(state, "heads"), _number(state, "groups")
    kind = str(state.get("kind"))
    if heads and heads % tp:
        yield Limit(
            f"{heads} {kind} heads do not divide by {tp}",
            f"{heads} / {tp} is not a whole number",
            "linear_attention",
        )
    if groups and groups != heads and groups % tp and not (kind == "Mamba-2" and groups == 1):
        what = "groups" if kind == "Mamba-2" else "key heads"
        yield Limit(
            f"{groups} {kind} {what} do not divide by {tp}",
            f"{groups} / {tp} is not a whole number",
            "linear_attention",
        )


def _widths(
    architecture: Mapping[str, Json], components: Mapping[str, Mapping[str, Json]], tp: int, ep: int
) -> Iterator[Limit]:
    experts, dense = _number(architecture, "experts"), _number(architecture, "intermediate_size")
    width = _number(architecture, "moe_intermediate_size") or dense
    if experts:
        if ep > 1 and (experts % ep or tp % ep):
            title = (
                f"{experts} experts do not divide by {ep}"
                if experts % ep
                else f"{tp} ranks do not divide by {ep}"
            )
            yield Limit(title, "expert-parallel groups hold whole experts and whole ranks", "routed_experts")
        elif width:
            yield from _cut(width, max(1, tp // ep), "experts", "routed_experts", components)
        if (shared := _shared_width(architecture, width)) and "shared_experts" in components:
            yield from _cut(shared, tp, "shared experts", "shared_experts", components)
    dense = _number(architecture, "dense_intermediate_size") or dense
    if dense and (
        not experts or (_number(architecture, "moe_intermediate_size") and "dense_mlp" in components)
    ):
        yield from _cut(
            dense,
            tp,
            "MLP layers" if experts or "dense_mlp" in components else "layers",
            "dense_mlp",
            components,
        )


def _shared_width(architecture: Mapping[str, Json], width: int | None) -> int | None:
    count = _number(architecture, "shared_experts")
    return _number(architecture, "shared_intermediate_size") or (width * count if width and count else None)


def _cut(
    width: int, parts: int, what: str, component: str, components: Mapping[str, Mapping[str, Json]]
) -> Iterator[Limit]:
    value = components.get(component, {})
    unit, word = _unit(value, component)
    if parts == 1 or unit == 0:
        return
    part, rest = divmod(width, parts)
    if rest:
        yield Limit(
            _title(what, width, unit, word, parts), f"{width} / {parts} is not a whole number", component
        )
    elif part % unit:
        arithmetic = f"{width} / {parts} = {part}, not a multiple of {unit}"
        yield Limit(_title(what, width, unit, word, parts), arithmetic, component)


def _title(what: str, width: int, unit: int, word: str, parts: int) -> str:
    return f"{what} of {width}{f' in {word} of {unit}' if unit > 1 else ''} do not divide by {parts}"


def _unit(value: Mapping[str, Json], component: str) -> tuple[int, str]:
    """(columns that must stay together, what they are called); 0 where the engine pads instead."""
    fmt, rule = str(value.get("format")), str(value.get("signature") or "").partition(":")[0]
    group = _number(value, "group_size")
    if fmt in _GROUPED and group:
        halved = component == "routed_experts" and rule in ("R1", "R2")
        return (min(group, _HALVED_TO) if halved else group), "groups"
    if rule == "R12":
        return 0, ""
    if rule == "R13":
        return _NATIVE_FP4_BLOCK, "blocks"
    return _BLOCKS.get(fmt, 1), "blocks"


def _mapping(source: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    value = source.get(name)
    return value if isinstance(value, Mapping) else {}


def _number(source: Mapping[str, Json], name: str) -> int | None:
    value = source.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value < _TOO_MANY else None
