"""Recording consent: what is approved is what was shown, looked at again in the transaction that records it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from recon.agent.cli.choices import confirm_name, shown_change
from recon.agent.cli.identity import who_asks
from recon.agent.connectors.redact import redact, redact_text
from recon.agent.engine.consent import bounds_of, differences, last_word
from recon.agent.model.changes import Bounds, Change
from recon.agent.model.errors import RefusedError
from recon.agent.model.missions import Mission
from recon.agent.model.records import Approval
from recon.agent.model.state import MissionState, TaskState
from recon.agent.report.sections import bounds_lines
from recon.agent.store import Store

_APPROVABLE = ("awaiting_approval", "awaiting_decision", "blocked", "interrupted")


@dataclass(frozen=True)
class PlanItem:
    """A step of the plan that waits for consent: to its exact change, within bounds, or later (`why`)."""

    task: TaskState
    change: Change | None = None
    bounds: Bounds | None = None
    why: str = ""

    @property
    def key(self) -> str:
        """The key people type."""
        return self.task.task.key

    @property
    def destroys(self) -> bool:
        """Whether its target's name has to be typed."""
        return self.task.task.planned.effect == "destructive"


def plan_items(state: MissionState) -> list[PlanItem]:
    """Every changing step that has not ended and has no consent yet, in the order of the plan."""
    items = []
    for task in state.tasks:
        planned, rendered = task.task.planned, task.rendered
        open_still = task.task.status in ("pending", "interrupted")
        if planned.kind != "act" or planned.effect == "read_only" or not open_still or rendered is None:
            continue
        if rendered.change is not None:
            if any(b.kind == "approval" for b in task.blocked_by):
                items.append(PlanItem(task, change=rendered.change))
            continue
        items += _later(task, state)
    return items


def _later(task: TaskState, state: MissionState) -> list[PlanItem]:
    rendered = task.rendered
    if rendered is None or rendered.manual:
        return [PlanItem(task, why="a person carries it out")]
    bounds = bounds_of(task.task.planned, rendered, state.revision.intent)
    if bounds is None:
        why = (
            f"not known yet: {', '.join(rendered.missing)}"
            if rendered.missing
            else "no command line is known yet"
        )
        if task.task.planned.effect == "destructive":
            why += "; what destroys is approved only in full"
        return [PlanItem(task, why=why)]
    last = last_word(task.task, state.approvals)
    if last is not None and last.verdict == "approve" and last.change_hash == bounds.bounds_hash:
        return []
    return [PlanItem(task, bounds=bounds)]


def refuse_unfit(mission: Mission, task: TaskState) -> None:
    """Raises RefusedError where nothing of this task can be approved now."""
    key = task.task.key
    if mission.origin == "replay":
        raise RefusedError(
            f"{key}: this is a replay; nothing can be changed in it",
            hint="recon run ORG/MODEL HOST plans the same for a real host",
        )
    if task.rendered is None or task.rendered.change is None:
        missing = ", ".join(task.rendered.missing) if task.rendered else "not a change"
        raise RefusedError(f"{key} cannot be approved yet: {missing}", hint=f"recon why {key}")
    if task.status not in _APPROVABLE:
        raise RefusedError(
            f"{key} is {task.status}; there is nothing to approve", hint=f"recon show task {key}"
        )


def refuse_unconfirmed(task: TaskState, confirmed: Collection[str]) -> None:
    """Raises RefusedError where the name of what is destroyed was not typed."""
    name = confirm_name(task)
    if task.task.planned.effect == "destructive" and name not in confirmed:
        raise RefusedError(
            f"{task.task.key} destroys something; its name must be typed", hint=f"--confirm {name}"
        )


def refuse_changed(task: TaskState, shown: Change | None) -> None:
    """Raises RefusedError where the change is not the one that was shown, with what is different."""
    change = task.rendered.change if task.rendered is not None else None
    if shown is None or (change is not None and change.change_hash == shown.change_hash):
        return
    what = (
        "; ".join(differences(shown, change)[:3])
        if change is not None
        else "it is not known in full any more"
    )
    key = task.task.key
    raise RefusedError(
        f"{key} changed while you read it ({what}); nothing is approved", hint=f"recon approve {key}"
    )


def record(
    store: Store, task: TaskState, verdict: Literal["approve", "deny"], *, message: str, via: str, by: str | None,
    now: float, bounds: Bounds | None = None,
) -> Approval:  # fmt: skip
    """Writes a consent or refusal with what was shown; what it was given to is kept under its hash."""
    change = task.rendered.change if task.rendered else None
    shown = "\n".join(bounds_lines(bounds)) if bounds is not None else shown_change(task)
    with store.transaction(durable=True):
        sha = store.keep_blob(redact(shown.encode()))
        if bounds is not None:
            store.keep_blob(bounds.canonical.encode())
        elif change is not None:  # its sha256 is the change hash: what an interrupted task goes on with
            store.keep_blob(change.canonical.encode())
        given = bounds.bounds_hash if bounds is not None else change.change_hash if change is not None else ""
        return store.approve(
            task.task.id, change_hash=given, exact_hash=change.exact_hash if change is not None else "",
            shown_sha=sha, verdict=verdict, message=redact_text(message), via=via, by=by or who_asks(), now=now,
            scope="bounds" if bounds is not None else "exact",
        )  # fmt: skip


def record_plan(
    store: Store, mission: Mission, now_items: Sequence[PlanItem], shown: Sequence[PlanItem], *,
    confirmed: Collection[str], message: str, via: str, by: str | None, now: float,
) -> list[Approval]:  # fmt: skip
    """Consent to all of `shown`, or to none: raises RefusedError where one of them is another one by now."""
    held = {item.key: item for item in now_items}
    made = []
    for item in shown:
        current = held.get(item.key)
        if current is None:
            raise RefusedError(
                f"{item.key} waits for no approval any more; nothing is approved", hint="recon approve --plan"
            )
        if item.bounds is not None:
            if mission.origin == "replay" or current.bounds != item.bounds:
                raise RefusedError(
                    f"{item.key} changed while you read it; nothing is approved", hint="recon approve --plan"
                )
        else:
            refuse_unfit(mission, current.task)
            refuse_changed(current.task, item.change)
            refuse_unconfirmed(current.task, confirmed)
        made.append(
            record(
                store, current.task, "approve", message=message, via=via, by=by, now=now, bounds=item.bounds
            )
        )
    return made
