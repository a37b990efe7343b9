"""The hot path: one transaction that ends attempts and takes tasks, with a lease, a fencing token and event rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sqlalchemy import bindparam, select

from recon.agent.model.base import Json, canonical_json
from recon.agent.model.errors import UsageError
from recon.agent.model.words import Cause
from recon.agent.store.events import INSERT_EVENT, LAST_EVENT, Events
from recon.agent.store.schema import attempt, run, task
from recon.agent.store.sql import Sql, insert_of

# `pending`: it failed and will be tried again.
FinishStatus: TypeAlias = Literal["succeeded", "failed", "cancelled", "skipped", "interrupted", "pending"]


@dataclass(frozen=True, slots=True)
class Finish:
    """How an attempt ended, and the status its task has from then on. `ended_at` is in UTC seconds."""

    task_id: int
    attempt_id: int
    lease_token: int
    status: FinishStatus
    ended_at: float
    outcome: str = ""  # "": the same word as the status
    summary: str = ""
    error: dict[str, Json] | None = None
    input_hash: str = ""
    reads: tuple[str, ...] = ()  # what it looked at, as its view recorded it


@dataclass(frozen=True, slots=True)
class Take:
    """A wish to start a task. `guard` is asked inside the transaction: "" or why not."""

    task_id: int
    cause: Cause = "first"
    guard: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class TakenAttempt:
    """A task that is ours until its lease ends: the attempt, its number, and the token that its finish must show."""

    attempt_id: int
    n: int
    token: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did: tasks taken, tasks not taken and why, finishes that came too late, the last event's number."""

    taken: dict[int, TakenAttempt] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    fenced: list[int] = field(default_factory=list)
    last_event: int = 0


_RUN = Sql(select(run.c.mission_id, run.c.ended_at).where(run.c.id == bindparam("wanted")))
_HELD = Sql(
    select(task.c.mission_id, task.c.status, task.c.lease_run, task.c.lease_token, task.c.lease_until)
    .where(task.c.id == bindparam("wanted"))
)  # fmt: skip
_TAKE = Sql(
    task.update().where(
        task.c.id == bindparam("wanted"),
        task.c.status == bindparam("held"),
        task.c.lease_token == bindparam("before"),
    ),
    columns=["status", "lease_run", "lease_token", "lease_until"],
)
_INSERT_ATTEMPT = insert_of(attempt, without=("id",))
_FINISH = Sql(
    task.update().where(
        task.c.id == bindparam("wanted"), task.c.lease_token == bindparam("token"), task.c.status == "running"
    ),
    columns=["status", "lease_run", "lease_until"],
)
_END_ATTEMPT = Sql(
    attempt.update().where(attempt.c.id == bindparam("wanted")),
    columns=["input_hash", "reads_json", "ended_at", "outcome", "error_json", "summary"],
)


class Steps(Events):
    """Holds one connection to state.db: starts and ends attempts."""

    def step(
        self, run_id: int, *, finishes: Sequence[Finish], takes: Sequence[Take], now: float, lease_s: float,
        durable: bool = False,
    ) -> StepResult:  # fmt: skip
        """Ends attempts, then takes tasks, in one transaction: afterwards all of it is stored, or none.

        A finish counts only while its token is the task's current one and the task is running; else it is reported in
        `fenced` and changes nothing. A take succeeds only from pending or interrupted, without a live lease, and if
        its guard says "". `lease_s`: seconds until others may take the task over. `durable`: see `transaction`.
        """
        result = StepResult()
        events: list[dict[str, object]] = []
        with self.transaction(durable=durable) as raw:
            mission_id = self._mission_of(run_id)
            common = {"mission_id": mission_id, "run_id": run_id, "actor": f"run:{run_id}", "entity": "task"}
            for finish in finishes:
                if _finish(raw, finish):
                    events.append({**common, **_finish_event(finish)})
                else:
                    result.fenced.append(finish.task_id)
            for take in takes:
                taken = _take(
                    raw, take, mission_id=mission_id, run_id=run_id, now=now, lease_until=now + lease_s
                )
                if isinstance(taken, str):
                    result.refused[take.task_id] = taken
                    continue
                held, made = taken
                result.taken[take.task_id] = made
                events.append({**common, **_take_event(take, made, held=held, now=now)})
            if events:
                raw.executemany(INSERT_EVENT.text, events)
            last = raw.execute(LAST_EVENT.text).fetchone()[0] or 0
        return StepResult(result.taken, result.refused, result.fenced, last)

    def _mission_of(self, run_id: int) -> str:
        row = self.one(_RUN, wanted=run_id)
        if row is None:
            raise UsageError(f"no run {run_id}", hint="recon runs lists them")
        return str(row["mission_id"])


