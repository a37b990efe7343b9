"""Carrying out a change: check -> apply -> verify. After a crash it starts with the check again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from recon.agent.api import ActContext, ActTask, Change
from recon.agent.engine.units import join_argv
from recon.agent.model.errors import ReconError
from recon.agent.model.words import Phase
from recon.agent.runner.files import write_file
from recon.agent.runner.host_lock import HostLock
from recon.agent.runner.ports import Executor

STEP_TIMEOUT_S = 900.0  # longer steps run detached on the host and are polled by their check


class ChangeFailed(ReconError):
    """A step of a change failed, or the wanted state does not hold after it."""


@dataclass(frozen=True)
class ActEnd:
    """How a change ended, in one line."""

    summary: str


async def carry_out(
    definition: ActTask, change: Change, context: ActContext, executor: Executor, *,
    phase: Callable[[Phase], None], why_not: Callable[[], str], lock: HostLock | None = None,
) -> ActEnd:  # fmt: skip
    """Looks whether it is already so, does it, proves it. Raises ChangeFailed with what was left how.

    `lock` is held from the first look to the last, so that of two that want the same change the second sees it done.
    """
    if definition.check is None or definition.verify is None:
        raise ChangeFailed(f"{definition.name} can only be carried out by a person")
    async with lock or nullcontext():
        return await _carry_out(
            definition, change, context, executor, phase=phase, why_not=why_not, lock=lock
        )


async def _carry_out(
    definition: ActTask, change: Change, context: ActContext, executor: Executor, *,
    phase: Callable[[Phase], None], why_not: Callable[[], str], lock: HostLock | None,
) -> ActEnd:  # fmt: skip
    assert definition.check is not None and definition.verify is not None
    phase("check")
    before = await definition.check(context, change)
    context.log(f"check: {before.because}")
    if before.holds is None:
        raise ChangeFailed(f"could not tell whether it is already so: {before.because}")
    if before.holds:
        return ActEnd(f"already so: {before.because}")
    if against := why_not():
        raise ChangeFailed(f"not applied: {against}", hint="recon why names what it hangs on")
    phase("apply")
    await _apply(change, context, executor, lock)
    phase("verify")
    after = await definition.verify(context, change)
    context.log(f"verify: {after.because}")
    if not after.holds:
        rollback = "; ".join(join_argv(step) for step in change.rollback)
        raise ChangeFailed(
            f"applied, but not verified: {after.because}", hint=f"to go back: {rollback}" if rollback else ""
        )
    return ActEnd(after.because)


async def _apply(change: Change, context: ActContext, executor: Executor, lock: HostLock | None) -> None:
    """Files first, then the commands, which may use them. Before each, the lock still has to be ours."""
    for file in change.files:
        if lock is not None:
            await lock.check()
        if against := await write_file(file, executor):
            raise ChangeFailed(
                against, hint="recon resume reads it again; the new change needs a new approval"
            )
        context.log(f"written: {file.path}")
    for number, step in enumerate(change.steps, start=1):
        line = join_argv(step)
        if lock is not None:
            await lock.check()
        context.log(f"apply {number}/{len(change.steps)}: {line}")
        ended = await executor.execute(step, timeout_s=STEP_TIMEOUT_S, cwd=change.cwd, log=context.log)
        if ended.timed_out:
            raise ChangeFailed(f"step {number} did not end within {STEP_TIMEOUT_S:.0f} s: {line}")
        if ended.exit_code != 0:
            tail = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or ["no output"]
            raise ChangeFailed(f"step {number} ended with exit code {ended.exit_code}: {line}: {tail[0]}")
