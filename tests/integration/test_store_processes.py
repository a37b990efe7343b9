"""Several processes on one state.db, and processes that are killed."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.children import child
from support.missions import NOW, new_mission, open_store, plan_of, put

from recon.agent.store import Take
from recon.agent.store.replay_events import statuses

_TAKES_ALL = """
import random, sys
from pathlib import Path
from support.missions import *
from recon.agent.store import Store, Take, Finish
store = Store.open(Path(sys.argv[1]))
mission = store.current_mission()
run = start(store, mission.id, pid=int(sys.argv[2]))
ids = [t.id for t in store.tasks(mission.id)]
random.Random(int(sys.argv[2])).shuffle(ids)
ends = []
for at in range(0, len(ids), 4):
    takes = [Take(i) for i in ids[at : at + 4]]
    done = store.step(run.id, finishes=ends, takes=takes, now=NOW, lease_s=30)
    ends = [Finish(i, t.attempt_id, t.token, "succeeded", NOW) for i, t in done.taken.items()]
    for i in done.taken:
        print(i, flush=True)
store.step(run.id, finishes=ends, takes=[], now=NOW, lease_s=30)
"""


def test_two_processes_that_want_the_same_tasks_share_them(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        mission = new_mission(store)
        ids = put(store, mission.id, plan_of(*(f"t{i}" for i in range(400))))
        racers = [child(_TAKES_ALL, str(store.path), str(number)) for number in (1, 2)]
        outs = [racer.communicate(timeout=60) for racer in racers]
        assert [(racer.returncode, err) for racer, (_, err) in zip(racers, outs, strict=True)] == [
            (0, "")
        ] * 2
        first, second = ([int(i) for i in out.split()] for out, _ in outs)
        assert sorted(first + second) == sorted(ids.values())
        assert {t.status for t in store.tasks(mission.id)} == {"succeeded"}
        assert all(len(store.attempts(i)) == 1 for i in ids.values())
        assert statuses(store.events_after(mission.id, 0), entity="task") == {
            str(i): "succeeded" for i in ids.values()
        }


_STEPS = """
import sys
from pathlib import Path
from support.missions import *
from recon.agent.store import Store, Take, Finish
store = Store.open(Path(sys.argv[1]))
mission = store.current_mission()
store.reclaim(NOW, lambda run: True)
run = start(store, mission.id)
left = [t.id for t in store.tasks(mission.id) if t.status in ("pending", "interrupted")]
ends = []
while left or ends:
    takes = [Take(i) for i in left[:3]]
    left = left[3:]
    done = store.step(run.id, finishes=ends, takes=takes, now=NOW, lease_s=30)
    for end in ends:
        print(end.task_id, flush=True)  # announced after it is stored
    ends = []
    for i, taken in done.taken.items():
        with store.transaction():
            seen = store.record(*answer(f"task {i}" * 500, at=NOW + i), realm="", attempt_id=taken.attempt_id)
            store.put_findings("", [finding_of(f"f{i}", i, observation_id=seen.id)])
        ends.append(Finish(i, taken.attempt_id, taken.token, "succeeded", NOW))
"""


def test_a_process_that_is_killed_again_and_again_loses_nothing_it_announced(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        mission = new_mission(store)
        ids = put(store, mission.id, plan_of(*(f"t{i}" for i in range(240)))).values()
    dice, announced, kills = random.Random(7), [], 0
    while True:
        process = child(_STEPS, str(tmp_path / "state.db"))
        assert process.stdout is not None
        wanted = dice.randrange(1, 40)
        heard = [line for _, line in zip(range(wanted), process.stdout, strict=False)]
        if len(heard) < wanted:
            assert process.wait(timeout=60) == 0, process.stderr and process.stderr.read()
        else:
            process.kill()
            kills += 1
        heard += process.communicate()[0].splitlines()
        announced += [int(line) for line in heard if line.strip()]
        _check_after_a_kill(tmp_path, announced)
        if len(heard) < wanted:
            break
    assert kills >= 5
    with open_store(tmp_path) as store:
        assert {t.status for t in store.tasks(mission.id)} == {"succeeded"}
        for task_id in ids:
            outcomes = [a.outcome for a in store.attempts(task_id)]
            assert outcomes.count("succeeded") == 1
            assert set(outcomes) <= {"succeeded", "interrupted"}
    assert sorted(announced) == sorted(set(announced))


def _check_after_a_kill(folder: Path, announced: list[int]) -> None:
    raw = sqlite3.connect(folder / "state.db")
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
    raw.close()
    with open_store(folder) as store:
        mission = store.missions()[0]
        by_id = {t.id: t.status for t in store.tasks(mission.id)}
        assert {by_id[i] for i in announced} <= {"succeeded"}
        assert statuses(store.events_after(mission.id, 0), entity="task") == {
            str(i): s for i, s in by_id.items()
        }
        found = {f.value for f in store.findings("")}
        assert {i for i, status in by_id.items() if status == "succeeded"} <= found


@pytest.mark.parametrize("point", range(4))
def test_what_a_kill_left_in_the_log_is_read_back(tmp_path: Path, point: int) -> None:
    """A copy of file and log between two commits is what a kill at that moment leaves."""
    left = tmp_path / "left"
    left.mkdir()
    with open_store(tmp_path) as store:
        mission = new_mission(store)
        ids = put(store, mission.id, plan_of("a", "b", "c", "d"))
        run = store.start_run(
            mission.id, host="here", boot_id="b", pid=1, pid_started=1.0, version="0", now=NOW
        )
        for key in list(ids)[:point]:
            store.step(run.id, finishes=[], takes=[Take(ids[key])], now=NOW, lease_s=30)
        for name in ("state.db", "state.db-wal"):
            shutil.copy(tmp_path / name, left / name)
    with open_store(left) as store:
        assert [t.status for t in store.tasks(mission.id)] == ["running"] * point + ["pending"] * (4 - point)
        assert len(store.reclaim(NOW + 1, lambda run: True)) == point
