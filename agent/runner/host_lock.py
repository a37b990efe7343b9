"""The lock on the host that a change holds, so that two state files never change one machine at the same time.

A folder on the host, there with its content or not at all, says who holds it: state, task, change, fencing token, boot.
It is taken over only where nothing of the holder can be at work there any more: the host has booted since, or it is our
own from an attempt that ended (a crash leaves it). Every other holder is waited for, named, and left alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, Self

from pydantic import ValidationError

from recon.agent.model.base import Frozen, canonical_json
from recon.agent.model.errors import ReachError, ReconError
from recon.agent.runner.ports import Executor, Outcome
from recon.agent.runner.process import ProcessIdentity, is_alive

LOCK_PATH: Final = "/tmp/recon.lock"  # one for all users and state files of a host; where everybody may write
_TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 1.0
_HELD: Final = 73
_TAKEN_AGAIN: Final = 5  # times a lock may vanish between two looks before that is an error

# Constants; what they work on are positional arguments. `mv -T` of a folder onto one with content fails, and only one of
# two can move a folder away: both are rename(2), so there is no moment in between.
_ACQUIRE: Final = """
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
new=$(mktemp -d -- "$1.XXXXXXXX") || exit 1
printf '%s\\n%s\\n' "$2" "$boot" > "$new/holder" && chmod -R a+rX -- "$new" || { rm -rf -- "$new"; exit 1; }
if mv -T -- "$new" "$1" 2>/dev/null; then exit 0; fi
rm -rf -- "$new"
[ -e "$1" ] || { echo "cannot make $1" >&2; exit 1; }
printf '%s\\n' "$boot"
cat -- "$1/holder" 2>/dev/null
exit 73
"""
_REMOVE: Final = """
[ "$(head -n 1 -- "$1/holder" 2>/dev/null)" = "$2" ] || exit 73
old=$(mktemp -d -- "$1.XXXXXXXX") || exit 1
mv -T -- "$1" "$old" 2>/dev/null || { rmdir -- "$old"; exit 73; }
if [ "$(head -n 1 -- "$old/holder")" = "$2" ]; then rm -rf -- "$old"; exit 0; fi
mv -T -- "$old" "$1" 2>/dev/null || rm -rf -- "$old"
exit 73
"""
_LOOK: Final = '[ "$(head -n 1 -- "$1/holder" 2>/dev/null)" = "$2" ] || exit 73'


class LockError(ReconError):
    """The lock on a host could not be had, or was lost: nothing more is changed there."""


class Runner(Frozen):
    """The process that holds a lock."""

    host: str
    boot_id: str
    pid: int
    started: float


class Holder(Frozen):
    """What a lock says of who holds it. `token` grows with every attempt of the task in that state."""

    state: str
    task: str
    attempt: int
    change: str
    token: int
    by: str
    at: float  # UTC seconds
    runner: Runner

    @property
    def text(self) -> str:
        """One line, the same for the same holder."""
        return canonical_json(self.model_dump(mode="json"))


@dataclass(frozen=True)
class Locking:
    """How changes of this state lock their hosts. `state`: an id that no other state file has."""

    state: str
    by: str
    path: str = LOCK_PATH
    wait_s: float = 20.0  # how long another holder is waited for

    def holder(
        self, *, task: str, attempt: int, change: str, token: int, at: float, me: ProcessIdentity
    ) -> Holder:
        """This attempt as a holder."""
        runner = Runner(host=me.host, boot_id=me.boot_id, pid=me.pid, started=me.started)
        return Holder(
            state=self.state, task=task, attempt=attempt, change=change, token=token, by=self.by, at=at, runner=runner
        )  # fmt: skip


class HostLock:
    """One attempt's lock on one host (stateful: whether it holds it). Use with `async with`."""

    def __init__(
        self, executor: Executor, me: Holder, *, path: str, host: str, wait_s: float, log: Callable[[str], None],
        ended: Callable[[int], bool],
    ) -> None:  # fmt: skip
        """`ended`: whether an attempt of our own state, by its number, is not running any more."""
        self._executor = executor
        self._me = me
        self._path = path
        self._host = host
        self._wait_s = wait_s
        self._log = log
        self._ended = ended

    async def __aenter__(self) -> Self:
        deadline = time.monotonic() + self._wait_s
        said, vanished = "", 0
        while True:
            ended = await self._run(_ACQUIRE)
            if ended.exit_code == 0:
                return self
            if ended.exit_code != _HELD:
                raise LockError(
                    f"{self._host}: no lock: {_said(ended)}", hint=f"can {self._path} be made there?"
                )
            boot, _, held = ended.stdout.strip().partition("\n")
            if not held:
                vanished += 1
            why, other = self._judge(held, boot) if held else ("", None)
            if why and await self._remove(held.splitlines()[0]):
                self._log(f"lock: {why}")
                continue
            if time.monotonic() >= deadline or vanished > _TAKEN_AGAIN:
                raise self._refused(held, other)
            if held and said != held:
                said = held
                self._log(f"lock: waits for {self._who(other, held)}")
            await asyncio.sleep(min(_LOOK_S, max(self._wait_s / 4, 0.02)))

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Lets go of it, also after a failure. Where the host is gone it stays, and the next attempt knows it as ours."""
        with suppress(ReachError):
            await asyncio.shield(self._remove(self._me.text))

    async def check(self) -> None:
        """Raises LockError where somebody else holds it now: what follows must not be done any more."""
        ended = await self._run(_LOOK, self._me.text)
        if ended.exit_code != 0:
            raise LockError(
                f"{self._host}: the lock was lost while the change was made: {_said(ended)}",
                hint="look what was done there before you go on",
            )

    def _judge(self, held: str, boot: str) -> tuple[str, Holder | None]:
        """Why a held lock may be taken over ("" where not), and its holder where that can be read."""
        line, _, its_boot = held.partition("\n")
        try:
            other = Holder.model_validate(json.loads(line))
        except (ValueError, ValidationError):
            return "", None
        if boot and its_boot and boot != its_boot:
            return f"taken over from {self._who(other, held)}: the host has booted since", other
        if other.state != self._me.state or not self._ended(other.attempt):
            return "", other
        if is_alive(*_process(other), unless=_process(self._me)):
            return "", other
        again = "the same change" if other.change == self._me.change else f"a change of {other.task}"
        return f"it is ours, left by attempt {other.attempt} ({again})", other

    async def _remove(self, line: str) -> bool:
        return (await self._run(_REMOVE, line)).exit_code == 0

    async def _run(self, script: str, line: str | None = None) -> Outcome:
        words = ("sh", "-c", script, "recon", self._path, self._me.text if line is None else line)
        return await self._executor.execute(words, timeout_s=_TIMEOUT_S)

    def _who(self, other: Holder | None, held: str) -> str:
        if other is None:
            return f"somebody ({held[:80]})"
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(other.at))
        which = "this" if other.state == self._me.state else "another"
        return (
            f"{other.by} with {which} state file ({other.task}, change {other.change[:12]}, since {at} UTC)"
        )

    def _refused(self, held: str, other: Holder | None) -> LockError:
        by_hand = f"rm -r {self._path}"
        if other is None:
            return LockError(
                f"{self._host} is locked by {self._path}, which does not say by whom",
                hint=f"where no recon is at work there: {by_hand} on {self._host}, then recon retry",
            )
        kind: Literal["alive", "dead", "elsewhere"] = "elsewhere"
        if other.runner.host == self._me.runner.host:
            kind = "alive" if is_alive(*_process(other)) else "dead"
        state = {
            "alive": "it is at work",
            "dead": "its process is gone, and what it began may be half done",
            "elsewhere": f"its process {other.runner.pid} is on {other.runner.host}",
        }[kind]
        hint = {
            "alive": "wait for it, then recon retry",
            "dead": f"recon resume with its own state file goes on there; only to give that up: {by_hand} on {self._host}",
            "elsewhere": f"ask them; where nobody is at work: {by_hand} on {self._host}, then recon retry",
        }[kind]
        return LockError(f"{self._host} is being changed by {self._who(other, held)}; {state}", hint=hint)


def _process(holder: Holder) -> tuple[str, str, int, float]:
    runner = holder.runner
    return runner.host, runner.boot_id, runner.pid, runner.started


def _said(ended: Outcome) -> str:
    if ended.timed_out:
        return f"no answer within {_TIMEOUT_S:.0f} s"
    return ((ended.stderr or ended.stdout).strip().splitlines()[-1:] or [f"exit code {ended.exit_code}"])[0]
