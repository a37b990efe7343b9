"""The report as JSON, `recon.report/1`. Lists are sorted by id; keys and meanings are fixed by the schema beside it."""

from __future__ import annotations

from recon.agent.model.base import Json
from recon.agent.model.findings import Finding, Option
from recon.agent.model.records import Approval, Decision
from recon.agent.model.state import JudgementState, MissionState, TaskState, UnknownState
from recon.agent.report.asks import decide_command, option_command
from recon.agent.report.schema import SCHEMA, SCHEMA_ID

__all__ = ["report", "schema"]


def report(state: MissionState, *, canonical: bool = False) -> dict[str, Json]:
    """The mission as `recon.report/1`.

    `canonical` keeps what follows from the evidence alone, so that two reports of the same evidence are equal byte for
    byte: no runs, no row numbers, no clock, and the mission is named by its content.
    """
    out: dict[str, Json] = {
        "schema": SCHEMA_ID,
        "verdict": state.verdict,
        "verdict_line": state.verdict_line,
        "mission": _mission(state, canonical=canonical),
        "unknowns": _by_id(_unknown(u) for u in state.unknowns),
        "discrepancies": _by_id(
            _discrepancy(state, j) for j in state.judgements if j.judgement.is_discrepancy
        ),
        "judgements": _by_id(_judgement(j) for j in state.judgements),
        "tasks": _by_id(_task(state, t) for t in state.tasks),
        "findings": _by_id(_finding(f) for f in state.findings),
        "decisions": [_decision(d, canonical=canonical) for d in sorted(state.decisions, key=lambda d: d.id)],
        "approvals": [_approval(state, a) for a in sorted(state.approvals, key=lambda a: a.id)],
    }
    if not canonical:
        out["run"] = _runs(state)
    return out


def schema() -> dict[str, Json]:
    """The JSON schema (draft 2020-12) of a report."""
    return SCHEMA


def _by_id(rows: object) -> list[dict[str, Json]]:
    return sorted(rows, key=lambda row: str(row["id"]))  # type: ignore[call-overload, no-any-return]


def _mission(state: MissionState, *, canonical: bool) -> dict[str, Json]:
    mission, revision = state.mission, state.revision
    out: dict[str, Json] = {
        "id": mission.key if canonical else mission.id,
        "revision": revision.n,
        "text": mission.text,
        "sentence": state.sentence,
        "intent": revision.intent.model_dump(mode="json"),
        "bindings": dict(sorted(revision.bindings.items())),
    }
    if not canonical:
        out |= {"origin": mission.origin, "as_of": mission.as_of if mission.as_of is not None else state.now}
    return out


def _unknown(unknown: UnknownState) -> dict[str, Json]:
    planned = unknown.planned
    return {
        "id": planned.key,
        "question": planned.question,
        "status": unknown.status,
        "answer": unknown.answer,
        "reason": unknown.reason,
        "level_needed": planned.min_level,
        "level": unknown.level,
        "required": planned.required,
        "options": [_option(planned.key, o) for o in unknown.options],
        "answer_with": _answer_with(unknown),
        "shown": unknown.shown,
        "blocks": sorted(unknown.blocks),
    }


def _answer_with(unknown: UnknownState) -> str:
    if unknown.status in ("answered", "waived"):
        return ""
    return decide_command(unknown.planned.key, unknown.options) if unknown.options else unknown.answer_with


def _option(key: str, option: Option) -> dict[str, Json]:
    return {
        "id": option.id,
        "title": option.title,
        "consequence": option.consequence,
        "effort": option.effort,
        "command": option_command(key, option),
    }


def _discrepancy(state: MissionState, judged: JudgementState) -> dict[str, Json]:
    judgement = judged.judgement
    by_id = {f.id: f for f in state.findings}
    cited = [side.finding_id for side in judgement.sides]
    subjects = [by_id[i].subject for i in cited if i in by_id]
    key = judgement.about or judgement.key
    decided = judged.decided
    return {
        "id": judgement.key,
        "subject": subjects[0] if subjects else "",
        "findings": sorted(set(cited)),
        "options": [_option(key, o) for o in judgement.options],
        "decision": None if decided is None else {"option": decided.option, "value": decided.value},
    }


def _judgement(judged: JudgementState) -> dict[str, Json]:
    judgement = judged.judgement
    return {
        "id": judgement.key,
        "about": judgement.about,
        "verdict": judged.verdict,
        "title": judgement.title,
        "observed": judgement.observed,
        "expected": judgement.expected,
        "detail": list(judgement.detail),
        "consequence": judgement.consequence,
        "findings": sorted({side.finding_id for side in judgement.sides}),
    }


def _task(state: MissionState, item: TaskState) -> dict[str, Json]:
    planned = item.task.planned
    rendered = item.rendered
    return {
        "id": planned.key,
        "title": planned.title,
        "kind": planned.kind,
        "effect": planned.effect,
        "status": item.status,
        "priority": planned.priority,
        "depends_on": sorted(edge.key for edge in planned.needs),
        "because": planned.because,
        "summary": item.summary,
        "error": item.error,
        "commands": [] if rendered is None else list(rendered.lines),
        "change": None if rendered is None or rendered.change is None else rendered.change.change_hash,
        "missing": [] if rendered is None else list(rendered.missing),
        "blocked_by": [
            {"kind": b.kind, "ref": b.ref, "state": b.state, "reason": b.reason, "command": b.command}
            for b in item.blocked_by
        ],
    }


def _finding(finding: Finding) -> dict[str, Json]:
    return {
        "id": finding.id,
        "subject": finding.subject,
        "name": finding.name,
        "outcome": finding.outcome,
        "value": finding.value,
        "unit": finding.unit,
        "reason": finding.reason,
        "level": finding.level,
        "origin": finding.origin,
        "evidence": {
            "observation": finding.observation_id,
            "locator": finding.locator,
            "inputs": sorted(finding.inputs),
            "observed_at": finding.observed_at,
            "producer": f"{finding.producer}@{finding.producer_version}",
        },
    }


def _decision(decision: Decision, *, canonical: bool) -> dict[str, Json]:
    out: dict[str, Json] = {
        "about": decision.about_key,
        "option": decision.option,
        "value": decision.value,
        "because": decision.because,
        "from_revision": decision.from_n,
        "to_revision": decision.to_n,
    }
    if canonical:
        return out
    return {
        "id": decision.id,
        **out,
        "by": decision.by,
        "via": decision.via,
        "at": decision.at,
        "undoes": decision.undoes,
    }


def _approval(state: MissionState, approval: Approval) -> dict[str, Json]:
    key = next((t.task.key for t in state.tasks if t.task.id == approval.task_id), str(approval.task_id))
    return {
        "id": approval.id,
        "task": key,
        "verdict": approval.verdict,
        "change": approval.change_hash,
        "message": approval.message,
        "by": approval.by,
        "via": approval.via,
        "at": approval.at,
    }


def _runs(state: MissionState) -> dict[str, Json]:
    return {
        "events": state.events,
        "attempts": sum(item.attempts for item in state.tasks),
        "times": [
            {"id": r.id, "started_at": r.started_at, "ended_at": r.ended_at, "exit_code": r.exit_code}
            for r in sorted(state.runs, key=lambda r: r.id)
        ],
    }
