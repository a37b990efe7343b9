"""Decide, undo, approve, deny, other changes, ageing facts, a jumping clock and crashes in the middle of an apply, at random.

Invariants: a change whose gate is false, unknown or stale never starts; none runs without a live approval of its exact
hash, least of all one that destroys; no row is lost; the event log tells every task, decision and approval.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.engine import Bench, NoSources, Recorder, act, recon
from support.plans import change_task, session_of

from recon.agent.api import Change, Draft, Fact, Raw, ReconContext, Request, View
from recon.agent.cli.choices import confirm_name
from recon.agent.engine.assemble import active_decisions, make_view
from recon.agent.engine.gates import parse_gate
from recon.agent.model.base import Json
from recon.agent.model.errors import RefusedError, UsageError
from recon.agent.model.tasks import Plan, PlannedTask
from recon.agent.runner.records import load_records
from recon.agent.store.replay_events import fold
from recon.agent.store.schema import metadata

LIFETIME_S = 60.0
GATES = (
    'decided("go")',
    "host.free >= 5",
    'decided("go") and host.free >= 5',
    "host.missing > 1",
    'not decided("go")',
)
KEPT = [t.name for t in metadata.sorted_tables if t.name not in ("setting", "dependency", "gate")]
FREE = Fact("free", lambda raw: [Draft(name="free", value=int(raw.text), lifetime_s=LIFETIME_S)])


class Crash(BaseException):
    """Stands for kill -9: nothing after it runs, nothing is written down."""


class Asked(NoSources):
    """A host whose free bytes a test sets (stateful)."""

    def __init__(self, machine: Consent) -> None:
        super().__init__(machine.hand)
        self._machine = machine

    async def fetch(self, request: Request) -> Raw:
        machine = self._machine
        return Raw(state="ok", exit_code=0, stdout=str(machine.free).encode(), observed_at=machine.now())


class Consent(RuleBasedStateMachine):
    """One mission with one fact and a few changes; its clock is ours."""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recon-consent-"))
        self.clock, self.free = 0.0, 7
        self.hand = Recorder(before=self._apply)
        self.so: set[str] = set()
        self.faults: list[str] = []
        self.applied: Counter[str] = Counter()
        self.rested_on: set[int] = set()  # decisions made before an apply whose gate asked for them
        self.crash: list[str] = []
        self.pids: Counter[str] = Counter()
        self.rows: dict[str, int] = {}
        self.bench = Bench(
            self.folder,
            [recon("look", self._look), act("change", self._is_so, self._change)],
            sources=Asked(self),
        )
        self.bench.wall = self.now
        effects = st.sampled_from(["mutating", "destructive"])
        self.plans = {
            f"act{n}": change_task(
                f"act{n}", gate=data.draw(st.sampled_from(GATES)), effect=data.draw(effects), order=n
            )
            for n in range(data.draw(st.integers(1, 3)))
        }
        look = PlannedTask(key="look", definition="look", title="look", kind="recon", order=9)
        self.bench.plan(Plan(tasks=(look, *self.plans.values())))

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.close()
            shutil.rmtree(self.folder)

    def now(self) -> float:
        return time.time() + self.clock

    # what tasks do

    async def _look(self, context: ReconContext) -> str:
        await context.ask(Request(connector="host", target="h", probe="free"), FREE, subject="host:h")
        return ""

    def _is_so(self, key: str) -> bool:
        return key in self.so

    def _change(self, view: View, params: Mapping[str, Json]) -> Change:
        key = str(params["key"])
        return Change(
            task=key,
            host="h",
            steps=(("apply", key),),
            exact=(("unit", key), ("main_pid", str(self.pids[key]))),
        )

    def _apply(self, argv: tuple[str, ...]) -> None:
        key = argv[1]
        planned = self.plans[key]
        records = load_records(self.bench.store, self.bench.mission.id)
        view = make_view(records, now=self.now())
        for gate in planned.gates:
            truth = parse_gate(gate.text).evaluate(view).truth
            if truth != "true":
                self.faults.append(f"{key} was applied while {gate.text} is {truth}")
        task = next(t for t in records.tasks if t.key == key)
        last = next((a for a in reversed(records.approvals) if a.task_id == task.id), None)
        exact = self._change(view, {"key": key}).sealed(
            effect=planned.effect, gates=tuple(g.text for g in planned.gates)
        )
        if last is None or last.verdict != "approve" or last.change_hash != exact.change_hash:
            self.faults.append(f"{key} was applied without a live approval of its exact hash")
        if key in self.so:
            self.faults.append(f"{key} was applied twice")
        self.applied[key] += 1
        if any('decided("go")' in gate.text for gate in planned.gates):
            self.rested_on |= {d.id for d in records.decisions if d.undoes is None}
        word = self.crash.pop() if self.crash else ""
        if word == "before":
            raise Crash
        self.so.add(key)
        if word == "after":
            raise Crash

    # what people and machines do

    @rule(crash=st.sampled_from(["", "", "before", "after"]))
    def run(self, crash: str) -> None:
        self.crash = [crash] if crash else []
        try:
            self.bench.run(concurrency=2)
        except BaseExceptionGroup as group:
            if group.split(Crash)[1] is not None:
                raise
            self.bench.reopen()
        except Crash:
            self.bench.reopen()

    @rule()
    def decide(self) -> None:
        self._say()

    @rule()
    def undo(self) -> None:
        """Refused exactly where a change that rested on the decision has begun since it was made."""
        held = active_decisions(self.bench.store.decisions(self.bench.mission.id)).get("go")
        if held is None:
            return
        rests = held.id in self.rested_on
        try:
            session_of(self.bench).undo(self.bench.mission, f"d{held.id}", because="b")
        except RefusedError:
            assert rests, f"d{held.id} could not be undone, though no change rested on it"
        else:
            assert not rests, f"d{held.id} was undone, though a change had begun on it"

    def _say(self) -> None:
        self.bench.store.decide(
            self.bench.mission.id, about_key="go", option="yes", value="", because="b", by="p", via="cli", shown_sha="",
            now=self.now(), from_n=1, to_n=1, undoes=None,
        )  # fmt: skip

    @rule(data=st.data(), verdict=st.sampled_from(["approve", "approve", "approve", "deny"]))
    def consent(self, data: st.DataObject, verdict: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.plans)))
        session = session_of(self.bench)
        task = session.state(self.bench.mission.id).task(key)  # at the session's own time, not the bench's
        assert task is not None
        if verdict == "deny":
            session.deny(self.bench.mission, key, message="no")
            return
        try:
            session.approve(self.bench.mission, key, confirm=confirm_name(task))
        except RefusedError:
            assert task.status not in ("awaiting_approval", "blocked", "awaiting_decision")

    @rule(data=st.data())
    def another_process_of_the_unit(self, data: st.DataObject) -> None:
        self.pids[data.draw(st.sampled_from(sorted(self.plans)))] += 1

    @rule(data=st.data(), gate=st.sampled_from(GATES))
    def another_gate(self, data: st.DataObject, gate: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.plans)))
        old = self.plans[key]
        self.plans[key] = change_task(key, gate=gate, effect=old.effect, order=old.order)
        look = PlannedTask(key="look", definition="look", title="look", kind="recon", order=9)
        self.bench.plan(Plan(tasks=(look, *self.plans.values())))

    @rule(seconds=st.sampled_from([30.0, 90.0, 3600.0, -3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock += seconds

    @rule(free=st.sampled_from([1, 7]))
    def the_host_changes(self, free: int) -> None:
        self.free = free

    @precondition(lambda self: any(s == "failed" for s in self.bench.statuses().values()))
    @rule()
    def retry(self) -> None:
        for key, status in self.bench.statuses().items():
            if status == "failed":
                try:
                    session_of(self.bench).retry(self.bench.mission, key)
                except UsageError:
                    raise AssertionError(key) from None

    # what must always hold

    @invariant()
    def nothing_ran_that_must_not(self) -> None:
        if hasattr(self, "bench"):
            assert not self.faults, self.faults
            assert self.so <= set(self.applied)

    @invariant()
    def no_row_is_lost(self) -> None:
        if not hasattr(self, "bench"):
            return
        with sqlite3.connect(self.bench.path) as raw:
            now = {name: raw.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in KEPT}
        raw.close()
        assert not {name for name, count in self.rows.items() if now[name] < count}
        self.rows = now

    @invariant()
    def the_event_log_tells_the_same(self) -> None:
        if not hasattr(self, "bench"):
            return
        store, mission = self.bench.store, self.bench.mission.id
        told = fold(store.events_after(mission, 0))
        decisions = store.decisions(mission)
        undone = {d.undoes for d in decisions}
        for task in store.tasks(mission):
            assert told["task", str(task.id)] == task.status
        for decision in decisions:
            word = "undo" if decision.undoes is not None else "undone" if decision.id in undone else "active"
            assert told["decision", str(decision.id)] == word
        for approval in store.approvals(mission):
            assert told["approval", str(approval.id)] == approval.verdict


TestConsent = Consent.TestCase
TestConsent.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
