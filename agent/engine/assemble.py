"""From stored rows to a mission as a reader sees it: unknowns, gates, statuses, verdict. Pure: (rows, now) -> state."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from recon.agent.engine.gates import parse_gate
from recon.agent.engine.verdict import mission_verdict, needs_person, verdict_line
from recon.agent.engine.view import View
from recon.agent.mission import sentence
from recon.agent.model.base import Json
from recon.agent.model.changes import Change, Rendered
from recon.agent.model.findings import Finding, Judgement, Option
from recon.agent.model.missions import Mission, Revision
from recon.agent.model.records import Approval, Decision, Run
from recon.agent.model.state import (
    GateState,
    JudgementState,
    MissionState,
    TaskState,
    UnknownState,
    Waiting,
)
from recon.agent.model.tasks import Attempt, Blocker, PlannedTask, PlannedUnknown, Task
from recon.agent.model.words import VERDICT_RANK, Level, TaskStatus, UnknownStatus, at_least

Renderer = Callable[[PlannedTask, View], Rendered | None]


@dataclass(frozen=True)
class Records:
    """The stored rows of one mission."""

    mission: Mission
    revision: Revision
    tasks: Sequence[Task]
    edges: Sequence[tuple[int, int, str]]
    unknowns: Sequence[PlannedUnknown]
    judgements: Sequence[Judgement]
    findings: Sequence[Finding]
    decisions: Sequence[Decision]
    approvals: Sequence[Approval]
    attempts: Mapping[int, Sequence[Attempt]] = field(default_factory=dict)  # by task
    runs: Sequence[Run] = ()
    events: int = 0
    unplaced: tuple[str, ...] = ()
    admitted: Mapping[int, Change] = field(
        default_factory=dict
    )  # interrupted tasks: the change last approved


def active_decisions(decisions: Sequence[Decision]) -> dict[str, Decision]:
    """The decisions in force, by what they are about: the latest that was not undone."""
    undone = {d.undoes for d in decisions if d.undoes is not None}
    return {d.about_key: d for d in decisions if d.undoes is None and d.id not in undone}


def make_view(records: Records, *, now: float) -> View:
    """The view gates are evaluated on: findings, decisions, answered unknowns, done tasks."""
    decisions = active_decisions(records.decisions)
    view = View.of(
        records.findings, bindings=records.revision.bindings, intent=records.revision.intent, now=now,
        decisions=decisions, done=[t.key for t in records.tasks if t.in_head and t.status in ("succeeded", "skipped")],
    )  # fmt: skip
    judged = [_judged(j, decisions) for j in records.judgements]
    answered = [
        p.key
        for p in records.unknowns
        if _unknown(p, view, judged, decisions).status in ("answered", "waived")
    ]
    view.answered_keys = frozenset(answered)
    return view


def assemble(records: Records, *, now: float, render: Renderer) -> MissionState:
    """The whole mission at `now` (UTC seconds; the bundle's time in a replay)."""
    decisions = active_decisions(records.decisions)
    view = make_view(records, now=now)
    judgements = tuple(
        sorted(
            (_judged(j, decisions) for j in records.judgements),
            key=lambda s: (VERDICT_RANK[s.verdict], s.judgement.key),
        )
    )
    unknowns = [_unknown(p, view, judgements, decisions) for p in records.unknowns]
    tasks = _task_states(records, view, unknowns, render)
    unknowns = [u.model_copy(update={"blocks": _blocked_by(u.planned.key, tasks)}) for u in unknowns]
    unknowns.sort(key=lambda u: (-len(u.blocks), u.planned.key))
    stopped = any(_chosen(u, decisions).effects.stop for u in unknowns if u.planned.key in decisions)
    verdict = mission_verdict(unknowns=unknowns, judgements=judgements, tasks=tasks, stopped=stopped)
    waiting = _waiting(unknowns, tasks) if not stopped else ()
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
        unplaced=records.unplaced,
    )  # fmt: skip


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


