"""Does the installed engine know this checkpoint's architecture, on this GPU, in this layout of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recon.agent.api import Json, Judged, Judgement, JudgeTask, Read, View
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
# judgement -> the row of our tables that says so
_LIMITS: Final = {
    MIXED: "mixed-precision-int-experts",
    SCALES: "deepseek-v4-scale-names",
    MOE: "deepseek-v4-hybrid-nvfp4",
}
_INT_FORMATS: Final = frozenset({"w4a16-int4", "w3a16-int3", "w8a16-int8", "w8a8-int8"})


def judge(view: View) -> Judged:
    """Architecture x installed engine x GPU; the traps in how this checkpoint names and mixes its tensors."""
    found = [_architecture(view), *layout_traps(view), *_moe_backend(view), *_table_age(view)]
    return judged(
        *found, cites=[*cited(view), *(tables.limit(_LIMITS[j.key]) for j in found if j.key in _LIMITS)]
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
    return f" ({', '.join(words)})" if words else ""


def _timeline(view: View) -> str:
    need = needed_release(view)
    return need.unserved or ", ".join(need.reasons)


def _on_gpu(view: View, name: str, arch: Read, listed: Read, version: Read) -> Judgement:
    sm = view.read("host.gpus.sm")
    first = tables.first_release_with_architecture_on(name, str(sm.value)) if sm.known else None
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
    """Layouts that the engine refuses, or loads without their scales."""
    declared = view.read("checkpoint.declared")
    facts = declared.value if declared.known and isinstance(declared.value, Mapping) else {}
    if facts.get("quant_method") != "compressed-tensors":
        return []
    return [*_mixed_precision(view, facts, declared), *_scale_names(view)]


def _mixed_precision(view: View, facts: Mapping[str, Json], declared: Read) -> list[Judgement]:
    experts = view.read("checkpoint.routed_experts.format")
    if facts.get("format") != "mixed-precision" or not experts.known or experts.value not in _INT_FORMATS:
        return []
    newer = newer_than_tables(installed(view))
    return [
        judgement(
            MIXED, "warn" if newer else "block", "SGLang refuses mixed-precision files with INT experts",
            about=KEY, observed=facts.get("format"), expected="one format for all groups", sides=sides(declared, experts),
            detail=[
                f"every release up to {tables.TABLE_VERSION} raises while loading, for each MoE backend",
                "a newer engine is installed than recon's tables know: try it" if newer else "the port item says what has to change",
            ],
            consequence="the download is of no use until the loader is changed",
        )
    ]  # fmt: skip


def _scale_names(view: View) -> list[Judgement]:
    scales, attention = view.read("checkpoint.scale_names"), view.read("checkpoint.attention.format")
    arch = view.read("checkpoint.architecture.architectures")
    if not (scales.known and attention.known and isinstance(scales.value, Mapping)):
        return []
    if not architecture(view).startswith("DeepseekV4") or not str(attention.value).startswith("fp8"):
        return []
    count = scales.value.get("weight_scale") or scales.value.get(".weight_scale") or 0
    if not count:
        return []
    return [
        judgement(
            SCALES, "warn", "SGLang may load the FP8 attention without its scales",
            observed={"weight_scale": count}, expected="weight_scale_inv or scale", sides=sides(scales, attention, arch),
            detail=[
                f"{count:,} scales are called weight_scale; its loader for this model knows weight_scale_inv and scale",
                "read from source, not run: a known answer through the router decides, not 'ready'",
            ],
            consequence="no crash: warnings in the log, then garbage text",
        )
    ]  # fmt: skip


def needs_port(view: View) -> str:
    """Why the engine's source has to be changed for this checkpoint; "" where no reason is known."""
    need = needed_release(view)
    if need.unserved:
        return need.unserved
    traps = layout_traps(view)
    return traps[0].title if traps else ""


def _moe_backend(view: View) -> list[Judgement]:
    """The hybrid FP8+NVFP4 checkpoints for which the engine picks an SM100-only backend by itself."""
    if not is_hybrid_nvfp4(view) or not architecture(view).startswith("DeepseekV4"):
        return []
    sm, experts, declared = (
        view.read("host.gpus.sm"),
        view.read("checkpoint.routed_experts.format"),
        view.read("checkpoint.declared"),
    )
    if not sm.known or str(sm.value) not in ("sm_120", "sm_121"):
        return []
    return [
        judgement(
            MOE, "warn", f"pass --moe-runner-backend: the engine's own choice is not for {sm.value}",
            observed="flashinfer_trtllm_routed", expected="flashinfer_cutlass or marlin", sides=sides(experts, declared, sm),
            detail=["for this hybrid FP8+NVFP4 layout it takes flashinfer_trtllm_routed, kernels of SM100 only; recon's launch lines name another"],
            consequence="without the flag the server fails at its first forward pass",
        )
    ]  # fmt: skip


def is_hybrid_nvfp4(view: View) -> bool:
    """Whether routed experts are NVFP4 inside a checkpoint that declares FP8."""
    experts, declared = view.value("checkpoint.routed_experts.format"), view.value("checkpoint.declared", {})
    return experts == "nvfp4" and isinstance(declared, Mapping) and declared.get("quant_method") == "fp8"


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
