"""Judgements of a revision: each judge task replaces its own set, older sets stay readable."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from sqlalchemy import bindparam, select

from recon.agent.model.base import Json, canonical_json
from recon.agent.model.findings import Judgement, Option, Side
from recon.agent.store.events import Events
from recon.agent.store.schema import judgement, judgement_finding
from recon.agent.store.sql import Sql, all_of, insert_of

_INSERT = insert_of(judgement, without=("id",))
_INSERT_SIDE = insert_of(judgement_finding)
_OF_REVISION = (judgement.c.mission_id == bindparam("wanted"), judgement.c.n == bindparam("at_n"))
_LIVE = Sql(all_of(judgement).where(*_OF_REVISION, judgement.c.live == 1).order_by(judgement.c.id))
_SIDES = Sql(
    select(judgement_finding)
    .join(judgement, judgement.c.id == judgement_finding.c.judgement_id)
    .where(*_OF_REVISION, judgement.c.live == 1)
    .order_by(judgement_finding.c.judgement_id, judgement_finding.c.n)
)
_RETIRE = Sql(judgement.update().where(judgement.c.id == bindparam("wanted")), columns=["live"])


class Judgements(Events):
    """Holds one connection to state.db: the judgements of its missions."""

    def put_judgements(
        self, mission_id: str, n: int, judgements: Sequence[Judgement], *, producer: str, now: float, actor: str,
        run_id: int | None = None,
    ) -> None:  # fmt: skip
        """Makes these the judgements of judge task `producer` on revision `n`; what it said before is no longer latest.

        Writes an event for each key whose verdict is new, changed or gone. The same set again writes nothing.
        """
        with self.transaction():
            held = self._live(mission_id, n)
            mine = [(row, said) for row, said in held if row["producer"] == producer]
            if [said for _, said in mine] == list(judgements):
                return
            before = _verdicts(said for _, said in held)
            self.run_many(_RETIRE, [{"wanted": row["id"], "live": 0} for row, _ in mine])
            for one in judgements:
                self._insert(one, mission_id=mission_id, n=n, producer=producer, now=now, run_id=run_id)
            payload = {"producer": producer}
            self._note_changes(mission_id, n, before, actor=actor, now=now, run_id=run_id, payload=payload)

    def judgements(self, mission_id: str, n: int) -> list[Judgement]:
        """The latest judgement of every key of a revision, in the order they were made."""
        latest = {said.key: (row["id"], said) for row, said in self._live(mission_id, n)}
        return [said for _, said in sorted(latest.values(), key=lambda pair: pair[0])]

    def carry_judgements(self, mission_id: str, from_n: int, to_n: int, *, now: float) -> None:
        """Shows the judgements of an older revision for a new one until its own judges have run.

        A judge that has run for the new one already is left alone.
        """
        with self.transaction():
            there = self._live(mission_id, to_n)
            judged = {row["producer"] for row, _ in there}
            before = _verdicts(said for _, said in there)
            for row, said in self._live(mission_id, from_n):
                if row["producer"] not in judged:
                    self._insert(
                        said, mission_id=mission_id, n=to_n, producer=row["producer"], now=now, run_id=None
                    )
            payload = {"carried_from": from_n}
            self._note_changes(mission_id, to_n, before, actor="recon", now=now, run_id=None, payload=payload)

    def _note_changes(
        self, mission_id: str, n: int, before: dict[str, str], *, actor: str, now: float, run_id: int | None,
        payload: Json,
    ) -> None:  # fmt: skip
        after = _verdicts(said for _, said in self._live(mission_id, n))
        for key in sorted(before.keys() | after.keys()):
            old, new = before.get(key, ""), after.get(key, "")
            if old != new:
                self.note(
                    mission_id, "judgement", f"{n}:{key}", old=old, new=new, actor=actor, at=now, run_id=run_id,
                    payload=payload,
                )  # fmt: skip

    def _insert(
        self, one: Judgement, *, mission_id: str, n: int, producer: str, now: float, run_id: int | None
    ) -> None:
        cursor = self.run(
            _INSERT,
            mission_id=mission_id, n=n, key=one.key, producer=producer, live=1, about=one.about, verdict=one.verdict,
            title=one.title, observed_json=canonical_json(one.observed), expected_json=canonical_json(one.expected),
            detail_json=canonical_json(list(one.detail)), consequence=one.consequence,
            options_json=canonical_json([o.model_dump(mode="json") for o in one.options]), input_hash=one.input_hash,
            run_id=run_id, at=now,
        )  # fmt: skip
        sides = [
            {"judgement_id": cursor.lastrowid, "n": i, "finding_id": side.finding_id, "side": side.side}
            for i, side in enumerate(one.sides)
        ]
        self.run_many(_INSERT_SIDE, sides)

    def _live(self, mission_id: str, n: int) -> list[tuple[sqlite3.Row, Judgement]]:
        with self.snapshot():
            rows = self.rows(_LIVE, wanted=mission_id, at_n=n)
            sides: dict[int, list[Side]] = {}
            for side in self.rows(_SIDES, wanted=mission_id, at_n=n):
                sides.setdefault(side["judgement_id"], []).append(
                    Side(finding_id=side["finding_id"], side=side["side"])
                )
        return [(row, _judgement(row, sides.get(row["id"], []))) for row in rows]


def _verdicts(judgements: Iterable[Judgement]) -> dict[str, str]:
    return {one.key: one.verdict for one in judgements}


def _judgement(row: sqlite3.Row, sides: list[Side]) -> Judgement:
    options: list[Json] = json.loads(row["options_json"])
    return Judgement(
        key=row["key"], about=row["about"], verdict=row["verdict"], title=row["title"],
        observed=json.loads(row["observed_json"]), expected=json.loads(row["expected_json"]),
        detail=tuple(json.loads(row["detail_json"])), consequence=row["consequence"],
        options=tuple(Option.model_validate(o) for o in options), sides=tuple(sides), input_hash=row["input_hash"],
    )  # fmt: skip
