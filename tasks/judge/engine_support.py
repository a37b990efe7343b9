"""Does the installed engine know this checkpoint's architecture, on this GPU, in this layout of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from recon.agent.api import Judged, Judgement, JudgeTask, Read, View
from recon.tasks.deployment import at_least_version
from recon.tasks.judge.reading import judged, judgement, not_known, plain, sides
from recon.tasks.knowledge import engine_tables as tables
from recon.tasks.releases import (
    architecture,
    cited,
    installed,
    listed_architectures,
    needed_release,
    newer_than_tables,
)

KEY: Final = "engine.supports"
TABLES: Final = "engine.tables"
MIXED: Final = "engine.supports.mixed"
SCALES: Final = "engine.supports.scales"
MOE: Final = "engine.supports.moe"
LAYOUT: Final = "engine.supports.layout"  # whether there are such traps, where that is not known
# judgement -> the row of our tables that says so
LIMITS: Final = {
    MIXED: "mixed-precision-int-experts",
    SCALES: "deepseek-v4-scale-names",
    MOE: "deepseek-v4-hybrid-nvfp4",
}
_INT_FORMATS: Final = frozenset({"w4a16-int4", "w3a16-int3", "w8a16-int8", "w8a8-int8"})
_V4: Final = "DeepseekV4"


@dataclass(frozen=True)
class Sign:
    """One of the signs of a trap: whether it is there, None where that is not known; and what was read for it."""

    holds: bool | None
    read: Read


# A trap that is there; else the reads that failed and might show it; none where it is known not to be there.
Look: TypeAlias = Judgement | list[Read]


@dataclass(frozen=True)
class Port:
    """Why the engine's source has to be changed for a checkpoint; "" where no reason is known.

    `unread` says what is not known where a reason may be found yet: only with both empty is nothing to be ported.
    """

    why: str = ""
    unread: str = ""


def judge(view: View) -> Judged:
    """Architecture x installed engine x GPU; the traps in how this checkpoint names and mixes its tensors."""
    traps = _looked(view, _mixed_precision, _scale_names, _moe_backend)
    if not architecture(view):  # no trap can be told without it, and that line says so
        traps = [trap for trap in traps if trap.key != LAYOUT]
    found = [_architecture(view), *traps, *_table_age(view)]
    return judged(
        *found, cites=[*cited(view), *(tables.limit(LIMITS[j.key]) for j in found if j.key in LIMITS)]
    )


def _architecture(view: View) -> Judgement:
    arch, listed = view.read("checkpoint.architecture.architectures"), view.read("engine.architectures")
    version = view.read("engine.version")
    if version.state == "absent" and arch.known:
        need = needed_release(view)
        return judgement(
            KEY, "block", f"no {view.intent.engine} is installed", about=KEY, expected=need.release,
            detail=[_timeline(view)], sides=sides(version, expected=(arch,)),
        )  # fmt: skip
    if not (arch.known and listed.known and version.known):
        return not_known(
            KEY, "engine: whether it knows this architecture is not known", arch, listed, version, about=KEY
        )
    name = architecture(view)
    if name not in listed_architectures(view):
        return _missing(view, name, arch, listed, version)
    return _on_gpu(view, name, arch, listed, version)


def _missing(view: View, name: str, arch: Read, listed: Read, version: Read) -> Judgement:
    return judgement(
        KEY, "block", f"SGLang {plain(version.value)} has no {plain(name)}{_first(view, name)}", about=KEY,
        observed=version.value, expected=name, detail=[_timeline(view)], sides=sides(version, listed, expected=(arch,)),
        consequence="it refuses the model at start: architecture not supported",
    )  # fmt: skip


def _first(view: View, name: str) -> str:
    """The first releases that have it, in as few words as a line has room for."""
    first, sm = tables.first_release_with_architecture(name), view.read("host.gpus.sm")
    here = tables.first_release_with_architecture_on(name, str(sm.value)) if sm.known else None
    words = [*([f"{first.release}+"] if first else []), *([f"{sm.value} {here.release}+"] if here else [])]
    words += [] if sm.known else ["this GPU: not known"]
    return f" ({', '.join(words)})" if words else ""


def _timeline(view: View) -> str:
    need = needed_release(view)
    return need.unserved or ", ".join([*need.reasons, *([need.unsettled] if need.unsettled else [])])


def _on_gpu(view: View, name: str, arch: Read, listed: Read, version: Read) -> Judgement:
    sm = view.read("host.gpus.sm")
    if not sm.known:
        title = f"engine: whether {plain(name)} runs on this GPU is not known"
        return not_known(KEY, title, sm, arch, listed, version, about=KEY)
    first = tables.first_release_with_architecture_on(name, str(sm.value))
    proof = sides(version, listed, sm, expected=(arch,))
    if first is not None and not at_least_version(str(version.value), first.release):
        return judgement(
            KEY, "block", f"SGLang {plain(version.value)} has no {sm.value} path for {plain(name)}", about=KEY,
            observed=version.value, expected=first.release, detail=[_timeline(view)], sides=proof,
            consequence="it loads and then fails in kernels made for other GPUs",
        )  # fmt: skip
    return judgement(
        KEY, "pass", f"SGLang {plain(version.value)} knows {plain(name)}", about=KEY, observed=version.value,
        expected=first.release if first is not None else name, sides=proof,
    )  # fmt: skip


def layout_traps(view: View) -> list[Judgement]:
    """Layouts that the engine refuses, or loads without their scales; `unknown` where what would show it was not read."""
    return _looked(view, _mixed_precision, _scale_names)


def needs_port(view: View) -> Port:
    """Whether the engine's source has to be changed for this checkpoint, as far as that is known."""
    need = needed_release(view)
    if need.unserved:
        return Port(need.unserved)
    traps = layout_traps(view)
    unread = need.unsettled or next((trap.title for trap in traps if trap.key == LAYOUT), "")
    return Port(next((trap.title for trap in traps if trap.key != LAYOUT), ""), unread)


