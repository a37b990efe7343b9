"""Several missions in one state.db: a new one takes over what still holds of the old one, says so, and touches nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.loopback_hub import Repo, loopback_hub
from support.small_world import SmallSession, World, host_world, open_small

from recon.agent.model.missions import Mission
from recon.agent.runner.messages import TakenOver
from recon.agent.store.replay_events import statuses

RECON = [sys.executable, "-m", "recon"]


@pytest.fixture
def world() -> World:
    return host_world()


@pytest.fixture
def session(tmp_path: Path, world: World) -> Iterator[SmallSession]:
    opened = open_small(tmp_path, world)
    yield opened
    opened.store.close()


def taken(session: SmallSession) -> list[str]:
    return [m.key for m in session.messages if isinstance(m, TakenOver)]


def summaries(session: SmallSession, mission: Mission) -> dict[str, str]:
    return {t.task.key: t.summary for t in session.state(mission.id).tasks}


def test_a_new_mission_on_the_same_host_takes_over_what_still_holds(
    session: SmallSession, world: World
) -> None:
    old = session.ask_for("A")
    session.go(old)
    before = session.state(old.id)
    world.asked[:] = []
    new = session.ask_for("B")
    session.go(new)
    assert sorted(world.asked) == ["format[B]", "pin[B]"], "the host is not read again"
    assert taken(session) == ["who[h]", "disk[h]", "kernel[h]"]
    assert {m.mission_id for m in session.messages if isinstance(m, TakenOver)} == {old.id}
    assert summaries(session, new)["disk[h]"] == f"taken over from mission {old.id}"
    after = session.state(new.id)
    assert {t.task.key for t in after.tasks if t.status == "succeeded"} >= {
        "disk[h]",
        "judge.disk",
        "format[B]",
    }
    room = after.unknown("room")
    assert room is not None and room.status == "contradicted", "its judges judge for themselves"
    told = statuses(session.store.events_after(new.id, 0), entity="task")
    assert told == {str(t.id): t.status for t in session.store.tasks(new.id)}
    assert session.state(old.id).tasks == before.tasks, "the old mission stays as it was"
    assert session.store.use_mission(old.id).id == session.current().id == old.id


def test_what_is_stale_or_was_read_for_something_else_is_not_taken_over(
    session: SmallSession, world: World
) -> None:
    session.go(session.ask_for("A"))
    session.go(session.ask_for("B", target_dir="/data"))
    assert taken(session) == ["who[h]", "kernel[h]"], "another directory is wanted: disks are read anew"
    world.ahead_s = 300
    session.go(session.ask_for("A", target_dir="/data", revision="r2"))
    assert "disk[h]" not in taken(session)


def test_what_was_taken_over_is_read_again_once_it_is_stale(session: SmallSession, world: World) -> None:
    session.go(session.ask_for("A"))
    new = session.ask_for("B")
    session.go(new)
    world.ahead_s, world.asked[:] = 300, []
    session.go(new)
    assert sorted(world.asked) == ["boot[h]", "disk[h]", "gone[h]"]


def recon(folder: Path, *arguments: str, code: int) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [*RECON, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert ended.returncode == code, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended


def test_on_a_real_host_the_second_mission_says_what_it_takes_over(tmp_path: Path) -> None:
    """This machine and a hub on a loopback port, through the command line."""
    config = b'{"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1}'
    repos = {
        f"acme/{name}": Repo(files={"config.json": config, "README.md": b"# x"})
        for name in ("one-1b", "two-1b")
    }
    with loopback_hub(repos) as hub:
        first = subprocess.run(
            [*RECON, "run", "acme/one-1b", "localhost", "--hub", hub.endpoint], cwd=tmp_path, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert first.returncode in (0, 3), first.stderr
        second = recon(
            tmp_path, "run", "acme/two-1b", "localhost", "--hub", hub.endpoint, code=first.returncode
        )
        old = recon(tmp_path, "missions", code=0).stdout.splitlines()[0].split()[0]
        assert f"= host.identity[localhost]  taken over from mission {old}, read " in second.stderr
        assert "taken over from mission" in recon(tmp_path, "todo", code=0).stdout
        assert "two-1b" in recon(tmp_path, "status", code=first.returncode).stdout
        again = recon(tmp_path, "refresh", "host.identity", "--hub", hub.endpoint, code=first.returncode)
        assert "↻ host.identity[localhost]  read again: identity was asked for" in again.stderr
        assert "✓ host.identity[localhost]" in again.stderr
        assert recon(tmp_path, "use", old, code=0).stdout == f"current mission: {old}\n"
        assert "one-1b" in recon(tmp_path, "status", code=first.returncode).stdout
