"""A forked copy of the test process that dies for real at a chosen moment: kill -9, a full disk, a jumping clock."""

from __future__ import annotations

import os
import signal
import sqlite3
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from recon.agent.connectors.base import CommandResult, Log
from recon.agent.connectors.local import LocalSource
from recon.agent.store.database import Database


def forked(body: Callable[[], None], *, stderr: int | None = None) -> int:
    """Runs `body` in a forked process; its exit status: 0, 1 after an exception, -9 where it was killed."""
    return ended(start(body, stderr=stderr))


def start(body: Callable[[], None], *, stderr: int | None = None) -> int:
    """Starts `body` in a forked process; its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if stderr is not None:
            os.dup2(stderr, 2)
        body()
        code = 0
    except BaseException:  # noqa: BLE001 - this copy of the test run ends here whatever happens
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """Waits for a forked process; its exit status as `forked` gives it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@dataclass
class Moments:
    """Counts commits and effects, and kills this process at the one with the given number (stateful)."""

    kill_at: int | None = None
    passed: list[str] = field(default_factory=list)

    def passes(self, what: str) -> None:
        """One more place where a process may die."""
        self.passed.append(what)
        if self.kill_at is not None and len(self.passed) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def watching_commits(self) -> Iterator[None]:
        """Every outermost commit of this process is a moment, right after it."""
        plain = Database.transaction
        moments = self

        @contextmanager
        def transaction(self: Database, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
            outermost = self._depth == 0
            with plain(self, durable=durable) as raw:
                yield raw
            if outermost:
                moments.passes("commit")

        Database.transaction = transaction  # type: ignore[method-assign]
        try:
            yield
        finally:
            Database.transaction = plain  # type: ignore[method-assign]


class WatchedHand(LocalSource):
    """The real local connector; each command that ended is a moment before anything is written down about it."""

    def __init__(self, moments: Moments) -> None:
        super().__init__()
        self._moments = moments

    async def execute(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        cwd: str = "",
        log: Log | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        result = await super().execute(argv, timeout_s=timeout_s, cwd=cwd, log=log, stdin=stdin)
        self._moments.passes("command")
        return result
