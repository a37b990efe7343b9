"""What holds something up, who can move it on, and the cheapest command that does: `recon why` in five lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recon.agent.model.state import MissionState, TaskState, UnknownState
from recon.agent.model.tasks import Blocker
from recon.agent.model.words import TaskStatus
from recon.agent.report.clean import clean, cut
from recon.agent.report.todo import blocker_command, current_blockers
from recon.agent.report.words import for_person, status_word

LINES: Final = 5  # of a summary
_EFFORT: Final = {"minutes": 0, "hours": 1, "days": 2, "weeks": 3}
# What it costs a person to move something on, cheapest first; a decision costs what its easiest option does.
_RESUME, _RETRY, _DECIDE, _APPROVE, _CARRY_OUT, _UNDO = 0, 1, 2, 6, 8, 9
_WAITS: Final[dict[TaskStatus, str]] = {
    "awaiting_decision": "waits for you to decide", "awaiting_approval": "waits for your approval",
}  # fmt: skip
_NOBODY: Final = 99


@dataclass(frozen=True, slots=True)
class Hold:
    """One thing at the root of a wait. `who`: you, recon, or "" where only another value of a fact helps."""

    who: str
    ref: str
    command: str
    cost: int


def holds(state: MissionState, item: TaskState) -> list[Hold]:
    """What a todo item waits for in the end: tasks it waits for are followed to what those wait for. Cheapest first."""
    found: dict[tuple[str, str], Hold] = {}
    queue, seen = [item], {item.task.key}
    while queue:
        for blocker in current_blockers(queue.pop(0)):
            needed = state.task(blocker.ref) if blocker.kind == "dependency" else None
            if needed is not None and needed.blocked_by:
                if needed.task.key not in seen:
                    seen.add(needed.task.key)
                    queue.append(needed)
                continue
            hold = _of_task(needed, blocker) if needed is not None else _of(state, blocker)
            found.setdefault((hold.who, hold.ref), hold)
    return sorted(found.values(), key=lambda hold: hold.cost)


def _of_task(needed: TaskState, blocker: Blocker) -> Hold:
    key = clean(needed.task.key)
    if needed.status in ("failed", "cancelled"):
        return Hold("you", key, clean(blocker.command) or f"recon retry {key}", _RETRY)
    return Hold("recon", key, "recon resume", _RESUME)


def _of(state: MissionState, blocker: Blocker) -> Hold:
    ref, command = clean(blocker.ref), blocker_command(state, blocker)
    match blocker.kind:
        case "decision":
            unknown = state.unknown(blocker.ref)
            efforts = [_EFFORT[o.effort] for o in unknown.options if o.effort] if unknown is not None else []
            return Hold("you", ref, command, _DECIDE + min(efforts, default=0))
        case "approval":
            return Hold("you", ref, command, _APPROVE)
        case "manual":
            return Hold("you", ref, command, _CARRY_OUT)
        case "ended":
            return Hold("you", ref, command, _UNDO)
        case "stale":
            return Hold("recon", ref, "recon resume", _RESUME)
        case "gate" | "dependency":
            return Hold("you" if command else "", ref, command, _DECIDE if command else _NOBODY)


def task_summary(state: MissionState, item: TaskState, *, width: int) -> list[str]:
    """A todo item: how it stands, what blocks it, who unblocks it, the cheapest next command (uncut)."""
    key = clean(item.task.key)
    out = [f"{key} {_standing(item)}"]
    if item.error:
        out.append(f"because: {clean(item.error.get('message', item.error))}")
        out += [f"hint: {clean(item.error['hint'])}"] if item.error.get("hint") else []
    roots = holds(state, item)
    if roots:
        named = sorted(current_blockers(item), key=lambda b: b.kind in ("gate", "stale"))  # those are long
        out.append(f"blocked by: {'; '.join(_short(b) for b in named)}")
        people = [f"{who} ({', '.join(refs)})" for who, refs in _by_who(roots).items()]
        out.append(f"who unblocks: {'; '.join(people) or 'nobody: a fact has to change'}")
    command = next((h.command for h in roots if h.command), "")
    if not roots:
        command = {"failed": f"recon retry {key}", "cancelled": f"recon retry {key}"}.get(item.status, "")
        command = command or ("recon resume" if item.status in ("ready", "pending", "interrupted") else "")
    return _summary(out, command, width=width)


def unknown_summary(unknown: UnknownState, *, command: str, width: int) -> list[str]:
    """A question: its status, why it is not answered, who answers."""
    said = clean(unknown.answer_text) or clean(unknown.reason)
    out = [f"{unknown.planned.key} is {unknown.status}" + (f": {said}" if said else "")]
    if unknown.blocks:
        out.append(f"blocks: {', '.join(clean(key) for key in unknown.blocks)}")
    if unknown.status in ("answered", "waived"):
        return _summary(out, "", width=width)
    person = bool(unknown.options) or unknown.planned.who == "person"
    out.append(f"who answers: {'you' if person else 'a read-only task'}")
    return _summary(out, command or clean(unknown.answer_with) or "recon resume", width=width)


def _summary(rows: Sequence[str], command: str, *, width: int) -> list[str]:
    kept = [cut(row, width) for row in rows[: LINES - 1]]
    return [*kept, f"next: {command}"] if command else kept


def _standing(item: TaskState) -> str:
    if for_person(item):
        return "is for you to carry out"
    if item.status == "succeeded" and item.summary:
        return f"is done: {clean(item.summary)}"
    return _WAITS.get(item.status, f"is {status_word(item)}")


def _short(blocker: Blocker) -> str:
    ref = clean(blocker.ref)
    if blocker.kind in ("gate", "stale"):
        return clean(blocker.reason) or ref
    return f"{ref} ({'question' if blocker.kind == 'decision' else clean(blocker.state)})"


def _by_who(roots: Sequence[Hold]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for hold in roots:
        if hold.who:
            found.setdefault(hold.who, []).append(hold.ref)
    return found
