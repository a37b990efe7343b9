"""Missions, revisions, judgements, decisions, approvals and what a bundle takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.missions import (
    BINDINGS,
    NOW,
    add_revision,
    answer,
    finding_of,
    new_mission,
    open_store,
    plan_of,
    put,
    start,
)

from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Effects, Judgement, Option, Side
from recon.agent.model.missions import Claim, Intent, Triage, Wish
from recon.agent.model.records import Decision
from recon.agent.store import Finish, Store, Take
from recon.agent.store.replay_events import statuses


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as opened:
        yield opened


def add(store: Store, triage: Triage, *, realm: str = "", new: bool = False) -> str:
    return store.add_mission(
        triage, key="k", origin="live", realm=realm, as_of=None, now=NOW, actor="test", new=new
    ).id


def test_what_was_asked_comes_back_as_it_was(store: Store) -> None:
    triage = Triage(
        text="nvfp4 please \x1b[31m", playbook="deploy_pd", unplaced=("please",),
        intent=Intent(model="a/b", wanted_format=Wish(value="nvfp4", strength="must"), extra={"x": [1, {"y": None}]}),
        claims=(Claim(name="wanted_format", value={"a": 1.5}, words="nvfp4"),),
    )  # fmt: skip
    assert store.triage(add(store, triage)) == triage


def test_the_same_request_is_the_same_mission_unless_a_new_one_is_forced_or_it_is_a_replay(
    store: Store,
) -> None:
    triage = Triage(text="t", intent=Intent())
    first, again = add(store, triage), add(store, triage)
    forced, replayed = add(store, triage, new=True), add(store, triage, realm="bundle:0123456789ab")
    assert first == again
    assert len({first, forced, replayed}) == 3
    assert [m.realm for m in store.missions()].count("bundle:0123456789ab") == 1


def test_the_mission_added_or_used_last_is_the_current_one(store: Store) -> None:
    assert store.current_mission() is None
    first, second = new_mission(store, key="1"), new_mission(store, key="2")
    assert store.current_mission() == second
    assert store.use_mission(first.id[:8]) == first
    assert store.current_mission() == first


def test_an_unknown_mission_is_refused_with_the_nearest_one(store: Store) -> None:
    mission = new_mission(store)
    typo = mission.id[:-1] + ("0" if mission.id[-1] != "0" else "1")
    with pytest.raises(UsageError, match=f"no such mission; did you mean {mission.id}"):
        store.mission(typo)
    with pytest.raises(UsageError, match="no such mission"):
        store.mission("")


def test_a_prefix_that_fits_two_is_refused_with_both(store: Store) -> None:
    first, second = new_mission(store, key="1"), new_mission(store, key="2")
    with pytest.raises(UsageError, match="more than one") as caught:
        store.mission("m-")
    assert first.id in caught.value.message
    assert second.id in caught.value.message


def test_a_revision_becomes_the_head_and_older_ones_stay(store: Store) -> None:
    mission = new_mission(store)
    assert add_revision(store, mission.id, parent_n=1) == 2
    assert store.mission(mission.id).head == 2
    assert (store.revision(mission.id).n, store.revision(mission.id).parent_n) == (2, 1)
    assert [r.n for r in store.revisions(mission.id)] == [1, 2]
    assert store.revision(mission.id, 1).bindings == BINDINGS
    with pytest.raises(UsageError, match="no revision 7"):
        store.revision(mission.id, 7)


def judgement(key: str, *, verdict: str = "block", title: str = "t") -> Judgement:
    return Judgement.model_validate({
        "key": key, "about": "checkpoint.format", "verdict": verdict, "title": title, "observed": {"format": "int4"},
        "expected": ["nvfp4"], "detail": ("one", "two"), "consequence": "c", "input_hash": "i-1",
        "options": (Option(id="keep", title="keep", effort="days", effects=Effects(intent={"model": "a/b"}, waive=True)),),
        "sides": (Side(finding_id="f-1"), Side(finding_id="f-2", side="expected")),
    })  # fmt: skip


def test_a_judge_replaces_what_it_said_before_and_nothing_of_another(store: Store) -> None:
    mission = new_mission(store)

    def say(producer: str, *judgements: Judgement) -> None:
        store.put_judgements(mission.id, 1, judgements, producer=producer, now=NOW, actor="test", run_id=None)

    a, b, c = judgement("a"), judgement("b"), judgement("c")
    say("judge.one", a, b)
    say("judge.two", c)
    assert store.judgements(mission.id, 1) == [a, b, c]
    seen = store.event_count(mission.id)
    say("judge.one", a, b)
    assert store.event_count(mission.id) == seen
    better = judgement("a", verdict="pass")
    say("judge.one", better)
    assert store.judgements(mission.id, 1) == [c, better]
    assert store.judgements(mission.id, 2) == []
    changes = [
        (e.entity_id, e.old, e.new) for e in store.events_after(mission.id, 0) if e.entity == "judgement"
    ]
    assert changes[-2:] == [("1:a", "block", "pass"), ("1:b", "block", "")]


def test_judgements_are_carried_over_to_a_revision_until_its_own_judges_have_run(store: Store) -> None:
    mission = new_mission(store)
    a, b, other = judgement("a"), judgement("b"), judgement("a", verdict="warn")
    store.put_judgements(mission.id, 1, [a], producer="judge.one", now=NOW, actor="test")
    store.put_judgements(mission.id, 1, [b], producer="judge.two", now=NOW, actor="test")
    add_revision(store, mission.id, parent_n=1)
    store.put_judgements(mission.id, 2, [other], producer="judge.one", now=NOW, actor="test")
    store.carry_judgements(mission.id, 1, 2, now=NOW)
    store.carry_judgements(mission.id, 1, 2, now=NOW)
    assert store.judgements(mission.id, 2) == [other, b]
    store.put_judgements(mission.id, 2, [], producer="judge.two", now=NOW, actor="test")
    assert store.judgements(mission.id, 2) == [other]
    assert statuses(store.events_after(mission.id, 0), entity="judgement") == {
        "1:a": "block", "1:b": "block", "2:a": "warn", "2:b": "",
    }  # fmt: skip


def choose(store: Store, mission_id: str, option: str, *, undoes: int | None = None) -> Decision:
    return store.decide(
        mission_id, about_key="checkpoint.format", option=option, value="", because="cheaper", by="ann", via="cli",
        shown_sha=store.keep_blob(b"what was shown"), now=NOW, from_n=1, to_n=2, undoes=undoes,
    )  # fmt: skip


def test_a_decision_is_kept_with_who_why_and_what_was_shown(store: Store) -> None:
    mission = new_mission(store)
    made = choose(store, mission.id, "keep")
    assert store.decisions(mission.id) == [made]
    assert (made.by, made.because, store.blob(made.shown_sha)) == ("ann", "cheaper", b"what was shown")


def test_a_decision_can_be_taken_back_once(store: Store) -> None:
    mission = new_mission(store)
    made = choose(store, mission.id, "keep")
    undo = choose(store, mission.id, "keep", undoes=made.id)
    assert undo.undoes == made.id
    for wrong in (made.id, undo.id, 99):
        with pytest.raises(UsageError):
            choose(store, mission.id, "keep", undoes=wrong)
    assert len(store.decisions(mission.id)) == 2


def test_an_approval_is_bound_to_the_hashes_it_was_given_for(store: Store) -> None:
    mission = new_mission(store)
    ids = put(store, mission.id, plan_of("stop"))
    given = store.approve(
        ids["stop"], change_hash="c1", exact_hash="e1", shown_sha="s1", verdict="deny", message="not today", by="ann",
        via="cli", now=NOW,
    )  # fmt: skip
    assert store.approvals(mission.id) == [given]
    assert (given.task_id, given.change_hash, given.verdict, given.message) == (
        ids["stop"],
        "c1",
        "deny",
        "not today",
    )


def test_settings_are_kept_by_name(store: Store) -> None:
    assert store.setting("x") is None
    store.put_setting("x", "1")
    store.put_setting("x", "2")
    assert store.setting("x") == "2"


def test_a_bundle_takes_the_evidence_a_mission_rests_on_whoever_collected_it(store: Store) -> None:
    other, mission = new_mission(store, key="other"), new_mission(store, key="mine")
    ids = put(store, mission.id, plan_of("a"))
    shared = store.record(*answer("read by the other mission"), realm="", attempt_id=None)
    unused = store.record(*answer("of no use", probe="x"), realm="", attempt_id=None)
    bound = store.record(*answer("about a bound subject", probe="y"), realm="", attempt_id=None)
    base = finding_of("size", 1, subject="hf:b/b@1", observation_id=shared.id)
    derived = finding_of("fits", True, subject="hf:b/b@1", inputs=(base.id,))
    pointer = finding_of("same_as", "hf:acme/tiny@0a", subject="hf:acme/tiny@main")
    commit = finding_of("commit", "0a", subject="hf:acme/tiny@0a", observation_id=bound.id)
    store.put_findings(
        "", [base, derived, pointer, commit, finding_of("z", 1, subject="q", observation_id=unused.id)]
    )
    run = start(store, mission.id)
    taken = store.step(run.id, finishes=[], takes=[Take(ids["a"])], now=NOW, lease_s=9).taken[ids["a"]]
    own = store.record(*answer("read by its task", probe="z"), realm="", attempt_id=taken.attempt_id)
    end = Finish(ids["a"], taken.attempt_id, taken.token, "succeeded", NOW)
    store.step(run.id, finishes=[end], takes=[], now=NOW, lease_s=9)
    rested_on = judgement("fits").model_copy(update={"sides": (Side(finding_id=derived.id),)})
    store.put_judgements(mission.id, 1, [rested_on], producer="judge", now=NOW, actor="test")
    rows = store.export_rows(mission.id)
    assert [o.id for o in rows.observations] == [shared.id, bound.id, own.id]
    assert {store.blob(sha) for sha in rows.blobs} == {
        b"", b"read by the other mission", b"about a bound subject", b"read by its task",
    }  # fmt: skip
    assert (rows.mission.id, [r.n for r in rows.revisions]) == (mission.id, [1])
    assert [o.id for o in store.export_rows(other.id).observations] == [bound.id]
