"""Taking and finishing: leases, fencing, guards, runs that die, and the log that reproduces it all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.missions import NOW, new_mission, open_store, plan_of, put, start

from recon.agent.model.errors import UsageError
from recon.agent.store import Finish, StepResult, Store, Take, TakenAttempt
from recon.agent.store.replay_events import fold, statuses


@dataclass
class Bench:
    """A mission with three tasks and one run."""

    store: Store
    mission_id: str
    ids: dict[str, int]
    run_id: int

    def take(self, *keys: str, now: float = NOW, run_id: int | None = None) -> StepResult:
        takes = [Take(self.ids[key]) for key in keys]
        return self.store.step(run_id or self.run_id, finishes=[], takes=takes, now=now, lease_s=30)

    def taken(self, key: str, *, now: float = NOW) -> TakenAttempt:
        return self.take(key, now=now).taken[self.ids[key]]

    def finish(self, finish: Finish, *, now: float = NOW) -> StepResult:
        return self.store.step(self.run_id, finishes=[finish], takes=[], now=now, lease_s=30)

    def end_of(self, key: str, taken: TakenAttempt) -> Finish:
        return Finish(self.ids[key], taken.attempt_id, taken.token, "succeeded", NOW + 1)

    def status(self, key: str) -> str:
        return self.store.task(self.ids[key]).status


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with open_store(tmp_path) as store:
        mission = new_mission(store)
        ids = put(store, mission.id, plan_of("a", "b", "c"))
        yield Bench(store, mission.id, ids, start(store, mission.id).id)


def test_a_task_that_is_taken_is_running_under_a_lease(bench: Bench) -> None:
    taken = bench.taken("a")
    task = bench.store.task(bench.ids["a"])
    assert (task.status, task.lease_run, task.lease_token, task.lease_until) == (
        "running",
        bench.run_id,
        1,
        NOW + 30,
    )
    attempt = bench.store.attempts(task.id)[0]
    assert (attempt.id, attempt.n, attempt.cause, attempt.outcome) == (taken.attempt_id, 1, "first", None)
    event = bench.store.events_after(bench.mission_id, 0)[-1]
    assert (event.entity_id, event.old, event.new, event.actor, event.run_id) == (
        str(task.id), "pending", "running", f"run:{bench.run_id}", bench.run_id,
    )  # fmt: skip


def test_how_an_attempt_ended_is_kept_with_it(bench: Bench) -> None:
    taken = bench.taken("a")
    end = replace(
        bench.end_of("a", taken), status="failed", outcome="timeout", summary="no answer", error={"type": "HostError"},
        input_hash="i-1", reads=("host.gpus", "decision:disk.room"),
    )  # fmt: skip
    result = bench.finish(end)
    task = bench.store.task(bench.ids["a"])
    assert (task.status, task.lease_run, task.lease_until) == ("failed", None, None)
    attempt = bench.store.attempts(task.id)[0]
    assert (attempt.outcome, attempt.summary, attempt.error, attempt.input_hash, attempt.ended_at, attempt.reads) == (
        "timeout", "no answer", {"type": "HostError"}, "i-1", NOW + 1,
        ("host.gpus", "decision:disk.room"),
    )  # fmt: skip
    last = bench.store.events_after(bench.mission_id, 0)[-1]
    assert (last.seq, last.new, last.payload) == (
        result.last_event, "failed", {"attempt": attempt.id, "outcome": "timeout"},
    )  # fmt: skip


def test_a_failed_attempt_that_will_be_retried_can_be_taken_again_with_another_token(bench: Bench) -> None:
    first = bench.taken("a")
    bench.finish(replace(bench.end_of("a", first), status="pending", outcome="failed"))
    again = bench.store.step(
        bench.run_id, finishes=[], takes=[Take(bench.ids["a"], cause="retry")], now=NOW, lease_s=30
    ).taken[bench.ids["a"]]
    assert (again.n, again.token) == (2, 2)
    assert [(a.n, a.cause, a.outcome) for a in bench.store.attempts(bench.ids["a"])] == [
        (1, "first", "failed"), (2, "retry", None),
    ]  # fmt: skip


def test_only_what_is_pending_or_interrupted_can_be_taken(bench: Bench) -> None:
    taken = bench.taken("a")
    assert bench.take("a").refused == {bench.ids["a"]: f"run {bench.run_id} has it"}
    bench.finish(bench.end_of("a", taken))
    assert bench.take("a").refused == {bench.ids["a"]: "it is succeeded"}
    other = new_mission(bench.store, key="other")
    foreign = put(bench.store, other.id, plan_of("x"))["x"]
    result = bench.store.step(
        bench.run_id, finishes=[], takes=[Take(foreign), Take(999)], now=NOW, lease_s=30
    )
    assert result.refused == {foreign: "not a task of this mission", 999: "not a task of this mission"}
    with pytest.raises(UsageError, match="no run 77"):
        bench.take("b", run_id=77)


def test_a_finish_and_a_take_of_one_step_are_stored_together(bench: Bench) -> None:
    taken = bench.taken("a")

    def explode() -> str:
        raise ZeroDivisionError

    seen = bench.store.event_count(bench.mission_id)
    with pytest.raises(ZeroDivisionError):
        bench.store.step(
            bench.run_id, finishes=[bench.end_of("a", taken)], takes=[Take(bench.ids["b"]), Take(bench.ids["c"], guard=explode)],
            now=NOW, lease_s=30,
        )  # fmt: skip
    assert (bench.status("a"), bench.status("b"), bench.store.event_count(bench.mission_id)) == (
        "running",
        "pending",
        seen,
    )


def test_a_guard_is_asked_inside_the_transaction_and_sees_what_this_step_finished(bench: Bench) -> None:
    taken = bench.taken("a")

    def a_succeeded() -> str:
        return "" if bench.status("a") == "succeeded" else "a has not succeeded"

    early = bench.store.step(
        bench.run_id, finishes=[], takes=[Take(bench.ids["b"], guard=a_succeeded)], now=NOW, lease_s=30
    )
    assert early.refused == {bench.ids["b"]: "a has not succeeded"}
    step = bench.store.step(
        bench.run_id, finishes=[bench.end_of("a", taken)], takes=[Take(bench.ids["b"], guard=a_succeeded)], now=NOW,
        lease_s=30, durable=True,
    )  # fmt: skip
    assert list(step.taken) == [bench.ids["b"]]


def test_a_runner_that_lost_its_task_is_fenced_out(bench: Bench) -> None:
    lost = bench.taken("a")
    assert [t.key for t in bench.store.reclaim(NOW + 31, lambda run: False)] == ["a"]
    assert bench.finish(bench.end_of("a", lost)).fenced == [bench.ids["a"]]
    assert bench.status("a") == "interrupted"
    again = bench.taken("a", now=NOW + 32)
    assert bench.finish(bench.end_of("a", lost)).fenced == [bench.ids["a"]]
    assert bench.status("a") == "running"
    assert not bench.finish(bench.end_of("a", again)).fenced
    assert [a.outcome for a in bench.store.attempts(bench.ids["a"])] == ["interrupted", "succeeded"]


def test_a_heartbeat_keeps_a_lease_alive(bench: Bench) -> None:
    bench.taken("a")
    bench.store.heartbeat(bench.run_id, NOW + 20, NOW + 50)
    assert bench.store.reclaim(NOW + 31, lambda run: False) == []
    assert bench.store.runs(bench.mission_id)[0].heartbeat_at == NOW + 20
    assert [t.key for t in bench.store.reclaim(NOW + 51, lambda run: False)] == ["a"]


def test_what_a_dead_run_had_in_hand_is_interrupted_at_once(bench: Bench) -> None:
    bench.taken("a")
    other = start(bench.store, bench.mission_id, pid=2)
    bench.take("b", run_id=other.id)
    assert [t.key for t in bench.store.reclaim(NOW + 1, lambda run: run.pid == 1)] == ["a"]
    assert (bench.status("a"), bench.status("b")) == ("interrupted", "running")
    assert bench.store.live_runs() == [other]
    assert bench.store.reclaim(NOW + 2, lambda run: False) == []


def test_what_a_run_left_running_when_it_ended_is_interrupted(bench: Bench) -> None:
    bench.taken("a")
    bench.store.end_run(bench.run_id, NOW + 1, 130)
    bench.store.end_run(bench.run_id, NOW + 9, 0)
    run = bench.store.runs(bench.mission_id)[0]
    assert (run.ended_at, run.exit_code) == (NOW + 1, 130)
    assert [t.key for t in bench.store.reclaim(NOW + 2, lambda run: False)] == ["a"]


def test_a_person_who_cancels_a_running_task_takes_it_from_its_runner(bench: Bench) -> None:
    taken = bench.taken("a")
    change = {"now": NOW, "actor": "ann", "payload": {"note": "not needed"}}
    assert not bench.store.set_status(bench.ids["a"], old={"pending"}, new="cancelled", **change)
    assert bench.store.set_status(bench.ids["a"], old={"pending", "running"}, new="cancelled", **change)
    assert bench.finish(bench.end_of("a", taken)).fenced == [bench.ids["a"]]
    assert (bench.status("a"), bench.store.attempts(bench.ids["a"])[0].outcome) == ("cancelled", "cancelled")
    event = bench.store.events_after(bench.mission_id, 0)[-1]
    assert (event.old, event.new, event.actor, event.payload) == (
        "running",
        "cancelled",
        "ann",
        {"note": "not needed"},
    )
    with pytest.raises(ValueError, match="only"):
        bench.store.set_status(bench.ids["a"], old={"cancelled"}, new="running", now=NOW, actor="ann")


def test_phases_and_logs_belong_to_an_attempt(bench: Bench) -> None:
    taken = bench.taken("a")
    assert bench.store.attempt_log(taken.attempt_id) == b""
    bench.store.set_phase(taken.attempt_id, "check", NOW)
    bench.store.set_phase(taken.attempt_id, "apply", NOW + 1)
    bench.store.attach_log(taken.attempt_id, b"stopping\n")
    bench.store.attach_log(taken.attempt_id, b"stopping\nstopped\n")
    assert bench.store.attempts(bench.ids["a"])[0].phase == "apply"
    assert bench.store.attempt_log(taken.attempt_id) == b"stopping\nstopped\n"
    phases = [(e.old, e.new) for e in bench.store.events_after(bench.mission_id, 0) if e.entity == "attempt"]
    assert phases == [("", "check"), ("check", "apply")]
    assert bench.store.mission_attempts(bench.mission_id) == bench.store.attempts(bench.ids["a"])
    with pytest.raises(UsageError, match="no attempt 99"):
        bench.store.set_phase(99, "check", NOW)


MOVES = st.sampled_from(
    [
        "take",
        "succeed",
        "fail",
        "retry",
        "late",
        "cancel",
        "reset",
        "die",
        "expire",
        "replan",
        "decide",
        "undo",
        "approve",
    ]
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.tuples(MOVES, st.sampled_from(["a", "b", "c"])), max_size=40))
def test_the_log_reproduces_every_status(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, str]]
) -> None:
    with open_store(tmp_path_factory.mktemp("state")) as store:
        mission = new_mission(store)
        bench = Bench(
            store, mission.id, put(store, mission.id, plan_of("a", "b", "c")), start(store, mission.id).id
        )
        mover = Mover(bench)
        for at, (move, key) in enumerate(moves):
            mover.move(move, key, now=NOW + at)
        events = store.events_after(mission.id, 0)
        assert statuses(events, entity="task") == {str(t.id): t.status for t in store.tasks(mission.id)}
        taken_back = {d.undoes for d in store.decisions(mission.id)}
        assert statuses(events, entity="decision") == {
            str(d.id): "undo" if d.undoes else "undone" if d.id in taken_back else "active"
            for d in store.decisions(mission.id)
        }
        assert statuses(events, entity="approval") == {
            str(a.id): a.verdict for a in store.approvals(mission.id)
        }
        assert mover.lost == []


class Mover:
    """Makes one move after another; remembers attempts in hand, and tasks that were taken after they succeeded."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.hand: dict[str, TakenAttempt] = {}
        self.stale: dict[str, TakenAttempt] = {}
        self.lost: list[str] = []

    def move(self, move: str, key: str, *, now: float) -> None:
        bench, store, task_id = self.bench, self.bench.store, self.bench.ids[key]
        match move:
            case "take":
                before = bench.status(key)
                if taken := bench.take(key, now=now).taken.get(task_id):
                    self.hand[key] = taken
                    self.lost += [key] if before not in ("pending", "interrupted") else []
            case "succeed" | "fail" | "retry" if key in self.hand:
                status = {"succeed": "succeeded", "fail": "failed", "retry": "pending"}[move]
                self.stale[key] = self.hand.pop(key)
                bench.finish(replace(bench.end_of(key, self.stale[key]), status=status), now=now)
            case "late" if key in self.stale:
                assert bench.finish(bench.end_of(key, self.stale[key]), now=now).fenced == [task_id]
            case "cancel":
                store.set_status(task_id, old={"pending", "running"}, new="cancelled", now=now, actor="ann")
            case "reset":
                store.set_status(
                    task_id, old={"failed", "cancelled", "succeeded"}, new="pending", now=now, actor="ann"
                )
            case "die":
                store.reclaim(now, lambda run: True)
                bench.run_id = start(store, bench.mission_id, now=now).id
            case "expire":
                store.reclaim(now + 1000, lambda run: False)
            case "replan":
                put(store, bench.mission_id, plan_of("a", "b", "c") if key == "a" else plan_of(key))
            case "decide" | "undo":
                self._decide(undo=move == "undo", now=now)
            case "approve":
                store.approve(
                    task_id, change_hash="c", exact_hash="e", shown_sha="s", verdict="approve", message="", by="ann",
                    via="cli", now=now,
                )  # fmt: skip

    def _decide(self, *, undo: bool, now: float) -> None:
        store, mission_id = self.bench.store, self.bench.mission_id
        made = store.decisions(mission_id)
        open_ones = [d.id for d in made if d.undoes is None and d.id not in {o.undoes for o in made}]
        if undo and not open_ones:
            return
        store.decide(
            mission_id, about_key="k", option="o", value="", because="", by="ann", via="cli", shown_sha="", now=now,
            from_n=1, to_n=1, undoes=open_ones[-1] if undo else None,
        )  # fmt: skip


def test_a_log_with_a_hole_is_not_believed(bench: Bench) -> None:
    bench.taken("a")
    events = bench.store.events_after(bench.mission_id, 0)
    assert fold(events)
    with pytest.raises(ValueError, match="was '', not 'pending'"):
        fold([e for e in events if e.new != "pending"])


def test_a_runner_that_is_alive_keeps_what_it_holds_however_late_its_heartbeat_is(bench: Bench) -> None:
    bench.taken("a")
    assert bench.store.reclaim(NOW + 3600, lambda run: False, lives=lambda run: True) == []
    assert [t.key for t in bench.store.reclaim(NOW + 3600, lambda run: False)] == ["a"]
