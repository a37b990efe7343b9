"""Missions and their revisions."""

from __future__ import annotations

import json
import sqlite3

from sqlalchemy import bindparam, select

from recon.agent.model.base import canonical_json, content_id
from recon.agent.model.errors import UsageError
from recon.agent.model.missions import Claim, Intent, Mission, Revision, Triage
from recon.agent.model.words import MissionOrigin
from recon.agent.store.events import Events
from recon.agent.store.lookups import pick
from recon.agent.store.schema import mission, revision
from recon.agent.store.sql import Sql, all_of, insert_of

_CURRENT = "current_mission"
_INSERT = insert_of(mission)
_BY_ID = Sql(all_of(mission).where(mission.c.id == bindparam("wanted")))
_ALL = Sql(all_of(mission).order_by(mission.c.created_at, mission.c.id))
_IDS = Sql(select(mission.c.id).order_by(mission.c.created_at, mission.c.id))
_SAME = Sql(
    all_of(mission)
    .where(mission.c.key == bindparam("key"), mission.c.realm == bindparam("realm"))
    .order_by(mission.c.serial.desc())
)
_SET_HEAD = Sql(mission.update().where(mission.c.id == bindparam("wanted")), columns=["head"])
_INSERT_REVISION = insert_of(revision)
_REVISIONS = Sql(all_of(revision).where(revision.c.mission_id == bindparam("wanted")).order_by(revision.c.n))


class Missions(Events):
    """Holds one connection to state.db: its missions and their revisions."""

    def add_mission(
        self, triage: Triage, *, key: str, origin: MissionOrigin, realm: str, as_of: float | None, now: float,
        actor: str, new: bool = False,
    ) -> Mission:  # fmt: skip
        """Stores what was asked and makes it the current mission.

        The same key in the same realm is the same mission, with all it has; `new` forces another one.
        """
        with self.transaction():
            same = self.rows(_SAME, key=key, realm=realm)
            if same and not new:
                self.put_setting(_CURRENT, same[0]["id"])
                return _mission(same[0])
            serial = same[0]["serial"] + 1 if same else 1
            mission_id = content_id("m", [key, realm, serial])
            self.run(
                _INSERT,
                id=mission_id, key=key, realm=realm, serial=serial, text=triage.text, origin=origin, as_of=as_of,
                head=0, created_at=now, intent_json=triage.intent.model_dump_json(),
                claims_json=canonical_json([c.model_dump(mode="json") for c in triage.claims]),
                unplaced_json=canonical_json(list(triage.unplaced)), playbook=triage.playbook,
            )  # fmt: skip
            self.note(mission_id, "mission", mission_id, old="", new="added", actor=actor, at=now)
            self.put_setting(_CURRENT, mission_id)
            return self.mission(mission_id)

    def missions(self) -> list[Mission]:
        """All missions, oldest first."""
        return [_mission(row) for row in self.rows(_ALL)]

    def current_mission(self) -> Mission | None:
        """The mission that commands without an argument speak of; None in a new state.db."""
        wanted = self.setting(_CURRENT)
        return None if wanted is None else self.mission(wanted)

    def use_mission(self, id_or_prefix: str) -> Mission:
        """Makes a mission the current one. Raises UsageError for an unknown id."""
        found = self.mission(id_or_prefix)
        self.put_setting(_CURRENT, found.id)
        return found

    def mission(self, id_or_prefix: str) -> Mission:
        """A mission by id or the beginning of it. Raises UsageError for an unknown id."""
        return _mission(self._mission_row(id_or_prefix))

    def triage(self, mission_id: str) -> Triage:
        """What was read from the mission's directive."""
        row = self._mission_row(mission_id)
        return Triage(
            text=row["text"], intent=Intent.model_validate_json(row["intent_json"]),
            claims=tuple(Claim.model_validate(c) for c in json.loads(row["claims_json"])),
            unplaced=tuple(json.loads(row["unplaced_json"])), playbook=row["playbook"],
        )  # fmt: skip

    def add_revision(
        self, mission_id: str, *, intent: Intent, bindings: dict[str, str], playbook: str, playbook_hash: str,
        parent_n: int | None, decision_id: int | None, now: float, actor: str, run_id: int | None = None,
    ) -> Revision:  # fmt: skip
        """Adds the next revision and makes it the head."""
        with self.transaction():
            held = self._mission_row(mission_id)
            mission_id = held["id"]
            n = len(self.rows(_REVISIONS, wanted=mission_id)) + 1
            self.run(
                _INSERT_REVISION,
                mission_id=mission_id, n=n, parent_n=parent_n, decision_id=decision_id,
                intent_json=intent.model_dump_json(), bindings_json=canonical_json(bindings), playbook=playbook,
                playbook_hash=playbook_hash, created_at=now,
            )  # fmt: skip
            self.run(_SET_HEAD, wanted=mission_id, head=n)
            self.note(
                mission_id, "head", mission_id, old=str(held["head"] or ""), new=str(n), actor=actor, at=now,
                run_id=run_id, payload={"parent": parent_n, "decision": decision_id},
            )  # fmt: skip
        return self.revision(mission_id, n)

    def revision(self, mission_id: str, n: int | None = None) -> Revision:
        """A revision, the head where no number is given. Raises UsageError where there is none."""
        held = self._mission_row(mission_id)
        wanted = held["head"] if n is None else n
        found = [r for r in self.revisions(held["id"]) if r.n == wanted]
        if not found:
            raise UsageError(
                f"mission {held['id']} has no revision {wanted or 'yet'}", hint="recon missions lists them"
            )
        return found[0]

    def revisions(self, mission_id: str) -> list[Revision]:
        """All revisions of a mission, oldest first."""
        return [_revision(row) for row in self.rows(_REVISIONS, wanted=mission_id)]

    def _mission_row(self, id_or_prefix: str) -> sqlite3.Row:
        row = self.one(_BY_ID, wanted=id_or_prefix)
        if row is not None:
            return row
        ids = [str(r[0]) for r in self.rows(_IDS)]
        found = self.one(
            _BY_ID, wanted=pick(id_or_prefix, ids, what="mission", see="recon missions lists them")
        )
        assert found is not None
        return found


def _mission(row: sqlite3.Row) -> Mission:
    return Mission(
        id=row["id"], key=row["key"], text=row["text"], origin=row["origin"], as_of=row["as_of"], head=row["head"],
        created_at=row["created_at"], realm=row["realm"],
    )  # fmt: skip


def _revision(row: sqlite3.Row) -> Revision:
    return Revision(
        mission_id=row["mission_id"], n=row["n"], parent_n=row["parent_n"], decision_id=row["decision_id"],
        intent=Intent.model_validate_json(row["intent_json"]), bindings=json.loads(row["bindings_json"]),
        playbook=row["playbook"], playbook_hash=row["playbook_hash"],
    )  # fmt: skip
