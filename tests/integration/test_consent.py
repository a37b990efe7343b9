"""Consent is bound to what was shown: what voids it says what changed, what drifts does not, bounds are kept."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.engine import Bench, NoSources, Recorder, act
from support.plans import change_task, session_of

from recon.agent.api import ActTask, Change, FileChange, Rendered, View
from recon.agent.cli.approvals import plan_items
from recon.agent.engine.consent import differences, why_outside
from recon.agent.model.base import Json, sha256_hex
from recon.agent.model.changes import Bounds
from recon.agent.model.errors import RefusedError
from recon.agent.model.missions import Intent
from recon.agent.model.records import Approval
from recon.agent.model.state import TaskState
from recon.agent.model.tasks import Plan
from recon.agent.report.sections import change_lines

BASE = Change(
    task="stop", host="h", user="root", steps=(("systemctl", "stop", "--", "x.service"),),
    exact=(("boot_id", "b-1"), ("unit", "x.service"), ("main_pid", "7")), takes_bytes=1000,
    rollback=(("systemctl", "start", "--", "x.service"),),
)  # fmt: skip


class World:
    """What the changes of a bench render to, and what has been done (stateful)."""

    def __init__(self, folder: Path) -> None:
        self.changes: dict[str, Change] = {"stop": BASE}
        self.done: set[str] = set()
        self.hand = Recorder()
        self.hand.before = lambda argv: self.done.update({"stop"} if argv[0] == "systemctl" else {argv[-1]})
        self.bench = Bench(
            folder, [act("change", lambda key: key in self.done, self._change)], sources=NoSources(self.hand)
        )

    def _change(self, view: View, params: Mapping[str, Json]) -> Change:
        return self.changes[str(params["key"])]

    def task(self, key: str) -> TaskState:
        found = self.bench.state().task(key)
        assert found is not None
        return found

    def reason(self, key: str) -> str:
        return "; ".join(b.reason for b in self.task(key).blocked_by if b.kind == "approval")

    def approve(self, key: str, **more: str) -> Approval:
        return session_of(self.bench).approve(self.bench.mission, key, **more)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.bench.close()


CASES = {
    "host": ({"host": "other"}, "host was h, is other"),
    "user": ({"user": "ada"}, "user was root, is ada"),
    "cwd": ({"cwd": "/srv"}, "cwd was not said, is /srv"),
    "argv": (
        {"steps": (("systemctl", "kill", "--", "x.service"),)},
        "step 1 was systemctl stop -- x.service, is systemctl kill -- x.service",
    ),
    "more steps": ({"steps": (*BASE.steps, ("reboot",))}, "step 2 was not there, is reboot"),
    "main pid": (
        {"exact": (("boot_id", "b-1"), ("unit", "x.service"), ("main_pid", "8"))},
        "main_pid was 7, is 8",
    ),
    "boot": (
        {"exact": (("boot_id", "b-2"), ("unit", "x.service"), ("main_pid", "7"))},
        "boot_id was b-1, is b-2",
    ),
    "file": ({"files": (FileChange(path="/etc/x", sha_before="", text_after="a"),)}, "/etc/x is new"),
    "environment": ({"env_names": ("HF_TOKEN",)}, "environment variable HF_TOKEN is new"),
    "undo": ({"rollback": ()}, "undo step 1 was systemctl start -- x.service, is not there"),
}


@pytest.mark.parametrize("case", CASES)
def test_any_other_change_voids_it_and_says_what_is_different(world: World, case: str) -> None:
    update, words = CASES[case]
    world.bench.plan(Plan(tasks=(change_task("stop"),)))
    world.approve("stop")
    assert world.task("stop").status == "ready"
    world.changes["stop"] = BASE.model_copy(update=update)
    assert (world.task("stop").status, world.reason("stop")) == (
        "awaiting_approval",
        f"the approval is void: {words}",
    )
    world.bench.run()
    assert world.hand.ran == []


def test_another_gate_or_effect_voids_it_too(world: World) -> None:
    world.bench.plan(Plan(tasks=(change_task("stop", gate='decided("a") or not decided("a")'),)))
    world.approve("stop")
    world.bench.plan(Plan(tasks=(change_task("stop", gate='not decided("a")'),)))
    assert 'gate decided("a") or not decided("a") is not part of it any more' in world.reason("stop")
    world.approve("stop")
    world.bench.plan(Plan(tasks=(change_task("stop", gate='not decided("a")', effect="destructive"),)))
    assert "effect was mutating, is destructive" in world.reason("stop")
    world.bench.run()
    assert world.hand.ran == []


def test_a_number_that_drifts_does_not_void_it(world: World) -> None:
    world.bench.plan(Plan(tasks=(change_task("stop"),)))
    world.approve("stop")
    world.changes["stop"] = BASE.model_copy(update={"takes_bytes": 1234, "frees_bytes": 5})
    assert world.task("stop").status == "ready"
    world.bench.run()
    assert world.hand.ran == [BASE.steps[0]]


def test_what_is_shown_is_everything_that_is_bound() -> None:
    before, after = "a = 1\nb = 2\n", "a = 1\nb = 3\n"
    file = FileChange(path="/etc/x", sha_before=sha256_hex(before), text_after=after, text_before=before)
    change = BASE.model_copy(
        update={"files": (file,), "cwd": "/srv", "frees_bytes": 10**9, "env_names": ("HF_TOKEN",)}
    ).sealed(effect="mutating", gates=('decided("service.stop")',))
    shown = "\n".join(change_lines(change))
    for words in (
        "on root@h in /srv", "HF_TOKEN", "$ systemctl stop -- x.service", "write /etc/x (replaces sha256",
        "  | -b = 2", "  | +b = 3", "frees 1.0 GB", "boot_id = b-1", "main_pid = 7", 'decided("service.stop")',
        "$ systemctl start", change.change_hash[:16],
    ):  # fmt: skip
        assert words in shown, words
    with pytest.raises(ValueError, match="not the sha256"):
        FileChange(path="/etc/x", sha_before=sha256_hex("other"), text_after=after, text_before=before)
    assert differences(change, change) == ()


def test_a_denial_after_the_start_and_a_change_while_reading_are_refused(world: World) -> None:
    world.bench.plan(Plan(tasks=(change_task("stop"),)))
    shown = world.task("stop").rendered
    assert shown is not None
    world.changes["stop"] = BASE.model_copy(update={"user": "ada"})
    with pytest.raises(RefusedError, match=r"changed while you read it \(user was root, is ada\)"):
        session_of(world.bench).approve(world.bench.mission, "stop", shown=shown.change)
    assert world.bench.store.approvals(world.bench.mission.id) == []
    world.approve("stop", message="tonight")
    gate = world.bench.loop().start_gate
    assert (
        gate.guard(world.task("stop").task.id)() == ""
        and gate.why_not_apply(world.task("stop").task.id) == ""
    )
    session_of(world.bench).deny(world.bench.mission, "stop", message="not now")
    assert gate.why_not_apply(world.task("stop").task.id) == "its approval does not stand any more"
    assert "not now" in world.reason("stop")


# ---- a whole plan


class Later:
    """A definition whose unit is not known at first (stateful)."""

    def __init__(self) -> None:
        self.change: Change | None = None
        self.lines: tuple[str, ...] = ("# stops it", "systemctl stop -- <unit>")

    def render(self, view: View, params: Mapping[str, Json]) -> Rendered:
        return Rendered(change=self.change) if self.change else Rendered(lines=self.lines, missing=("unit",))


def planned_bench(folder: Path, later: Later, hand: Recorder) -> Bench:
    so = act("so", lambda key: any(key in argv for argv in hand.ran), lambda v, p: BASE)
    definition = ActTask("later", render=later.render, check=so.check, verify=so.verify)
    bench = Bench(
        folder,
        [definition, act("change", lambda key: (key,) in hand.ran, lambda v, p: Change(task=p["key"], host="h", steps=((p["key"],),)))],
        sources=NoSources(hand),
    )  # fmt: skip
    bench.store.add_revision(
        bench.mission.id, intent=Intent(host="root@h"), bindings={"host": "host:h"}, playbook="", playbook_hash="",
        parent_n=1, decision_id=None, now=time.time(), actor="test",
    )  # fmt: skip
    plan = Plan(
        tasks=(
            change_task("one"),
            change_task("later", definition="later", gate='decided("go")'),
            change_task("wipe", effect="destructive"),
            change_task("manual", definition="later", effect="destructive"),
        )
    )
    bench.store.put_plan(
        bench.mission.id, 2, plan, definition_hashes=bench.registry.hashes(), now=time.time(), actor="test"
    )
    return bench


STOPPED = Change(
    task="later",
    host="h",
    user="root",
    steps=(("systemctl", "stop", "--", "later"),),
    exact=(("unit", "later"),),
)


def go(bench: Bench) -> None:
    bench.store.decide(
        bench.mission.id, about_key="go", option="yes", value="", because="b", by="p", via="cli", shown_sha="",
        now=time.time(), from_n=2, to_n=2,
    )  # fmt: skip


def test_a_plan_is_approved_at_once_and_later_lines_only_within_their_form(tmp_path: Path) -> None:
    later, hand = Later(), Recorder()
    bench = planned_bench(tmp_path, later, hand)
    session = session_of(bench)
    items = {i.key: i for i in plan_items(bench.state())}
    assert {k: (i.change is not None, i.bounds is not None, i.destroys) for k, i in items.items()} == {
        "one": (True, False, False), "later": (False, True, False), "wipe": (True, False, True),
        "manual": (False, False, True),
    }  # fmt: skip
    assert "approved only in full" in items["manual"].why
    with pytest.raises(RefusedError, match="name must be typed"):
        session.approve_plan(bench.mission, [items["one"], items["wipe"]])
    assert bench.store.approvals(bench.mission.id) == [], "all or nothing"
    made = session.approve_plan(
        bench.mission, [items["one"], items["later"], items["wipe"]], confirmed=["wipe"]
    )
    assert [a.scope for a in made] == ["exact", "bounds", "exact"]
    go(bench)
    bench.run()
    assert hand.ran == [("one",), ("wipe",)], "what is not known yet has not run"
    later.change = STOPPED
    bench.run()
    assert hand.ran[2:] == [("systemctl", "stop", "--", "later")]
    last = bench.store.approvals(bench.mission.id)[-1]
    sealed = STOPPED.sealed(effect="mutating", gates=('decided("go")',))
    assert (last.scope, last.change_hash) == ("exact", sealed.change_hash), "the exact change is written down"
    assert last.via == f"within the bounds of approval {made[1].id}"
    bench.close()


OUTSIDE = {
    "another host": ({"host": "i"}, "host is i, consented to was h"),
    "another user": ({"user": "ada"}, "user is ada, consented to was root"),
    "another command": ({"steps": (("systemctl", "kill", "--", "later"),)}, "is not of the form"),
    "one command more": ({"steps": (*STOPPED.steps, ("reboot",))}, "has 2 commands, consented to were 1"),
    "a value nobody named": ({"exact": ()}, "neither an identity of the change nor an answer"),
    "an option for a value": ({"steps": (("systemctl", "stop", "--", "--all"),)}, "is not of the form"),
    "a path that climbs": (
        {"steps": (("systemctl", "stop", "--", "a/../b"),), "exact": (("unit", "a/../b"),)},
        "not a plain value",
    ),
    "a file": ({"files": (FileChange(path="/x", sha_before="", text_after=""),)}, "a file is consented to in full"),
    "another folder": ({"cwd": "/tmp"}, "working directory is /tmp"),
}  # fmt: skip


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_leaves_the_bounds_is_asked_for_again(tmp_path: Path, case: str) -> None:
    update, words = OUTSIDE[case]
    later, hand = Later(), Recorder()
    bench = planned_bench(tmp_path, later, hand)
    session_of(bench).approve_plan(bench.mission, [i for i in plan_items(bench.state()) if i.bounds])
    go(bench)
    later.change = STOPPED.model_copy(update=update)
    bench.run()
    task = bench.state().task("later")
    assert hand.ran == [] and task is not None and task.status == "awaiting_approval"
    assert "the approval of the plan does not cover it" in task.blocked_by[0].reason
    assert words in task.blocked_by[0].reason
    bench.close()


def test_an_open_place_may_be_filled_by_a_decision_and_is_the_same_everywhere(tmp_path: Path) -> None:
    bounds = Bounds(
        task="t",
        host="h",
        effect="mutating",
        patterns=(("mkdir", "--", "<disk.room>/new"), ("ls", "<disk.room>")),
    )
    bench = planned_bench(tmp_path, Later(), Recorder())
    given = {"option": "other-mount", "because": "b", "by": "p", "via": "cli", "shown_sha": "", "now": 1.0}
    made = bench.store.decide(
        bench.mission.id, about_key="disk.room", value="/data", from_n=2, to_n=2, **given
    )
    decided = {"disk.room": made}
    change = Change(
        task="t", host="h", effect="mutating", steps=(("mkdir", "--", "/data/new"), ("ls", "/data"))
    )
    assert why_outside(bounds, change, decided) == ()
    assert why_outside(bounds, change, {})
    mixed = change.model_copy(update={"steps": (change.steps[0], ("ls", "/other"))})
    assert why_outside(bounds, mixed, decided)
    bench.close()


def test_bounds_are_used_once(tmp_path: Path) -> None:
    later, hand = Later(), Recorder(exit_code=1)
    bench = planned_bench(tmp_path, later, hand)
    session = session_of(bench)
    session.approve_plan(bench.mission, [i for i in plan_items(bench.state()) if i.bounds])
    go(bench)
    later.change = STOPPED
    bench.run()
    assert bench.statuses()["later"] == "failed"
    session.retry(bench.mission, "later")
    later.change = STOPPED.model_copy(
        update={"steps": (("systemctl", "stop", "--", "x"),), "exact": (("unit", "x"),)}
    )
    bench.run()
    task = bench.state().task("later")
    assert task is not None and task.status == "awaiting_approval" and len(hand.ran) == 1
    assert re.search(r"unit was later, is x", task.blocked_by[0].reason)
    bench.close()
