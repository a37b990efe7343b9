"""What running a read-only command means on any host, over SSH or here: environment, command line, how it ended."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence
from typing import Final

from recon.agent.connectors.allowlist import expands
from recon.agent.connectors.base import Tail, cut_reason
from recon.agent.model.findings import Raw
from recon.agent.model.words import ProbeState

# One language, no colours, no pager, wide lines: what parsers are written for.
ENV: Final[dict[str, str]] = {
    "LC_ALL": "C", "LANG": "C", "LANGUAGE": "", "TERM": "dumb", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "NO_COLOR": "1",
    "COLUMNS": "512",
}  # fmt: skip
# A non-login shell has neither sbin nor the GPU tools in its PATH.
EXTRA_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/cuda/bin:/usr/lib/wsl/lib:/opt/rocm/bin:/run/current-system/sw/bin"
KILL_AFTER_S: Final = 2  # between asking a command to end and making it
STDERR_CAP: Final = 64 << 10
RUNAWAY_BYTES: Final = 64 << 20  # a command that prints more than this is ended

# Words of the shell itself: there is no such program to execute.
_BUILTINS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {("ulimit", "-l"): ("sh", "-c", "ulimit -l")}
_DENIED: Final = re.compile(
    rb"(?i)permission denied|operation not permitted|access denied|insufficient permissions|must be root|"
    rb"a password is required|interactive authentication required|not authorized"
)
_NO_TIMEOUT: Final = re.compile(rb"exec: timeout: not found|timeout: command not found")
_NOT_FOUND: Final = re.compile(rb"(?i)not found|no such file or directory")


def real_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The argument vector to execute: a shell built-in becomes a fixed shell call."""
    return _BUILTINS.get(tuple(argv), tuple(argv))


def quoted(argv: Sequence[str]) -> str:
    """The vector as shell words. Only a pattern of a few system folders, in harmless characters, stays unquoted."""
    return " ".join(word if expands(word) else shlex.quote(word) for word in argv)


def signal_code(name: str) -> int | None:
    """The exit code a shell gives for a signal: 137 for KILL. None for a signal this machine does not know."""
    number = getattr(signal, f"SIG{name}", None)
    return None if number is None else 128 + int(number)


def answer(
    *, exit_code: int | None, stdout: Tail, stderr: Tail, elapsed_s: float, limit_s: float, timed_out: bool = False,
    boot_id: str = "", lost: str = "",
) -> Raw:  # fmt: skip
    """The raw answer of an ended command, with its state and, where that is not ok, the reason."""
    state, reason = _state(
        exit_code, stdout, stderr, elapsed_s=elapsed_s, limit_s=limit_s, timed_out=timed_out, lost=lost
    )
    if stdout.truncated and state == "ok":
        reason = cut_reason(stdout.total, len(stdout.kept))
    return Raw(
        state=state, exit_code=exit_code, stdout=stdout.kept, stderr=stderr.kept, truncated=stdout.truncated,
        reason=reason, host_boot_id=boot_id,
    )  # fmt: skip


def _state(
    exit_code: int | None,
    stdout: Tail,
    stderr: Tail,
    *,
    elapsed_s: float,
    limit_s: float,
    timed_out: bool,
    lost: str,
) -> tuple[ProbeState, str]:
    if timed_out or (exit_code in (124, 137) and elapsed_s >= limit_s - 0.2):
        return "timeout", f"no end within {limit_s:g} s"
    if exit_code is None:
        return "lost", lost or "the connection ended before the command did"
    if exit_code == 0:
        return "ok", ""
    said = stderr.kept or stdout.kept[:4096]
    line = first_line(said)
    if exit_code == 127 and _NO_TIMEOUT.search(said):
        return "failed", "the host has no timeout(1): nothing is run without a limit (install coreutils)"
    if exit_code == 127 and _NOT_FOUND.search(said):
        return "missing", line or "command not found"
    if exit_code == 126 or _DENIED.search(said):
        return "denied", line or "not allowed"
    return "failed", f"exit code {exit_code}" + (f": {line}" if line else "")


def first_line(data: bytes) -> str:
    """The first line with something in it, printable, at most 200 characters."""
    text = data[:4096].decode("utf-8", errors="replace")
    lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
    return next((line for line in lines if line), "")[:200]
