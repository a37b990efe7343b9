"""Asking for consent to an exact change: shown in full, asked on a terminal, recorded with how it was given."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from recon.agent.cli import output
from recon.agent.cli.choices import confirm_name
from recon.agent.cli.identity import asked_from
from recon.agent.model.errors import RefusedError, UsageError
from recon.agent.report.clean import clean
from recon.agent.report.sections import bounds_lines, change_lines

if TYPE_CHECKING:
    from recon.agent.cli.approvals import PlanItem
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
    return opened.approve(
        mission, key, confirm=confirm, message=message, via=via(asked=not given), shown=change
    )


def consent_to_plan(
    opened: Session, mission: Mission, items: Sequence[PlanItem], *, yes: bool, confirmed: Collection[str],
    message: str,
) -> list[Approval]:  # fmt: skip
    """Shows every step that waits for consent, asks once for all and once more for each that destroys; records.

    What is destroyed and was not named is left out; so is what is not known well enough to be consented to.
    """
    covered = [item for item in items if not item.why]
    for number, item in enumerate(items, 1):
        output.lines(["", *_plan_lines(number, item)])
    if not covered:
        raise RefusedError(
            "no step of the plan can be approved now", hint="recon why TASK says what each waits for"
        )
    if (yes or confirmed) and not output.interactive() and not os.environ.get(ALLOW):
        raise RefusedError(
            "--yes and --confirm count only on a terminal",
            hint=f"set {ALLOW}=1 in the environment of the person who starts it",
        )
    plain = [item for item in covered if not item.destroys]
    destructive = [item for item in covered if item.destroys]
    if not yes and plain and not (confirmed and not output.interactive()):
        _ask_for_all(plain)
    elif not yes:
        plain = []
    named = [item for item in destructive if _named(item, confirmed)]
    chosen = [item for item in covered if item in plain or item in named]
    if not chosen:
        raise RefusedError("nothing is approved")
    names = [confirm_name(item.task) for item in named]
    asked = not yes and not confirmed
    return opened.approve_plan(mission, chosen, confirmed=names, message=message, via=via(asked=asked))


def _plan_lines(number: int, item: PlanItem) -> list[str]:
    planned = item.task.task.planned
    head = f"{number}. {clean(item.key)}: {clean(planned.title)} ({planned.effect})"
    if item.change is not None:
        return [head, *change_lines(item.change)]
    if item.bounds is not None:
        return [head, *bounds_lines(item.bounds)]
    return [f"{head}: not covered, {clean(item.why)}"]


def _ask_for_all(plain: Sequence[PlanItem]) -> None:
    if not output.interactive():
        raise UsageError("nobody to ask here", hint="recon approve --plan on a terminal")
    exact = sum(item.change is not None for item in plain)
    within = len(plain) - exact
    what = f"{exact} exactly as shown" + (f", {within} within the bounds shown" if within else "")
    if output.ask(f"approve these {len(plain)} ({what})? [y/N]").lower() not in ("y", "yes"):
        raise RefusedError("not approved", hint="recon deny TASK says no for good")


def _named(item: PlanItem, confirmed: Collection[str]) -> bool:
    """Whether the name of what is destroyed was given, or is typed now."""
    name = confirm_name(item.task)
    if name in confirmed:
        return True
    if not output.interactive():
        output.note(f"left out: {clean(item.key)} destroys something (--confirm {clean(name)})")
        return False
    question = (
        f"{clean(item.key)} cannot be taken back; type {clean(name)} to approve it, nothing to leave it out:"
    )
    typed = output.ask(question)
    if typed and typed != name:
        raise RefusedError(f"{typed!r} is not {clean(name)!r}; nothing is approved")
    return typed == name


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
