"""Todo items as rows: how they are read, added by a person, edited and moved from one status to another."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection

from sqlalchemy import bindparam, func, select

from recon.agent.model.base import Json, canonical_json
from recon.agent.model.errors import UsageError
from recon.agent.model.tasks import PlannedTask, Task
from recon.agent.model.words import Priority, StoredStatus
from recon.agent.store.missions import Missions
from recon.agent.store.schema import attempt, mission, task, task_revision
from recon.agent.store.sql import Sql, all_of, insert_of

MANUAL = "manual"  # the definition of a todo item that a person added

INSERT_TASK = insert_of(task)
NEXT_TASK_ID = Sql(select(func.coalesce(func.max(task.c.id), 0) + 1))
INSERT_LINK = insert_of(task_revision)
_HEAD_LINKS = (
    select(task_revision.c.task_id)
    .select_from(task_revision.join(mission, mission.c.id == task_revision.c.mission_id))
    .where(
        task_revision.c.mission_id == bindparam("wanted"),
        task_revision.c.n == mission.c.head,
        task_revision.c.live == 1,
    )
)
_HEAD_IDS = Sql(_HEAD_LINKS)
_REVISION_IDS = Sql(
    select(task_revision.c.task_id).where(
        task_revision.c.mission_id == bindparam("wanted"), task_revision.c.n == bindparam("at_n"),
        task_revision.c.live == 1,
    )
)  # fmt: skip
TASKS = Sql(all_of(task).where(task.c.mission_id == bindparam("wanted")).order_by(task.c.order_no, task.c.id))
_TASK = Sql(all_of(task).where(task.c.id == bindparam("wanted")))
_EDIT = Sql(
    task.update().where(task.c.id == bindparam("wanted")), columns=["title", "priority", "edited_json"]
)
_SET_STATUS = Sql(
    task.update().where(task.c.id == bindparam("wanted"), task.c.status == bindparam("held")),
    columns=["status", "lease_run", "lease_until"],
)
END_ATTEMPT = Sql(
    attempt.update().where(
        attempt.c.task_id == bindparam("of_task"),
        attempt.c.n == bindparam("token"),
        attempt.c.ended_at.is_(None),
    ),
    columns=["ended_at", "outcome"],
)


class Tasks(Missions):
    """Holds one connection to state.db: the todo items of its missions."""

    def tasks(self, mission_id: str, *, n: int | None = None) -> list[Task]:
        """The todo items of a mission in the order people see: all that ever were, or those of revision `n`."""
        with self.snapshot():
            rows = self.rows(TASKS, wanted=mission_id)
            head = {row[0] for row in self.rows(_HEAD_IDS, wanted=mission_id)}
            if n is not None:
                wanted = {row[0] for row in self.rows(_REVISION_IDS, wanted=mission_id, at_n=n)}
                rows = [row for row in rows if row["id"] in wanted]
        return [task_of(row, in_head=row["id"] in head) for row in rows]

    def task(self, task_id: int) -> Task:
        """One todo item. Raises UsageError for an unknown id."""
        row = self._task_row(task_id)
        head = {r[0] for r in self.rows(_HEAD_IDS, wanted=row["mission_id"])}
        return task_of(row, in_head=task_id in head)

    def edit_task(
        self,
        task_id: int,
        *,
        now: float,
        actor: str,
        title: str | None = None,
        priority: Priority | None = None,
    ) -> Task:
        """Changes title or priority for good: a later plan does not change them back."""
        changes: dict[str, Json] = {}
        if title is not None:
            changes["title"] = title
        if priority is not None:
            changes["priority"] = priority
        with self.transaction():
            row = self._task_row(task_id)
            edited = {**json.loads(row["edited_json"]), **changes}
            self.run(
                _EDIT, wanted=task_id, title=edited.get("title", row["title"]),
                priority=edited.get("priority", row["priority"]), edited_json=canonical_json(edited),
            )  # fmt: skip
            self.note(
                row["mission_id"], "task", str(task_id), old=row["status"], new=row["status"], actor=actor, at=now,
                payload={"change": "edited", **changes},
            )  # fmt: skip
        return self.task(task_id)

    def add_manual_task(
        self, mission_id: str, *, title: str, now: float, actor: str, priority: Priority = "medium"
    ) -> Task:
        """Adds a todo item for a person to the head revision. It has no definition to run and stays in later revisions."""
        with self.transaction():
            held = self.mission(mission_id)
            rows = self.rows(TASKS, wanted=held.id)
            number = 1 + sum(row["definition"] == MANUAL for row in rows)
            planned = PlannedTask(
                key=f"todo[{number}]", definition=MANUAL, title=title, kind="act", priority=priority,
                order=1 + max((row["order_no"] for row in rows), default=0), because="added by hand",
            )  # fmt: skip
            task_id = int(self.rows(NEXT_TASK_ID)[0][0])
            self.run(
                INSERT_TASK, **task_row(planned, task_id=task_id, mission_id=held.id, definition_hash="")
            )
            if held.head:
                self.run(INSERT_LINK, mission_id=held.id, n=held.head, task_id=task_id, live=1)
            self.note(
                held.id,
                "task",
                str(task_id),
                old="",
                new="pending",
                actor=actor,
                at=now,
                payload={"key": planned.key},
            )
            return self.task(task_id)

    def set_status(
        self, task_id: int, *, old: Collection[StoredStatus], new: StoredStatus, now: float, actor: str,
        payload: Json = None, run_id: int | None = None,
    ) -> bool:  # fmt: skip
        """Moves a task to `new` if its status is one of `old`; says whether it did.

        A task taken away from its runner loses its lease: what that runner still reports is fenced out. Raises
        ValueError for `running`, which only a take can give.
        """
        if new == "running":
            raise ValueError("only Steps.step makes a task running")
        with self.transaction():
            row = self._task_row(task_id)
            if row["status"] not in old:
                return False
            self.run(
                _SET_STATUS, wanted=task_id, held=row["status"], status=new, lease_run=None, lease_until=None
            )
            if row["status"] == "running":
                self.run(END_ATTEMPT, of_task=task_id, token=row["lease_token"], ended_at=now, outcome=new)
            self.note(
                row["mission_id"], "task", str(task_id), old=row["status"], new=new, actor=actor, at=now, run_id=run_id,
                payload=payload,
            )  # fmt: skip
        return True

    def _task_row(self, task_id: int) -> sqlite3.Row:
        row = self.one(_TASK, wanted=task_id)
        if row is None:
            raise UsageError(f"no task with number {task_id}", hint="recon todo lists them")
        return row


def task_of(row: sqlite3.Row, *, in_head: bool) -> Task:
    """The task of a row, with what a person edited laid over the plan."""
    planned = PlannedTask.model_validate_json(row["planned_json"])
    if row["edited_json"] != "{}":
        planned = planned.model_copy(update=json.loads(row["edited_json"]))
    return Task(
        id=row["id"], mission_id=row["mission_id"], definition_hash=row["definition_hash"], planned=planned,
        status=row["status"], lease_run=row["lease_run"], lease_token=row["lease_token"],
        lease_until=row["lease_until"], in_head=in_head, edited=tuple(json.loads(row["edited_json"])),
    )  # fmt: skip


def plan_columns(planned: PlannedTask, *, edited: dict[str, Json]) -> dict[str, Json]:
    """The columns of a task that follow its plan."""
    return {
        "definition": planned.definition, "kind": planned.kind, "title": edited.get("title", planned.title),
        "priority": edited.get("priority", planned.priority), "effect": planned.effect, "timeout_s": planned.timeout_s,
        "limit_name": planned.limit, "order_no": planned.order, "because": planned.because,
        "discovered_from": planned.discovered_from, "planned_json": planned.model_dump_json(),
    }  # fmt: skip


def task_row(planned: PlannedTask, *, task_id: int, mission_id: str, definition_hash: str) -> dict[str, Json]:
    """The parameters of a new task row."""
    return {
        "id": task_id, "mission_id": mission_id, "key": planned.key, "status": "pending", "lease_run": None,
        "lease_token": 0, "lease_until": None, "edited_json": "{}", "definition_hash": definition_hash,
        **plan_columns(planned, edited={}),
    }  # fmt: skip
