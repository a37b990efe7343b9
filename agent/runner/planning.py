"""What a run looks for when it is idle: new todo items by rule, judges and facts to repeat, changes that may start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from recon.agent.engine.assemble import Renderer, assemble
from recon.agent.engine.graph import check_plan
from recon.agent.model.changes import Change
from recon.agent.model.errors import PlanError
from recon.agent.model.missions import Mission, Revision
from recon.agent.model.state import MissionState, TaskState
from recon.agent.model.tasks import Attempt, Plan, Task
from recon.agent.runner.evidence import Knowledge
from recon.agent.runner.ports import Clock, Registry
from recon.agent.runner.records import load_records
from recon.agent.store import Store

_MAX_ROUNDS: Final = 50  # rules that still bring new items after so many rounds bring them for ever
_MAX_REFRESHES: Final = 3  # of one task in one run: a fact that ages faster than it is read must not loop


@dataclass(frozen=True)
class Added:
    """What a look at the playbook brought: (key, because) of the items that findings brought, and whether to reload."""

    brought: tuple[tuple[str, str], ...] = ()
    changed: bool = False


@dataclass
class Planner:
    """Asks the playbook again and finds what has to run again (stateful: rounds of this run)."""

    store: Store
    mission: Mission
    registry: Registry
    knowledge: Knowledge
    clock: Clock
    run_id: int | None
    rounds: int = 0
    refreshed: Counter[str] = field(default_factory=Counter)

    @property
    def actor(self) -> str:
        """Who plans: a run, or the decision that made a new revision."""
        return "decide" if self.run_id is None else f"run:{self.run_id}"

    def extend(self, head: Revision) -> Added:
        """Stores what the playbook wants and the mission does not have yet. Raises PlanError for a bad plan."""
        if not head.playbook:
            return Added()
        plan = self.registry.playbook(head.playbook).plan(head.intent, self.knowledge.view)
        stored = self.store.tasks(self.mission.id)
        if self._same(plan, stored):
            return Added()
        self.rounds += 1
        if self.rounds > _MAX_ROUNDS:
            raise PlanError(f"playbook {head.playbook} brings new todo items without end")
        known = {t.key for t in stored}
        check_plan(plan, known_keys=sorted(known))
        self.store.put_plan(
            self.mission.id, head.n, plan, definition_hashes=self.registry.hashes(), now=self.clock.wall(),
            actor=self.actor, run_id=self.run_id,
        )  # fmt: skip
        brought = tuple((t.key, t.because) for t in plan.tasks if t.key not in known and t.because)
        return Added(brought, changed=True)

    def _same(self, plan: Plan, stored: list[Task]) -> bool:
        held = {t.key: t.planned for t in stored if t.in_head}
        unknowns = {u.key: u for u in self.store.unknowns(self.mission.id)}
        return all(held.get(t.key) == t for t in plan.tasks) and all(
            unknowns.get(u.key) == u for u in plan.unknowns
        )

    def judges_to_repeat(self, head: Revision) -> list[Task]:
        """Succeeded judges whose inputs read differently now, or that have not judged this revision."""
        judges = [
            t for t in self.store.tasks(self.mission.id)
            if t.planned.kind == "judge" and t.in_head and t.status == "succeeded"
        ]  # fmt: skip
        last = {a.task_id: a for a in self.store.mission_attempts(self.mission.id)} if judges else {}
        return [
            task for task in judges
            if self._outdated(last.get(task.id), head) and self._reset(task, "its inputs changed")
        ]  # fmt: skip

    def _outdated(self, attempt: Attempt | None, head: Revision) -> bool:
        if attempt is None or f"revision:{head.n}" not in attempt.reads:
            return True
        return self.knowledge.view.reread(attempt.reads) != attempt.input_hash

    def refresh_at_start(self, head: Revision) -> list[Task]:
        """Live missions: facts that went stale since they were read, and reads that failed in an earlier run."""
        del head
        stale = self._stale_producers()
        return [
            task for task in self._facts()
            if (task.status == "failed" and self._reset(task, "failed in an earlier run"))
            or (task.status == "succeeded" and task.key in stale and self._reset(task, stale[task.key]))
        ]  # fmt: skip

    def facts_to_refresh(self, head: Revision) -> list[Task]:
        """Live missions: the stale facts that the gates of waiting changes rest on, to be read right before a start."""
        stale = self._stale_producers()
        wanted = self._gate_producers(head) if stale else set()
        return [
            task for task in self._facts()
            if task.status == "succeeded" and task.key in stale and task.key in wanted
            and self._reset(task, stale[task.key])
        ]  # fmt: skip

    def _stale_producers(self) -> dict[str, str]:
        """Keys of the tasks that produced findings that are stale now, each with why."""
        if self.mission.origin != "live":
            return {}
        view = self.knowledge.view
        return {f.producer: why for f in view.all_findings() if (why := view.why_stale(f))}

    def _facts(self) -> list[Task]:
        if self.mission.origin != "live":
            return []
        return [t for t in self.store.tasks(self.mission.id) if t.in_head and t.planned.kind == "recon"]

    def _gate_producers(self, head: Revision) -> set[str]:
        state = assemble(
            load_records(self.store, self.mission.id), now=self.clock.known(), render=lambda *_: None
        )
        view = self.knowledge.view
        paths = [r for t in state.tasks for g in t.gates if g.result == "stale" for r in g.refs if "." in r]
        findings = [view.read(path).finding for path in paths]
        return {f.producer for f in findings if f is not None}

    def _reset(self, task: Task, because: str) -> bool:
        if self.refreshed[task.key] >= _MAX_REFRESHES + (task.planned.kind == "judge") * _MAX_ROUNDS:
            return False
        self.refreshed[task.key] += 1
        return self.store.set_status(
            task.id, old={task.status}, new="pending", now=self.clock.wall(), actor=self.actor,
            payload={"cause": "refresh", "because": because}, run_id=self.run_id,
        )  # fmt: skip


@dataclass
class StartGate:
    """Whether a change may start: evaluated on stored rows, once to find it, once more inside the transaction."""

    store: Store
    mission: Mission
    clock: Clock
    render: Renderer
    admitted: dict[int, Change] = field(default_factory=dict)  # task -> the change its guard let through

    def startable(self) -> list[int]:
        """The changes that may be taken now: everything holds, or they were interrupted and are looked at again first."""
        state = self._state()
        return [t.task.id for t in state.tasks if t.task.planned.kind == "act" and not self._against(t)]

    def guard(self, task_id: int) -> Callable[[], str]:
        """A function that says why the task must not start, or "" where it may; called inside the transaction."""

        def refuse() -> str:
            found = self._find(task_id)
            if found is None:
                return "not part of the mission's current revision"
            against = self._against(found)
            if not against and found.rendered is not None and found.rendered.change is not None:
                self.admitted[task_id] = found.rendered.change
            return against

        return refuse

    def why_not_apply(self, task_id: int) -> str:
        """Why a change that is running must not be applied now, or "": its gates and approval, evaluated once more."""
        found = self._find(task_id)
        change = found.rendered.change if found is not None and found.rendered is not None else None
        if found is None or change is None or change != self.admitted.get(task_id):
            return "what it would do is not what was approved any more"
        return "; ".join(g.spec.words or g.spec.text for g in found.gates if g.result != "true")

    def _against(self, found: TaskState) -> str:
        if self.mission.origin == "replay":  # it shows what the real mission waits for, and starts nothing
            return "a replay changes nothing"
        if found.task.status not in ("pending", "interrupted"):
            return f"is {found.status}"
        if found.rendered is None or found.rendered.change is None:
            return "what it would do is not known"
        blockers = found.blocked_by
        if (
            found.task.status == "interrupted"
        ):  # its check is read-only; the gates are asked again before it applies
            blockers = tuple(b for b in blockers if b.kind in ("dependency", "approval", "source", "manual"))
        return "; ".join(b.reason for b in blockers)

    def _find(self, task_id: int) -> TaskState | None:
        return next((t for t in self._state().tasks if t.task.id == task_id), None)

    def _state(self) -> MissionState:
        return assemble(load_records(self.store, self.mission.id), now=self.clock.known(), render=self.render)
