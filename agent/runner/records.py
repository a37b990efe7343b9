"""Reading one mission out of state.db for the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from recon.agent.api import ActTask
from recon.agent.engine.assemble import Records, Renderer
from recon.agent.engine.view import View
from recon.agent.model.changes import Change, Consented, Rendered, consented
from recon.agent.model.errors import StoreError
from recon.agent.model.findings import Finding
from recon.agent.model.records import Approval
from recon.agent.model.tasks import Attempt, PlannedTask, Task
from recon.agent.runner.ports import Registry
from recon.agent.runner.process import is_dead, this_process
from recon.agent.runner.takeover import taken_notes
from recon.agent.store import MANUAL, Store


def load_records(
    store: Store, mission_id: str, *, findings: Sequence[Finding] | None = None, attempts: bool = False
) -> Records:
    """The stored rows of a mission's head revision, read from one snapshot. `attempts`: all that a reader is shown."""
    with store.snapshot():
        mission = store.mission(mission_id)
        revision = store.revision(mission_id)
        tasks = store.tasks(mission_id)
        if attempts:
            tasks = _found_dead(store, tasks)
        approvals = store.approvals(mission_id)
        consents = _consents(store, approvals)
        return Records(
            mission=mission, revision=revision, tasks=tasks, edges=store.dependencies(mission_id),
            unknowns=store.unknowns(mission_id), judgements=store.judgements(mission_id, revision.n),
            findings=store.findings(mission.realm) if findings is None else findings,
            decisions=store.decisions(mission_id), approvals=approvals,
            attempts=_by_task(store.mission_attempts(mission_id)) if attempts else {},
            runs=store.runs(mission_id) if attempts else (),
            events=store.event_count(mission_id) if attempts else 0,
            unplaced=store.triage(mission_id).unplaced, admitted=_admitted(tasks, consents),
            consents=consents, taken=_taken(store, mission_id, tasks) if attempts else {},
        )  # fmt: skip


def _found_dead(store: Store, tasks: list[Task]) -> list[Task]:
    """What a dead runner left as running is read as interrupted, also before the next run takes it over."""
    if not any(t.status == "running" for t in tasks):
        return tasks
    me = this_process()
    live = {run.id for run in store.live_runs() if not is_dead(run, me)}
    return [
        t.model_copy(update={"status": "interrupted"})
        if t.status == "running" and t.lease_run not in live
        else t
        for t in tasks
    ]


def _consents(store: Store, approvals: Sequence[Approval]) -> dict[int, Consented]:
    """What the last approval of each task was given to: its canonical JSON lies in the blob named by its hash."""
    last = {a.task_id: a for a in approvals}
    found: dict[int, Consented] = {}
    for task_id, approval in last.items():
        if approval.verdict == "approve" and approval.change_hash:
            with suppress(StoreError):  # not kept: the approval still counts for its exact hash, unexplained
                found[task_id] = consented(store.blob(approval.change_hash), approval.scope)
    return found


def _taken(store: Store, mission_id: str, tasks: Sequence[Task]) -> dict[int, str]:
    notes = taken_notes(store, mission_id, tasks)
    return {number: f"taken over from mission {note.mission_id}" for number, note in notes.items()}


def _admitted(tasks: Sequence[Task], consents: Mapping[int, Consented]) -> dict[int, Change]:
    """The approved changes of interrupted tasks: what they were doing."""
    interrupted = {t.id for t in tasks if t.status == "interrupted" and t.planned.kind == "act"}
    return {i: c for i, c in consents.items() if i in interrupted and isinstance(c, Change)}


def _by_task(attempts: Sequence[Attempt]) -> dict[int, list[Attempt]]:
    by_task: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        by_task.setdefault(attempt.task_id, []).append(attempt)
    return by_task


def renderer(registry: Registry) -> Renderer:
    """How act tasks of this registry render. A definition that raises is shown as not renderable, with its reason."""

    def render(planned: PlannedTask, view: View) -> Rendered | None:
        if planned.definition == MANUAL:
            return Rendered(lines=(planned.title,), manual=True)
        definition = registry.definitions.get(planned.definition)
        if not isinstance(definition, ActTask):
            return Rendered(missing=(f"the definition {planned.definition}",)) if definition is None else None
        return _guarded(lambda: definition.render(view.tracking(), planned.params))

    return render


def _guarded(call: Callable[[], Rendered]) -> Rendered:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - third-party code: the rest of the report must not depend on it
        return Rendered(missing=(f"rendering failed: {type(error).__name__}: {error}"[:200],))