def _judged(judgement: Judgement, decisions: Mapping[str, Decision]) -> JudgementState:
    return JudgementState(
        judgement=judgement, verdict=judgement.verdict, decided=decisions.get(judgement.about)
    )


def _options(planned: PlannedUnknown, judgements: Sequence[JudgementState]) -> tuple[Option, ...]:
    merged = {o.id: o for o in planned.options}
    for state in judgements:
        for option in state.judgement.options:
            merged.setdefault(option.id, option)
    return tuple(merged.values())


def _unknown(
    planned: PlannedUnknown,
    view: View,
    judgements: Sequence[JudgementState],
    decisions: Mapping[str, Decision],
) -> UnknownState:
    about = [j for j in judgements if j.judgement.about == planned.key]
    state = UnknownState(
        planned=planned, status="open", options=_options(planned, about),
        judgements=tuple(j.judgement.key for j in about),
    )  # fmt: skip
    if (decision := decisions.get(planned.key)) is not None:
        return _decided(state, decision)
    read = view.read(planned.finding_ref) if planned.finding_ref else None
    held = [j for j in about if j.verdict in ("conflict", "block")]
    status, answer, level, reason = _computed(planned, view, about, held)
    answer_with = "" if status == "answered" else _answer_with(planned, state.options)
    if read is not None and read.known and answer is None:
        answer, level = read.value, read.level
    return state.model_copy(
        update={
            "status": status, "answer": answer, "answer_text": "" if answer is None else _answer_text(answer),
            "level": level, "reason": reason, "answer_with": answer_with,
        }
    )  # fmt: skip


def _computed(
    planned: PlannedUnknown, view: View, about: Sequence[JudgementState], held: Sequence[JudgementState]
) -> tuple[UnknownStatus, Json, Level | None, str]:
    """Status, answer, level and reason without a decision. Order: contradicted, by finding, by judgement, open."""
    if held:
        return "contradicted", None, None, held[0].judgement.title
    if planned.finding_ref:
        read = view.read(planned.finding_ref)
        if read.known and read.level is not None and _enough(read.level, planned):
            return "answered", read.value, read.level, ""
        if not about:
            return "open", None, None, read.reason or f"{planned.finding_ref} is {read.state}"
    settled = [j for j in about if j.verdict in ("pass", "warn")]
    if settled and not any(j.verdict == "unknown" for j in about):
        return "answered", settled[0].judgement.title, None, ""
    open_titles = [j.judgement.title for j in about if j.verdict == "unknown"]
    return "open", None, None, open_titles[0] if open_titles else "nobody has answered it yet"


def _enough(level: Level, planned: PlannedUnknown) -> bool:
    return at_least(level, planned.min_level)


def _chosen(state: UnknownState, decisions: Mapping[str, Decision]) -> Option:
    decision = decisions[state.planned.key]
    return next(
        (o for o in state.options if o.id == decision.option),
        Option(id=decision.option, title=decision.option),
    )


def _decided(state: UnknownState, decision: Decision) -> UnknownState:
    option = next((o for o in state.options if o.id == decision.option), None)
    waived = option is not None and option.effects.waive
    text = decision.option + (f"={decision.value}" if decision.value else "")
    return state.model_copy(
        update={
            "status": "waived" if waived else "answered", "answer": decision.value or decision.option,
            "answer_text": f"{text} (decided by {decision.by}: {decision.because})",
        }
    )  # fmt: skip


def _answer_text(answer: Json) -> str:
    return answer if isinstance(answer, str) else str(answer)


def _answer_with(planned: PlannedUnknown, options: Sequence[Option]) -> str:
    """The command, safe to paste: OPTION stands for the word to put in, a single option is written out."""
    if not options and planned.who == "task":
        return ""
    words = [f"{o.id}=<{o.needs_value}>" if o.needs_value else o.id for o in options]
    choice = shlex.quote(words[0]) if len(words) == 1 else "OPTION" if words else "VALUE"
    return f'recon decide {planned.key} {choice} --because "..."'


