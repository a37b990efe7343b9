"""Plans laid over plans: new items are added, changed ones follow, results and a person's edits stay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.missions import NOW, add_revision, new_mission, open_store, plan_of, planned, put, start

from recon.agent.model.errors import PlanError, UsageError
from recon.agent.model.findings import Option
from recon.agent.model.tasks import Edge, GateSpec, Plan, PlannedUnknown, Task
from recon.agent.store import Finish, Store, Take


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as opened:
        yield opened


@pytest.fixture
def mission_id(store: Store) -> str:
    return new_mission(store).id


def succeed(store: Store, mission_id: str, task_id: int) -> None:
    run = start(store, mission_id)
    taken = store.step(run.id, finishes=[], takes=[Take(task_id)], now=NOW, lease_s=9).taken[task_id]
    end = Finish(task_id, taken.attempt_id, taken.token, "succeeded", NOW, summary="8 GPUs")
    assert not store.step(run.id, finishes=[end], takes=[], now=NOW, lease_s=9).fenced


def by_key(store: Store, mission_id: str, *, n: int | None = None) -> dict[str, Task]:
    return {t.key: t for t in store.tasks(mission_id, n=n)}


def test_a_planned_item_comes_back_as_it_was_planned(store: Store, mission_id: str) -> None:
    a = planned(
        "a", params={"repo": "x/y", "n": [1, None]}, timeout_s=7.5, limit="hub", because="found", order=2
    )
    gates = (GateSpec(text="known(host.gpus)", words="GPUs are known"), GateSpec(text="1 < 2"))
    b = planned("b", gates=gates, kind="act", effect="destructive", priority="low", order=1).model_copy(
        update={"needs": (Edge(key="a", on="settled"),)}
    )
    ids = put(store, mission_id, Plan(tasks=(a, b)))
    assert [t.planned for t in store.tasks(mission_id)] == [b, a]
    assert {t.status for t in store.tasks(mission_id)} == {"pending"}
    assert store.dependencies(mission_id) == [(ids["b"], ids["a"], "settled")]
    assert store.tasks(mission_id)[0].definition_hash == "d1"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(tasks=(planned("a", needs=["b"]),)), "a needs b, which the plan does not have"),
        (Plan(tasks=(planned("a"), planned("a"))), "the todo item a twice"),
        (Plan(tasks=(planned("a"), planned("b", needs=["a", "a"]))), "the dependency of b a twice"),
        (Plan(tasks=(), unknowns=(PlannedUnknown(key="u", question="?"),) * 2), "the unknown u twice"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_and_changes_nothing(
    store: Store, mission_id: str, plan: Plan, message: str
) -> None:
    seen = store.event_count(mission_id)
    with pytest.raises(PlanError, match=message):
        put(store, mission_id, plan)
    assert (store.tasks(mission_id), store.event_count(mission_id)) == ([], seen)


def test_a_plan_for_a_revision_that_does_not_exist_is_refused(store: Store, mission_id: str) -> None:
    with pytest.raises(UsageError, match="no revision 3"):
        put(store, mission_id, plan_of("a"), n=3)


def test_the_same_plan_again_writes_nothing(store: Store, mission_id: str) -> None:
    plan = plan_of("a", "b")
    ids = put(store, mission_id, plan)
    seen = store.event_count(mission_id)
    assert put(store, mission_id, plan) == ids
    assert store.event_count(mission_id) == seen


def test_a_new_revision_keeps_results_adds_what_is_new_and_leaves_out_the_rest(
    store: Store, mission_id: str
) -> None:
    ids = put(store, mission_id, plan_of("host.gpus", "headers[w4a16]"))
    succeed(store, mission_id, ids["host.gpus"])
    succeed(store, mission_id, ids["headers[w4a16]"])
    add_revision(store, mission_id, parent_n=1)
    put(store, mission_id, plan_of("host.gpus", "headers[nvfp4]"), n=2)
    tasks = by_key(store, mission_id)
    assert {key: (t.status, t.in_head) for key, t in tasks.items()} == {
        "host.gpus": ("succeeded", True),
        "headers[w4a16]": ("succeeded", False),
        "headers[nvfp4]": ("pending", True),
    }
    assert set(by_key(store, mission_id, n=1)) == {"host.gpus", "headers[w4a16]"}
    assert [a.summary for a in store.attempts(ids["host.gpus"])] == ["8 GPUs"]


def test_what_the_plan_says_differently_is_taken_over_but_not_under_a_running_task(
    store: Store, mission_id: str
) -> None:
    ids = put(store, mission_id, Plan(tasks=(planned("a"), planned("b"), planned("c", needs=["a"]))))
    run = start(store, mission_id)
    store.step(run.id, finishes=[], takes=[Take(ids["b"])], now=NOW, lease_s=9)
    gate = (GateSpec(text="1 < 2"),)
    again = Plan(tasks=(
        planned("a", title="other", gates=gate), planned("b", title="other"), planned("c", needs=["b"], params={"x": 1}),
    ))  # fmt: skip
    put(store, mission_id, again)
    tasks = by_key(store, mission_id)
    assert (tasks["a"].planned, tasks["c"].planned) == (again.tasks[0], again.tasks[2])
    assert (tasks["b"].planned.title, tasks["b"].status) == ("do b", "running")
    assert store.dependencies(mission_id) == [(ids["c"], ids["b"], "succeeded")]
    changes = {e.entity_id: e.payload for e in store.events_after(mission_id, 0) if e.payload.get("change")}
    assert changes == {
        str(ids["a"]): {"change": "replanned", "fields": ["title", "gates"]},
        str(ids["c"]): {"change": "replanned", "fields": ["params", "needs"]},
    }


def test_an_item_that_is_not_begun_leaves_with_the_plan_and_comes_back_with_it(
    store: Store, mission_id: str
) -> None:
    ids = put(store, mission_id, plan_of("a", "b", "c"))
    succeed(store, mission_id, ids["c"])
    put(store, mission_id, plan_of("a"))
    assert {k: t.in_head for k, t in by_key(store, mission_id).items()} == {"a": True, "b": False, "c": True}
    assert put(store, mission_id, plan_of("a", "b")) == ids


def test_a_result_stays_under_the_definition_it_was_made_with(store: Store, mission_id: str) -> None:
    ids = put(store, mission_id, plan_of("a", "b"))
    succeed(store, mission_id, ids["a"])
    store.put_plan(mission_id, 1, plan_of("a", "b"), definition_hashes={"noop": "d2"}, now=NOW, actor="test")
    assert {k: t.definition_hash for k, t in by_key(store, mission_id).items()} == {"a": "d1", "b": "d2"}


def test_what_a_person_edited_stays_edited(store: Store, mission_id: str) -> None:
    ids = put(store, mission_id, plan_of("a"))
    store.edit_task(ids["a"], now=NOW, actor="ann", title="mine")
    store.edit_task(ids["a"], now=NOW, actor="ann", priority="high")
    put(store, mission_id, Plan(tasks=(planned("a", title="replanned", priority="low", timeout_s=1),)))
    task = store.task(ids["a"])
    assert (task.planned.title, task.planned.priority, task.planned.timeout_s) == ("mine", "high", 1)
    columns = store._raw.execute("SELECT title, priority, timeout_s FROM task").fetchone()
    assert tuple(columns) == ("mine", "high", 1)


def test_an_item_that_a_person_added_is_in_every_later_plan(store: Store, mission_id: str) -> None:
    put(store, mission_id, plan_of("a"))
    first = store.add_manual_task(
        mission_id, title="call the data centre", now=NOW, actor="ann", priority="high"
    )
    second = store.add_manual_task(mission_id, title="and again", now=NOW, actor="ann")
    assert (first.key, second.key, first.in_head, first.status) == ("todo[1]", "todo[2]", True, "pending")
    put(store, mission_id, plan_of("a"))
    add_revision(store, mission_id, parent_n=1)
    put(store, mission_id, plan_of("b"), n=2)
    assert {t.key for t in store.tasks(mission_id, n=2)} == {"b", "todo[1]", "todo[2]"}


def test_each_revision_has_its_own_unknowns(store: Store, mission_id: str) -> None:
    def ask(*unknowns: PlannedUnknown, n: int) -> None:
        put(store, mission_id, Plan(tasks=(), unknowns=unknowns), n=n)

    disk = PlannedUnknown(
        key="disk.room", question="Is there room?", options=(Option(id="free", title="free some"),)
    )
    host = PlannedUnknown(key="host.target", question="Which host?", who="person")
    ask(host, disk, n=1)
    assert store.unknowns(mission_id) == [host, disk]
    add_revision(store, mission_id, parent_n=1)
    assert store.unknowns(mission_id) == []
    advisory = disk.model_copy(update={"required": False})
    ask(disk, host, n=2)
    ask(advisory, n=2)
    assert store.unknowns(mission_id) == [advisory]
    assert store.unknowns(mission_id, 1) == [host, disk]


def test_ten_thousand_items_are_planned_in_less_than_two_seconds(store: Store, mission_id: str) -> None:
    keys = [f"t{i}" for i in range(10_000)]
    tasks = tuple(planned(key, needs=keys[max(0, i - 3) : i], order=i) for i, key in enumerate(keys))
    began = time.process_time()
    put(store, mission_id, Plan(tasks=tasks))
    assert time.process_time() - began < 2.0
    assert len(store.dependencies(mission_id)) == 3 * 10_000 - 6
