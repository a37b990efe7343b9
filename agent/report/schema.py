"""The JSON schema of `recon.report/1`. Raise the number when a key changes its meaning or goes away."""

from __future__ import annotations

from typing import Final, get_args

from recon.agent.model.base import Json
from recon.agent.model.words import (
    Effect,
    Effort,
    JudgementVerdict,
    Level,
    MissionOrigin,
    MissionVerdict,
    Origin,
    Outcome,
    Priority,
    TaskKind,
    TaskStatus,
    UnknownStatus,
)

SCHEMA_ID: Final = "recon.report/1"

_STRING: Final[Json] = {"type": "string"}
_NUMBER: Final[Json] = {"type": "number"}
_INTEGER: Final[Json] = {"type": "integer"}
_ANY: Final[Json] = {}


def _one_of(union: object, *, or_null: bool = False) -> Json:
    return {"enum": [*get_args(union), *([None] if or_null else [])]}


def _or_null(kind: str) -> Json:
    return {"type": [kind, "null"]}


def _list(of: Json) -> Json:
    return {"type": "array", "items": of}


def _record(fields: dict[str, Json], *, optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


_OPTION: Final = _record(
    {
        "id": _STRING, "title": _STRING, "consequence": _STRING, "effort": _one_of(Effort, or_null=True),
        "command": _STRING,
    }
)  # fmt: skip
_MISSION: Final = _record(
    {
        "id": _STRING, "revision": _INTEGER, "text": _STRING, "sentence": _STRING, "intent": {"type": "object"},
        "bindings": {"type": "object", "additionalProperties": _STRING}, "origin": _one_of(MissionOrigin),
        "as_of": _NUMBER,
    },
    optional=("origin", "as_of"),
)  # fmt: skip
_UNKNOWN: Final = _record(
    {
        "id": _STRING, "question": _STRING, "status": _one_of(UnknownStatus), "answer": _ANY, "reason": _STRING,
        "level_needed": _one_of(Level), "level": _one_of(Level, or_null=True), "required": {"type": "boolean"},
        "options": _list(_OPTION), "answer_with": _STRING, "shown": _STRING, "blocks": _list(_STRING),
    }
)  # fmt: skip
_DISCREPANCY: Final = _record(
    {
        "id": _STRING, "subject": _STRING, "findings": _list(_STRING), "options": _list(_OPTION),
        "decision": {"type": ["object", "null"]},
    }
)  # fmt: skip
_JUDGEMENT: Final = _record(
    {
        "id": _STRING, "about": _STRING, "verdict": _one_of(JudgementVerdict), "title": _STRING, "observed": _ANY,
        "expected": _ANY, "detail": _list(_STRING), "consequence": _STRING, "findings": _list(_STRING),
    }
)  # fmt: skip
_BLOCKER: Final = _record(
    {"kind": _STRING, "ref": _STRING, "state": _STRING, "reason": _STRING, "command": _STRING}
)
_TASK: Final = _record(
    {
        "id": _STRING, "title": _STRING, "kind": _one_of(TaskKind), "effect": _one_of(Effect),
        "status": _one_of(TaskStatus), "priority": _one_of(Priority), "depends_on": _list(_STRING),
        "because": _STRING, "summary": _STRING, "error": _or_null("object"), "commands": _list(_STRING),
        "change": _or_null("string"), "missing": _list(_STRING), "blocked_by": _list(_BLOCKER),
    }
)  # fmt: skip
_EVIDENCE: Final = _record(
    {
        "observation": _or_null("string"), "locator": _STRING, "inputs": _list(_STRING), "observed_at": _NUMBER,
        "producer": _STRING,
    }
)  # fmt: skip
_FINDING: Final = _record(
    {
        "id": _STRING, "subject": _STRING, "name": _STRING, "outcome": _one_of(Outcome), "value": _ANY,
        "unit": _or_null("string"), "reason": _STRING, "level": _one_of(Level), "origin": _one_of(Origin),
        "evidence": _EVIDENCE,
    }
)  # fmt: skip
_DECISION: Final = _record(
    {
        "id": _INTEGER, "about": _STRING, "option": _STRING, "value": _STRING, "because": _STRING,
        "from_revision": _INTEGER, "to_revision": _INTEGER, "by": _STRING, "via": _STRING, "at": _NUMBER,
        "undoes": _or_null("integer"),
    },
    optional=("id", "by", "via", "at", "undoes"),
)  # fmt: skip
_APPROVAL: Final = _record(
    {
        "id": _INTEGER, "task": _STRING, "verdict": {"enum": ["approve", "deny"]}, "change": _STRING,
        "message": _STRING, "by": _STRING, "via": _STRING, "at": _NUMBER,
    }
)  # fmt: skip
_RUN: Final = _record(
    {
        "id": _INTEGER, "started_at": _NUMBER, "ended_at": _or_null("number"), "exit_code": _or_null("integer"),
    }
)  # fmt: skip

SCHEMA: Final[dict[str, Json]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": SCHEMA_ID,
    "title": "recon report",
    **_record(
        {
            "schema": {"const": SCHEMA_ID},
            "verdict": _one_of(MissionVerdict),
            "verdict_line": _STRING,
            "mission": _MISSION,
            "unknowns": _list(_UNKNOWN),
            "discrepancies": _list(_DISCREPANCY),
            "judgements": _list(_JUDGEMENT),
            "tasks": _list(_TASK),
            "findings": _list(_FINDING),
            "decisions": _list(_DECISION),
            "approvals": _list(_APPROVAL),
            "run": _record({"events": _INTEGER, "attempts": _INTEGER, "times": _list(_RUN)}),
        },
        optional=("run",),
    ),
}