def _blocked_by(key: str, tasks: Sequence[TaskState]) -> tuple[str, ...]:
    return tuple(t.task.key for t in tasks if any(key in g.refs and g.result != "true" for g in t.gates))


def _task_states(
    records: Records, view: View, unknowns: Sequence[UnknownState], render: Renderer
) -> list[TaskState]:  # fmt: skip
    by_id = {t.id: t for t in records.tasks}
    needs: dict[int, list[tuple[int, str]]] = {}
    for task_id, needs_id, on_end in records.edges:
        needs.setdefault(task_id, []).append((needs_id, on_end))
    doomed = doomed_tasks({t.id: t.status for t in records.tasks}, needs)
    unknown_by_key = {u.planned.key: u for u in unknowns}
    states = []
    for task in sorted((t for t in records.tasks if t.in_head), key=lambda t: (t.planned.order, t.id)):
        gates = tuple(parse_gate(g.text).state(g, view) for g in task.planned.gates)
        rendered = _rendered(task, view, records, render)
        blockers: tuple[Blocker, ...] = ()
        if task.status in ("pending", "interrupted"):
            blockers = (
                *_dependency_blockers(needs.get(task.id, ()), by_id, doomed),
                *_gate_blockers(gates, unknown_by_key),
                *_act_blockers(task, rendered, records),
            )
        attempts = records.attempts.get(task.id, ())
        last = attempts[-1] if attempts else None
        states.append(
            TaskState(
                task=task, status=_status(task, blockers), blocked_by=blockers, gates=gates, rendered=rendered,
                attempts=len(attempts), started_at=last.started_at if last else None,
                ended_at=last.ended_at if last else None, summary=last.summary if last else "",
                error=last.error if last and task.status == "failed" else None,
            )
        )  # fmt: skip
    return states


def _rendered(task: Task, view: View, records: Records, render: Renderer) -> Rendered | None:
    """What an act task would do now. One that was interrupted in the middle shows what it was doing: the facts it was
    rendered from may be gone by its own hand."""
    if task.planned.kind != "act":
        return None
    if task.status == "interrupted" and task.id in records.admitted:
        return Rendered(change=records.admitted[task.id])
    return render(task.planned, view)


def _dependency_blockers(
    needs: Sequence[tuple[int, str]], by_id: Mapping[int, Task], doomed: Collection[int]
) -> list[Blocker]:
    blockers = []
    for needs_id, on_end in needs:
        dependency = by_id[needs_id]
        status = dependency.status
        if status in ("succeeded", "skipped"):
            continue
        if on_end == "settled" and (status in ("failed", "cancelled") or needs_id in doomed):
            continue
        failed = status in ("failed", "cancelled")
        state = "cannot start: what it needs failed" if needs_id in doomed else status
        blockers.append(
            Blocker(
                kind="dependency", ref=dependency.key, state=status, reason=f"waits for {dependency.key} ({state})",
                command=f"recon retry {dependency.key}" if failed else "",
            )
        )  # fmt: skip
    return blockers


def doomed_tasks(status: Mapping[int, str], needs: Mapping[int, Sequence[tuple[int, str]]]) -> set[int]:
    """The tasks that cannot start while something they need to succeed has failed or was cancelled."""
    dependents: dict[int, list[int]] = {}
    for task_id, edges in needs.items():
        for needs_id, on_end in edges:
            if on_end == "succeeded":
                dependents.setdefault(needs_id, []).append(task_id)
    queue = [task_id for task_id, held in status.items() if held in ("failed", "cancelled")]
    doomed: set[int] = set()
    while queue:
        for dependent in dependents.get(queue.pop(), ()):
            if dependent not in doomed:
                doomed.add(dependent)
                queue.append(dependent)
    return doomed


