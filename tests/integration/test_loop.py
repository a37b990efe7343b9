"""The loop: order, limits, retries, timeouts, interruption, several processes, on a real state.db."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engine import Bench, NoSources, Recorder, act, recon

from recon.agent.api import Change, ReachError, ReconContext
from recon.agent.engine.graph import check_plan
from recon.agent.engine.verdict import exit_code
from recon.agent.model.errors import PlanError
from recon.agent.model.tasks import Edge, GateSpec, Plan, PlannedTask, RetryPolicy
from recon.agent.runner.messages import TaskEnded, TaskStarted
from recon.agent.runner.ports import Options


def task(key: str, *needs: str, on: str = "succeeded", **more: object) -> PlannedTask:
    edges = tuple(Edge(key=n, on=on) for n in needs)  # type: ignore[arg-type]
    return PlannedTask(
        **{"key": key, "definition": key.split("[")[0], "title": key, "kind": "recon", "needs": edges, **more}  # type: ignore[arg-type]
    )


async def ok(context: ReconContext) -> str:
    return "fine"


@pytest.fixture
def benches() -> Iterator[list[Bench]]:
    made: list[Bench] = []
    yield made
    for bench in made:
        bench.close()


def test_tasks_run_after_what_they_need_and_by_priority(tmp_path: Path, benches: list[Bench]) -> None:
    bench = Bench(tmp_path, [recon("a", ok)])
    benches.append(bench)
    plan = (
        task("a[last]", "a[low]", "a[high]"),
        task("a[low]", priority="low", order=1),
        task("a[mid]", order=0),
        task("a[high]", priority="high", order=9),
    )
    bench.plan(Plan(tasks=plan))
    bench.run(concurrency=1)
    started = [m.key for m in bench.messages if isinstance(m, TaskStarted)]
    assert started == ["a[high]", "a[mid]", "a[low]", "a[last]"]


def test_a_failed_or_cancelled_dependency_never_counts_as_satisfied(
    tmp_path: Path, benches: list[Bench]
) -> None:
    async def broken(context: ReconContext) -> str:
        raise ValueError("broken")

    bench = Bench(tmp_path, [recon("a", ok), recon("bad", broken)])
    benches.append(bench)
    bench.plan(
        Plan(
            tasks=(task("bad"), task("a[1]", "bad"), task("a[2]", "bad", on="settled"), task("a[3]", "a[1]"))
        )
    )
    bench.run()
    assert bench.statuses() == {"bad": "failed", "a[1]": "pending", "a[2]": "succeeded", "a[3]": "pending"}
    state = bench.state()
    waiting = state.task("a[1]")
    assert waiting is not None
    assert (waiting.status, waiting.blocked_by[0].ref, waiting.blocked_by[0].state) == (
        "blocked",
        "bad",
        "failed",
    )
    failed = state.task("bad")
    assert failed is not None and failed.error is not None
    assert "ValueError: broken" in failed.error["message"] and "Traceback" in failed.error["traceback"]
    assert exit_code("go", state.tasks) == 1


def test_who_asks_only_for_an_end_runs_also_when_that_end_can_never_come(
    tmp_path: Path, benches: list[Bench]
) -> None:
    failing = [True]

    async def sometimes(context: ReconContext) -> str:
        if failing[0]:
            raise ValueError("broken")
        return ""

    bench = Bench(tmp_path, [recon("a", ok), recon("bad", sometimes)])
    benches.append(bench)
    plan = (task("bad"), task("a[1]", "bad"), task("a[2]", "a[1]"), task("a[judge]", "a[2]", on="settled"))
    bench.plan(Plan(tasks=plan))
    bench.run()
    assert bench.statuses() == {
        "bad": "failed",
        "a[1]": "pending",
        "a[2]": "pending",
        "a[judge]": "succeeded",
    }
    failing[0] = False
    bench.store.set_status(1, old={"failed"}, new="pending", now=time.time(), actor="p")
    bench.run()
    assert set(bench.statuses().values()) == {"succeeded"}
    assert len(bench.store.attempts(4)) == 1


def test_a_retryable_failure_is_tried_again_and_then_given_up(tmp_path: Path, benches: list[Bench]) -> None:
    calls: list[float] = []

    async def away(context: ReconContext) -> str:
        calls.append(time.monotonic())
        raise ReachError("gone", target="t", operation="o", retryable=True, retry_after_s=0.05)

    bench = Bench(tmp_path, [recon("away", away)])
    benches.append(bench)
    bench.plan(Plan(tasks=(task("away", retry=RetryPolicy(attempts=3, first_delay_s=0.001)),)))
    bench.run()
    assert len(calls) == 3
    assert all(b - a >= 0.05 for a, b in itertools.pairwise(calls))
    assert bench.statuses() == {"away": "failed"}
    assert exit_code("needs_decision", bench.state().tasks) == 4
    assert [a.cause for a in bench.store.attempts(1)] == ["first", "retry", "retry"]


def test_a_task_that_hangs_is_ended_by_its_timeout(tmp_path: Path, benches: list[Bench]) -> None:
    async def hang(context: ReconContext) -> str:
        await asyncio.sleep(60)
        return ""

    bench = Bench(tmp_path, [recon("hang", hang)])
    benches.append(bench)
    bench.plan(Plan(tasks=(task("hang", timeout_s=0.05),)))
    bench.run()
    failed = bench.state().task("hang")
    assert failed is not None and failed.error is not None
    assert failed.error["message"] == "did not end within 0.05 s"


def test_lanes_and_the_total_are_limited(tmp_path: Path, benches: list[Bench]) -> None:
    now: dict[str, int] = {"hub": 0, "": 0}
    most: dict[str, int] = {"hub": 0, "": 0, "all": 0}

    async def busy(context: ReconContext) -> str:
        lane = str(context.params["lane"])
        now[lane] += 1
        most[lane] = max(most[lane], now[lane])
        most["all"] = max(most["all"], sum(now.values()))
        await asyncio.sleep(0.005)
        now[lane] -= 1
        return ""

    bench = Bench(tmp_path, [recon("a", busy)])
    benches.append(bench)
    bench.plan(
        Plan(
            tasks=tuple(
                task(f"a[{i}]", limit="hub" if i % 2 else "", params={"lane": "hub" if i % 2 else ""})
                for i in range(40)
            )
        )
    )
    loop = bench.loop(concurrency=5)
    loop.options = Options(concurrency=5, per_lane={"hub": 2}, poll_s=0.02)
    asyncio.run(loop.run())
    assert set(bench.statuses().values()) == {"succeeded"}
    assert most == {"hub": 2, "": most[""], "all": 5}
    assert most[""] >= 3


def test_a_stopped_run_leaves_interrupted_tasks_that_resume_finishes(
    tmp_path: Path, benches: list[Bench]
) -> None:
    runs: list[str] = []

    async def slow(context: ReconContext) -> str:
        runs.append(str(context.params["key"]))
        await asyncio.sleep(0.3)
        return ""

    bench = Bench(tmp_path, [recon("a", slow)])
    benches.append(bench)
    bench.plan(Plan(tasks=tuple(task(f"a[{i}]", params={"key": f"a[{i}]"}) for i in range(4))))

    async def stopped() -> None:
        loop = bench.loop(concurrency=2)
        asyncio.get_running_loop().call_later(0.1, loop.stop)
        await loop.run()

    asyncio.run(stopped())
    assert sorted(bench.statuses().values()) == ["interrupted", "interrupted", "pending", "pending"]
    bench.run()
    assert set(bench.statuses().values()) == {"succeeded"}
    assert len(runs) == 6
    assert [a.cause for a in bench.store.attempts(1)] == ["first", "resume"]


def test_a_change_waits_for_gate_and_approval_and_is_applied_once(
    tmp_path: Path, benches: list[Bench]
) -> None:
    so: set[str] = set()
    hand = Recorder(before=lambda argv: so.add("stop"))
    change = Change(
        task="stop", host="h", steps=(("systemctl", "stop", "x.service"),), exact=(("unit", "x.service"),)
    )
    bench = Bench(
        tmp_path, [act("stop", lambda key: key in so, lambda v, p: change)], sources=NoSources(hand)
    )
    benches.append(bench)
    bench.plan(
        Plan(
            tasks=(
                task(
                    "stop", kind="act", effect="mutating", gates=(GateSpec(text='decided("service.stop")'),)
                ),
            )
        )
    )
    bench.run()
    first = bench.state().task("stop")
    assert first is not None and first.status == "blocked" and hand.ran == []
    bench.store.decide(
        bench.mission.id, about_key="service.stop", option="yes", value="", because="b", by="p", via="cli",
        shown_sha="", now=time.time(), from_n=1, to_n=1,
    )  # fmt: skip
    bench.run()
    second = bench.state().task("stop")
    assert second is not None and second.status == "awaiting_approval" and hand.ran == []
    assert second.rendered is not None and second.rendered.change is not None
    sealed = second.rendered.change
    consent = {"exact_hash": sealed.exact_hash, "shown_sha": "", "message": "", "via": "cli", "by": "p"}
    bench.store.approve(second.task.id, change_hash="other", verdict="approve", now=time.time(), **consent)
    bench.run()
    assert hand.ran == [], "an approval of another change must not start this one"
    bench.store.approve(
        second.task.id, change_hash=sealed.change_hash, verdict="approve", now=time.time(), **consent
    )
    bench.run()
    bench.run()
    assert hand.ran == [("systemctl", "stop", "x.service")]
    assert bench.statuses() == {"stop": "succeeded"}
    phases = [e.new for e in bench.store.events_after(bench.mission.id, 0) if e.entity == "attempt"]
    assert phases == ["check", "apply", "verify"]


def test_a_failing_step_is_a_failed_task_with_the_commands_words(
    tmp_path: Path, benches: list[Bench]
) -> None:
    hand = Recorder(exit_code=5)
    change = Change(task="stop", host="h", steps=(("false",),))
    bench = Bench(tmp_path, [act("stop", lambda key: False, lambda v, p: change)], sources=NoSources(hand))
    benches.append(bench)
    bench.plan(Plan(tasks=(task("stop", kind="act"),)))
    bench.run()
    failed = bench.state().task("stop")
    assert failed is not None and failed.error is not None
    assert failed.error["message"] == "step 1 ended with exit code 5: false: no output"


def test_bad_graphs_are_plan_errors() -> None:
    with pytest.raises(PlanError, match="a -> b -> a"):
        check_plan(Plan(tasks=(task("a", "b"), task("b", "a"))))
    with pytest.raises(PlanError, match="needs 'c', which does not exist"):
        check_plan(Plan(tasks=(task("a", "c"),)))
    with pytest.raises(PlanError, match="two todo items are called 'a'"):
        check_plan(Plan(tasks=(task("a"), task("a"))))
    chain = Plan(tasks=tuple(task(f"t{i}", *([f"t{i - 1}"] if i else [])) for i in range(20_000)))
    check_plan(chain)


_WORKER = """
import asyncio, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.engine import Bench, recon
async def body(context):
    with open({log!r}, "a") as log:
        log.write(f"{{context.params['key']}}\\n")
    await asyncio.sleep(0.01)
    return ""
