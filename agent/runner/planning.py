"""What a run looks for when it is idle: new todo items by rule, judges and facts to repeat, changes that may start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from recon.agent.engine.assemble import Renderer, assemble
from recon.agent.engine.consent import last_word
from recon.agent.engine.freshness import stale_findings
from recon.agent.engine.graph import check_plan
from recon.agent.mission import with_additions
from recon.agent.model.changes import Change
from recon.agent.model.errors import PlanError
from recon.agent.model.missions import Mission, Revision
from recon.agent.model.records import Approval
from recon.agent.model.state import MissionState, TaskState
from recon.agent.model.tasks import Attempt, Plan, PlannedTask, Task
from recon.agent.runner.evidence import Knowledge
from recon.agent.runner.ports import Clock, Registry
from recon.agent.runner.records import load_records
from recon.agent.runner.takeover import Taken, take_over, taken_notes
from recon.agent.store import Store

_MAX_ROUNDS: Final = 50  # rules that still bring new items after so many rounds bring them for ever
_MAX_REFRESHES: Final = 3  # of one task in one run: a fact that ages faster than it is read must not loop


@dataclass(frozen=True)
class Added:
    """What a look at the playbook brought: (key, because) of the items that findings brought, and whether to reload."""

    brought: tuple[tuple[str, str], ...] = ()
    changed: bool = False
    taken: tuple[Taken, ...] = ()  # readings of other missions


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
        plan = with_additions(
            self.registry.plan(head.playbook, head.intent, self.knowledge.view), head.intent
        )
        stored = self.store.tasks(self.mission.id)
        if self._same(plan, stored):
            return Added()
        self.rounds += 1
        if self.rounds > _MAX_ROUNDS:
            raise PlanError(f"playbook {head.playbook} brings new todo items without end")
        known = {t.key for t in stored}
        check_plan(plan, known_keys=sorted(known))
        with self.store.transaction():
            tasks = self.store.put_plan(
                self.mission.id, head.n, plan, definition_hashes=self.registry.hashes(), now=self.clock.wall(),
                actor=self.actor, run_id=self.run_id,
            )  # fmt: skip
            taken = take_over(
                self.store, self.mission, [t for t in tasks if t.key not in known], intent=head.intent,
                registry=self.registry, view=self.knowledge.view, at=self.clock.wall(), actor=self.actor,
                run_id=self.run_id,
            )  # fmt: skip
        brought = tuple((t.key, t.because) for t in plan.tasks if t.key not in known and t.because)
        return Added(brought, changed=True, taken=tuple(taken))

    def _same(self, plan: Plan, stored: list[Task]) -> bool:
        held = {t.key: t for t in stored if t.in_head}
        unknowns = {u.key: u for u in self.store.unknowns(self.mission.id)}
        return all(_as_planned(held.get(t.key), t) for t in plan.tasks) and all(
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

    def refresh_at_start(self, head: Revision) -> list[tuple[Task, str]]:
        """Live missions: facts that went stale since they were read, and reads that failed in an earlier run."""
        del head
        return self._read_again(
            {t.key: "it failed in an earlier run" for t in self._facts() if t.status == "failed"}
            | self._stale_producers()
        )

    def facts_to_refresh(self, head: Revision) -> list[tuple[Task, str]]:
        """Live missions: what has to be read again now. Stale facts that the gates of waiting changes rest on; facts
        that ended with something they depend on; what was read of a name that points elsewhere by now."""
        stale = self._stale_producers()
        wanted = self._gate_producers(head) if stale else set()
        return self._read_again(
            {key: why for key, why in stale.items() if key in wanted}
            | self._stale_producers(by_age=False)
            | self._moved()
        )

    def _read_again(self, because: Mapping[str, str]) -> list[tuple[Task, str]]:
        return [
            (task, because[task.key]) for task in self._facts()
            if task.key in because and task.status in ("succeeded", "failed") and self._reset(task, because[task.key])
        ]  # fmt: skip

    def _stale_producers(self, *, by_age: bool = True) -> dict[str, str]:
        """Keys of the tasks that found what is stale now, each with why."""
        facts = self._facts()
        if not facts:
            return {}
        view = self.knowledge.view
        since = self._read_since(facts)
        stale = stale_findings(view.all_findings(), view, since, by_age=by_age)
        return {finding.producer: f"{finding.name}: {why}" for finding, why in reversed(stale)}

    def _read_since(self, facts: Sequence[Task]) -> dict[str, float | None]:
        last = {a.task_id: a.started_at for a in self.store.mission_attempts(self.mission.id)}
        return {t.key: last.get(t.id) if t.status == "succeeded" else None for t in facts}

    def _moved(self) -> dict[str, str]:
        """The tasks that read the commit a name stood for when it stands for another one by now."""
        facts = self._facts()
        if not facts:
            return {}
        since = self._read_since(facts)
        took = {number: note.at for number, note in taken_notes(self.store, self.mission.id, facts).items()}
        found: dict[str, str] = {}
        for pointer in {
            f.subject: f for f in self.knowledge.view.all_findings() if f.name == "same_as"
        }.values():
            if pointer.producer not in since or pointer.outcome != "known":
                continue
            before = [
                f for f in self.store.finding_history(self.mission.realm, pointer.subject, "same_as")
                if f.outcome == "known" and f.value != pointer.value
            ]  # fmt: skip
            if not before:
                continue
            for task in facts:
                read = since[task.key] or took.get(task.id)
                needs = any(edge.key == pointer.producer for edge in task.planned.needs)
                if needs and (read is None or read < pointer.observed_at):
                    found[task.key] = f"{pointer.subject} moved from {before[-1].value} to {pointer.value}"
        return found

    def _facts(self) -> list[Task]:
        """The reading tasks of a live mission that has read anything yet."""
        if self.mission.origin != "live" or not self.knowledge.view.any_finding():
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


def _as_planned(held: Task | None, planned: PlannedTask) -> bool:
    """Whether a stored item is what the plan wants, save the fields that a person edited."""
    if held is None:
        return False
    kept = {name: getattr(held.planned, name) for name in held.edited}
    return held.planned == (planned.model_copy(update=kept) if kept else planned)


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
        acts = [t for t in state.tasks if t.task.planned.kind == "act"]
        return [t.task.id for t in acts if not self._against(t, state)]

    def guard(self, task_id: int) -> Callable[[], str]:
        """A function that says why the task must not start, or "" where it may; called inside the transaction."""

        def refuse() -> str:
            state = self._state()
            found = state.task_by_id(task_id)
            if found is None:
                return "not part of the mission's current revision"
            against = self._against(found, state)
            if not against and found.rendered is not None and found.rendered.change is not None:
                self.admitted[task_id] = found.rendered.change
                self._write_out(found, found.rendered.change, state.approvals)
            return against

        return refuse

    def _write_out(self, found: TaskState, change: Change, approvals: Sequence[Approval]) -> None:
        """Consent given within bounds becomes consent to the exact change, in the transaction that starts it."""
        last = last_word(found.task, approvals)
        if last is None or last.scope != "bounds" or found.task.planned.effect == "read_only":
            return
        self.store.keep_blob(change.canonical.encode())
        self.store.approve(
            found.task.id, change_hash=change.change_hash, exact_hash=change.exact_hash, shown_sha=last.shown_sha,
            verdict="approve", message=last.message, by=last.by, via=f"within the bounds of approval {last.id}",
            now=self.clock.wall(),
        )  # fmt: skip

    def why_not_apply(self, task_id: int) -> str:
        """Why a change that is running must not be applied now, or "": its gates and approval, evaluated once more."""
        state = self._state()
        found = state.task_by_id(task_id)
        change = found.rendered.change if found is not None and found.rendered is not None else None
        admitted = self.admitted.get(task_id)
        if found is None or change is None or admitted is None or change.change_hash != admitted.change_hash:
            return "what it would do is not what was approved any more"
        if found.task.planned.effect != "read_only":
            last = last_word(found.task, state.approvals)
            if last is None or last.verdict != "approve" or last.change_hash != admitted.change_hash:
                return "its approval does not stand any more"
        return "; ".join(g.spec.words or g.spec.text for g in found.gates if g.result != "true")

    def _against(self, found: TaskState, state: MissionState) -> str:
        if self.mission.origin == "replay":  # it shows what the real mission waits for, and starts nothing
            return "a replay changes nothing"
        if found.task.status not in ("pending", "interrupted"):
            return f"is {found.status}"
        if found.rendered is None or found.rendered.change is None:
            return "what it would do is not known"
        running = [t.task.key for t in state.tasks if t.status == "running" and t.task.planned.kind == "act"]
        if running:
            return f"{running[0]} is changing the host: one change at a time"
        blockers = found.blocked_by
        if (
            found.task.status == "interrupted"
        ):  # its check is read-only; the gates are asked again before it applies
            blockers = tuple(b for b in blockers if b.kind in ("dependency", "approval", "ended", "manual"))
        return "; ".join(b.reason for b in blockers)

    def _state(self) -> MissionState:
        return assemble(load_records(self.store, self.mission.id), now=self.clock.known(), render=self.render)
