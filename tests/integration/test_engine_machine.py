"""The engine under random graphs, failures, cancels, decisions, approvals and crashes, on a real state.db."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.engine import Bench, NoSources, Recorder, act, recon

from recon.agent.api import Change, ReachError, ReconContext, View
from recon.agent.engine.assemble import make_view
from recon.agent.engine.gates import parse_gate
from recon.agent.model.base import Json
from recon.agent.model.tasks import Edge, GateSpec, Plan, PlannedTask, RetryPolicy
from recon.agent.runner.records import load_records
from recon.agent.store.replay_events import statuses

CRASH = "crash"


class Crash(BaseException):
    """Stands for kill -9: nothing after it runs, nothing is written down."""


class Engine(RuleBasedStateMachine):
    """Invariants: no task lost, none run again after success, no gate passed while false, none applied unapproved."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recon-machine-"))
        self.script: dict[str, list[str]] = {}
        self.plans: dict[str, PlannedTask] = {}
        self.succeeded_runs: Counter[str] = Counter()
        self.committed: set[str] = set()
        self.applied: Counter[str] = Counter()
        self.so: set[str] = set()
        self.faults: list[str] = []
        self.hand = Recorder(before=self._apply)
        self.bench = Bench(
            self.folder,
            [recon("body", self._body), act("change", self._is_so, self._change)],
            sources=NoSources(self.hand),
        )

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.close()
            shutil.rmtree(self.folder)

    # what tasks do

    async def _body(self, context: ReconContext) -> str:
        key = str(context.params["key"])
        if key in self.committed:
            self.faults.append(f"{key} ran again after success")
        for edge in self.plans[key].needs:
            if self.bench.statuses()[edge.key] not in ("succeeded", "skipped"):
                self.faults.append(f"{key} ran before {edge.key} had succeeded")
        outcome = self.script[key].pop(0) if self.script[key] else "ok"
        if outcome == CRASH:
            raise Crash
        if outcome == "fail":
            raise ValueError("scripted")
        if outcome == "unreachable":
            raise ReachError("scripted", target="t", operation="o", retryable=True)
        self.succeeded_runs[key] += 1
        return "done"

    def _is_so(self, key: str) -> bool:
        return key in self.so

    def _change(self, view: View, params: Mapping[str, Json]) -> Change:
        del view
        return Change(task=str(params["key"]), host="h", steps=(("apply", str(params["key"])),))

    def _apply(self, argv: tuple[str, ...]) -> None:
        key = argv[1]
        planned = self.plans[key]
        records = load_records(self.bench.store, self.bench.mission.id)
        view = make_view(records, now=time.time())
        if any(parse_gate(g.text).evaluate(view).truth != "true" for g in planned.gates):
            self.faults.append(f"{key} was applied behind a closed gate")
        task = next(t for t in records.tasks if t.key == key)
        mine = [a for a in records.approvals if a.task_id == task.id]
        if planned.effect != "read_only" and (not mine or mine[-1].verdict != "approve"):
            self.faults.append(f"{key} was applied without approval")
        if key in self.so:
            self.faults.append(f"{key} was applied twice")
        self.applied[key] += 1
        outcome = self.script[key].pop(0) if self.script[key] else "ok"
        if outcome == "crash-before":
            raise Crash
        self.so.add(key)
        if outcome == CRASH:
            raise Crash

    # what people and machines do to it

    @rule(data=st.data(), count=st.integers(1, 4), kind=st.sampled_from(["recon", "recon", "act"]))
    def add_tasks(self, data: st.DataObject, count: int, kind: str) -> None:
        fresh = []
        for _ in range(count):
            key = f"{kind}{len(self.plans)}"
            needs = (
                data.draw(st.lists(st.sampled_from(sorted(self.plans)), unique=True, max_size=3))
                if self.plans
                else []
            )
            words = ["ok", "fail", "unreachable", CRASH] if kind == "recon" else ["ok", CRASH, "crash-before"]
            self.script[key] = data.draw(st.lists(st.sampled_from(words), max_size=2))
            gates = (GateSpec(text=f'decided("q{data.draw(st.integers(0, 2))}")'),) if kind == "act" else ()
            self.plans[key] = PlannedTask(
                key=key, definition="body" if kind == "recon" else "change", params={"key": key}, title=key, kind=kind,
                needs=tuple(Edge(key=n) for n in needs), gates=gates, effect="read_only" if kind == "recon" else "mutating",
                retry=RetryPolicy(attempts=2, first_delay_s=0.001),
            )  # fmt: skip
            fresh.append(self.plans[key])
        self.bench.plan(Plan(tasks=tuple(self.plans.values())))

    @precondition(lambda self: self.plans)
    @rule(concurrency=st.integers(1, 5))
    def run(self, concurrency: int) -> None:
        try:
            self.bench.run(concurrency=concurrency)
        except BaseExceptionGroup as group:
            if group.split(Crash)[1] is not None:
                raise
            self.bench.reopen()
        except Crash:
            self.bench.reopen()
        self.committed |= {k for k, s in self.bench.statuses().items() if s == "succeeded"}

    @rule(question=st.integers(0, 2))
    def decide(self, question: int) -> None:
        self.bench.store.decide(
            self.bench.mission.id, about_key=f"q{question}", option="yes", value="", because="b", by="p", via="cli",
            shown_sha="", now=time.time(), from_n=1, to_n=1,
        )  # fmt: skip

    @precondition(lambda self: any(k.startswith("act") for k in self.plans))
    @rule(data=st.data(), verdict=st.sampled_from(["approve", "approve", "deny"]))
    def consent(self, data: st.DataObject, verdict: str) -> None:
        key = data.draw(st.sampled_from([k for k in self.plans if k.startswith("act")]))
        state = self.bench.state().task(key)
        assert state is not None and state.rendered is not None and state.rendered.change is not None
        with self.bench.store.transaction():
            self.bench.store.keep_blob(state.rendered.change.canonical.encode())
        self.bench.store.approve(
            state.task.id, change_hash=state.rendered.change.change_hash, exact_hash="", shown_sha="", verdict=verdict,
            message="", by="p", via="cli", now=time.time(),
        )  # fmt: skip

    @precondition(lambda self: self.plans)
    @rule(data=st.data(), new=st.sampled_from(["cancelled", "pending"]))
    def move(self, data: st.DataObject, new: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.plans)))
        task = next(t for t in self.bench.store.tasks(self.bench.mission.id) if t.key == key)
        old = {"pending", "interrupted"} if new == "cancelled" else {"failed", "cancelled"}
        self.bench.store.set_status(task.id, old=old, new=new, now=time.time(), actor="p")  # type: ignore[arg-type]

    # what must always hold

    @invariant()
    def nothing_is_lost_or_done_twice(self) -> None:
        if not hasattr(self, "bench"):
            return
        assert not self.faults, self.faults
        stored = self.bench.statuses()
        assert set(stored) == set(self.plans)
        assert self.committed <= {k for k, s in stored.items() if s == "succeeded"}
        assert "running" not in stored.values()

    @invariant()
    def the_event_log_tells_the_same(self) -> None:
        if not hasattr(self, "bench"):
            return
        events = self.bench.store.events_after(self.bench.mission.id, 0)
        told = statuses(events, entity="task")
        assert told == {str(t.id): t.status for t in self.bench.store.tasks(self.bench.mission.id)}


TestEngine = Engine.TestCase
TestEngine.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
