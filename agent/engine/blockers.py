"""What every todo item waits for, and the status that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from recon.agent.engine.consent import last_word, why_void
from recon.agent.engine.gates import parse_gate
from recon.agent.engine.records import Records, active_decisions
from recon.agent.engine.view import View
from recon.agent.model.changes import Change, Rendered
from recon.agent.model.records import Decision
from recon.agent.model.state import (
    GateState,
    TaskState,
    UnknownState,
)
from recon.agent.model.tasks import Blocker, PlannedTask, Task
from recon.agent.model.words import TaskStatus

Renderer = Callable[[PlannedTask, View], Rendered | None]


def task_states(
    records: Records, view: View, unknowns: Sequence[UnknownState], render: Renderer, *, ended: Decision | None
) -> list[TaskState]:  # fmt: skip
    """Every todo item of the head revision in the order people read, with gates, rendering and blockers."""
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
                *(_ended_blockers(ended) if ended and task.planned.kind == "act" else ()),
            )
        attempts = records.attempts.get(task.id, ())
        last = attempts[-1] if attempts else None
        states.append(
            TaskState(
                task=task, status=_status(task, blockers), blocked_by=blockers, gates=gates, rendered=rendered,
                attempts=len(attempts), started_at=last.started_at if last else None,
                ended_at=last.ended_at if last else None, summary=last.summary if last else records.taken.get(task.id, ""),
                error=last.error if last and task.status == "failed" else None,
            )
        )  # fmt: skip
    return states


def _ended_blockers(ended: Decision) -> tuple[Blocker, ...]:
    """A person chose to stop here: nothing is changed any more, whatever was approved."""
    reason = f"the mission ends here: {ended.about_key} was decided as {ended.option} by {ended.by}"
    return (
        Blocker(
            kind="ended",
            ref=ended.about_key,
            state="stopped",
            reason=reason,
            command=f"recon undo {ended.id}",
        ),
    )


def _rendered(task: Task, view: View, records: Records, render: Renderer) -> Rendered | None:
    """What an act task would do now. One that was interrupted in the middle shows what it was doing: the facts it was
    rendered from may be gone by its own hand."""
    if task.planned.kind != "act":
        return None
    if task.status == "interrupted" and task.id in records.admitted:
        return _sealed(Rendered(change=records.admitted[task.id]), task.planned)
    rendered = render(task.planned, view)
    return rendered if rendered is None else _sealed(rendered, task.planned)


def _sealed(rendered: Rendered, planned: PlannedTask) -> Rendered:
    """The change bound to its effect and gates, so that consent to it ends when the plan asks for less."""
    if rendered.change is None:
        return rendered
    change = rendered.change.sealed(effect=planned.effect, gates=tuple(g.text for g in planned.gates))
    return rendered.model_copy(update={"change": change})


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
    return _approval_blockers(task, rendered.change, records)


def _approval_blockers(task: Task, change: Change, records: Records) -> list[Blocker]:
    last = last_word(task, records.approvals)
    if last is None:
        reason = f"{task.planned.effect}: needs your approval of the exact commands"
    elif last.verdict == "deny":
        reason = f"denied by {last.by}: {last.message}"
    else:
        decisions = active_decisions(records.decisions)
        reason = why_void(last, change, to=records.consents.get(task.id), decisions=decisions)
    if not reason:
        return []
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
    if "decision" in kinds and kinds <= {"decision", "approval", "manual"}:
        return "awaiting_decision"
    return "blocked"
