"""Laying a plan over what is there: new todo items are added, changed ones follow, results stay."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import bindparam

from recon.agent.model.base import Json
from recon.agent.model.errors import PlanError
from recon.agent.model.tasks import Plan, PlannedTask, PlannedUnknown, Task
from recon.agent.store.events import INSERT_EVENT, event_row
from recon.agent.store.schema import dependency, gate, task, task_revision, unknown
from recon.agent.store.sql import Sql, all_of, insert_of
from recon.agent.store.tasks import (
    INSERT_LINK,
    INSERT_TASK,
    MANUAL,
    NEXT_TASK_ID,
    TASKS,
    Tasks,
    plan_columns,
    task_row,
)

_PLAN_COLUMNS: Final = (
    "definition_hash", "definition", "kind", "title", "priority", "effect", "timeout_s", "limit_name", "order_no",
    "because", "discovered_from", "planned_json",
)  # fmt: skip
_UPDATE_TASK = Sql(task.update().where(task.c.id == bindparam("wanted")), columns=_PLAN_COLUMNS)
_LINKS = Sql(
    all_of(task_revision).where(
        task_revision.c.mission_id == bindparam("wanted"), task_revision.c.n == bindparam("at_n")
    )
)
_SET_LINK = Sql(
    task_revision.update().where(
        task_revision.c.mission_id == bindparam("wanted"), task_revision.c.n == bindparam("at_n"),
        task_revision.c.task_id == bindparam("of_task"),
    ),
    columns=["live"],
)  # fmt: skip
_INSERT_GATE = insert_of(gate)
_DELETE_GATES = Sql(gate.delete().where(gate.c.task_id == bindparam("of_task")))
_INSERT_DEPENDENCY = insert_of(dependency)
_DELETE_DEPENDENCIES = Sql(dependency.delete().where(dependency.c.task_id == bindparam("of_task")))
_DEPENDENCIES = Sql(
    all_of(dependency)
    .join(task, task.c.id == dependency.c.task_id)
    .where(task.c.mission_id == bindparam("wanted"))
    .order_by(dependency.c.task_id, dependency.c.needs_id)
)
_UNKNOWNS = Sql(
    all_of(unknown)
    .where(unknown.c.mission_id == bindparam("wanted"), unknown.c.n == bindparam("at_n"))
    .order_by(unknown.c.order_no)
)
_UNKNOWN_COLUMNS: Final = (
    "order_no", "live", "question", "who", "required", "min_level", "finding_ref", "planned_json",
)  # fmt: skip
_INSERT_UNKNOWN = insert_of(unknown)
_UPDATE_UNKNOWN = Sql(
    unknown.update().where(
        unknown.c.mission_id == bindparam("wanted"), unknown.c.n == bindparam("at_n"),
        unknown.c.key == bindparam("named"),
    ),
    columns=_UNKNOWN_COLUMNS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Laying:
    """One plan being laid over one revision."""

    mission_id: str
    n: int
    actor: str
    now: float
    run_id: int | None
    held: Mapping[str, sqlite3.Row]  # the mission's task rows by key, before
    ids: dict[str, int] = field(default_factory=dict)  # task ids by key, new ones too
    events: list[dict[str, object]] = field(default_factory=list)

    def note(self, task_id: int, *, old: str, new: str, payload: Json) -> None:
        self.events.append(
            event_row(
                mission_id=self.mission_id, entity="task", entity_id=str(task_id), old=old, new=new, actor=self.actor,
                at=self.now, run_id=self.run_id, payload=payload,
            )
        )  # fmt: skip


class Plans(Tasks):
    """Holds one connection to state.db: the todo graph of its missions."""

    def put_plan(
        self, mission_id: str, n: int, plan: Plan, *, definition_hashes: Mapping[str, str], now: float, actor: str,
        run_id: int | None = None,
    ) -> list[Task]:  # fmt: skip
        """Makes `plan` the plan of revision `n` and returns the revision's tasks.

        A key that is new in the mission becomes a pending task. A task that is there keeps its status and result; what
        the plan says differently about it now is taken over, unless it is running (then by the next call). A task
        that is not begun and that the plan leaves out is no longer part of the revision; items added by a person
        always are. `definition_hashes`: by definition name.

        Raises PlanError for a duplicate key, or a dependency on a key that the plan does not have.
        """
        with self.transaction():
            self.revision(mission_id, n)
            held = {row["key"]: row for row in self.rows(TASKS, wanted=mission_id)}
            manual = {key for key, row in held.items() if row["definition"] == MANUAL}
            _check(plan, also=manual)
            laying = _Laying(
                mission_id, n, actor, now, run_id, held, {key: row["id"] for key, row in held.items()}
            )
            changed = self._add(laying, plan, definition_hashes) + self._follow(
                laying, plan, definition_hashes
            )
            self._link(laying, wanted=[t.key for t in plan.tasks] + sorted(manual))
            self._put_edges(laying, changed)
            self._put_unknowns(laying, plan.unknowns)
            self.run_many(INSERT_EVENT, laying.events)
        return self.tasks(mission_id, n=n)

    def unknowns(self, mission_id: str, n: int | None = None) -> list[PlannedUnknown]:
        """The unknowns of a revision (the head where none is given), in the order they were planned."""
        at_n = self.mission(mission_id).head if n is None else n
        rows = self.rows(_UNKNOWNS, wanted=mission_id, at_n=at_n)
        return [PlannedUnknown.model_validate_json(row["planned_json"]) for row in rows if row["live"]]

    def dependencies(self, mission_id: str) -> list[tuple[int, int, str]]:
        """(task, the task it needs, `succeeded` or `settled`) for all tasks of a mission."""
        return [
            (r["task_id"], r["needs_id"], r["on_end"]) for r in self.rows(_DEPENDENCIES, wanted=mission_id)
        ]

    def _add(self, laying: _Laying, plan: Plan, hashes: Mapping[str, str]) -> list[PlannedTask]:
        new = [planned for planned in plan.tasks if planned.key not in laying.held]
        first = int(self.rows(NEXT_TASK_ID)[0][0])  # nobody else adds tasks inside this transaction
        rows = []
        for task_id, planned in enumerate(new, start=first):
            laying.ids[planned.key] = task_id
            rows.append(
                task_row(
                    planned, task_id=task_id, mission_id=laying.mission_id,
                    definition_hash=hashes.get(planned.definition, ""),
                )
            )  # fmt: skip
            laying.note(task_id, old="", new="pending", payload={"key": planned.key})
        self.run_many(INSERT_TASK, rows)
        return new

    def _follow(self, laying: _Laying, plan: Plan, hashes: Mapping[str, str]) -> list[PlannedTask]:
        changed = []
        for planned in plan.tasks:
            row = laying.held.get(planned.key)
            if row is None or row["status"] == "running":
                continue
            # A result stays under the definition it was made with, so that one can see it is an old one.
            begun = row["status"] not in ("pending", "interrupted")
            definition_hash = row["definition_hash"] if begun else hashes.get(planned.definition, "")
            fields = _differences(row, planned)
            if not fields and definition_hash == row["definition_hash"]:
                continue
            columns = plan_columns(planned, edited=json.loads(row["edited_json"]))
            self.run(_UPDATE_TASK, wanted=row["id"], definition_hash=definition_hash, **columns)
            laying.note(
                row["id"], old=row["status"], new=row["status"],
                payload={"change": "replanned", "fields": fields or ["definition_hash"]},
            )  # fmt: skip
            changed.append(planned)
        return changed

    def _link(self, laying: _Laying, *, wanted: list[str]) -> None:
        links = {
            r["task_id"]: bool(r["live"]) for r in self.rows(_LINKS, wanted=laying.mission_id, at_n=laying.n)
        }
        ids = [laying.ids[key] for key in wanted]
        common = {"mission_id": laying.mission_id, "n": laying.n, "live": 1}
        self.run_many(INSERT_LINK, [{**common, "task_id": i} for i in ids if i not in links])
        for task_id in (i for i in ids if links.get(i) is False):
            self._set_link(laying, task_id, live=1)
        keep = set(ids)
        for row in laying.held.values():
            if links.get(row["id"]) and row["id"] not in keep and row["status"] in ("pending", "interrupted"):
                self._set_link(laying, row["id"], live=0)
                laying.note(
                    row["id"],
                    old=row["status"],
                    new=row["status"],
                    payload={"change": "left out of the plan"},
                )

    def _set_link(self, laying: _Laying, task_id: int, *, live: int) -> None:
        self.run(_SET_LINK, wanted=laying.mission_id, at_n=laying.n, of_task=task_id, live=live)

    def _put_edges(self, laying: _Laying, changed: list[PlannedTask]) -> None:
        again = [{"of_task": laying.held[p.key]["id"]} for p in changed if p.key in laying.held]
        self.run_many(_DELETE_GATES, again)
        self.run_many(_DELETE_DEPENDENCIES, again)
        self.run_many(_INSERT_GATE, _gate_rows(laying, changed))
        self.run_many(_INSERT_DEPENDENCY, _dependency_rows(laying, changed))

    def _put_unknowns(self, laying: _Laying, planned: tuple[PlannedUnknown, ...]) -> None:
        held = {row["key"]: row for row in self.rows(_UNKNOWNS, wanted=laying.mission_id, at_n=laying.n)}
        for order, one in enumerate(planned):
            columns = _unknown_columns(one, order=order)
            row = held.pop(one.key, None)
            if row is None:
                self.run(_INSERT_UNKNOWN, mission_id=laying.mission_id, n=laying.n, key=one.key, **columns)
            elif any(row[name] != value for name, value in columns.items()):
                self.run(_UPDATE_UNKNOWN, wanted=laying.mission_id, at_n=laying.n, named=one.key, **columns)
        for key, row in held.items():  # no longer asked
            kept = {name: row[name] for name in _UNKNOWN_COLUMNS}
            self.run(
                _UPDATE_UNKNOWN, wanted=laying.mission_id, at_n=laying.n, named=key, **{**kept, "live": 0}
            )


def _check(plan: Plan, *, also: Collection[str]) -> None:
    _check_unique("todo item", (t.key for t in plan.tasks))
    _check_unique("unknown", (u.key for u in plan.unknowns))
    keys = {t.key for t in plan.tasks} | set(also)
    for planned in plan.tasks:
        _check_unique(f"dependency of {planned.key}", (edge.key for edge in planned.needs))
        for edge in planned.needs:
            if edge.key not in keys:
                raise PlanError(
                    f"{planned.key} needs {edge.key}, which the plan does not have",
                    hint="add that todo item to the playbook, or take the dependency out",
                )


def _check_unique(what: str, keys: Iterable[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise PlanError(f"the plan has the {what} {key} twice", hint="keys are unique in a mission")
        seen.add(key)


def _differences(row: sqlite3.Row, planned: PlannedTask) -> list[str]:
    """The fields the plan says differently now."""
    if row["planned_json"] == planned.model_dump_json():
        return []
    before = PlannedTask.model_validate_json(row["planned_json"])  # params may only stand in another order
    return [name for name in PlannedTask.model_fields if getattr(before, name) != getattr(planned, name)]


def _gate_rows(laying: _Laying, planned: list[PlannedTask]) -> Iterator[dict[str, Any]]:
    for one in planned:
        for n, spec in enumerate(one.gates):
            yield {"task_id": laying.ids[one.key], "n": n, "text": spec.text, "words": spec.words}


def _dependency_rows(laying: _Laying, planned: list[PlannedTask]) -> Iterator[dict[str, Any]]:
    for one in planned:
        for edge in one.needs:
            yield {"task_id": laying.ids[one.key], "needs_id": laying.ids[edge.key], "on_end": edge.on}


def _unknown_columns(planned: PlannedUnknown, *, order: int) -> dict[str, Json]:
    return {
        "order_no": order, "live": 1, "question": planned.question, "who": planned.who,
        "required": int(planned.required), "min_level": planned.min_level, "finding_ref": planned.finding_ref,
        "planned_json": planned.model_dump_json(),
    }  # fmt: skip