def _gate_blockers(gates: Sequence[GateState], unknowns: Mapping[str, UnknownState]) -> list[Blocker]:
    blockers: list[Blocker] = []
    for gate in gates:
        if gate.result == "true":
            continue
        asked = [
            unknowns[r] for r in gate.refs if r in unknowns and unknowns[r].status in ("open", "contradicted")
        ]
        for unknown in asked:
            person = unknown.planned.who == "person" or bool(unknown.options)
            blockers.append(
                Blocker(
                    kind="decision" if person else "gate", ref=unknown.planned.key, state=unknown.status,
                    reason=f"{unknown.planned.key} is {unknown.status}", command=unknown.answer_with,
                )
            )  # fmt: skip
        if not asked:
            reason = "; ".join(gate.reasons) or gate.spec.words or gate.spec.text
            state = "stale" if gate.result == "stale" else gate.result
            blockers.append(
                Blocker(
                    kind="stale" if gate.result == "stale" else "gate",
                    ref=gate.spec.text,
                    state=state,
                    reason=reason,
                )
            )
    unique = {(b.kind, b.ref): b for b in blockers}
    return list(unique.values())


def _act_blockers(task: Task, rendered: Rendered | None, records: Records) -> list[Blocker]:
    if task.planned.kind != "act" or rendered is None:
        return []
    if rendered.missing:
        return [
            Blocker(
                kind="gate",
                ref=task.key,
                state="unknown",
                reason=f"not known yet: {', '.join(rendered.missing)}",
            )
        ]
    if rendered.manual or rendered.change is None:
        return [
            Blocker(
                kind="manual", ref=task.key, state="pending", reason="carried out by a person",
                command=f"recon todo done {task.key}",
            )
        ]  # fmt: skip
    if task.planned.effect == "read_only":
        return []
    return _approval_blockers(task, rendered, records)


def valid_approval(task: Task, change_hash: str, approvals: Sequence[Approval]) -> Approval | None:
    """The approval of exactly this change, where the last word on the task was yes."""
    mine = [a for a in approvals if a.task_id == task.id]
    last = mine[-1] if mine else None
    return (
        last if last is not None and last.verdict == "approve" and last.change_hash == change_hash else None
    )


def _approval_blockers(task: Task, rendered: Rendered, records: Records) -> list[Blocker]:
    assert rendered.change is not None
    if valid_approval(task, rendered.change.change_hash, records.approvals):
        return []
    mine = [a for a in records.approvals if a.task_id == task.id]
    if not mine:
        reason = f"{task.planned.effect}: needs your approval of the exact commands"
    elif mine[-1].verdict == "deny":
        reason = f"denied by {mine[-1].by}: {mine[-1].message}"
    else:
        what = "what it touches" if mine[-1].exact_hash != rendered.change.exact_hash else "the commands"
        reason = f"the approval is void: {what} changed since"
    return [
        Blocker(
            kind="approval", ref=task.key, state="open", reason=reason, command=f"recon approve {task.key}"
        )
    ]


def _status(task: Task, blockers: Sequence[Blocker]) -> TaskStatus:
    if task.status not in ("pending", "interrupted"):
        return task.status
    kinds = {b.kind for b in blockers}
    if not kinds:
        return "interrupted" if task.status == "interrupted" else "ready"
    if kinds == {"approval"}:
        return "awaiting_approval"
    if "decision" in kinds and kinds <= {"decision", "approval", "manual", "source"}:
        return "awaiting_decision"
    return "blocked"


def _waiting(unknowns: Sequence[UnknownState], tasks: Sequence[TaskState]) -> tuple[Waiting, ...]:
    decisions = [
        Waiting(kind="decision", ref=u.planned.key, text=u.planned.question, command=u.answer_with)
        for u in unknowns
        if needs_person(u, tasks)
    ]
    approvals = [
        Waiting(
            kind="approval", ref=t.task.key, text=t.task.planned.title, command=f"recon approve {t.task.key}"
        )
        for t in tasks
        if t.status == "awaiting_approval"
    ]
    retries = [
        Waiting(
            kind="retry",
            ref=t.task.key,
            text=str((t.error or {}).get("message", "failed")),
            command=f"recon retry {t.task.key}",
        )
        for t in tasks
        if t.status == "failed"
    ]
    return (*decisions, *approvals, *retries)
