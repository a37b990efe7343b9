"""Bytes: what the tensors weigh against what the card says, and against the memory of each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from recon.agent.api import (
    GIB,
    Effects,
    Json,
    Judged,
    Judgement,
    JudgeTask,
    Layout,
    Option,
    Read,
    View,
    bytes_text,
    gib_text,
)
from recon.tasks.facts.kv import kv_per_token
from recon.tasks.facts.split import per_rank_bytes
from recon.tasks.judge.reading import judged, judgement, not_known, plain, sides

FITS: Final = "checkpoint.fits_memory"
# What SGLang 0.5.23 keeps free beside weights and KV cache by default on GPUs above 60 GiB, and a floor below that.
RESERVED_LARGE: Final = 10_240 << 20
RESERVED_SMALL: Final = 4_096 << 20
_LARGE: Final = 60 * GIB
# A cache smaller than a tenth of the GPU serves few requests: said, not blocked.
_THIN: Final = 0.1
_TOLERANCE: Final = 0.02


def judge_memory(view: View) -> Judged:
    """Weights per GPU at the asked tensor parallelism against the GPU with the least memory."""
    split, total = view.read("checkpoint.split"), view.read("host.gpus.memory_total_mib")
    sizes = sorted({count for _, _, count in view.intent.layout.instances()})
    if not split.known or not total.known:
        return judged(not_known(FITS, "whether the weights fit is not known", split, total, about=FITS))
    if not sizes:
        return judged(
            judgement(FITS, "unknown", "whether the weights fit: no GPU count was asked for", about=FITS,
                      detail=["say it with --tp N or --pd P+D"], sides=sides(split, total))
        )  # fmt: skip
    if misfit := _indivisible(view, sizes):
        return judged(misfit)
    fits = _fits(view, split, total, min(sizes))
    if fits.verdict in ("pass", "warn") and (unread := _unread_shape(view)):
        title = f"weights fit; whether the layers divide by {min(sizes)} is not known"
        return judged(not_known(FITS, title, *unread, split, total, about=FITS))
    return judged(fits)


def _unread_shape(view: View) -> list[Read]:
    """What says whether the layers can be cut, and was not read."""
    reads = (view.read("checkpoint.architecture"), view.read("checkpoint.routed_experts"))
    return [read for read in reads if not read.known]


def _fits(view: View, split: Read, total: Read, tp: int) -> Judgement:
    each, memory = per_rank_bytes(split.value, tp), _mib(total.value)
    if each is None or memory is None:
        return judgement(
            FITS,
            "unknown",
            "whether the weights fit: sizes are not numbers",
            about=FITS,
            sides=sides(split, total),
        )
    left = memory - (RESERVED_LARGE if memory > _LARGE else RESERVED_SMALL) - each
    layout = view.intent.layout
    twice = ", twice for PD" if layout.mode == "pd" else ""
    fact = f"{gib_text(each)} of {gib_text(memory)} per GPU at TP{tp}"
    detail = [
        f"leaves about {gib_text(left)} for the KV cache after the engine's own reserve" if left > 0 else "",
        "not counted: KV cache, activations, CUDA graphs, communication buffers, repacking while loading",
    ]
    observed = {"weights_per_gpu_bytes": each, "left_for_kv_bytes": left, **_kv(view, tp)}
    expected = {"memory_per_gpu_bytes": memory}
    proof = sides(split, expected=(total,))
    if left <= 0:
        return judgement(
            FITS, "block", f"{fact}: does not fit", about=FITS, observed=observed, expected=expected, detail=detail,
            options=_wider(view, split.value, memory, tp), sides=proof,
        )  # fmt: skip
    if left < _THIN * memory:
        return judgement(
            FITS, "warn", f"{fact}: little is left for the KV cache", about=FITS, observed=observed, expected=expected,
            detail=detail, sides=proof,
        )  # fmt: skip
    return judgement(
        FITS,
        "pass",
        f"{fact}: fits{twice}",
        about=FITS,
        observed=observed,
        expected=expected,
        detail=detail,
        sides=proof,
    )


def _kv(view: View, tp: int) -> dict[str, Json]:
    architecture = view.value("checkpoint.architecture")
    found = kv_per_token(architecture, tp=tp) if isinstance(architecture, Mapping) else None
    return {"kv_per_token": found} if found else {}


def _wider(view: View, split: Json, memory: int, tp: int) -> Iterator[Option]:
    """Twice, four times the GPUs per instance, where the host has them and the weights then fit."""
    layout, count = view.intent.layout, view.value("host.gpus.count")
    instances = 2 if layout.mode == "pd" else 1
    reserved = RESERVED_LARGE if memory > _LARGE else RESERVED_SMALL
    for wide in (tp * 2, tp * 4):
        each = per_rank_bytes(split, wide)
        if (
            each is None
            or each + reserved >= memory
            or not isinstance(count, int)
            or wide * instances > count
        ):
            continue
        yield Option(
            id=f"tp{wide}", title=f"TP{wide} for each instance", consequence=f"{gib_text(each)} per GPU",
            effort="minutes", effects=Effects(intent=_layout_effect(layout, wide)),
        )  # fmt: skip


def _layout_effect(layout: Layout, tp: int) -> dict[str, Json]:
    return {"layout.prefill_tp": tp, "layout.decode_tp": tp} if layout.mode == "pd" else {"layout.tp": tp}


def _indivisible(view: View, sizes: list[int]) -> Judgement | None:
    """A layer that cannot be cut into so many parts fails while loading."""
    read, experts = view.read("checkpoint.architecture"), view.read("checkpoint.routed_experts")
    value = read.value if read.known and isinstance(read.value, Mapping) else {}
    group = experts.value.get("group_size") if experts.known and isinstance(experts.value, Mapping) else None
    heads = value.get("attention_heads")
    width = value.get("moe_intermediate_size") if value.get("experts") else value.get("intermediate_size")
    for tp in sizes:
        if isinstance(heads, int) and heads % tp:
            return _cut(f"{heads} attention heads do not divide by {tp}", read)
        if isinstance(width, int) and (width % tp or (isinstance(group, int) and (width // tp) % group)):
            unit = f" in groups of {group}" if isinstance(group, int) else ""
            return _cut(f"experts of {width}{unit} do not divide by {tp}", read, experts)
    return None


def _cut(title: str, *reads: Read) -> Judgement:
    return judgement(
        FITS,
        "block",
        title,
        about=FITS,
        sides=sides(*reads),
        detail=["the engine refuses this while loading"],
    )


def _mib(value: Json) -> int | None:
    return (
        int(value * 2**20)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        else None
    )


def judge_size(view: View) -> Judged:
    """Tensor bytes against the sizes a card claims, in whichever unit it may have meant."""
    weights, claims = view.read("checkpoint.weights_bytes"), view.read("checkpoint.card.sizes")
    key = "checkpoint.size_claims"
    if not weights.known or not isinstance(weights.value, int):
        return judged(not_known(key, "the size of the weights is not known", weights))
    fact = f"{bytes_text(weights.value)} of tensors"
    if not claims.known and claims.state != "absent":
        title = f"{fact}; what the card says is not known"
        return judged(not_known(key, title, claims, weights, who="nothing waits for it"))
    rows = (
        [r for r in claims.value if isinstance(r, Mapping)]
        if claims.known and isinstance(claims.value, list)
        else []
    )
    wrong = [row for row in rows if not _as_written(row, weights.value)]
    said = " and ".join(plain(row.get("text")) for row in rows[:3])
    if not wrong:
        title = f"{fact}, as the card says" if rows else fact
        return judged(
            judgement(
                key, "pass", title, observed={"tensors_bytes": weights.value}, sides=sides(weights, claims)
            )
        )
    return judged(
        judgement(
            key, "warn", f"{fact}; the card says {said}", observed={"tensors_bytes": weights.value}, expected=said,
            detail=[_meaning(row, weights.value) for row in wrong[:2]], sides=sides(weights, expected=(claims,)),
            consequence="plan disk and memory with the file sizes, not with the card",
        )
    )  # fmt: skip


def _as_written(row: Mapping[str, Json], size: int) -> bool:
    unit = str(row.get("text", "")).rsplit(" ", 1)[-1]
    return _near(row.get("bytes_if_gib" if unit in ("GiB", "TiB") else "bytes_if_gb"), size)


def _near(claimed: Json, size: int) -> bool:
    return isinstance(claimed, int) and abs(claimed - size) <= _TOLERANCE * size


def _meaning(row: Mapping[str, Json], size: int) -> str:
    text = plain(row.get("text"))
    if _near(row.get("bytes_if_gib"), size):
        return f'"{text}" is right within 2 % only as GiB'
    if _near(row.get("bytes_if_gb"), size):
        return f'"{text}" is right within 2 % only as GB'
    return f'"{text}" is not within 2 % in either unit'


MEMORY: Final = JudgeTask(name="judge.memory", judge=judge_memory)
SIZE: Final = JudgeTask(name="judge.size", judge=judge_size)
