"""The event log: one row a status change, written in the transaction that makes the change."""

from __future__ import annotations

import json
import sqlite3

from sqlalchemy import bindparam, func, select

from recon.agent.model.base import Json, canonical_json
from recon.agent.model.records import Event
from recon.agent.store.database import Database
from recon.agent.store.schema import event
from recon.agent.store.sql import Sql, all_of, insert_of

INSERT_EVENT = insert_of(event, without=("seq",))
LAST_EVENT = Sql(select(func.max(event.c.seq)))
_AFTER = Sql(
    all_of(event)
    .where(event.c.seq > bindparam("after"), event.c.mission_id == bindparam("mission"))
    .order_by(event.c.seq)
)
_OF_ENTITY = Sql(
    all_of(event)
    .where(event.c.mission_id == bindparam("mission"), event.c.entity == bindparam("kind"))
    .order_by(event.c.seq)
)
_COUNT = Sql(select(func.count()).select_from(event).where(event.c.mission_id == bindparam("mission")))


def event_row(
    *, mission_id: str, entity: str, entity_id: str, old: str, new: str, actor: str, at: float,
    run_id: int | None = None, payload: Json = None,
) -> dict[str, object]:  # fmt: skip
    """The parameters of one event row."""
    return {
        "mission_id": mission_id, "run_id": run_id, "actor": actor, "entity": entity, "entity_id": entity_id,
        "old": old, "new": new, "payload_json": canonical_json({} if payload is None else payload), "at": at,
    }  # fmt: skip


class Events(Database):
    """Holds one connection to state.db: the event log of its missions."""

    def events_after(self, mission_id: str, seq: int) -> list[Event]:
        """The events of a mission after sequence number `seq`, oldest first."""
        return [_event(row) for row in self.rows(_AFTER, after=seq, mission=mission_id)]

    def events_of(self, mission_id: str, entity: str) -> list[Event]:
        """The events of a mission about one kind of thing, oldest first."""
        return [_event(row) for row in self.rows(_OF_ENTITY, mission=mission_id, kind=entity)]

    def event_count(self, mission_id: str) -> int:
        """How many events a mission has."""
        row = self.one(_COUNT, mission=mission_id)
        return 0 if row is None else int(row[0])

    def last_event(self) -> int:
        """The sequence number of the newest event of any mission; 0 where there is none."""
        row = self.one(LAST_EVENT)
        return 0 if row is None or row[0] is None else int(row[0])

    def note(
        self, mission_id: str, entity: str, entity_id: str, *, old: str, new: str, actor: str, at: float,
        run_id: int | None = None, payload: Json = None,
    ) -> None:  # fmt: skip
        """Writes one event, inside a transaction of the caller's."""
        self.run(
            INSERT_EVENT,
            **event_row(
                mission_id=mission_id, entity=entity, entity_id=entity_id, old=old, new=new, actor=actor, at=at,
                run_id=run_id, payload=payload,
            ),
        )  # fmt: skip


def _event(row: sqlite3.Row) -> Event:
    return Event(
        seq=row["seq"], mission_id=row["mission_id"], run_id=row["run_id"], actor=row["actor"], entity=row["entity"],
        entity_id=row["entity_id"], old=row["old"], new=row["new"], payload=json.loads(row["payload_json"]),
        at=row["at"],
    )  # fmt: skip
