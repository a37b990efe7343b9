"""Decisions: shown before they are made, bound to what they were shown, taken back while nothing rests on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_world import SmallSession, World, host_world, open_small

from recon.agent.engine.basis import identity
from recon.agent.engine.consequence import reverted
from recon.agent.engine.freshness import standing
from recon.agent.model.errors import RefusedError, UsageError
from recon.agent.model.missions import Intent, Mission
from recon.agent.report import consequence, text, todo
from recon.agent.store.replay_events import statuses


@pytest.fixture
def world() -> World:
    return host_world()


@pytest.fixture
def session(tmp_path: Path, world: World) -> Iterator[SmallSession]:
    opened = open_small(tmp_path, world)
    yield opened
    opened.store.close()


@pytest.fixture
def mission(session: SmallSession) -> Mission:
    """A mission that has run up to its two open questions."""
    begun = session.ask_for()
    session.go(begun)
    assert {u.planned.key: u.status for u in session.state(begun.id).unknowns} == {
        "format": "contradicted", "room": "contradicted",
    }  # fmt: skip
    return begun


def status(session: SmallSession, mission: Mission, key: str) -> tuple[str, str]:
    unknown = session.state(mission.id).unknown(key)
    assert unknown is not None
    return unknown.status, unknown.reason


def gate(session: SmallSession, mission: Mission, n: int) -> str:
    task = session.state(mission.id).task("change")
    assert task is not None
    return task.gates[n].result


def read_again(session: SmallSession, mission: Mission, fact: str) -> None:
    session.refresh(mission, fact)
    session.go(mission)


# ---- what it was shown


def test_a_number_that_drifts_leaves_a_decision_alone(
    session: SmallSession, world: World, mission: Mission
) -> None:
    session.decide(mission, "room", "keep", because="enough for me")
    world.values["disk[h]"] = {"mount": "/", "avail_bytes": 7}
    read_again(session, mission, "host.disk")
    assert status(session, mission, "room") == ("answered", "")
    assert gate(session, mission, 1) == "true"


@pytest.mark.parametrize(
    ("disk", "why"),
    [
        ({"mount": "/data", "avail_bytes": 10}, 'room: 10 free on /data (decided on {"mount":"/"})'),
        (
            {"mount": "/", "avail_bytes": 10, "quota": True},
            'room: 10 free on / (decided on {"mount":"/"})',
        ),
    ],
)
def test_another_identity_contradicts_the_decision_again(
    session: SmallSession, world: World, mission: Mission, disk: dict[str, object], why: str
) -> None:
    session.decide(mission, "room", "keep", because="enough for me")
    world.values["disk[h]"] = disk
    read_again(session, mission, "host.disk")
    assert status(session, mission, "room") == ("contradicted", f"decided as keep, but {why}")
    assert session.turns(mission)[-1] == ("room", "answered", "contradicted")
    assert gate(session, mission, 1) == "false", "a void decision opens no gate"
    ((decision, told),) = standing(session.state(mission.id)).void_decisions
    assert decision.about_key == "room" and why in told
    session.decide(mission, "room", "keep", because="this one too")
    assert status(session, mission, "room") == ("answered", "")


def test_a_judgement_that_was_good_when_it_was_decided_contradicts_it(
    session: SmallSession, world: World, mission: Mission
) -> None:
    world.values["format[A]"] = "nvfp4"
    read_again(session, mission, "format[A]")
    with pytest.raises(RefusedError, match="answered by a task"):
        session.decide(mission, "format", "keep", because="b")
    world.values["format[A]"] = "int4"
    read_again(session, mission, "format[A]")
    session.decide(mission, "format", "keep", because="b")
    assert gate(session, mission, 0) == "true"
    world.values["format[A]"] = "int8"
    read_again(session, mission, "format[A]")
    found, reason = status(session, mission, "format")
    assert (found, reason) == ("contradicted", 'decided as keep, but the format is int8 (decided on "int4")')
    assert gate(session, mission, 0) == "false"


def test_a_chosen_alternative_that_proves_no_better_opens_the_question_again(
    session: SmallSession, world: World, mission: Mission
) -> None:
    world.values["format[B]"] = "int4"
    session.decide(mission, "format", "B", because="it says nvfp4")
    assert status(session, mission, "format") == ("answered", ""), "what was judged of A says nothing about B"
    session.go(mission)
    found, reason = status(session, mission, "format")
    assert (found, reason) == ("contradicted", "decided as B, but the format is int4 (the same of box:B@b1)")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"mount": "/", "avail_bytes": 5}, {"mount": "/"}),
        ([{"unit": "a.service", "pid": 1}], [{"unit": "a.service"}]),
        ({"0": [0, 1], "1": [2]}, {"0": [0, 1], "1": [2]}),
        ("frees 548.0 GB (510.4 GiB)", "frees … (…)"),
        ("w4a16-int4", "w4a16-int4"),
        (23.5, None),
        (True, True),
        (None, None),
    ],
)
def test_an_identity_is_what_does_not_drift(value: object, kept: object) -> None:
    assert identity(value) == kept


# ---- shown before, and only the question that was shown


def test_the_consequence_is_shown_and_nothing_of_it_is_recorded(
    session: SmallSession, mission: Mission
) -> None:
    session.decide(mission, "format", "keep", because="b")
    session.decide(mission, "room", "keep", because="b")
    session.approve(mission, "change")
    before = (
        session.store.last_event(),
        session.store.revision(mission.id).n,
        session.store.decisions(mission.id),
    )
    what = session.foresee_decision(mission, "format", "B")
    assert before == (
        session.store.last_event(), session.store.revision(mission.id).n, session.store.decisions(mission.id),
    )  # fmt: skip
    assert (what.intent, what.void, what.ends) == ((("model", "A", "B"),), ("change",), False)
    assert (what.come, what.go) == (("pin[B]", "format[B]"), ("pin[A]", "format[A]"))
    shown = "\n".join(consequence.lines(what, width=100))
    for part in (
        "model: A -> B",
        "+ todo: pin[B], format[B]",
        "no longer todo: pin[A]",
        "approvals that end: change",
    ):
        assert part in shown
    assert session.foresee_decision(mission, "format", "stop").ends
    session.decide(mission, "format", "B", because="b")
    assert {t.task.key for t in session.state(mission.id).tasks} >= set(what.come)


def test_an_answer_to_a_question_that_changed_is_refused_with_what_changed(
    session: SmallSession, world: World, mission: Mission
) -> None:
    unknown = session.state(mission.id).unknown("room")
    assert unknown is not None
    world.values["disk[h]"] = {"mount": "/", "avail_bytes": 4}
    read_again(session, mission, "host.disk")
    session.foresee_decision(
        mission, "room", "keep", shown=unknown.shown[:12]
    )  # a drifting number: the same question
    world.values["disk[h]"] = {"mount": "/data", "avail_bytes": 4}
    read_again(session, mission, "host.disk")
    with pytest.raises(RefusedError, match="room is not the question you were shown") as refused:
        session.decide(mission, "room", "keep", because="b", shown=unknown.shown)
    gone, new = refused.value.blockers
    assert gone.startswith('gone: room is block: {"mount":"/"}') and new.startswith(
        'new: room is block: {"mount":"/data"}'
    )
    assert session.store.decisions(mission.id) == []
    with pytest.raises(RefusedError, match="not the question"):
        session.decide(mission, "room", "keep", because="b", shown="0" * 64)
    with pytest.raises(UsageError, match="at least 8 characters"):
        session.decide(mission, "room", "keep", because="b", shown="abc")


# ---- taken back


def test_undo_binds_back_and_everything_stays_readable(
    session: SmallSession, world: World, mission: Mission
) -> None:
    made = session.decide(mission, "format", "B", because="it is nvfp4")
    session.go(mission)
    assert status(session, mission, "format") == ("answered", "")
    past = {t.task.key: t.status for t in session.state(mission.id).history}
    assert past == {"pin[A]": "succeeded", "format[A]": "succeeded"}
    shown = "\n".join(todo.history_lines(session.state(mission.id)))
    assert "format[A]: int4" in shown and "2 items of earlier bindings" in shown
    world.asked[:] = []
    assert session.foresee_undo(mission, "format").intent == (("model", "B", "A"),)
    undone, kept = session.undo(mission, f"d{made.id}", because="B is gone")
    assert (undone.undoes, kept, undone.to_n) == (made.id, (), 3)
    state = session.state(mission.id)
    assert (state.revision.intent.model, state.revision.bindings["box"]) == ("A", "box:A")
    session.go(mission)
    assert status(session, mission, "format")[0] == "contradicted"
    assert "format[A]" not in world.asked, "what was found of A is still known"
    assert {t.task.key for t in session.state(mission.id).history} == {"pin[B]", "format[B]"}
    told = "\n".join(text.report(session.state(mission.id), width=200))
    assert "(undone by d2)" in told and "takes d1 back" in told and "because B is gone" in told
    events = session.store.events_after(mission.id, 0)
    assert statuses(events, entity="decision") == {"1": "undone", "2": "undo"}
    with pytest.raises(UsageError, match="does not hold any more"):
        session.undo(mission, "1", because="again")


def test_undo_brings_an_earlier_decision_back(session: SmallSession, mission: Mission) -> None:
    session.decide(mission, "format", "keep", because="first")
    session.decide(mission, "format", "B", because="second")
    session.undo(mission, "format", because="no")
    state = session.state(mission.id)
    unknown = state.unknown("format")
    assert unknown is not None and (unknown.status, unknown.answer, state.revision.intent.model) == (
        "answered",
        "keep",
        "A",
    )


def test_undo_of_what_a_later_decision_changed_again_leaves_that(
    session: SmallSession, mission: Mission
) -> None:
    before, after = (
        Intent(model="A", extra={"x": 1}),
        Intent(model="B", target_dir="/d", extra={"x": 1, "y": 2}),
    )
    head = after.model_copy(update={"target_dir": "/e"})
    back, kept = reverted(head, before=before, after=after)
    assert (back, kept) == (Intent(model="A", target_dir="/e", extra={"x": 1}), ("target_dir",))


@pytest.mark.parametrize("key", ["format", "room"])
def test_undo_is_refused_once_a_change_that_rests_on_it_has_begun(
    session: SmallSession, world: World, mission: Mission, key: str
) -> None:
    session.decide(mission, "format", "keep", because="b")
    session.decide(mission, "room", "keep", because="b")
    session.approve(mission, "change")
    session.undo(mission, key, because="not yet")
    session.decide(mission, key, "keep", because="b")
    session.go(mission)
    assert world.hand.ran == [("apply", "change")]
    with pytest.raises(RefusedError, match="change has begun to change the host on it") as refused:
        session.undo(mission, key, because="too late")
    assert refused.value.blockers == ("change began to apply",)
    assert standing(session.state(mission.id)).void_decisions == ()


def test_an_unknown_decision_is_refused_with_what_there_is(session: SmallSession, mission: Mission) -> None:
    with pytest.raises(UsageError, match="nothing has been decided"):
        session.undo(mission, "7", because="b")
    session.decide(mission, "room", "keep", because="b")
    with pytest.raises(UsageError, match="no decision 'rom'") as refused:
        session.undo(mission, "rom", because="b")
    assert refused.value.hint == "did you mean room?"


def test_an_exported_mission_replays_its_decisions_with_what_they_were_shown(
    session: SmallSession, mission: Mission
) -> None:
    made = session.decide(mission, "room", "keep", because="b")
    held = session.store.decisions(mission.id)[0]
    assert held == made and held.basis["judgements"]["room"]["verdict"] == "block"
    assert held.basis["judgements"]["room"]["seen"] == '{"mount":"/"}'
    assert session.store.blob(held.shown_sha).decode().startswith("Is there room?")
