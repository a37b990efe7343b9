"""Reading one mission out of state.db for the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recon.agent.api import ActTask
from recon.agent.engine.assemble import Records, Renderer
from recon.agent.engine.view import View
from recon.agent.model.changes import Change, Rendered
from recon.agent.model.findings import Finding
from recon.agent.model.records import Approval
from recon.agent.model.tasks import Attempt, PlannedTask, Task
from recon.agent.runner.ports import Registry
from recon.agent.store import MANUAL, Store


def load_records(
    store: Store, mission_id: str, *, findings: Sequence[Finding] | None = None, attempts: bool = False
) -> Records:
    """The stored rows of a mission's head revision, read from one snapshot."""
    with store.snapshot():
        mission = store.mission(mission_id)
        revision = store.revision(mission_id)
        tasks = store.tasks(mission_id)
        approvals = store.approvals(mission_id)
        return Records(
            mission=mission, revision=revision, tasks=tasks, edges=store.dependencies(mission_id),
            unknowns=store.unknowns(mission_id), judgements=store.judgements(mission_id, revision.n),
            findings=store.findings(mission.realm) if findings is None else findings,
            decisions=store.decisions(mission_id), approvals=approvals,
            attempts=_by_task(store.mission_attempts(mission_id)) if attempts else {},
            runs=store.runs(mission_id) if attempts else (),
            events=store.event_count(mission_id) if attempts else 0,
            unplaced=store.triage(mission_id).unplaced, admitted=_admitted(store, tasks, approvals),
        )  # fmt: skip


def _admitted(store: Store, tasks: Sequence[Task], approvals: Sequence[Approval]) -> dict[int, Change]:
    """The approved changes of interrupted tasks: an approval keeps the canonical JSON of its change, named by its hash."""
    interrupted = {t.id for t in tasks if t.status == "interrupted" and t.planned.kind == "act"}
    last = {a.task_id: a for a in approvals if a.task_id in interrupted}
    return {
        task_id: Change.model_validate_json(store.blob(a.change_hash))
        for task_id, a in last.items()
        if a.verdict == "approve" and a.change_hash
    }


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
