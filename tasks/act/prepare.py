"""Room, weights, engine: what has to be there before anything is launched. Rendered here, carried out by a person."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

from recon.agent.api import ActTask, Json, Rendered, View, bytes_text
from recon.tasks.act.rendering import LOAD_TROUBLE, Sheet, as_root, detached
from recon.tasks.deployment import (
    DISK_MARGIN,
    download_bytes,
    is_within,
    latest,
    model_dir,
    sizes_at,
    target_mount,
)  # fmt: skip
from recon.tasks.environment import (
    checkout_dir,
    chosen_pulls,
    chosen_ref,
    planned_python,
    planned_venv,
    present_python,
)  # fmt: skip
from recon.tasks.judge.engine_support import LAYOUT, LIMITS, layout_traps, needs_port
from recon.tasks.judge.kernels import backend_names, used_rows
from recon.tasks.knowledge import engine_tables as tables
from recon.tasks.releases import architecture, asked_release, needed_release, release_to_install

# What a download leaves out: other formats of the same weights (the sizes that are judged leave them out too).
_EXCLUDED: Final = ("original/*", "metal/*", "onnx/*", "*.gguf", "*.pth")
_SOURCE_REPOSITORY: Final = "https://github.com/sgl-project/sglang"
_VERSION: Final = "import sglang; print(sglang.__version__)"
# The name is an argument: what a checkpoint says is never part of a program.
_HAS_CLASS: Final = "import sys; from sglang.srt.models.registry import ModelRegistry; print(sys.argv[1] in ModelRegistry.get_supported_archs())"


# ---- room


def render_disk_free(view: View, params: Mapping[str, Json]) -> Rendered:
    """Removes the directories that a person chose, after what uses them is stopped."""
    del params
    sheet, chosen = Sheet(), view.intent.extra.get("free_path")
    sizes = {**sizes_at(view, "host.disk_usage"), **sizes_at(view, "host.models")}
    paths = [str(p) for p in chosen] if isinstance(chosen, (list, tuple)) else []
    if not paths:
        sheet.run(
            [
                *as_root(view),
                "rm",
                "-rf",
                "--one-file-system",
                "--",
                sheet.gap("which directory goes: disk.room", ""),
            ]
        )
    for path in paths:
        if reason := _not_to_remove(path):
            sheet.gap(f"a directory that can go: {path!r} {reason}", "")
            continue
        _hold_back(view, sheet, path)
        sheet.run([*as_root(view), "rm", "-rf", "--one-file-system", "--", path])
        size = f"frees {bytes_text(sizes[path])}" if path in sizes else "how much it frees was not measured"
        sheet.note(f"{size}; cannot be undone")
    known = [sizes[path] for path in dict.fromkeys(paths) if path in sizes]
    sheet.note(f"in all {bytes_text(sum(known))}" if len(known) > 1 else "")
    mount, need = target_mount(view), download_bytes(view)
    if need:
        sheet.run(["df", "-B1", "--output=avail,target", "--", mount])
        sheet.note(f"done when {bytes_text(int(need * DISK_MARGIN))} or more are free on {mount}")
    return sheet.manual()


def _not_to_remove(path: str) -> str:
    """Why a path is not removed whoever chose it; "" where it may be."""
    if not path.startswith("/") or not path.isprintable() or posixpath.normpath(path) != path.rstrip("/"):
        return "is no plain absolute path"
    return "is a folder of the system" if path.count("/") < 2 else ""


def _hold_back(view: View, sheet: Sheet, path: str) -> None:
    """Says what must not run any more when a directory goes, and how to see that it does not."""
    unit, serving = latest(view, "host.service.unit"), latest(view, "host.service.model_path")
    uses = [
        used
        for used in (serving, present_python(view))
        if isinstance(used, str) and used and is_within(used, path)
    ]
    if not uses:
        return
    sheet.note(f"refuse this while {unit or 'the service'} runs: it uses {uses[0]}")
    if unit:
        sheet.run(["systemctl", "is-active", "--", str(unit)])
        sheet.note("must say inactive before the next line: service.stop comes first")


# ---- weights


def render_download(view: View, params: Mapping[str, Json]) -> Rendered:
    """Fetches exactly the commit that was judged, with an `hf` that is there before the new engine is."""
    del params
    sheet = Sheet()
    model, folder = sheet.gap("model", view.intent.model), model_dir(view)
    commit = sheet.gap("commit", latest(view, "checkpoint.commit"))
    present, planned = present_python(view), planned_python(view)
    tool = posixpath.join(posixpath.dirname(present or planned), "hf") if present or planned else "hf"
    if not present:
        sheet.note(
            "after engine.install: its environment brings hf" if planned else "hf comes with huggingface_hub"
        )
    argv = [tool, "download", model, "--revision", commit, "--local-dir", folder]
    excluded = [word for pattern in _EXCLUDED for word in ("--exclude", pattern)]
    sheet.run(detached(view, "recon-download", [*argv, *excluded]))
    sheet.note("runs on when the login ends; log: journalctl -u recon-download -f")
    sheet.run(["systemctl", "show", "-p", "SubState,ExecMainStatus", "--", "recon-download"])
    sheet.run(["du", "-sb", "--", folder])
    need = download_bytes(view)
    size = f", and the folder holds {bytes_text(need)} or more" if need else ""
    sheet.note(f"done when SubState=exited, ExecMainStatus=0{size}")
    return sheet.manual()


# ---- engine


def render_engine_install(view: View, params: Mapping[str, Json]) -> Rendered:
    """Brings the engine in by the decided source, with the router and the transfer backend."""
    del params
    sheet, source = Sheet(), view.intent.engine_source
    need, known = needed_release(view), release_to_install(view)
    release = sheet.gap(f"release: {need.unsettled}", known)
    python = planned_python(view)
    extras = _packages(view, sheet)
    match source:
        case "venv-update":
            python = sheet.gap("interpreter", python)
            sheet.run([python, "-m", "pip", "install", "--upgrade", f"sglang=={release}", *extras])
        case "venv-wheel":
            python = sheet.gap("interpreter", python)
            sheet.run(["python3", "-m", "venv", planned_venv(view) or python])
            sheet.run([python, "-m", "pip", "install", f"sglang=={release}", *extras])
        case "git-ref" | "git-prs":
            python = _from_git(view, sheet, extras)
        case _:
            sheet.run([sheet.gap("engine source: engine.source", ""), f"sglang=={release}", *extras])
    _install_notes(view, sheet, python if source else "", known)
    return sheet.manual()


def _install_notes(view: View, sheet: Sheet, python: str, release: str) -> None:
    need, asked, row = needed_release(view), asked_release(view), tables.release(release) if release else None
    sheet.note("; ".join(need.reasons) or need.unserved)
    if asked and need.release and tables.version_key(asked) < tables.version_key(need.release):
        sheet.note(f"{asked} was asked for, and at least {need.release} is needed: see engine.source")
    if row is not None:
        sheet.note(f"needs Python {row.python}")
    if python:
        sheet.run([python, "-c", _VERSION])
        sheet.note(f"done when it prints a version{f', {release} or newer,' if release else ''} and no error")


def _packages(view: View, sheet: Sheet) -> list[str]:
    if view.intent.layout.mode != "pd":
        return []
    row = tables.transfer_backend(view.intent.transfer_backend) if view.intent.transfer_backend else None
    package = row.package if row is not None else sheet.gap("transfer backend: kv.transfer", "")
    return ["sglang-router", *([package] if package else [])]


def _from_git(view: View, sheet: Sheet, extras: list[str]) -> str:
    """A checkout inside a new environment, with the chosen pull requests merged; returns the interpreter."""
    ref = sheet.gap("commit, tag or branch: engine.source", chosen_ref(view))
    pulls = [str(number) for number in chosen_pulls(view)]
    if view.intent.engine_source == "git-prs" and not pulls:
        pulls = [sheet.gap("pull request: engine.source", "")]
    python = sheet.gap("interpreter", planned_python(view))
    source = sheet.gap("folder for the source", checkout_dir(view))
    sheet.run(["python3", "-m", "venv", sheet.gap("environment", planned_venv(view))])
    sheet.run(["git", "clone", _SOURCE_REPOSITORY, source])
    sheet.run(["git", "-C", source, "checkout", ref])
    # a merge makes a commit, and a host may have no name for who makes it
    merge = ["git", "-C", source, "-c", "user.name=recon", "-c", "user.email=recon@localhost", "pull"]
    for number in pulls:
        sheet.run([*merge, "--no-rebase", "--no-edit", "origin", f"pull/{number}/head"])
    sheet.run([python, "-m", "pip", "install", "-e", f"{source}/python", *extras])
    return python


# ---- source


def render_port(view: View, params: Mapping[str, Json]) -> Rendered:
    """What has to change in the engine for this checkpoint, and how to see that it works. For a person or an agent."""
    del params
    sheet, port, need = Sheet(), needs_port(view), needed_release(view)
    if need.unserved:
        sheet.note(f"write the model class: {need.unserved}")
    for trap in layout_traps(view) if port.why else []:
        if trap.key != LAYOUT:
            sheet.note(trap.title)
            for line in trap.detail:
                sheet.note("" if "port item" in line else f"  {line}")  # this is that item
            row = tables.limit(LIMITS.get(trap.key, ""))
            sheet.note(f"  where: {row.source}" if row is not None else "")
    if port.unread:
        sheet.gap("what the checkpoint needs", "")
        sheet.note(f"not known yet: {port.unread}")
    elif not port.why:
        sheet.note(
            "nothing is known that a release does not have: nothing to do until a load log says otherwise"
        )
    _port_checks(view, sheet)
    return sheet.manual()


def _port_checks(view: View, sheet: Sheet) -> None:
    """How to see that the port is done."""
    role = "prefill" if view.intent.layout.mode == "pd" else "serve"
    sheet.note("done when all of this holds:")
    sheet.note("1. the engine has the model class: this prints True")
    python = sheet.gap("interpreter of the new engine", planned_python(view))
    sheet.run([python, "-c", _HAS_CLASS, sheet.gap("architecture", architecture(view))])
    sheet.note(
        f"2. a trial start with the command of launch.{role} (recon show task launch.{role}) becomes ready, and this prints nothing"
    )
    sheet.run(["journalctl", "-u", f"recon-{role}", "--no-pager", "-o", "cat", "-g", LOAD_TROUBLE])
    sheet.note("3. the memory per GPU that its log gives for the weights agrees with checkpoint.fits_memory")
    sheet.note(
        "4. a known question gets its answer, four at once too: the commands of verify (recon show task verify)"
    )
    sheet.note(f"then stop the trial: systemctl stop recon-{role}")


def render_tracker_search(view: View, params: Mapping[str, Json]) -> Rendered:
    """Where to look whether somebody has done it already, before a line is written."""
    del params
    sheet = Sheet()
    arch, sm = (
        sheet.gap("architecture", architecture(view)),
        str(view.value("host.gpus.sm", "") or "").replace("_", ""),
    )
    declared = view.value("checkpoint.declared", {})
    method = str(declared.get("quant_method") or "") if isinstance(declared, Mapping) else ""
    sheet.note("on your own machine, with gh logged in; every word has to occur")
    for kind, words in (("prs", [arch, sm]), ("issues", [arch, sm]), ("prs", [arch, method])):
        if words[1] and not words[1].startswith("-"):
            sheet.run(["gh", "search", kind, "--repo", "sgl-project/sglang", "--limit", "20", *words])
    sheet.run(["gh", "search", "prs", "--repo", "sgl-project/sglang", "--limit", "20", arch])
    sheet.note("done when it is known which pull requests help, if any; to take them:")
    sheet.note('  recon decide engine.source git-prs=<numbers> --because "..."')
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
    source = sheet.gap("folder for the source", checkout_dir(view))
    if view.intent.engine_source not in ("git-ref", "git-prs"):
        tag = sheet.gap("tag of the release", chosen_ref(view))
        sheet.note("the scripts are not part of the wheel: a checkout at the release's tag")
        sheet.run(["git", "clone", "--depth", "1", "--branch", tag, _SOURCE_REPOSITORY, source])
    tp = view.intent.layout.prefill_tp or view.intent.layout.tp or 1
    script = f"{source}/benchmark/kernels/fused_moe_triton/tuning_fused_moe_triton.py"
    sheet.run([python, script, "--model", model_dir(view), "--tp-size", str(tp), "--tune"])
    sheet.note(
        "shapes and dtype must be those of this checkpoint; it writes JSON files into the working folder"
    )
    sheet.note("done when the launch log names no missing tuning file")
    return sheet.manual()


PREPARE_TASKS: Final = (
    ActTask("act.disk_free", render=render_disk_free),
    ActTask("act.download", render=render_download),
    ActTask("act.engine_install", render=render_engine_install),
    ActTask("act.port", render=render_port),
    ActTask("act.tracker_search", render=render_tracker_search),
    ActTask("act.kernels_build", render=render_kernels_build),
)
