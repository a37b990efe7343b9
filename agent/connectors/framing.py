"""Where a command's own output begins: login banners and start-up files of a shell may print before it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Final

from recon.agent.connectors.commands import ENV, EXTRA_PATH, KILL_AFTER_S, quoted, real_argv

_NOISE_CAP: Final = 256 << 10  # what may come before the mark


class Framed:
    """Passes on what comes after the line `MARK PID` (stateful). `pid` is the command's process id, once it is known."""

    def __init__(self, mark: str, sink: Callable[[bytes], None]) -> None:
        self._sink = sink
        self._line = re.compile(rb"\n" + re.escape(mark.encode()) + rb" (\d{1,10})\n")
        self._before = b""
        self.pid: int | None = None

    def add(self, data: bytes) -> None:
        """Takes what came."""
        if self.pid is not None:
            self._sink(data)
            return
        self._before += data
        found = self._line.search(self._before)
        if found is None:
            self._before = self._before[-_NOISE_CAP:]
            return
        self.pid = int(found[1])
        rest, self._before = self._before[found.end() :], b""
        if rest:
            self._sink(rest)

    @property
    def noise(self) -> bytes:
        """What came instead of the mark."""
        return self._before


def command_line(
    argv: Sequence[str], *, mark: str, limit_s: float, cwd: str = "", reads: bool = False
) -> str:
    """The one string sshd hands to the login shell, whatever shell that is.

    It says its process id on both streams, then becomes `timeout` with the command: `timeout` ends the whole process
    group, and keeps doing so when the connection is gone. `reads`: the command gets what is sent to it.
    """
    env = "; ".join(f"export {name}={shlex.quote(value)}" for name, value in ENV.items())
    say = f"printf '\\n%s %s\\n' {mark} $$"
    steps = [say, f"{say} >&2", f'PATH="$PATH:{EXTRA_PATH}"', "export PATH", env]
    if cwd:
        steps.append(f"cd -- {shlex.quote(cwd)} || exit 126")
    source = "" if reads else " </dev/null"
    steps.append(f"exec timeout -k {KILL_AFTER_S} {limit_s:g} {quoted(real_argv(argv))}{source}")
    return f"exec /bin/sh -c {shlex.quote('; '.join(steps))}"


def kill_line(pid: int) -> str:
    """Ends a process group on the host: asked first, made after a second."""
    group = f"-{int(pid)}"
    script = (
        f"kill -s TERM -- {group} 2>/dev/null || exit 0; sleep 1; kill -s KILL -- {group} 2>/dev/null; exit 0"
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"