def _looked(view: View, *looks: Callable[[View], Look]) -> list[Judgement]:
    """The traps that are there, and one `unknown` for all that could not be looked for."""
    found = [look(view) for look in looks]
    failed = {read.path: read for reads in found if isinstance(reads, list) for read in reads}
    traps = [trap for trap in found if isinstance(trap, Judgement)]
    if not failed:
        return traps
    title, who = (
        "engine: whether it loads this layout of tensors is not known",
        "recon reads config.json and tensor headers",
    )
    return [*traps, not_known(LAYOUT, title, *failed.values(), about=KEY, who=who)]


def _open(signs: tuple[Sign, ...]) -> list[Read] | None:
    """None where all signs are there; else the reads of those that are not known, none where one is known to be missing."""
    if all(sign.holds for sign in signs):
        return None
    return [] if any(sign.holds is False for sign in signs) else [s.read for s in signs if s.holds is None]


def _mixed_precision(view: View) -> Look:
    experts, mixed = _format(view, "routed_experts"), _declares(view, "format", "mixed-precision")
    signs = (_declares(view, "quant_method", "compressed-tensors"), mixed, _one_of(experts, _INT_FORMATS))
    if (failed := _open(signs)) is not None:
        return failed
    newer = newer_than_tables(installed(view))
    return judgement(
        MIXED, "warn" if newer else "block", "SGLang refuses mixed-precision files with INT experts",
        about=KEY, observed="mixed-precision", expected="one format for all groups", sides=sides(mixed.read, experts),
        detail=[
            f"every release up to {tables.TABLE_VERSION} raises while loading, for each MoE backend",
            "a newer engine is installed than recon's tables know: try it" if newer else "the port item says what has to change",
        ],
        consequence="the download is of no use until the loader is changed",
    )  # fmt: skip


