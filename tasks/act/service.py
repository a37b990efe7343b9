"""The running service: keep what is needed to bring it back, then stop it and prove that its GPUs are free."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from recon.agent.api import (
    ActContext,
    ActTask,
    Change,
    CheckResult,
    Draft,
    Fact,
    Finding,
    Json,
    Raw,
    Rendered,
    Request,
    View,
    join_argv,
)  # fmt: skip
from recon.tasks.act.rendering import as_root, identity
from recon.tasks.deployment import gpu_text, host_name, host_user, latest
from recon.tasks.facts.gpu import APPS, APPS_ARGV, QUERY, QUERY_ARGV
from recon.tasks.facts.service import SHOW, show_argv

ARCHIVE_ROOT: Final = "/var/lib/recon/archive"
_FILES: Final = ("unit.txt", "show.txt", "launch.txt", "packages.txt")
_EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_SUM_LINE: Final = re.compile(r"^([0-9a-f]{64}) [ *](\S+)$")
_FREE_BELOW_MIB: Final = 1024  # driver and display hold less; an engine that ended holds nothing
_WAIT_S: Final = 60.0  # an engine needs seconds to give 90 GB per GPU back
_STEP_S: Final = 2.0
_LIST_PACKAGES: Final = "import importlib.metadata as m; print('\\n'.join(sorted(f\"{d.metadata['Name']}=={d.version}\" for d in m.distributions())))"
# The scripts are constants; what they work on are positional arguments, never part of the text.
_SAVE_UNIT: Final = 'umask 077; systemctl cat --no-pager -- "$1" > "$2/unit.txt"'
_SAVE_SHOW: Final = 'umask 077; systemctl show --no-pager -- "$1" > "$2/show.txt"'
_SAVE_LAUNCH: Final = 'umask 077; tr "\\0" "\\n" < "/proc/$1/cmdline" > "$2/launch.txt"'
_SAVE_PACKAGES: Final = '"$1" -I -c "$2" > "$3/packages.txt"'
_SEAL: Final = 'cd "$1" && shift && sha256sum "$@" > SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS'


# ---- archive


def render_archive(view: View, params: Mapping[str, Json]) -> Rendered:
    """Copies unit, drop-ins, launch line and package versions into a folder on the host; nothing is taken away."""
    exact, missing = identity(view, "unit", "fragment_path", "main_pid")
    python = latest(view, "host.service.interpreter")
    if not python:
        missing.append("interpreter")
    if missing:
        return Rendered(
            lines=("# keeps unit, drop-ins, launch line and package versions",), missing=tuple(missing)
        )
    known = dict(exact)
    folder = archive_folder(view, params)
    sudo = as_root(view)
    steps = [
        ("install", "-d", "-m", "755", "--", folder),
        ("sh", "-c", _SAVE_UNIT, "recon", known["unit"], folder),
        ("sh", "-c", _SAVE_SHOW, "recon", known["unit"], folder),
        ("sh", "-c", _SAVE_LAUNCH, "recon", known["main_pid"], folder),
        ("sh", "-c", _SAVE_PACKAGES, "recon", str(python), _LIST_PACKAGES, folder),
        ("sh", "-c", _SEAL, "recon", folder, *_FILES),
    ]
    change = Change(
        task="archive", host=host_name(view.intent.host), user=host_user(view.intent.host),
        steps=tuple((*sudo, *step) for step in steps), takes_bytes=1 << 20, exact=(*exact, ("path", folder)),
        rollback=((*sudo, "rm", "-rf", "--", folder),),
    )  # fmt: skip
    notes = (
        "# the launch line and unit may hold secrets: files are readable by root only and stay on the host",
    )
    return Rendered(change=change, lines=(*notes, *(join_argv(s) for s in change.steps)))


def archive_folder(view: View, params: Mapping[str, Json]) -> str:
    """Where the copy goes: one folder for this unit, boot and main process."""
    root = str(params.get("root") or view.intent.extra.get("archive_dir") or ARCHIVE_ROOT).rstrip("/")
    unit = re.sub(r"[^A-Za-z0-9._@-]", "_", str(latest(view, "host.service.unit")))
    return f"{root}/{unit}-{str(latest(view, 'host.boot_id'))[:8]}-{latest(view, 'host.service.main_pid')}"


def parse_sums(raw: Raw) -> list[Draft]:
    """Names and sha256 of an archive's files; absent where the list is not there."""
    if raw.state == "missing" or (
        raw.exit_code not in (0, None) and "No such file" in raw.stderr.decode(errors="replace")
    ):
        return [Draft(name="archive_files", outcome="absent", reason="no list of sums in the folder")]
    if raw.state != "ok":
        return [
            Draft(
                name="archive_files",
                outcome="unknown",
                reason=raw.reason or f"{raw.state}, exit code {raw.exit_code}",
            )
        ]
    files = {m[2]: m[1] for line in raw.text.splitlines() if (m := _SUM_LINE.match(line))}
    return [Draft(name="archive_files", value=files)]


