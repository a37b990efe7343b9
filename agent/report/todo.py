"""The todowrite view of a mission: what coding agents and `recon todo` read."""

from __future__ import annotations

from typing import Final

from recon.agent.engine.units import join_argv
from recon.agent.model.base import Json
from recon.agent.model.changes import Rendered
from recon.agent.model.state import MissionState, TaskState
from recon.agent.model.tasks import Blocker
from recon.agent.model.words import TaskStatus
from recon.agent.report.asks import decide_command
from recon.agent.report.clean import clean, columns, cut, wrap
from recon.agent.report.words import (
    FOR_YOU,
    STATUS_GLYPH,
    STATUS_WORD,
    added_text,
    for_person,
    status_glyph,
    status_word,
)

# todowrite knows four statuses. A failed or interrupted item still has to be done: it is pending there.
_TODO_STATUS: Final[dict[TaskStatus, str]] = {
    "pending": "pending", "ready": "pending", "blocked": "pending", "awaiting_decision": "pending",
    "awaiting_approval": "pending", "interrupted": "pending", "failed": "pending", "running": "in_progress",
    "succeeded": "completed", "skipped": "cancelled", "cancelled": "cancelled",
}  # fmt: skip

_COUNTED: Final[dict[TaskStatus, str]] = {"blocked": "waiting", "awaiting_decision": "waiting"}
_COMMANDS: Final = 3  # lines of a change in the overview
_WHOLE: Final = 10**6  # characters of a command: it is shown whole


def view(state: MissionState, *, everything: bool = False) -> list[dict[str, Json]]:
    """Every todo item as {id, content, status, priority}, in the order people see. `everything`: then also those of
    earlier bindings, `cancelled` unless they are done."""
    past = [
        {
            "id": item.task.key, "content": clean(item.task.planned.title), "priority": item.task.planned.priority,
            "status": "completed" if item.status == "succeeded" else "cancelled",
        }
        for item in (state.history if everything else ())
    ]  # fmt: skip
    return _current(state) + past


def history_lines(state: MissionState, *, width: int = 100) -> list[str]:
    """The todo items of earlier bindings, with what came of them."""
    out = [f"history: {len(state.history)} items of earlier bindings, no longer part of the mission"]
    for item in state.history:
        word = STATUS_WORD[item.status] if item.status in ("succeeded", "failed", "cancelled") else "left out"
        said = f": {clean(item.summary)}" if item.summary else ""
        out.append(cut(f"  {STATUS_GLYPH[item.status]} {word:<14} {clean(item.task.key)}{said}", width))
    return out


def _current(state: MissionState) -> list[dict[str, Json]]:
    return [
        {
            "id": item.task.key,
            "content": clean(item.task.planned.title),
            "status": _TODO_STATUS[item.status],
            "priority": item.task.planned.priority,
        }
        for item in state.tasks
    ]


def counts(state: MissionState) -> dict[str, int]:
    """How many todo items have which status word. Items are `waiting` for questions and for each other alike: how many
    questions there are is another number."""
    words = [
        _COUNTED.get(item.status, status_word(item)) if not for_person(item) else FOR_YOU
        for item in state.tasks
    ]
    order = [*(_COUNTED.get(status, word) for status, word in STATUS_WORD.items()), FOR_YOU]
    return {word: words.count(word) for word in dict.fromkeys(order) if word in words}


def counts_text(state: MissionState) -> str:
    """`24 items, 14 done, 9 waiting, 1 needs approval; 4 questions open`."""
    parts = ", ".join(f"{number} {word}" for word, number in counts(state).items())
    noun = "item" if len(state.tasks) == 1 else "items"
    if not parts:
        return "no items yet"
    asked = sum(1 for waiting in state.waiting if waiting.kind in ("decision", "answer"))
    questions = f"; {asked} question{'' if asked == 1 else 's'} open" if asked else ""
    return f"{len(state.tasks)} {noun}, {parts}{questions}"


