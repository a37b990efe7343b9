"""Does kernel tuning matter here: would the backends that run these formats on this GPU read a tuning file at all."""

from __future__ import annotations

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


_PARTS: Final = ("routed_experts", "dense_mlp", "attention")


def judge(view: View) -> Judged:
    """Formats x GPU x release -> backends -> whether they read tuning files, and which exist for this device."""
    formats = [view.read(f"checkpoint.{part}.format") for part in _PARTS]
    sm, device, claim = (
        view.read("host.gpus.sm"),
        view.read("host.gpus.name"),
        view.read("mission.needs_kernel_work"),
    )
    if not sm.known or not any(read.known for read in formats):
        return judged(not_known(KEY, "kernel tuning: formats or GPU are not known", *formats, sm, about=KEY))
    rows = used_rows(view)
    if not rows:
        title = f"kernel tuning: no backend known for these formats on {plain(sm.value)}"
        return judged(
            not_known(KEY, title, *formats, about=KEY, who="a launch log says which backend was taken")
        )
    proof = sides(*(read for read in formats if read.known), sm, device, expected=(claim,))
    readers = sorted({row.backend for row in rows.values() if row.reads_tuning})
    found = _files(str(device.value or ""), readers, rows, proof) if readers else _not_needed(rows, proof)
    return judged(found, cites=rows.values())


def used_rows(view: View) -> dict[str, tables.Backend]:
    """The kernel backend of each part on this GPU, by the release that will run; parts without a row are left out."""
    sm, release = str(view.value("host.gpus.sm", "")), planned_release(view)
    found = {}
    for part in _PARTS:
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