SUMS: Final = Fact("archive.sums", parse_sums)


async def check_archive(context: ActContext, change: Change) -> CheckResult:
    """Whether the archive is there, sealed, with no empty file."""
    folder = dict(change.exact)["path"]
    request = Request(
        connector="host", target=change.host, probe="archive.sums", argv=("cat", "--", f"{folder}/SHA256SUMS")
    )
    seen = await context.ask(request, SUMS, subject=context.view.bindings.get("host", f"host:{change.host}"))
    finding = next((f for f in seen.findings if f.name == "archive_files"), None)
    if finding is None or finding.outcome == "unknown":
        return CheckResult(
            holds=None, because=f"cannot read {folder}: {finding.reason if finding else 'no answer'}"
        )
    if finding.outcome == "absent":
        return CheckResult(holds=False, because=f"{folder} is not there yet")
    wrong = [name for name in _FILES if finding.value.get(name, _EMPTY_SHA256) == _EMPTY_SHA256]
    if wrong:
        return CheckResult(holds=False, because=f"{folder} lacks {', '.join(wrong)}")
    return CheckResult(holds=True, because=f"{folder} holds {', '.join(_FILES)}")


# ---- stop


def render_stop(view: View, params: Mapping[str, Json]) -> Rendered:
    """Stops the unit that holds the GPUs; it can be started again as it was."""
    del params
    exact, missing = identity(view, "unit", "fragment_path", "main_pid")
    if missing:
        return Rendered(lines=("systemctl stop -- <unit>",), missing=tuple(missing))
    known, sudo = dict(exact), as_root(view)
    unit = known["unit"]
    change = Change(
        task="service.stop", host=host_name(view.intent.host), user=host_user(view.intent.host),
        steps=((*sudo, "systemctl", "stop", "--", unit),), exact=exact, rollback=((*sudo, "systemctl", "start", "--", unit),),
    )  # fmt: skip
    return Rendered(change=change, lines=(*(join_argv(s) for s in change.steps), *_stop_notes(view, unit)))


def _stop_notes(view: View, unit: str) -> list[str]:
    notes = [f"# to go back: systemctl start -- {unit}"]
    restart = latest(view, "host.service.restart")
    if restart not in (None, "no"):
        notes.append(f"# Restart={restart} does not start it again after a stop by command")
    if latest(view, "host.service.unit_file_state") == "enabled":
        notes.append("# it stays enabled: the next boot starts it again")
    return notes


def _bound(fact: Fact, change: Change) -> Fact:
    """The same fact with findings that end with the boot they were read in."""
    boot = (("boot_id", dict(change.exact)["boot_id"]),)
    return Fact(
        fact.id,
        lambda raw: [d.model_copy(update={"valid_while": boot}) for d in fact.parse(raw)],
        fact.version,
    )


