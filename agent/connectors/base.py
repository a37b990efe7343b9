"""The seam between recon and the outside: a source answers requests, an executor carries out argument vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from recon.agent.model.findings import Raw, Request

Log = Callable[[str], None]


class Source(Protocol):
    """Answers read-only requests."""

    async def fetch(self, request: Request) -> Raw:
        """The answer to one request.

        A failed command, a missing file and a timeout are answers (`Raw.state`). Raises ReachError where the source as
        a whole cannot be reached, UsageError where the request is not allowed.
        """

    async def close(self) -> None:
        """Lets go of connections and processes. May be called twice."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How one command ended. `exit_code` is None where it was not learned (killed by a signal, connection lost)."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool = False


@runtime_checkable
class Executor(Protocol):
    """Carries out steps of an approved change. Not allow-listed, but argument vectors only."""

    async def execute(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        cwd: str = "",
        log: Log | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Runs one command to its end, each output line to `log` (redacted) as it comes. `stdin`: what it reads.

        On timeout and on cancellation the command's process group is ended. Raises ReachError where the host is gone.
        """


class Tail:
    """The first bytes of a stream up to a cap, and how many there were in all (stateful)."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap = cap_bytes
        self._kept = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Counts everything, keeps what fits."""
        self.total += len(data)
        room = self._cap - len(self._kept)
        if room > 0:
            self._kept += data[:room]

    @property
    def kept(self) -> bytes:
        """What fitted."""
        return bytes(self._kept)

    @property
    def truncated(self) -> bool:
        """More came than was kept."""
        return self.total > len(self._kept)


def cut_reason(total: int, kept: int) -> str:
    """Why an answer is shorter than what the source sent."""
    return f"output cut: {kept} of {total} bytes kept"