def lines(state: MissionState, *, width: int = 100, full: bool = False) -> list[str]:
    """The todo list as text: status, key, title; under it why it was added, what blocks it and how it would run.

    Commands of changes are cut to an overview; `full` shows every one whole, each on one line so that a paste works.
    """
    out: list[str] = []
    for kind, heading in (("recon", "read-only"), ("judge", "judging"), ("act", "changing the host")):
        items = [item for item in state.tasks if item.task.planned.kind == kind]
        if not items:
            continue
        done = sum(1 for item in items if item.status == "succeeded")
        out.append(f"{kind}: {heading} ({done} of {len(items)} done)")
        for item in items:
            out += _item_lines(state, item, width=width)
            out += _command_lines(item, width=width, full=full)
        out.append("")
    return out[:-1] if out else ["no todo items yet"]


def reason_lines(state: MissionState, item: TaskState, *, width: int, pad: str = "") -> list[str]:
    """Why a todo item cannot start, one blocker after the other, with the command that helps, never broken."""
    out: list[str] = []
    for words, command in reasons(state, item):
        whole = f"{pad}{words}: {command}"
        if command and columns(whole) <= width:
            out.append(whole)
        else:
            out += wrap(words, width, first=pad, rest=pad + "  ")
            out += [f"{pad}  {command}"] if command else []
    return out


def reasons(state: MissionState, item: TaskState) -> list[tuple[str, str]]:
    """Each blocker of a todo item as (why, the command that helps or "")."""
    return [
        (
            clean(blocker.reason) or f"{blocker.kind} {clean(blocker.ref)} is {clean(blocker.state)}",
            blocker_command(state, blocker),
        )
        for blocker in current_blockers(item)
    ]


def current_blockers(item: TaskState) -> list[Blocker]:
    """What stands in the way now: that a person carries a step out matters only once nothing else does."""
    others = [blocker for blocker in item.blocked_by if blocker.kind != "manual"]
    return others or list(item.blocked_by)


def blocker_command(state: MissionState, blocker: Blocker) -> str:
    """The command that helps against a blocker; "" where time or another task does."""
    unknown = state.unknown(blocker.ref)
    if unknown is not None and unknown.options:
        return decide_command(unknown.planned.key, unknown.options)
    return clean(blocker.command)


def _item_lines(state: MissionState, item: TaskState, *, width: int) -> list[str]:
    planned = item.task.planned
    word = status_word(item)
    head = f"  {status_glyph(item)} {word:<14} {clean(planned.key)}  {clean(planned.title)}"
    out = [cut(head if planned.priority == "medium" else f"{head} [{planned.priority}]", width)]
    if planned.because:
        out.append(cut(f"      + {added_text(planned.because)}", width))
    if item.summary and item.status == "succeeded":
        out.append(cut(f"      {clean(item.summary)}", width))
    if item.error:
        out.append(cut(f"      error: {clean(item.error.get('message', item.error))}", width))
        hint = clean(item.error.get("hint") or "")
        out += wrap(hint, width, first="      -> ") if hint else []
    if item.status not in ("succeeded", "skipped", "cancelled", "running"):
        out += reason_lines(state, item, width=width, pad=" " * 6)
    return out


def _command_lines(item: TaskState, *, width: int, full: bool) -> list[str]:
    if item.rendered is None or item.status in ("succeeded", "skipped", "cancelled"):
        return []
    commands = [f"      $ {line}" for line in rendered_lines(item.rendered)]
    if full:
        return commands
    out = [cut(line, width) for line in commands[:_COMMANDS]]
    if len(commands) > _COMMANDS or out != commands[:_COMMANDS]:
        out.append(f"      in full: recon show task {clean(item.task.key)}")
    return out


def rendered_lines(rendered: Rendered) -> list[str]:
    """How a change would run, as lines: the exact commands of the change, or the lines with `<...>` for the open parts."""
    if rendered.lines or rendered.change is None:
        return [clean(line, limit=_WHOLE) for line in rendered.lines]
    return [clean(join_argv(step), limit=_WHOLE) for step in rendered.change.steps]
