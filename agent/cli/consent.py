"""Asking for consent to an exact change: shown in full, asked on a terminal, recorded with how it was given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from recon.agent.cli import output
from recon.agent.cli.choices import confirm_name
from recon.agent.cli.identity import asked_from
from recon.agent.model.errors import RefusedError, UsageError
from recon.agent.report.clean import clean
from recon.agent.report.sections import change_lines

if TYPE_CHECKING:
    from recon.agent.cli.compose import Session
    from recon.agent.model.missions import Mission
    from recon.agent.model.records import Approval
    from recon.agent.model.state import TaskState

ALLOW: Final = "RECON_ALLOW_NONINTERACTIVE_APPROVAL"


def via(*, asked: bool) -> str:
    """How something was said: asked on a terminal, given on one, or by a process without; and from which process."""
    if output.interactive():
        how = "cli, asked on a terminal" if asked else "cli, on a terminal"
    else:
        how = f"cli, no terminal ({ALLOW})" if os.environ.get(ALLOW) else "cli, no terminal"
    return f"{how}, from {asked_from()}"


def consent_to(
    opened: Session, mission: Mission, task: TaskState, *, yes: bool, confirm: str, message: str
) -> Approval:
    """Shows the change, asks, records. Raises RefusedError where there is no exact change yet or nobody may say yes."""
    key = task.task.key
    change = task.rendered.change if task.rendered is not None else None
    if mission.origin == "replay" or change is None:
        # the session knows why not, in words
        return opened.approve(mission, key, confirm=confirm, message=message, via=via(asked=False))
    planned = task.task.planned
    output.lines([f"{clean(planned.title)} ({planned.effect})", *change_lines(change)])
    destructive = planned.effect == "destructive"
    given = bool(confirm) if destructive else (yes or bool(confirm))
    if given and not output.interactive() and not os.environ.get(ALLOW):
        raise RefusedError(
            "--yes and --confirm count only on a terminal",
            hint=f"set {ALLOW}=1 in the environment of the person who starts it",
        )
    if not given:
        confirm = _ask(task, destructive=destructive)
    approval = opened.approve(mission, key, confirm=confirm, message=message, via=via(asked=not given))
    if approval.change_hash != change.change_hash:
        opened.deny(
            mission, key, message="the change became another one while it was shown", via=via(asked=False)
        )
        raise RefusedError(
            f"{key} changed while you read it; nothing is approved", hint=f"recon approve {key}"
        )
    return approval


def _ask(task: TaskState, *, destructive: bool) -> str:
    key = task.task.key
    if not output.interactive():
        raise UsageError(f"{key}: nobody to ask here", hint=f"recon approve {key} on a terminal")
    if destructive:
        name = confirm_name(task)
        typed = output.ask(f"this cannot be taken back; type {clean(name)} to approve:")
        if typed != name:
            raise RefusedError(f"{typed!r} is not {clean(name)!r}; nothing is approved")
        return typed
    if output.ask("approve exactly this? [y/N]").lower() not in ("y", "yes"):
        raise RefusedError("not approved", hint=f"recon deny {key} says no for good")
    return ""
