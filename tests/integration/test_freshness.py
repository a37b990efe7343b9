"""Facts that may not be believed any more: said so, read again, and what rested on them is opened again, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.missions import finding_of
from support.small_world import SmallSession, World, host_world, open_small

from recon.agent.engine.freshness import standing
from recon.agent.engine.view import View
from recon.agent.model.errors import RefusedError, UsageError
from recon.agent.model.findings import Draft, make_finding
from recon.agent.model.missions import Intent
from recon.agent.report import standing as report
from recon.agent.runner.messages import ReadAgain, Reopened
from recon.agent.store.replay_events import statuses


@pytest.fixture
def world() -> World:
    return host_world()


@pytest.fixture
def session(tmp_path: Path, world: World) -> Iterator[SmallSession]:
    opened = open_small(tmp_path, world)
    yield opened
    opened.store.close()


def test_what_went_stale_is_said_with_why_and_what_hangs_on_it(session: SmallSession, world: World) -> None:
    mission = session.ask_for()
    session.go(mission)
    assert standing(session.state(mission.id)).stale == ()
    world.ahead_s = 300
    stands = standing(session.state(mission.id))
    (disk,) = stands.stale
    assert (disk.finding.name, disk.task, disk.gates, disk.judgements) == (
        "disk",
        "disk[h]",
        ("change",),
        ("room",),
    )
    assert disk.why == "read 5 min ago, holds for 1 min"
    assert stands.read_again == (("disk[h]", "disk: read 5 min ago, holds for 1 min"),)
    text = "\n".join(
        report.lines(session.state(mission.id), stands, session.unended_runs(), width=100, code=3)
    )
    assert "disk of host:h: read 5 min ago, holds for 1 min" in text and "gates of change" in text
    assert "recon refresh: disk[h]" in text and "nothing runs; run 1 ended" in text
    told = report.as_json(session.state(mission.id), stands, [])
    assert told["stale"][0]["gates"] == ["change"] and told["read_again"][0]["task"] == "disk[h]"


def test_a_stale_fact_is_read_again_by_the_next_run_and_nothing_else_is(
    session: SmallSession, world: World
) -> None:
    mission = session.ask_for()
    session.go(mission)
    world.ahead_s, world.asked[:] = 300, []
    session.go(mission)
    assert sorted(world.asked) == ["boot[h]", "disk[h]", "gone[h]"]
    assert [m.key for m in session.messages if isinstance(m, ReadAgain)] == ["disk[h]"]
    task = next(t for t in session.store.tasks(mission.id) if t.key == "disk[h]")
    assert [a.cause for a in session.store.attempts(task.id)] == ["first", "refresh"]


def test_a_changed_value_opens_what_rested_on_it_with_one_event(session: SmallSession, world: World) -> None:
    world.values["disk[h]"] = {"mount": "/", "avail_bytes": 500}
    mission = session.ask_for("B")
    session.go(mission)
    assert session.turns(mission)[-2:] == [("format", "open", "answered"), ("room", "open", "answered")]
    world.values["disk[h]"], before = {"mount": "/", "avail_bytes": 5}, len(session.turns(mission))
    assert session.refresh(mission, "host.disk") == [("disk[h]", "disk was asked for", True)]
    session.go(mission)
    assert session.turns(mission)[before:] == [("room", "answered", "contradicted")]
    (opened,) = [m for m in session.messages if isinstance(m, Reopened)]
    assert (opened.key, opened.status, opened.reason) == ("room", "contradicted", "room: 5 free on /")
    session.go(mission)
    assert len(session.turns(mission)) == before + 1, "the same again writes nothing"
    told = statuses(session.store.events_after(mission.id, 0), entity="unknown")
    assert told == {u.planned.key: u.status for u in session.state(mission.id).unknowns}


def test_another_boot_ends_everything_of_the_old_one_within_the_same_run(
    session: SmallSession, world: World
) -> None:
    mission = session.ask_for()
    session.go(mission)
    world.values |= {"boot[h]": "boot-2", "gone[h]": []}
    world.ahead_s, world.asked[:] = 300, []
    session.go(mission)
    again = {m.key: m.because for m in session.messages if isinstance(m, ReadAgain)}
    assert again["kernel[h]"] == "kernel: boot changed from boot-1 to boot-2"
    state = session.state(mission.id)
    assert [s.finding.name for s in standing(state).stale] == [], "what is gone is not waited for"
    assert world.count("disk[h]") == 1, "a fact that is not found again must not loop"


def test_a_name_that_points_elsewhere_is_followed(session: SmallSession, world: World) -> None:
    mission = session.ask_for()
    session.go(mission)
    world.values |= {"pin[A]": "a2", "format[A]": "nvfp4"}
    assert session.refresh(mission, "pin[A]") == [("pin[A]", "asked for", True)]
    session.go(mission)
    again = {m.key: m.because for m in session.messages if isinstance(m, ReadAgain)}
    assert again == {"format[A]": "box:A moved from box:A@a1 to box:A@a2"}
    assert session.turns(mission)[-1] == ("format", "contradicted", "answered")
    world.asked[:] = []
    session.go(mission)
    assert "format[A]" not in world.asked


def test_refresh_names_the_reader_of_a_fact_and_says_so_in_the_event(
    session: SmallSession, world: World
) -> None:
    mission = session.ask_for()
    session.go(mission)
    assert session.refresh(mission, None) == []
    for named in ("host.disk", "disk", 'host.disk["avail_bytes"]', "disk[h]"):
        assert [key for key, _, _ in session.refresh(mission, named)] == ["disk[h]"]
    (last,) = [
        e for e in session.store.events_of(mission.id, "task") if e.new == "pending" and e.old == "succeeded"
    ]
    assert last.payload == {"cause": "refresh", "because": "disk was asked for"}
    assert session.refresh(mission, "disk[h]") == [("disk[h]", "asked for", False)], "it waits already"
    finding = next(f for f in session.state(mission.id).findings if f.name == "format")
    assert [key for key, _, _ in session.refresh(mission, finding.id)] == ["format[A]"]
    with pytest.raises(UsageError, match="no fact or reading task is called so") as refused:
        session.refresh(mission, "dsk[h]")
    assert refused.value.hint == "did you mean disk[h]?"


def test_a_replay_has_nothing_to_read_again(session: SmallSession) -> None:
    with pytest.raises(RefusedError, match="what was recorded does not change"):
        session.refresh(session.ask_for().model_copy(update={"origin": "replay"}), None)


def engine(pid: int | None, *, version: str = "0.5.11") -> View:
    """An engine read while main process 7 served, with what serves now."""
    subject = "engine:h:/opt/venv/bin/python"
    holds = (("service.main_pid of host:h", "7"), ("version", "0.5.11"))
    read = make_finding(
        Draft(name="architectures", value=["X"], valid_while=holds), subject=subject, producer="t", producer_version="1",
        observation_id=None, inputs=(), observed_at=0.0, origin="captured",
    )  # fmt: skip
    others = [finding_of("version", version, subject=subject)]
    others += [finding_of("service", {"main_pid": pid}, subject="host:h")]
    return View.of([read, *others], bindings={"engine": subject}, intent=Intent(), now=1.0)


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (engine(7), ""),
        (engine(None), ""),  # the service was stopped: nothing was updated by that
        (engine(8), "service.main_pid of host:h changed from 7 to 8"),
        (engine(7, version="0.5.13"), "version changed from 0.5.11 to 0.5.13"),
    ],
)
def test_what_is_known_of_an_engine_ends_with_its_process_or_its_version(view: View, why: str) -> None:
    read = view.read("engine.architectures")
    assert (read.state, read.reason) == (("stale", why) if why else ("known", ""))
