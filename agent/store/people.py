"""What people said: decisions and approvals."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Literal

from sqlalchemy import bindparam, select

from recon.agent.model.base import Json, canonical_json
from recon.agent.model.errors import UsageError
from recon.agent.model.records import Approval, Decision
from recon.agent.store.schema import approval, decision, task
from recon.agent.store.sql import Sql, all_of, insert_of
from recon.agent.store.tasks import Tasks

_INSERT_DECISION = insert_of(decision, without=("id",))
_DECISIONS = Sql(all_of(decision).where(decision.c.mission_id == bindparam("wanted")).order_by(decision.c.id))
_INSERT_APPROVAL = insert_of(approval, without=("id",))
_APPROVALS = Sql(
    select(approval)
    .join(task, task.c.id == approval.c.task_id)
    .where(task.c.mission_id == bindparam("wanted"))
    .order_by(approval.c.id)
)


class People(Tasks):
    """Holds one connection to state.db: the decisions and approvals of its missions."""

    def decide(
        self, mission_id: str, *, about_key: str, option: str, value: str, because: str, by: str, via: str,
        shown_sha: str, now: float, from_n: int, to_n: int, undoes: int | None = None,
        basis: Mapping[str, Json] | None = None,
    ) -> Decision:  # fmt: skip
        """Records a choice. `shown_sha` names the blob of what the person saw; `undoes` the decision it takes back,
        `basis` the judgements and the answer it holds for.

        Raises UsageError where `undoes` is no decision of this mission that still holds.
        """
        with self.transaction():
            before = self.decisions(mission_id)
            if undoes is not None:
                _refuse_undo(before, undoes)
            cursor = self.run(
                _INSERT_DECISION,
                mission_id=mission_id, about_key=about_key, option=option, value=value, because=because, by=by,
                via=via, at=now, shown_sha=shown_sha, from_n=from_n, to_n=to_n, undoes=undoes,
                basis_json=canonical_json(dict(basis or {})),
            )  # fmt: skip
            made = str(cursor.lastrowid)
            payload = {"about": about_key, "option": option}
            word = "active" if undoes is None else "undo"
            self.note(mission_id, "decision", made, old="", new=word, actor=by, at=now, payload=payload)
            if undoes is not None:
                self.note(
                    mission_id, "decision", str(undoes), old="active", new="undone", actor=by, at=now,
                    payload={"by": int(made)},
                )  # fmt: skip
            return self.decisions(mission_id)[-1]

    def decisions(self, mission_id: str) -> list[Decision]:
        """All decisions of a mission, oldest first, those taken back too."""
        return [_decision(row) for row in self.rows(_DECISIONS, wanted=mission_id)]

    def approve(
        self, task_id: int, *, change_hash: str, exact_hash: str, shown_sha: str,
        verdict: Literal["approve", "deny"], message: str, by: str, via: str, now: float,
        scope: Literal["exact", "bounds"] = "exact",
    ) -> Approval:  # fmt: skip
        """Records a consent or refusal to the change (or the bounds of a later one) with these hashes."""
        with self.transaction():
            mission_id = self.task(task_id).mission_id
            cursor = self.run(
                _INSERT_APPROVAL,
                task_id=task_id, change_hash=change_hash, exact_hash=exact_hash, shown_sha=shown_sha, verdict=verdict,
                message=message, by=by, via=via, at=now, scope=scope,
            )  # fmt: skip
            self.note(
                mission_id, "approval", str(cursor.lastrowid), old="", new=verdict, actor=by, at=now,
                payload={"task": task_id, "change_hash": change_hash, "scope": scope},
            )  # fmt: skip
            return self.approvals(mission_id)[-1]

    def approvals(self, mission_id: str) -> list[Approval]:
        """All approvals and refusals of a mission, oldest first."""
        return [
            Approval(**{name: row[name] for name in Approval.model_fields})
            for row in self.rows(_APPROVALS, wanted=mission_id)
        ]


def _decision(row: sqlite3.Row) -> Decision:
    columns = {name: row[name] for name in Decision.model_fields if name != "basis"}
    return Decision(**columns, basis=json.loads(row["basis_json"]))


def _refuse_undo(decisions: list[Decision], undoes: int) -> None:
    held = {one.id: one for one in decisions}
    if undoes not in held:
        raise UsageError(f"no decision {undoes} in this mission", hint="recon report lists them")
    if held[undoes].undoes is not None or any(one.undoes == undoes for one in decisions):
        raise UsageError(f"decision {undoes} does not hold any more", hint="recon report lists them")
