"""Whether weights, KV cache and state fit the memory of each GPU, and whether the layers can be cut for so many."""

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
    gib_text,
)
from recon.tasks.facts.kv import bytes_at, element_of, kv_per_token, tokens_in, why_not
from recon.tasks.facts.split import per_rank_bytes
from recon.tasks.facts.tp_limits import Limit, tp_limits
from recon.tasks.judge.reading import judged, judgement, not_known, sides

FITS: Final = "checkpoint.fits_memory"
# What SGLang 0.5.23 keeps free beside weights and KV cache by default on GPUs above 60 GiB, and a floor below that.
RESERVED_LARGE: Final = 10_240 << 20
RESERVED_SMALL: Final = 4_096 << 20
_LARGE: Final = 60 * GIB
# A cache smaller than a tenth of the GPU serves few requests: said, not blocked.
_THIN: Final = 0.1
# What can be cut: components whose width or groups decide it.
_CUT: Final = ("routed_experts", "shared_experts", "dense_mlp", "attention", "linear_attention")


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
    """What says whether the layers can be cut, and was not read. Components that no header has are not asked for."""
    needed = [view.read(f"checkpoint.{name}") for name in ("architecture", "routed_experts", "attention")]
    others = [view.read(f"checkpoint.{name}") for name in _CUT if name not in ("routed_experts", "attention")]
    asked = [read for read in others if read.state in ("unknown", "stale", "error")]
    return [*(read for read in needed if not read.known), *asked]


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
    kv = _kv(view, tp, left)
    detail = [
        f"leaves about {gib_text(left)} for the KV cache after the engine's own reserve" if left > 0 else "",
        *_cache_lines(view, kv),
        "not counted: KV cache, activations, CUDA graphs, communication buffers, repacking while loading",
    ]
    observed = {"weights_per_gpu_bytes": each, "left_for_kv_bytes": left, **kv}
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


def _kv(view: View, tp: int, left: int) -> dict[str, Json]:
    """The cost of a token on each GPU, how many tokens the rest of its memory holds, and what one request of the full
    context takes."""
    architecture = view.value("checkpoint.architecture")
    if not isinstance(architecture, Mapping):
        return {}
    element = element_of(view.value("checkpoint.kv_cache"))
    found = kv_per_token(architecture, tp=tp, element_bytes=element)
    if found is None:
        return {}
    value: dict[str, Json] = {"kv_per_token": found, "kv_tokens": tokens_in(found, left)}
    if isinstance(context := architecture.get("context"), int):
        value["kv_bytes_at_full_context"] = bytes_at(found, context)
    return value


def _cache_lines(view: View, kv: Mapping[str, Json]) -> Iterator[str]:
    """What the bytes of a token alone would hide: windows, state of each request, a family without a formula."""
    architecture = view.value("checkpoint.architecture")
    if not isinstance(architecture, Mapping):
        return
    if not kv:
        if (reason := why_not(architecture)) and architecture.get("layers"):
            yield f"the size of the KV cache is not known: {reason}"
    elif architecture.get("cache"):
        found = kv["kv_per_token"]
        yield f"KV cache: {found['bytes_per_token_per_rank']:,} bytes a token on each GPU ({found['basis']})"
        if fixed := found.get("per_request_bytes"):
            yield f"each running request holds {fixed:,} bytes more on each GPU, whatever its length"


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
    architecture = view.read("checkpoint.architecture")
    value = architecture.value if architecture.known and isinstance(architecture.value, Mapping) else {}
    reads = {name: view.read(f"checkpoint.{name}") for name in _CUT}
    components = {
        n: r.value for n, r in reads.items() if r.known and isinstance(r.value, Mapping) and _there(r.value)
    }
    for tp in sizes:
        if limits := tp_limits(value, components, tp=tp):
            concerned = [reads[n] for n in dict.fromkeys(limit.component for limit in limits)]
            return _cannot_be_cut(limits, architecture, *concerned)
    return None


def _there(component: Mapping[str, Json]) -> bool:
    return component.get("presence") != "absent"


def _cannot_be_cut(limits: list[Limit], *reads: Read) -> Judgement:
    arithmetic = [f"{limit.title}: {limit.detail}" for limit in limits[:8]]
    return judgement(
        FITS, "block", limits[0].title, about=FITS, sides=sides(*reads), observed=[limit.title for limit in limits],
        detail=["the engine refuses this while loading", *arithmetic],
    )  # fmt: skip


def _mib(value: Json) -> int | None:
    return (
        int(value * 2**20)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        else None
    )


MEMORY: Final = JudgeTask(name="judge.memory", judge=judge_memory)
