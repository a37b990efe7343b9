"""Faults in a mission with decisions, approvals and changes: nothing is applied twice, lost, or applied unapproved."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest
from support.crashes import integrity
from support.engine import Bench, NoSources, Recorder, act, recon
from support.killed import Moments, WatchedHand, ended, forked, start
from support.plans import Host, change_task, session_of

from recon.agent.api import Change, Draft, Fact, Raw, ReconContext, Request
from recon.agent.model.errors import StoreError
from recon.agent.model.tasks import Plan, PlannedTask
from recon.agent.runner.ports import Registry
from recon.agent.store import Store
from recon.agent.store.replay_events import fold

CHANGES = ("archive", "stop", "wipe")


async def look(context: ReconContext) -> str:
    context.record([Draft(name="free", value=7, unit="B")], subject="host:h")
    return "7 bytes"


def facts(count: int) -> list[PlannedTask]:
    return [
        PlannedTask(key=f"look[{n}]", definition="look", title="look", kind="recon") for n in range(count)
    ]


def plan(count: int = 2) -> Plan:
    acts = (
        change_task("archive", gate='decided("go") and host.free >= 5'),
        change_task("stop", "archive", gate='decided("go")'),
        change_task("wipe", "stop", effect="destructive"),
    )
    return Plan(tasks=(*facts(count), *acts))


def bench_of(folder: Path, host: Host, moments: Moments | None = None) -> Bench:
    bench = host.bench(folder, hand=WatchedHand(moments or Moments()), state="one")
    bench.registry = Registry.of([*bench.registry.definitions.values(), recon("look", look)])
    return bench


def serve(bench: Bench, *, rounds: int = 12) -> None:
    """What a person does until nothing is left: run, retry, decide, approve."""
    session = session_of(bench)
    for _ in range(rounds):
        if not bench.statuses():
            bench.plan(plan())
        bench.run()
        state = bench.state()
        if not any(d.about_key == "go" for d in state.decisions):
            bench.store.decide(
                bench.mission.id, about_key="go", option="yes", value="", because="b", by="p", via="cli",
                shown_sha="", now=time.time(), from_n=1, to_n=1,
            )  # fmt: skip
        for key in (w.ref for w in state.waiting if w.kind == "approval"):
            change = state.task(key)
            assert change is not None and change.rendered is not None and change.rendered.change is not None
            session.approve(bench.mission, key, confirm=dict(change.rendered.change.exact)["path"])
        if set(bench.statuses().values()) == {"succeeded"}:
            return
    raise AssertionError(f"not done after {rounds} rounds: {bench.statuses()}")


def unapproved(folder: Path, host: Host) -> list[str]:
    """Applied changes that no live approval of their exact hash stands for."""
    if not host.lines():
        return []
    with Store.open(folder / "state.db") as store:
        mission = store.current_mission()
        assert mission is not None
        by_task = {a.task_id: a for a in store.approvals(mission.id)}
        wrong = []
        for task in store.tasks(mission.id):
            held = by_task.get(task.id)
            wanted = host.change(None, {"key": task.key}).sealed(  # type: ignore[arg-type]
                effect=task.planned.effect, gates=tuple(g.text for g in task.planned.gates)
            )
            if task.key in host.lines() and (
                held is None or held.verdict != "approve" or held.change_hash != wanted.change_hash
            ):
                wrong.append(task.key)
        return wrong


def check_whole(folder: Path, counts: Counter[str]) -> None:
    """The file is sound and its event log tells every status."""
    assert integrity(folder / "state.db") == "ok"
    with Store.open(folder / "state.db") as store:
        mission = store.current_mission()
        assert mission is not None
        told = fold(store.events_after(mission.id, 0))
        for task in store.tasks(mission.id):
            counts["statuses the log tells otherwise"] += told["task", str(task.id)] != task.status
        for approval in store.approvals(mission.id):
            counts["statuses the log tells otherwise"] += (
                told["approval", str(approval.id)] != approval.verdict
            )
        for decision in store.decisions(mission.id):
            counts["statuses the log tells otherwise"] += told["decision", str(decision.id)] != "active"


BAD = (
    "applied twice",
    "lost",
    "without approval",
    "rows lost",
    "statuses the log tells otherwise",
    "locks left",
)


def settle(folder: Path, host: Host, counts: Counter[str]) -> None:
    """What is left after a fault is resumed to the end, and everything is counted."""
    counts["without approval"] += len(unapproved(folder, host))
    bench = bench_of(folder, host)
    before = {(a.task_id, a.n) for a in bench.store.mission_attempts(bench.mission.id)}
    bench.reopen()
    try:
        serve(bench)
        after = {(a.task_id, a.n) for a in bench.store.mission_attempts(bench.mission.id)}
    finally:
        bench.close()
    times = Counter(host.lines())
    counts["applied twice"] += sum(n > 1 for n in times.values())
    counts["lost"] += len(set(CHANGES) - set(times))
    counts["without approval"] += len(unapproved(folder, host))
    counts["rows lost"] += len(before - after)
    counts["locks left"] += len([p for p in host.folder.iterdir() if p.name.startswith("lock")])
    check_whole(folder, counts)


def test_kill_9_at_every_commit_and_after_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def live(folder: Path, host: Host, moments: Moments) -> None:
        with moments.watching_commits():
            bench = bench_of(folder, host, moments)
            serve(bench)
            bench.close()

    whole = Moments()
    live(tmp_path / "whole", Host(tmp_path / "whole-host"), whole)
    counts: Counter[str] = Counter({name: 0 for name in BAD})
    for number, what in enumerate(whole.passed, 1):
        folder, host = tmp_path / str(number), Host(tmp_path / f"{number}-host")
        status = forked(lambda f=folder, h=host, n=number: live(f, h, Moments(kill_at=n)))  # type: ignore[misc]
        assert status == -9, f"was to be killed at moment {number} ({what}), ended with {status}"
        counts[f"killed after a {what}"] += 1
        counts["applied before the kill"] += len(host.lines())
        settle(folder, host, counts)
        shutil.rmtree(folder)
    with capsys.disabled():
        print(f"\nkill -9 at each of {len(whole.passed)} moments: {dict(counts)}")
    assert {name: counts[name] for name in BAD} == dict.fromkeys(BAD, 0)
    assert counts["killed after a commit"] > 30 and counts["killed after a command"] >= 9


def test_a_disk_that_fills_at_any_page_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter({name: 0 for name in BAD})
    with (tmp_path / "stderr").open("wb") as errors:
        for pages in range(12):
            folder, host = tmp_path / str(pages), Host(tmp_path / f"{pages}-host")
            setup = bench_of(folder, host)
            setup.plan(plan(60))
            setup.close()

            def filled(folder: Path = folder, host: Host = host, pages: int = pages) -> None:
                bench = bench_of(folder, host)
                held = bench.store._raw.execute("PRAGMA page_count").fetchone()[0]
                bench.store._raw.execute(f"PRAGMA max_page_count={held + pages}")
                try:
                    serve(bench)
                except (StoreError, BaseExceptionGroup) as error:
                    said = str(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else str(error)
                    assert "the disk is full" in said, said
                    os._exit(7)

            status = forked(filled, stderr=errors.fileno())
            assert status in (0, 7), (tmp_path / "stderr").read_text()
            counts["stopped by the full disk" if status else "had room enough"] += 1
            counts["applied before"] += len(host.lines())
            settle(folder, host, counts)
    with capsys.disabled():
        print(f"\na disk that fills: {dict(counts)}")
    assert {name: counts[name] for name in BAD} == dict.fromkeys(BAD, 0)
    assert counts["stopped by the full disk"] >= 3 and counts["applied before"] > 0


def test_eight_processes_storm_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, host = tmp_path / "s", Host(tmp_path / "host")
    setup = bench_of(folder, host)
    setup.plan(plan(40))
    session = session_of(setup)
    setup.store.decide(
        setup.mission.id, about_key="go", option="yes", value="", because="b", by="p", via="cli", shown_sha="",
        now=time.time(), from_n=1, to_n=1,
    )  # fmt: skip
    for key in CHANGES:
        session.approve(setup.mission, key, confirm=str(host.done))
    setup.close()

    def work() -> None:
        bench = bench_of(folder, host)
        bench.run(concurrency=4)
        bench.close()

    def hold() -> None:
        """Holds the write lock again and again: everybody else gets SQLITE_BUSY."""
        raw = sqlite3.connect(folder / "state.db", isolation_level=None)
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                continue
            time.sleep(0.03)
            raw.execute("ROLLBACK")
            time.sleep(0.005)
        raw.close()

    with (tmp_path / "stderr").open("wb") as errors:
        pids = [start(work, stderr=errors.fileno()) for _ in range(8)] + [start(hold, stderr=errors.fileno())]
        assert [ended(pid) for pid in pids] == [0] * 9, (tmp_path / "stderr").read_text()
    counts: Counter[str] = Counter({name: 0 for name in BAD})
    with Store.open(folder / "state.db") as store:
        mission = store.current_mission()
        assert mission is not None
        attempts = store.mission_attempts(mission.id)
        counts["tasks"] = len(store.tasks(mission.id))
        counts["run twice"] = len(attempts) - len({a.task_id for a in attempts})
        counts["processes that did some of it"] = len({a.run_id for a in attempts})
    settle(folder, host, counts)
    with capsys.disabled():
        print(f"\n8 processes and one that holds the file: {dict(counts)}")
    assert {name: counts[name] for name in (*BAD, "run twice")} == dict.fromkeys((*BAD, "run twice"), 0)
    assert host.lines() == list(CHANGES) and counts["processes that did some of it"] > 1


# ---- a clock that jumps


def test_a_clock_that_jumps_back_an_hour_repeats_nothing_and_nothing_waits(tmp_path: Path) -> None:
    host, shift = Host(tmp_path / "host"), [0.0]
    bench = bench_of(tmp_path / "c", host)
    bench.wall = lambda: time.time() + shift[0]
    jumps = iter((-3600.0, 3600.0, -3600.0))

    async def jumping(context: ReconContext) -> str:
        shift[0] += next(jumps, 0.0)
        return await look(context)

    bench.registry = Registry.of(
        [*(d for d in bench.registry.definitions.values() if d.name != "look"), recon("look", jumping)]
    )
    began = time.monotonic()
    bench.plan(plan(3))
    serve(bench)
    assert time.monotonic() - began < 20
    assert host.lines() == list(CHANGES)
    assert {a.n for a in bench.store.mission_attempts(bench.mission.id)} == {1}, "nothing ran twice"
    told = fold(bench.store.events_after(bench.mission.id, 0))
    assert all(told["task", str(t.id)] == "succeeded" for t in bench.store.tasks(bench.mission.id))
    bench.close()


def test_a_dead_runner_whose_lease_ends_in_an_hour_is_not_waited_for(tmp_path: Path) -> None:
    host = Host(tmp_path / "host")

    def dies() -> None:
        bench = bench_of(
            tmp_path / "c", host, Moments(kill_at=5)
        )  # in the change: after its lock and command
        bench.wall = lambda: time.time() + 3600.0
        serve(bench)

    assert forked(dies) == -9
    bench = bench_of(tmp_path / "c", host)
    began = time.monotonic()
    serve(bench)
    assert time.monotonic() - began < 15 and host.lines() == list(CHANGES)
    bench.close()


class Answering(NoSources):
    """A host that answers every question with a number, read at the time of its own clock (stateful)."""

    def __init__(self) -> None:
        super().__init__(Recorder())
        self.free = 7
        self.shift = 3600.0

    async def fetch(self, request: Request) -> Raw:
        return Raw(
            state="ok", exit_code=0, stdout=str(self.free).encode(), observed_at=time.time() + self.shift
        )


FREE = Fact("free", lambda raw: [Draft(name="free", value=int(raw.text), lifetime_s=60.0)])


def test_a_fact_read_in_the_future_is_not_believed_for_an_hour_longer(tmp_path: Path) -> None:
    async def reads(context: ReconContext) -> str:
        await context.ask(Request(connector="host", target="h", probe="free"), FREE, subject="host:h")
        return ""

    sources = Answering()
    change = act("change", lambda key: False, lambda v, p: Change(task="go", host="h", steps=(("go",),)))
    bench = Bench(tmp_path, [recon("look", reads), change], sources=sources)
    bench.wall = lambda: time.time() + sources.shift
    bench.plan(
        Plan(
            tasks=(
                PlannedTask(key="look", definition="look", title="look", kind="recon"),
                change_task("go", gate="host.free >= 5"),
            )
        )
    )
    bench.run()
    state = bench.state().task("go")
    assert state is not None and state.gates[0].result == "true"
    session_of(bench).approve(bench.mission, "go")
    sources.shift, sources.free = 0.0, 1
    stale = bench.state().task("go")
    assert stale is not None and stale.gates[0].result == "stale"
    assert "in the future" in "".join(stale.gates[0].reasons)
    bench.run()
    read_again = bench.state().task("go")
    assert bench.store.attempts(read_again.task.id if read_again else 0) == [], "it never started"
    assert read_again is not None and read_again.gates[0].result == "false"
    bench.close()