bench = Bench(Path({folder!r}), [recon("a", body)])
bench.run(concurrency=3)
bench.close()
"""


def test_two_processes_share_the_work_and_each_task_runs_once(tmp_path: Path, benches: list[Bench]) -> None:
    bench = Bench(tmp_path, [recon("a", ok)])
    benches.append(bench)
    bench.plan(Plan(tasks=tuple(task(f"a[{i}]", params={"key": f"a[{i}]"}) for i in range(60))))
    log = tmp_path / "log"
    code = _WORKER.format(tests=str(Path(__file__).parents[1]), log=str(log), folder=str(tmp_path))
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    workers = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=environment) for _ in range(2)
    ]
    assert [w.wait(60) for w in workers] == [0, 0]
    ran = log.read_text().split()
    assert sorted(ran) == sorted(f"a[{i}]" for i in range(60))
    assert set(bench.statuses().values()) == {"succeeded"}
    by_run = {a.run_id for t in bench.store.tasks(bench.mission.id) for a in bench.store.attempts(t.id)}
    assert len(by_run) == 2, "both processes did some of it"


def test_what_a_killed_process_had_in_hand_is_taken_over_at_once(
    tmp_path: Path, benches: list[Bench]
) -> None:
    bench = Bench(tmp_path, [recon("a", ok)])
    benches.append(bench)
    bench.plan(Plan(tasks=tuple(task(f"a[{i}]", params={"key": f"a[{i}]"}) for i in range(3))))
    log = tmp_path / "log"
    code = _WORKER.format(tests=str(Path(__file__).parents[1]), log=str(log), folder=str(tmp_path))
    worker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code).replace("0.01", "60")])
    deadline = time.monotonic() + 30
    while not log.exists() or len(log.read_text().split()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    worker.kill()
    worker.wait(10)
    assert set(bench.statuses().values()) == {"running"}
    began = time.monotonic()
    bench.run()
    assert set(bench.statuses().values()) == {"succeeded"}
    assert time.monotonic() - began < 10, (
        "a dead runner on this machine is not waited for until its lease ends"
    )
    assert {a.cause for a in bench.store.attempts(1)} == {"first", "resume"}


def test_cancelling_from_outside_stops_a_running_task(tmp_path: Path, benches: list[Bench]) -> None:
    async def slow(context: ReconContext) -> str:
        await asyncio.sleep(30)
        return ""

    bench = Bench(tmp_path, [recon("a", slow)])
    other = Bench(tmp_path, [recon("a", slow)])
    benches += [bench, other]
    bench.plan(Plan(tasks=(task("a"),)))

    async def cancelled() -> None:
        loop = bench.loop()
        asyncio.get_running_loop().call_later(
            0.1,
            lambda: other.store.set_status(1, old={"running"}, new="cancelled", now=time.time(), actor="p"),
        )
        async with asyncio.timeout(10):
            await loop.run()

    asyncio.run(cancelled())
    assert bench.statuses() == {"a": "cancelled"}
    assert not [m for m in bench.messages if isinstance(m, TaskEnded) and m.status == "interrupted"]


def test_a_replay_starts_no_change_whatever_was_approved(tmp_path: Path, benches: list[Bench]) -> None:
    hand = Recorder()
    change = Change(task="stop", host="h", steps=(("true",),))
    bench = Bench(
        tmp_path, [act("stop", lambda key: bool(hand.ran), lambda v, p: change)], sources=NoSources(hand)
    )
    benches.append(bench)
    bench.plan(Plan(tasks=(task("stop", kind="act", effect="mutating"),)))
    shown = bench.state().task("stop")
    assert shown is not None and shown.rendered is not None and shown.rendered.change is not None
    bench.store.approve(
        1, change_hash=shown.rendered.change.change_hash, exact_hash="", shown_sha="", verdict="approve", message="", via="cli", by="p",
        now=time.time(),
    )  # fmt: skip
    bench.mission = bench.mission.model_copy(update={"origin": "replay"})
    bench.run()
    assert (hand.ran, bench.statuses()) == ([], {"stop": "pending"})
    bench.mission = bench.mission.model_copy(update={"origin": "live"})
    bench.run()
    assert bench.statuses() == {"stop": "succeeded"}