def _scale_names(view: View) -> Look:
    scales, attention = view.read("checkpoint.scale_names"), _format(view, "attention")
    names = scales.value if scales.known and isinstance(scales.value, Mapping) else None
    count = (names.get("weight_scale") or names.get(".weight_scale") or 0) if names is not None else 0
    arch = _is_v4(view)
    signs = (
        _declares(view, "quant_method", "compressed-tensors"),
        arch,
        Sign(str(attention.value).startswith("fp8") if attention.known else None, attention),
        Sign(bool(count) if names is not None else None, scales),
    )
    if (failed := _open(signs)) is not None:
        return failed
    return judgement(
        SCALES, "warn", "SGLang may load the FP8 attention without its scales",
        observed={"weight_scale": count}, expected="weight_scale_inv or scale", sides=sides(scales, attention, arch.read),
        detail=[
            f"{count:,} scales are called weight_scale; its loader for this model knows weight_scale_inv and scale",
            "read from source, not run: a known answer through the router decides, not 'ready'",
        ],
        consequence="no crash: warnings in the log, then garbage text",
    )  # fmt: skip


def _moe_backend(view: View) -> Look:
    """The hybrid FP8+NVFP4 checkpoints for which the engine picks an SM100-only backend by itself."""
    sm, experts = view.read("host.gpus.sm"), _format(view, "routed_experts")
    hybrid = _declares(view, "quant_method", "fp8")
    # a GPU that was not read is said by the line about the architecture
    here = Sign(sm.known and str(sm.value) in ("sm_120", "sm_121"), sm)
    if (failed := _open((hybrid, _one_of(experts, frozenset({"nvfp4"})), _is_v4(view), here))) is not None:
        return failed
    return judgement(
        MOE, "warn", f"pass --moe-runner-backend: the engine's own choice is not for {sm.value}",
        observed="flashinfer_trtllm_routed", expected="flashinfer_cutlass or marlin", sides=sides(experts, hybrid.read, sm),
        detail=["for this hybrid FP8+NVFP4 layout it takes flashinfer_trtllm_routed, kernels of SM100 only; recon's launch lines name another"],
        consequence="without the flag the server fails at its first forward pass",
    )  # fmt: skip


def _declares(view: View, name: str, word: str) -> Sign:
    """Whether the files declare a word under a name."""
    read = view.read("checkpoint.declared")
    return Sign(
        read.value.get(name) == word if read.known and isinstance(read.value, Mapping) else None, read
    )


def _is_v4(view: View) -> Sign:
    name = architecture(view)
    return Sign(name.startswith(_V4) if name else None, view.read("checkpoint.architecture.architectures"))


def _one_of(read: Read, formats: frozenset[str]) -> Sign:
    return Sign(read.value in formats if read.known else None, read)


def _format(view: View, component: str) -> Read:
    """The format of a component by its tensors, else as declared; `absent` as known where there is no such component."""
    proved, component_read = view.read(f"checkpoint.{component}.format"), view.read(f"checkpoint.{component}")
    if _is_format(proved):
        return proved
    value = component_read.value
    if component_read.known and isinstance(value, Mapping) and value.get("presence") == "absent":
        return replace(component_read, value="absent")
    said = view.read(f"checkpoint.declared.components.{component}.format")
    if _is_format(said):
        return said
    return replace(
        proved, state="unknown", reason=proved.reason or f"recon has no word for {plain(proved.value)}"
    )


def _is_format(read: Read) -> bool:
    return read.known and isinstance(read.value, str) and read.value != "unknown"


def _table_age(view: View) -> list[Judgement]:
    version = installed(view)
    if not newer_than_tables(version):
        return []
    title = f"SGLang {plain(version)} is newer than recon's tables ({tables.TABLE_VERSION})"
    detail = ["what the tables say of backends and flags is a guess for it: probes on the host decide"]
    return [
        judgement(
            TABLES,
            "warn",
            title,
            observed=version,
            expected=tables.TABLE_VERSION,
            detail=detail,
            sides=sides(view.read("engine.version")),
        )
    ]


ENGINE_SUPPORT = JudgeTask("judge.engine_support", judge=judge)
