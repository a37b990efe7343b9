"""From a mission's state to what the widgets show. Pure; every outside string is cleaned, nothing is markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recon.agent.model.state import MissionState, TaskState
from recon.agent.model.words import TaskStatus
from recon.agent.report import show, todo
from recon.agent.report.asks import asks
from recon.agent.report.clean import clean, cut
from recon.agent.report.sections import banner
from recon.agent.report.why import blockers_in_short
from recon.agent.report.words import VERDICT_GLYPH, status_glyph, status_word

# Colour repeats what glyph and word say already.
STYLE: Final[dict[TaskStatus, str]] = {
    "pending": "dim", "ready": "cyan", "running": "bold cyan", "succeeded": "green", "failed": "bold red",
    "skipped": "dim", "cancelled": "dim", "interrupted": "yellow", "blocked": "red", "awaiting_decision": "bold yellow",
    "awaiting_approval": "bold yellow",
}  # fmt: skip
STATUS_COLUMNS: Final = 16  # "? needs decision"
KIND_COLUMNS: Final = 6
_NOTE: Final = 24  # columns that a note keeps where a key would take more than half
_NARROW: Final = 16  # columns below which neither key nor note says anything
_FIXED: Final = (
    STATUS_COLUMNS + KIND_COLUMNS + 4 * 2 + 2
)  # those two, the space around four cells, the scroll bar
KIND_WORD: Final = {"recon": "look", "judge": "judge", "act": "change"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the task table."""

    key: str
    kind: str
    status: TaskStatus
    title: str
    note: str
    status_text: str  # glyph and word


@dataclass(frozen=True, slots=True)
class Question:
    """One line of the list of what waits for a person."""

    kind: str
    ref: str
    text: str


def rows(state: MissionState) -> list[Row]:
    """The todo list by kind, in the order people see."""
    rank = {"recon": 0, "judge": 1, "act": 2}
    items = sorted(state.tasks, key=lambda item: rank[item.task.planned.kind])
    return [_row(item) for item in items]


def short_key(key: str, width: int) -> str:
    """A key in at most `width` columns: what it does stays whole, of its subject the end, which tells subjects apart."""
    head, bracket, subject = clean(key, limit=400).partition("[")
    room = width - len(head) - 2
    if not bracket or len(subject) <= room + 1 or room < 4:
        return cut(clean(key, limit=400), width)
    return f"{head}[…{subject[-room:]}"


def first_open(state: MissionState) -> str | None:
    """The first item that is not done: where people look first."""
    return next(
        (row.key for row in rows(state) if row.status not in ("succeeded", "skipped", "cancelled")), None
    )


def _row(item: TaskState) -> Row:
    planned = item.task.planned
    return Row(
        planned.key,
        KIND_WORD[planned.kind],
        item.status,
        clean(planned.title, limit=80),
        blockers_in_short(item),
        f"{status_glyph(item)} {status_word(item)}",
    )


def widths(shown: Sequence[Row], width: int) -> tuple[int, int]:
    """Columns of key and note in a table of `width` columns: a key takes what it needs, up to a good half; the note the rest."""
    room = max(width - _FIXED, 2 * _NARROW)
    need = max((len(clean(row.key, limit=400)) for row in shown), default=_NARROW)
    key = min(max(need, _NARROW), max(min(room * 11 // 20, room - _NOTE), _NARROW))
    return key, room - key


def questions(state: MissionState) -> list[Question]:
    """What waits for a person, then the judgements that are not pass, so that one list says what is wrong."""
    return [Question(ask.kind, ask.ref, ask.text) for ask in asks(state)]


def head(state: MissionState, *, width: int) -> list[str]:
    """Banner, sentence, verdict and counts."""
    return [
        *banner(state, width=width),
        clean(state.sentence),
        clean(state.verdict_line),
        todo.counts_text(state),
    ]


def task_detail(state: MissionState, key: str, *, width: int) -> list[str]:
    """The detail panel of a todo item."""
    return show.task(state, key, width=width) if state.task(key) is not None else []


def question_detail(state: MissionState, ref: str, *, width: int) -> list[str]:
    """The detail panel of a question: the unknown with its options, and what was judged about it."""
    if state.unknown(ref) is None:
        return task_detail(state, ref, width=width)
    out = show.unknown(state, ref, width=width)
    for judged in state.judgements:
        if judged.judgement.about == ref:
            out += ["", f"{VERDICT_GLYPH[judged.verdict]} {judged.verdict}: {clean(judged.judgement.title)}"]
            out += [f"  {clean(line)}" for line in judged.judgement.detail]
    return out