def _finish(raw: sqlite3.Connection, finish: Finish) -> bool:
    done = raw.execute(
        _FINISH.text,
        _FINISH.params(
            {
                "wanted": finish.task_id, "token": finish.lease_token, "status": finish.status, "lease_run": None,
                "lease_until": None,
            }
        ),
    )  # fmt: skip
    if done.rowcount != 1:
        return False
    raw.execute(
        _END_ATTEMPT.text,
        {
            "wanted": finish.attempt_id, "input_hash": finish.input_hash,
            "reads_json": canonical_json(finish.reads) if finish.reads else "[]", "ended_at": finish.ended_at,
            "outcome": finish.outcome or finish.status,
            "error_json": None if finish.error is None else canonical_json(finish.error), "summary": finish.summary,
        },
    )  # fmt: skip
    return True


def _take(
    raw: sqlite3.Connection, take: Take, *, mission_id: str, run_id: int, now: float, lease_until: float
) -> tuple[str, TakenAttempt] | str:
    """The status it was taken from and the attempt, or why not."""
    held = raw.execute(_HELD.text, {"wanted": take.task_id}).fetchone()
    if why := _why_not(held, take, mission_id=mission_id, now=now):
        return why
    token = held["lease_token"] + 1
    raw.execute(
        _TAKE.text,
        {
            "wanted": take.task_id, "held": held["status"], "before": held["lease_token"], "status": "running",
            "lease_run": run_id, "lease_token": token, "lease_until": lease_until,
        },
    )  # fmt: skip
    made = raw.execute(
        _INSERT_ATTEMPT.text,
        {
            "task_id": take.task_id, "n": token, "run_id": run_id, "cause": take.cause, "started_at": now,
            "phase": None, "input_hash": "", "reads_json": "[]", "ended_at": None, "outcome": None, "error_json": None,
            "summary": "", "log_sha": None,
        },
    )  # fmt: skip
    return held["status"], TakenAttempt(attempt_id=made.lastrowid or 0, n=token, token=token)


def _why_not(held: sqlite3.Row | None, take: Take, *, mission_id: str, now: float) -> str:
    if held is None or held["mission_id"] != mission_id:
        return "not a task of this mission"
    if held["status"] == "running":
        return f"run {held['lease_run']} has it"
    if held["status"] not in ("pending", "interrupted"):
        return f"it is {held['status']}"
    if held["lease_until"] is not None and held["lease_until"] > now:
        return f"run {held['lease_run']} holds its lease"
    return take.guard() if take.guard is not None else ""


def _finish_event(finish: Finish) -> dict[str, object]:
    outcome = json.dumps(finish.outcome or finish.status)
    return {
        "entity_id": str(finish.task_id), "old": "running", "new": finish.status,
        "payload_json": f'{{"attempt":{finish.attempt_id},"outcome":{outcome}}}', "at": finish.ended_at,
    }  # fmt: skip


def _take_event(take: Take, made: TakenAttempt, *, held: str, now: float) -> dict[str, object]:
    return {
        "entity_id": str(take.task_id), "old": held, "new": "running",
        "payload_json": f'{{"attempt":{made.attempt_id},"cause":"{take.cause}","n":{made.n}}}', "at": now,
    }  # fmt: skip
