"""Who this process is, and whether another one is still alive: what leases are judged by."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from recon.agent.model.records import Run

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that no other one is mistaken for: host, boot, pid and the kernel's start time of the pid (ticks)."""

    host: str
    boot_id: str
    pid: int
    started: float


def this_process() -> ProcessIdentity:
    """The identity of the running process."""
    pid = os.getpid()
    return ProcessIdentity(socket.gethostname(), _boot_id(), pid, _started(pid) or 0.0)


def is_dead(run: Run, me: ProcessIdentity) -> bool:
    """Whether the runner of `run` cannot be alive any more. A runner on another machine is never called dead here."""
    if run.ended_at is not None:
        return True
    if run.host != me.host:
        return False
    if run.boot_id != me.boot_id:
        return True
    started = _started(run.pid)
    return started is None or started != run.pid_started


def lives_here(run: Run, me: ProcessIdentity) -> bool:
    """Whether the runner of `run` is a process of this machine that is alive: suspended perhaps, but not gone."""
    return run.host == me.host and not is_dead(run, me)


def is_alive(
    host: str, boot_id: str, pid: int, started: float, *, unless: tuple[str, str, int, float] | None = None
) -> bool:
    """Whether this very process runs on this machine now; False for one elsewhere, and for the one named in `unless`."""
    me = this_process()
    if (host, boot_id, pid, started) == unless or (host, boot_id) != (me.host, me.boot_id):
        return False
    return _started(pid) == started


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _started(pid: int) -> float | None:
    """Field 22 of /proc/PID/stat (clock ticks since boot); None where there is no such process or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else float(fields[19])
