"""How the closed words look to people: a glyph and a word each, so that nothing hangs on colour alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from recon.agent.engine.units import bytes_text
from recon.agent.model.base import Json
from recon.agent.model.state import TaskState
from recon.agent.model.words import (
    JudgementVerdict,
    MissionVerdict,
    TaskStatus,
    UnknownStatus,
)
from recon.agent.report.clean import clean

VERDICT_GLYPH: Final[dict[JudgementVerdict, str]] = {
    "pass": "✓", "warn": "!", "block": "✗", "unknown": "?", "conflict": "≠",
}  # fmt: skip
STATUS_GLYPH: Final[dict[TaskStatus, str]] = {
    "pending": "·", "ready": "○", "running": "▶", "succeeded": "✓", "failed": "✗", "skipped": "-", "cancelled": "-",
    "interrupted": "↯", "blocked": "■", "awaiting_decision": "?", "awaiting_approval": "!",
}  # fmt: skip
STATUS_WORD: Final[dict[TaskStatus, str]] = {
    "pending": "pending", "ready": "ready", "running": "running", "succeeded": "done", "failed": "failed",
    "skipped": "skipped", "cancelled": "cancelled", "interrupted": "interrupted", "blocked": "blocked",
    "awaiting_decision": "needs decision", "awaiting_approval": "needs approval",
}  # fmt: skip
FOR_YOU: Final = "for you"


def for_person(item: TaskState) -> bool:
    """Whether a todo item waits for nothing but a person who carries it out."""
    return (
        item.status == "blocked" and bool(item.blocked_by) and {b.kind for b in item.blocked_by} == {"manual"}
    )


def status_word(item: TaskState) -> str:
    """The status of a todo item as people read it."""
    return FOR_YOU if for_person(item) else STATUS_WORD[item.status]


def status_glyph(item: TaskState) -> str:
    """The glyph before it."""
    return "!" if for_person(item) else STATUS_GLYPH[item.status]


UNKNOWN_GLYPH: Final[dict[UnknownStatus, str]] = {
    "open": "?",
    "answered": "✓",
    "contradicted": "≠",
    "waived": "~",
}
MISSION_WORD: Final[dict[MissionVerdict, str]] = {
    "go": "GO", "no_go": "NO-GO", "needs_decision": "NEEDS DECISION", "needs_approval": "NEEDS APPROVAL",
}  # fmt: skip
EXIT_WORD: Final[dict[int, str]] = {
    0: "finished",
    1: "a task failed; `recon todo` names it",
    2: "the words of the command were off",
    3: "waiting for you; nothing is changed until you answer",
    4: "a source that is needed could not be reached",
    5: "state.db cannot be used",
    130: "interrupted; `recon resume` goes on",
}


def time_text(at: float | None) -> str:
    """UTC seconds as `2026-05-30 14:02:07 UTC`; `-` for no time."""
    if at is None:
        return "-"
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at:.0f} s"


def seconds_text(seconds: float) -> str:
    """A duration: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def added_text(because: str) -> str:
    """Why an item is there, as it stands behind a plus sign: `added because ...`."""
    words = clean(because)
    return words if words.startswith("added") else f"added because {words}"


def value_text(value: Json, *, unit: str | None = None, limit: int = 160) -> str:
    """A JSON value as a short line people can read; bytes in GB and GiB."""
    return clean(_plain(value, unit=unit, depth=0), limit=limit)


def _plain(value: Json, *, unit: str | None, depth: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(value, unit)
    if isinstance(value, str):
        return value
    if depth > 2:
        return "…"
    if isinstance(value, Mapping):
        parts = [_entry(str(k), v, unit=_unit_of(str(k)) or unit, depth=depth) for k, v in value.items()]
    elif isinstance(value, Sequence):
        parts = [_inner(_said(v), unit=unit, depth=depth) for v in value]
    else:
        return json.dumps(value, default=str)
    apart = "; " if depth == 0 and any(", " in part for part in parts) else ", "
    return apart.join(parts) or "none"


def _said(value: Json) -> Json:
    """An item of a list without the fields that it does not have."""
    return {k: v for k, v in value.items() if v is not None} if isinstance(value, Mapping) else value


def _entry(key: str, value: Json, *, unit: str | None, depth: int) -> str:
    """`key value`; what has parts itself behind a colon, deeper down in brackets."""
    colon = ":" if depth == 0 and _has_parts(value) else ""
    return f"{key}{colon} {_inner(value, unit=unit, depth=depth)}"


def _inner(value: Json, *, unit: str | None, depth: int) -> str:
    if value is None:
        return "none"
    said = _plain(value, unit=unit, depth=depth + 1)
    return f"({said})" if depth > 0 and _has_parts(value) else said


def _has_parts(value: Json) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _number(value: float, unit: str | None) -> str:
    if unit == "bytes":
        return bytes_text(value)
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{shown} {unit}" if unit and unit != "count" else shown


def _unit_of(key: str) -> str | None:
    return "bytes" if key == "bytes" or key.endswith("_bytes") or key.startswith("bytes_by_") else None
