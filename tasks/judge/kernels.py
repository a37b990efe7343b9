"""Does kernel tuning matter here: would the backends that run these formats on this GPU read a tuning file at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recon.agent.api import Effects, Judged, Judgement, JudgeTask, Option, Side, View
from recon.tasks.judge.reading import judged, judgement, not_known, plain, sides
from recon.tasks.knowledge import engine_tables as tables
from recon.tasks.releases import planned_release

KEY: Final = "kernels.needed"
TUNING: Final = (
    Option(
        id="tune", title="tune on this host before the launch", effort="hours", effects=Effects(intent={"extra.tune": True}),
        consequence="all GPUs are busy meanwhile; files hold for this device, these shapes and this Triton release",
    ),
    Option(
        id="skip", title="launch with the default configurations", effects=Effects(intent={"extra.tune": False}),
        consequence="nothing is tuned; the log names each file that a backend misses",
    ),
)  # fmt: skip


def judge(view: View) -> Judged:
    """Formats x GPU x release -> backends -> whether they read tuning files, and which exist for this device."""
    formats = {part: view.read(f"checkpoint.{part}.format") for part in parts(view)}
    sm, device, claim = (
        view.read("host.gpus.sm"),
        view.read("host.gpus.name"),
        view.read("mission.needs_kernel_work"),
    )
    # which backend is taken hangs on the release, the release on the architecture
    version, arch = view.read("engine.version"), view.read("checkpoint.architecture.architectures")
    needed = [*formats.values(), sm, arch, *([] if version.state == "absent" else [version])]
    if not all(read.known for read in needed):
        title = "kernel tuning: formats, GPU or release are not known"
        return judged(not_known(KEY, title, *needed, about=KEY))
    rows = used_rows(view)
    if silent := [part for part in formats if part not in rows]:
        title = f"kernel tuning: no backend known for {silent[0].replace('_', ' ')} on {plain(sm.value)}"
        who = "a launch log says which backend was taken"
        said = [f"{part}: {plain(formats[part].value)}, no row of recon's tables" for part in silent]
        return judged(not_known(KEY, title, *needed, about=KEY, who="; ".join([*said, who])))
    proof = sides(*formats.values(), sm, device, version, arch, expected=(claim,))
    readers = sorted({row.backend for row in rows.values() if row.reads_tuning})
    found = _files(str(device.value or ""), readers, rows, proof) if readers else _not_needed(rows, proof)
    return judged(found, cites=rows.values())


def parts(view: View) -> tuple[str, ...]:
    """The parts whose kernels are looked at: the experts of a mixture (and its dense layers, where it has some) or the
    MLP of a dense model, and attention."""
    dense = _presence(view, "routed_experts") == "absent"
    mlp = ("dense_mlp",) if dense or _presence(view, "dense_mlp") == "present" else ()
    attention = () if _presence(view, "attention") == "absent" else ("attention",)
    return (*(() if dense else ("routed_experts",)), *mlp, *attention)


def _presence(view: View, part: str) -> str:
    value = view.value(f"checkpoint.{part}")
    return str(value.get("presence") or "") if isinstance(value, Mapping) else ""


def used_rows(view: View) -> dict[str, tables.Backend]:
    """The kernel backend of each part on this GPU, by the release that will run; parts without a row are left out."""
    sm, release = str(view.value("host.gpus.sm", "")), planned_release(view)
    found = {}
    for part in parts(view):
        fmt = view.value(f"checkpoint.{part}.format")
        lookup = tables.moe_backend if part == "routed_experts" else tables.gemm_backend
        if fmt and (row := lookup(str(fmt), sm, release)) is not None:
            found[part] = row
    return found


def _not_needed(rows: dict[str, tables.Backend], proof: tuple[Side, ...]) -> Judgement:
    title = f"kernel tuning: not needed, {backend_names(rows)} read no files"
    return judgement(
        KEY, "pass", title, about=KEY, observed={part: row.backend for part, row in rows.items()},
        expected="a backend that reads tuning files", sides=proof,
    )  # fmt: skip


def backend_names(rows: dict[str, tables.Backend]) -> str:
    """The backends, each once: `marlin and cutlass`."""
    return " and ".join(dict.fromkeys(row.backend for row in rows.values()))


def _files(
    device: str, readers: list[str], rows: dict[str, tables.Backend], proof: tuple[Side, ...]
) -> Judgement:
    files = tables.tuning_files(device)
    have = f"{files} for this device, maybe other shapes" if files else "none for this device"
    return judgement(
        KEY, "warn", f"kernel tuning: {' and '.join(readers)} reads files: {have}", about=KEY,
        observed={part: row.backend for part, row in rows.items()}, expected=f"files for {plain(device)}", options=TUNING,
        sides=proof, detail=["slower without them, not wrong: measure first, tune where the log names a missing file"],
    )  # fmt: skip


KERNELS = JudgeTask("judge.kernels", judge=judge)