async def check_stop(context: ActContext, change: Change) -> CheckResult:
    """Whether the unit is stopped and none of its processes is left on a GPU."""
    unit = dict(change.exact)["unit"]
    state = await _ask(context, change, SHOW, show_argv(unit))
    apps = await _ask(context, change, APPS, APPS_ARGV)
    for finding in (state, apps):
        if finding.outcome == "unknown":
            return CheckResult(holds=None, because=f"{finding.name}: {finding.reason}")
    active = "not loaded" if state.outcome == "absent" else str(state.value.get("active_state"))
    if active not in ("inactive", "failed", "not loaded"):
        return CheckResult(
            holds=False, because=f"{unit} is {active}, main process {state.value.get('main_pid')}"
        )
    pids = {a.get("pid") for a in apps.value} if apps.outcome == "known" else set()
    if None in pids:
        return CheckResult(
            holds=None, because=f"{unit} is {active}, but who holds a GPU is hidden from this user"
        )
    left = sorted(pids & _pids_of(context.view, unit, int(dict(change.exact)["main_pid"])))
    if left:
        return CheckResult(holds=False, because=f"{unit} is {active}, but {left} still hold GPU memory")
    return CheckResult(holds=True, because=f"{unit} is {active}, none of its processes holds a GPU")


async def verify_stop(context: ActContext, change: Change) -> CheckResult:
    """Waits at most a minute until the unit is stopped and the memory of its GPUs is really free."""
    waited, seen = 0.0, await _look(context, change)
    while not seen.holds and waited < _WAIT_S:
        await context.sleep(_STEP_S)
        waited += _STEP_S
        seen = await _look(context, change)
    return seen


async def _look(context: ActContext, change: Change) -> CheckResult:
    stopped = await check_stop(context, change)
    if not stopped.holds:
        return stopped
    gpus = await _ask(context, change, QUERY, QUERY_ARGV)
    if gpus.outcome != "known":
        return CheckResult(holds=None, because=f"memory of the GPUs: {gpus.reason}")
    items = {int(item["index"]): item.get("memory_used_mib") for item in gpus.value["items"]}
    held = set(_gpus_of(context.view)) or set(items)
    if any(items.get(gpu) is None for gpu in held):
        return CheckResult(holds=None, because="memory of a GPU is not a number")
    full = {gpu: items[gpu] for gpu in sorted(held) if items[gpu] >= _FREE_BELOW_MIB}
    if full:
        text = ", ".join(f"GPU {gpu} {mib} MiB" for gpu, mib in full.items())
        return CheckResult(holds=False, because=f"stopped, but memory is still held: {text}")
    return CheckResult(holds=True, because=f"{stopped.because}; memory of GPUs {gpu_text(held)} is free")


async def _ask(context: ActContext, change: Change, fact: Fact, argv: tuple[str, ...]) -> Finding:
    """The first finding of a fact about the host."""
    request = Request(connector="host", target=change.host, probe=fact.id, argv=argv)
    subject = context.view.bindings.get("host", f"host:{change.host}")
    return (await context.ask(request, _bound(fact, change), subject=subject)).findings[0]


def _pids_of(view: View, unit: str, main_pid: int) -> set[int]:
    listed = latest(view, "host.gpu_processes", [])
    pids = {
        int(p["pid"]) for p in listed if isinstance(p, Mapping) and p.get("unit") == unit and p.get("pid")
    }
    return pids | ({main_pid} if main_pid else set())


def _gpus_of(view: View) -> list[int]:
    gpus = latest(view, "host.service.gpus", [])
    return [int(g) for g in gpus] if isinstance(gpus, (list, tuple)) else []


ARCHIVE = ActTask("act.archive", render=render_archive, check=check_archive, verify=check_archive)
SERVICE_STOP = ActTask("act.service_stop", render=render_stop, check=check_stop, verify=verify_stop)
SERVICE_TASKS: Final = (ARCHIVE, SERVICE_STOP)
