"""Traps that other task runners fell into, each as a test: on a real state.db, with the loop and the command around it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.crashes import a_copy_after_each_commit
from support.engine import Bench, NoSources, Recorder, act, recon
from support.killed import Moments, forked
from support.plans import change_task, session_of

from recon.agent.api import Change, ReconContext
from recon.agent.engine.graph import check_plan
from recon.agent.model.errors import PlanError, StateDamaged, StateNewer
from recon.agent.model.tasks import Edge, Plan, PlannedTask
from recon.agent.report import json_report
from recon.agent.store import Store
from recon.agent.store.schema import metadata


def task(key: str, *needs: str) -> PlannedTask:
    return PlannedTask(
        key=key, definition="a", title=key, kind="recon", needs=tuple(Edge(key=n) for n in needs), params={"key": key}
    )  # fmt: skip


async def ok(context: ReconContext) -> str:
    return "fine"


def chain(count: int) -> Plan:
    return Plan(tasks=tuple(task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in range(count)))


def test_state_written_only_at_exit(tmp_path: Path) -> None:
    """kill -9 in the middle: what had finished is not repeated."""
    bench = Bench(tmp_path, [recon("a", ok)])
    bench.plan(chain(20))
    bench.close()

    def half() -> None:
        moments = Moments(kill_at=12)
        with moments.watching_commits():
            Bench(tmp_path, [recon("a", ok)]).run(concurrency=1)

    assert forked(half) == -9
    bench = Bench(tmp_path, [recon("a", ok)])
    before = [key for key, status in bench.statuses().items() if status == "succeeded"]
    assert 5 < len(before) < 20
    bench.reopen()
    bench.run()
    assert set(bench.statuses().values()) == {"succeeded"}
    ids = {t.key: t.id for t in bench.store.tasks(bench.mission.id)}
    assert {len(bench.store.attempts(ids[key])) for key in before} == {1}
    bench.close()


def test_a_sync_for_every_commit_but_a_full_one_before_what_destroys(tmp_path: Path) -> None:
    hand = Recorder()
    change = Change(task="wipe", host="h", steps=(("wipe",),))
    bench = Bench(
        tmp_path, [act("change", lambda key: bool(hand.ran), lambda v, p: change)], sources=NoSources(hand)
    )
    raw = bench.store._raw
    assert raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert raw.execute("PRAGMA synchronous").fetchone()[0] == 1, "NORMAL"
    bench.plan(Plan(tasks=(change_task("wipe", effect="destructive"),)))
    session_of(bench).approve(bench.mission, "wipe", confirm="wipe")
    seen: list[tuple[str, int]] = []
    plain = bench.store.step

    def step(*args: object, **more: object) -> object:
        seen.append(("durable" if more["durable"] else "plain", len(more["takes"])))  # type: ignore[arg-type]
        return plain(*args, **more)  # type: ignore[arg-type]

    bench.store.step = step  # type: ignore[method-assign, assignment]
    bench.run()
    assert ("durable", 1) in seen and hand.ran == [("wipe",)]
    assert raw.execute("PRAGMA synchronous").fetchone()[0] == 1
    bench.close()


def test_a_dead_run_shown_as_running(tmp_path: Path) -> None:
    """After kill -9 the report says interrupted, never running."""

    def dies() -> None:
        async def body(context: ReconContext) -> str:
            os.kill(os.getpid(), 9)
            return ""

        Bench(tmp_path, [recon("a", body)]).run()

    bench = Bench(tmp_path, [recon("a", ok)])
    bench.plan(Plan(tasks=(task("t"),)))
    assert forked(dies) == -9
    bench.close()
    environment = {**os.environ, "COLUMNS": "80"}
    shown = subprocess.run(
        [sys.executable, "-m", "recon", "report", "--format", "json", "--db", str(bench.path)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert '"running"' not in shown.stdout, shown.stdout[:2000] + shown.stderr
    assert '"interrupted"' in shown.stdout


def test_an_edge_to_a_task_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="does not exist"):
        check_plan(Plan(tasks=(task("a", "missing"),)))
    bench = Bench(tmp_path, [recon("a", ok)])
    with pytest.raises(PlanError):
        bench.plan(Plan(tasks=(task("a", "missing"),)))
    assert bench.statuses() == {}
    bench.close()


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_cancelled_or_failed_dependency_that_counts_as_done(tmp_path: Path, how: str) -> None:
    async def broken(context: ReconContext) -> str:
        raise ValueError("broken")

    bench = Bench(tmp_path, [recon("a", broken if how == "failed" else ok)])
    bench.plan(chain(3))
    if how == "cancelled":
        bench.store.set_status(1, old={"pending"}, new="cancelled", now=time.time(), actor="p")
    bench.run()
    assert bench.statuses() == {"t0": how, "t1": "pending", "t2": "pending"}
    state = bench.state().task("t1")
    assert state is not None and (state.status, state.blocked_by[0].state) == ("blocked", how)
    assert state.blocked_by[0].command == "recon retry t0"
    bench.close()


def test_an_unreadable_fact_that_reads_as_pending(tmp_path: Path) -> None:
    """Error, unknown and false are three results; none of them opens, and each says which it is."""
    hand = Recorder()
    bench = Bench(
        tmp_path, [act("change", lambda key: False, lambda v, p: Change(task="c", host="h", steps=(("c",),)))],
        sources=NoSources(hand),
    )  # fmt: skip
    texts = {"false": "1 > 2", "unknown": "host.free > 1", "error": '1 > "a"'}
    bench.plan(Plan(tasks=tuple(change_task(key, gate=text) for key, text in texts.items())))
    for key in texts:
        session_of(bench).approve(bench.mission, key)
    bench.run()
    state = bench.state()
    assert {t.task.key: t.gates[0].result for t in state.tasks} == {k: k for k in texts}
    assert hand.ran == [] and {t.status for t in state.tasks} == {"blocked"}


def test_an_approval_that_runs_the_body_again(tmp_path: Path) -> None:
    """What ran before the approval ran once, and what it guards runs once."""
    ran, hand = [], Recorder()

    async def body(context: ReconContext) -> str:
        ran.append("body")
        return ""

    bench = Bench(
        tmp_path, [recon("a", body), act("change", lambda key: bool(hand.ran), lambda v, p: Change(task="c", host="h", steps=(("c",),)))],
        sources=NoSources(hand),
    )  # fmt: skip
    bench.plan(Plan(tasks=(task("t"), change_task("c", "t"))))
    bench.run()
    assert ran == ["body"] and hand.ran == []
    session_of(bench).approve(bench.mission, "c")
    bench.run()
    bench.run()
    assert ran == ["body"] and hand.ran == [("c",)]
    bench.close()


def test_two_questions_answered_in_the_wrong_order(tmp_path: Path) -> None:
    """Answers and approvals are keyed: given in the other order each reaches its own."""
    hand = Recorder()
    changes = {k: Change(task=k, host="h", steps=((k,),)) for k in ("one", "two")}
    bench = Bench(
        tmp_path, [act("change", lambda key: (key,) in hand.ran, lambda v, p: changes[p["key"]])], sources=NoSources(hand)
    )  # fmt: skip
    bench.plan(
        Plan(tasks=(change_task("one", gate='decided("q1")'), change_task("two", gate='decided("q2")')))
    )
    session_of(bench).approve(bench.mission, "two")
    bench.store.decide(
        bench.mission.id, about_key="q2", option="yes", value="", because="b", by="p", via="cli", shown_sha="",
        now=time.time(), from_n=1, to_n=1,
    )  # fmt: skip
    bench.run()
    assert hand.ran == [("two",)]
    state = bench.state().task("one")
    assert state is not None and state.status == "blocked"
    bench.close()


def test_a_corrupt_or_newer_file_that_is_replaced_by_an_empty_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [recon("a", ok)])
    bench.plan(Plan(tasks=(task("t"),)))
    bench.close()
    with sqlite3.connect(bench.path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    newer = bench.path.read_bytes()
    with pytest.raises(StateNewer):
        Store.open(bench.path)
    assert bench.path.read_bytes() == newer
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"{}" * 5000)
    with pytest.raises(StateDamaged):
        Store.open(broken)
    assert broken.read_bytes() == b"{}" * 5000
    for path in (bench.path, broken):
        said = subprocess.run(
            [sys.executable, "-m", "recon", "report", "--db", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 5 and said.stderr.strip()


def test_finished_records_that_are_collected_away(tmp_path: Path) -> None:
    """From commit to commit no table loses a row, though the plan drops a task and everything is run again."""
    kept = [t.name for t in metadata.sorted_tables if t.name not in ("setting", "dependency", "gate")]
    bench = Bench(tmp_path, [recon("a", ok)])
    with a_copy_after_each_commit(tmp_path / "copies") as copies:
        bench.plan(chain(4))
        bench.run()
        bench.plan(Plan(tasks=chain(4).tasks[:2]))
        bench.run()
        bench.store.set_status(1, old={"succeeded"}, new="pending", now=time.time(), actor="p")
        bench.run()
    bench.close()
    counts: dict[str, int] = {}
    for copy in copies:
        with sqlite3.connect(copy) as raw:
            now = {name: raw.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in kept}
        raw.close()
        assert not {name for name, n in counts.items() if now[name] < n}
        counts = now
    assert counts["task"] == 4 and counts["attempt"] == 5


def test_blocked_that_looks_like_success(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, [act("change", lambda key: False, lambda v, p: Change(task="c", host="h", steps=(("c",),)))]
    )
    bench.plan(Plan(tasks=(change_task("c", gate='decided("q")'),)))
    bench.run()
    state = bench.state()
    assert state.tasks[0].status == "blocked" and json_report.report(state)["tasks"][0]["status"] == "blocked"
    bench.close()
