"""Room, weights, engine: what has to be there before anything is launched. Rendered here, carried out by a person."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

from recon.agent.api import ActTask, Json, Rendered, View, bytes_text
from recon.tasks.act.rendering import Sheet, as_root, detached
from recon.tasks.deployment import (
    DISK_MARGIN,
    download_bytes,
    latest,
    model_dir,
    planned_python,
    running_python,
    sizes_at,
    target_mount,
    venv_of,
)  # fmt: skip
from recon.tasks.judge.engine_support import layout_traps
from recon.tasks.judge.kernels import backend_names, used_rows
from recon.tasks.knowledge import engine_tables as tables
from recon.tasks.releases import architecture, needed_release

# What a download leaves out: other formats of the same weights (the sizes that are judged leave them out too).
_EXCLUDED: Final = ("original/*", "metal/*", "onnx/*", "*.gguf", "*.pth")
_SOURCE_REPOSITORY: Final = "https://github.com/sgl-project/sglang"


def render_disk_free(view: View, params: Mapping[str, Json]) -> Rendered:
    """Removes the directories that a person chose."""
    del params
    sheet, chosen = Sheet(), view.intent.extra.get("free_path")
    paths = [str(p) for p in chosen] if isinstance(chosen, (list, tuple)) else []
    sizes = {**sizes_at(view, "host.disk_usage"), **sizes_at(view, "host.models")}
    for path in paths or [sheet.gap("which directory goes: disk.room", "")]:
        sheet.run([*as_root(view), "rm", "-rf", "--one-file-system", "--", path])
        if path in sizes:
            sheet.note(f"frees {bytes_text(sizes[path])}; cannot be undone")
    need = download_bytes(view)
    if need:
        sheet.note(f"then free on {target_mount(view)} must be {bytes_text(int(need * DISK_MARGIN))}")
    return sheet.manual()


def render_download(view: View, params: Mapping[str, Json]) -> Rendered:
    """Fetches exactly the commit that was judged."""
    del params
    sheet = Sheet()
    model, folder = sheet.gap("model", view.intent.model), model_dir(view)
    commit = sheet.gap("commit", latest(view, "checkpoint.commit"))
    python = planned_python(view) or running_python(view)
    tool = posixpath.join(posixpath.dirname(python), "hf") if python else "hf"
    argv = [tool, "download", model, "--revision", commit, "--local-dir", folder]
    sheet.run(
        detached(view, "recon-download", [*argv, *[word for e in _EXCLUDED for word in ("--exclude", e)]])
    )
    need = download_bytes(view)
    sheet.note(
        f"{bytes_text(need)}; runs on when the login ends; log: journalctl -u recon-download -f"
        if need
        else ""
    )
    return sheet.manual()


def render_engine_install(view: View, params: Mapping[str, Json]) -> Rendered:
    """Brings the engine in by the decided source, with the router and the transfer backend."""
    del params
    sheet, source = Sheet(), view.intent.engine_source
    need = needed_release(view)
    release = str(view.intent.extra.get("engine_release") or need.release or tables.TABLE_VERSION)
    python = planned_python(view, release=release)
    extras = _packages(view, sheet)
    match source:
        case "venv-update":
            sheet.run(
                [
                    sheet.gap("interpreter", python),
                    "-m",
                    "pip",
                    "install",
                    "--upgrade",
                    f"sglang=={release}",
                    *extras,
                ]
            )
        case "venv-wheel":
            sheet.run(["python3", "-m", "venv", venv_of(python) or python])
            sheet.run([python, "-m", "pip", "install", f"sglang=={release}", *extras])
        case "git-ref" | "git-prs":
            _from_git(view, sheet, python, release, extras, prs=source == "git-prs")
        case _:
            sheet.run([sheet.gap("engine source: engine.source", ""), f"sglang=={release}", *extras])
    sheet.note("; ".join(need.reasons) or need.unserved)
    return sheet.manual()


def _packages(view: View, sheet: Sheet) -> list[str]:
    if view.intent.layout.mode != "pd":
        return []
    row = tables.transfer_backend(view.intent.transfer_backend) if view.intent.transfer_backend else None
    package = row.package if row is not None else sheet.gap("transfer backend: kv.transfer", "")
    return ["sglang-router", *([package] if package else [])]


def _from_git(view: View, sheet: Sheet, python: str, release: str, extras: list[str], *, prs: bool) -> None:
    venv = venv_of(python)
    source, ref = f"{venv}/src/sglang", str(view.intent.extra.get("engine_ref") or f"v{release}")
    sheet.run(["python3", "-m", "venv", venv])
    sheet.run(["git", "clone", _SOURCE_REPOSITORY, source])
    sheet.run(["git", "-C", source, "checkout", ref])
    if prs:
        listed = view.intent.extra.get("engine_prs")
        numbers = [str(n) for n in listed] if isinstance(listed, (list, tuple)) else []
        for number in numbers or [""]:
            branch = f"pull/{number}/head" if number else sheet.gap("pull request", "")
            sheet.run(["git", "-C", source, "pull", "--no-rebase", "--no-edit", "origin", branch])
    sheet.run([python, "-m", "pip", "install", "-e", f"{source}/python", *extras])


def render_port(view: View, params: Mapping[str, Json]) -> Rendered:
    """What has to change in the engine for this checkpoint, and how to see that it works. For a person or an agent."""
    del params
    sheet, need, traps = Sheet(), needed_release(view), layout_traps(view)
    if need.unserved:
        sheet.note(f"write the model class: {need.unserved}")
    for trap in traps:
        sheet.note(trap.title)
        for line in trap.detail:
            sheet.note(f"  {line}")
    if not need.unserved and not traps:
        sheet.note(
            "nothing is known that a release does not have: nothing to do until a load log says otherwise"
        )
    sheet.note(
        "accepted when: the load log has no 'not found in params_dict' and no 'not initialized from checkpoints',"
    )
    sheet.note(
        "  loaded bytes per GPU agree with the prediction, and the verify item passes, four requests at once included"
    )
    return sheet.manual()


def render_tracker_search(view: View, params: Mapping[str, Json]) -> Rendered:
    """Where to look whether somebody has done it already, before a line is written."""
    del params
    sheet, arch, sm = Sheet(), architecture(view), view.value("host.gpus.sm", "")
    words = " ".join(w for w in (sheet.gap("architecture", arch), str(sm).replace("_", "")) if w)
    for kind in ("prs", "issues"):
        sheet.run(["gh", "search", kind, "--repo", "sgl-project/sglang", words])
    declared = view.value("checkpoint.declared", {})
    if isinstance(declared, Mapping) and declared.get("quant_method"):
        sheet.run(
            ["gh", "search", "prs", "--repo", "sgl-project/sglang", f"{arch} {declared['quant_method']}"]
        )
    return sheet.manual()


def render_kernels_build(view: View, params: Mapping[str, Json]) -> Rendered:
    """Tunes the kernels whose backends read tuning files; the GPUs must be idle."""
    del params
    sheet, rows = Sheet(), used_rows(view)
    if rows and not any(row.reads_tuning for row in rows.values()):
        sheet.note(
            f"not needed: {backend_names(rows)} read no tuning files; only for a launch that names another backend"
        )
    python = sheet.gap("interpreter of the new engine", planned_python(view))
    scripts = "<checkout at the engine's tag>/benchmark/kernels"
    tp = view.intent.layout.prefill_tp or view.intent.layout.tp or 1
    sheet.run(
        [
            python,
            f"{scripts}/fused_moe_triton/tuning_fused_moe_triton.py",
            "--model",
            model_dir(view),
            "--tp-size",
            str(tp),
            "--tune",
        ]
    )
    sheet.note("the scripts are not part of the wheel; shapes and dtype must be those of this checkpoint")
    return sheet.manual()


PREPARE_TASKS: Final = (
    ActTask("act.disk_free", render=render_disk_free),
    ActTask("act.download", render=render_download),
    ActTask("act.engine_install", render=render_engine_install),
    ActTask("act.port", render=render_port),
    ActTask("act.tracker_search", render=render_tracker_search),
    ActTask("act.kernels_build", render=render_kernels_build),
)
