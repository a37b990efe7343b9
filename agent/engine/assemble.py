"""From stored rows to a mission as a reader sees it: unknowns, gates, statuses, verdict. Pure: (rows, now) -> state."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from recon.agent.engine.blockers import Renderer, task_states
from recon.agent.engine.records import Records, active_decisions
from recon.agent.engine.unknowns import (
    chosen,
    holding,
    judged_state,
    make_view,
    unknown_state,
    unknown_states,
)
from recon.agent.engine.verdict import mission_verdict, needs_person, verdict_line
from recon.agent.engine.view import View
from recon.agent.mission import sentence
from recon.agent.model.findings import Finding
from recon.agent.model.state import (
    MissionState,
    TaskState,
    UnknownState,
    Waiting,
)
from recon.agent.model.words import VERDICT_RANK


def assemble(records: Records, *, now: float, render: Renderer) -> MissionState:
    """The whole mission at `now` (UTC seconds; the bundle's time in a replay)."""
    view = make_view(records, now=now)
    decisions = holding(view)
    judgements = tuple(
        sorted(
            (judged_state(j, decisions) for j in records.judgements),
            key=lambda s: (VERDICT_RANK[s.verdict], s.judgement.key),
        )
    )
    unknowns = [unknown_state(p, view, judgements) for p in records.unknowns]
    ended = next(
        (d for u in unknowns if (d := decisions.get(u.planned.key)) and chosen(u, decisions).effects.stop),
        None,
    )
    tasks = task_states(records, view, unknowns, render, ended=ended)
    unknowns = [u.model_copy(update={"blocks": _blocked_by(u.planned.key, tasks)}) for u in unknowns]
    unknowns.sort(key=lambda u: (-len(u.blocks), u.planned.key))
    verdict = mission_verdict(
        unknowns=unknowns, judgements=judgements, tasks=tasks, stopped=ended is not None
    )
    waiting = _waiting(unknowns, tasks) if ended is None else ()
    return MissionState(
        mission=records.mission, revision=records.revision, now=now,
        sentence=sentence(records.revision.intent), verdict=verdict,
        verdict_line=verdict_line(
            verdict, judgements, decisions=sum(w.kind == "decision" for w in waiting),
            approvals=sum(w.kind == "approval" for w in waiting),
            touched=any(t.task.planned.kind == "act" and t.attempts for t in tasks),
        ),
        tasks=tuple(tasks), unknowns=tuple(unknowns), judgements=judgements,
        findings=tuple(_relevant(records, view)), decisions=tuple(records.decisions),
        approvals=tuple(records.approvals), waiting=waiting, runs=tuple(records.runs), events=records.events,
        unplaced=records.unplaced, history=_history(records),
    )  # fmt: skip


def _history(records: Records) -> tuple[TaskState, ...]:
    """The todo items of earlier bindings: no longer part of the mission, kept with what came of them."""
    states = []
    for task in records.tasks:
        if not task.in_head:
            last = next(iter(reversed(records.attempts.get(task.id, ()))), None)
            states.append(
                TaskState(
                    task=task, status=task.status, attempts=len(records.attempts.get(task.id, ())),
                    started_at=last.started_at if last else None, ended_at=last.ended_at if last else None,
                    summary=last.summary if last else "",
                )
            )  # fmt: skip
    return tuple(states)


def _relevant(records: Records, view: View) -> list[Finding]:
    """The findings about the subjects this mission is bound to, or that a judgement cites, and their inputs."""
    latest = view.all_findings()
    subjects = {s for s in records.revision.bindings.values()} | {
        view.subject(r) for r in records.revision.bindings
    }
    cited = {side.finding_id for j in records.judgements for side in j.sides}
    wanted = {f.id for f in latest if f.subject in subjects or f.id in cited}
    by_id = {f.id: f for f in latest}
    queue = list(wanted)
    while queue:
        finding = by_id.get(queue.pop())
        fresh = [i for i in (finding.inputs if finding else ()) if i in by_id and i not in wanted]
        wanted.update(fresh)
        queue.extend(fresh)
    return [f for f in latest if f.id in wanted]


def _blocked_by(key: str, tasks: Sequence[TaskState]) -> tuple[str, ...]:
    return tuple(t.task.key for t in tasks if any(key in g.refs and g.result != "true" for g in t.gates))


def _waiting(unknowns: Sequence[UnknownState], tasks: Sequence[TaskState]) -> tuple[Waiting, ...]:
    decisions = [
        Waiting(kind="decision", ref=u.planned.key, text=u.planned.question, command=u.answer_with)
        for u in unknowns
        if needs_person(u, tasks) and u.answer_with  # what nobody can decide is no question to a person
    ]
    approvals = [
        Waiting(
            kind="approval", ref=t.task.key, text=t.task.planned.title, command=f"recon approve {t.task.key}"
        )
        for t in tasks
        if t.status == "awaiting_approval"
    ]
    return (*decisions, *approvals, *_retries(tasks))


def _retries(tasks: Sequence[TaskState]) -> list[Waiting]:
    """What failed, once per cause: a dead host fails all of its readings, and one command tries them all again."""
    causes: dict[str, list[TaskState]] = {}
    for task in tasks:
        if task.status == "failed":
            causes.setdefault(str((task.error or {}).get("message", "failed")), []).append(task)
    found = []
    for message, failed in causes.items():
        hint = str((failed[0].error or {}).get("hint") or "")
        first = failed[0].task.key
        command = f"recon retry {shlex.quote(first)}" if len(failed) == 1 else "recon resume"
        found.append(
            Waiting(kind="retry", ref=first, text=f"{message} ({hint})" if hint else message, command=command)
        )
    return found


__all__ = ["Records", "Renderer", "active_decisions", "assemble", "make_view", "unknown_states"]
