"""Runs, their heartbeat and leases, and what a dead one leaves behind; attempts and their logs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence

from sqlalchemy import bindparam, select

from recon.agent.model.errors import UsageError
from recon.agent.model.records import Run
from recon.agent.model.tasks import Attempt, Task
from recon.agent.model.words import Phase
from recon.agent.store.evidence import Evidence
from recon.agent.store.schema import attempt, run, task
from recon.agent.store.sql import Sql, all_of, insert_of
from recon.agent.store.tasks import END_ATTEMPT, Tasks

_INSERT = insert_of(run, without=("id",))
_RUN = Sql(all_of(run).where(run.c.id == bindparam("wanted")))
_RUNS = Sql(all_of(run).where(run.c.mission_id == bindparam("wanted")).order_by(run.c.id))
_LIVE = Sql(all_of(run).where(run.c.ended_at.is_(None)).order_by(run.c.id))
_BEAT = Sql(run.update().where(run.c.id == bindparam("wanted")), columns=["heartbeat_at"])
_EXTEND = Sql(
    task.update().where(task.c.lease_run == bindparam("held_by"), task.c.status == "running"),
    columns=["lease_until"],
)
_END = Sql(
    run.update().where(run.c.id == bindparam("wanted"), run.c.ended_at.is_(None)),
    columns=["ended_at", "exit_code"],
)
_RUNNING = Sql(
    select(task.c.id, task.c.mission_id, task.c.lease_run, task.c.lease_token, task.c.lease_until)
    .where(task.c.lease_run.is_not(None), task.c.status == "running")
    .order_by(task.c.id)
)
_INTERRUPT = Sql(
    task.update().where(task.c.id == bindparam("wanted")), columns=["status", "lease_run", "lease_until"]
)
_ATTEMPT = Sql(
    select(attempt, task.c.mission_id)
    .join(task, task.c.id == attempt.c.task_id)
    .where(attempt.c.id == bindparam("wanted"))
)
_ATTEMPTS = Sql(all_of(attempt).where(attempt.c.task_id == bindparam("of_task")).order_by(attempt.c.n))
_MISSION_ATTEMPTS = Sql(
    select(attempt)
    .join(task, task.c.id == attempt.c.task_id)
    .where(task.c.mission_id == bindparam("wanted"))
    .order_by(attempt.c.id)
)
_SET_PHASE = Sql(attempt.update().where(attempt.c.id == bindparam("wanted")), columns=["phase"])
_SET_LOG = Sql(attempt.update().where(attempt.c.id == bindparam("wanted")), columns=["log_sha"])


class Runs(Tasks, Evidence):
    """Holds one connection to state.db: who is at work on what."""

    def start_run(
        self,
        mission_id: str,
        *,
        host: str,
        boot_id: str,
        pid: int,
        pid_started: float,
        version: str,
        now: float,
    ) -> Run:
        """Notes that a process begins to work on a mission. `pid_started` tells it from a later one of the same pid."""
        with self.transaction():
            cursor = self.run(
                _INSERT,
                mission_id=mission_id, host=host, boot_id=boot_id, pid=pid, pid_started=pid_started, version=version,
                started_at=now, heartbeat_at=now, ended_at=None, exit_code=None,
            )  # fmt: skip
            run_id = cursor.lastrowid or 0
            self.note(
                mission_id,
                "run",
                str(run_id),
                old="",
                new="live",
                actor=f"run:{run_id}",
                at=now,
                run_id=run_id,
            )
            return self._run(run_id)

    def heartbeat(self, run_id: int, now: float, lease_until: float) -> None:
        """Says that a run is alive, and extends the leases of its tasks to `lease_until` (UTC seconds)."""
        with self.transaction():
            self.run(_BEAT, wanted=run_id, heartbeat_at=now)
            self.run(_EXTEND, held_by=run_id, lease_until=lease_until)

    def end_run(self, run_id: int, now: float, exit_code: int | None) -> None:
        """Notes that a run has ended. Asked twice it does nothing."""
        self._end(run_id, now=now, exit_code=exit_code, word="ended", actor=f"run:{run_id}")

    def runs(self, mission_id: str) -> list[Run]:
        """All runs over a mission, oldest first."""
        return [_run(row) for row in self.rows(_RUNS, wanted=mission_id)]

    def live_runs(self) -> list[Run]:
        """The runs of all missions that have not said that they ended; some may be dead, see `reclaim`."""
        return [_run(row) for row in self.rows(_LIVE)]

    def reclaim(
        self, now: float, is_dead: Callable[[Run], bool], *, lives: Callable[[Run], bool] = lambda run: False,
        actor: str = "reclaim",
    ) -> list[Task]:  # fmt: skip
        """Running tasks whose run is dead or has ended, or whose lease is over, become interrupted; returns them.

        `is_dead` is asked once for each live run and must be sure: a run on another machine is waited for. `lives` says of
        which runs it is sure that they are alive: what those hold stays theirs, however late their heartbeat is. Runs found
        dead are noted as lost.
        """
        dead = {one.id for one in self.live_runs() if is_dead(one)}
        with self.transaction():
            for run_id in sorted(dead):
                self._end(run_id, now=now, exit_code=None, word="lost", actor=actor)
            live = {one.id for one in self.live_runs()}
            sure = {one.id for one in self.live_runs() if lives(one)}
            lost = [
                row
                for row in self.rows(_RUNNING)
                if row["lease_run"] not in live
                or (
                    row["lease_run"] not in sure and (row["lease_until"] is None or row["lease_until"] <= now)
                )
            ]
            for row in lost:
                self._interrupt(row, now=now, actor=actor)
        return [self.task(row["id"]) for row in lost]

    def set_phase(self, attempt_id: int, phase: Phase, now: float, *, keys: Sequence[str] = ()) -> None:
        """Notes how far a change has come, before that part begins. `keys`: the questions its gates ask, as of now."""
        with self.transaction():
            row = self._attempt_row(attempt_id)
            self.run(_SET_PHASE, wanted=attempt_id, phase=phase)
            self.note(
                row["mission_id"], "attempt", str(attempt_id), old=row["phase"] or "", new=phase,
                actor=f"run:{row['run_id']}", at=now, run_id=row["run_id"],
                payload={"task": row["task_id"], "keys": list(keys)},
            )  # fmt: skip

    def attempt_ended(self, attempt_id: int) -> bool:
        """Whether an attempt has ended, well or not; False where this state has no such attempt."""
        row = self.one(_ATTEMPT, wanted=attempt_id)
        return row is not None and row["ended_at"] is not None

    def attach_log(self, attempt_id: int, text: bytes) -> str:
        """Keeps the log of an attempt (already redacted), in place of one kept before; its sha256."""
        with self.transaction():
            self._attempt_row(attempt_id)
            sha = self.keep_blob(text)
            self.run(_SET_LOG, wanted=attempt_id, log_sha=sha)
        return sha

    def attempt_log(self, attempt_id: int) -> bytes:
        """The log of an attempt, empty where it has none."""
        sha = self._attempt_row(attempt_id)["log_sha"]
        return b"" if sha is None else self.blob(sha)

    def attempts(self, task_id: int) -> list[Attempt]:
        """The attempts of a task, oldest first."""
        return [_attempt(row) for row in self.rows(_ATTEMPTS, of_task=task_id)]

    def mission_attempts(self, mission_id: str) -> list[Attempt]:
        """The attempts of all tasks of a mission, oldest first."""
        return [_attempt(row) for row in self.rows(_MISSION_ATTEMPTS, wanted=mission_id)]

    def _run(self, run_id: int) -> Run:
        row = self.one(_RUN, wanted=run_id)
        if row is None:
            raise UsageError(f"no run {run_id}", hint="recon runs lists them")
        return _run(row)

    def _end(self, run_id: int, *, now: float, exit_code: int | None, word: str, actor: str) -> None:
        with self.transaction():
            held = self._run(run_id)
            if held.ended_at is not None:
                return
            self.run(_END, wanted=run_id, ended_at=now, exit_code=exit_code)
            self.note(
                held.mission_id, "run", str(run_id), old="live", new=word, actor=actor, at=now, run_id=run_id,
                payload={"exit_code": exit_code},
            )  # fmt: skip

    def _interrupt(self, row: sqlite3.Row, *, now: float, actor: str) -> None:
        self.run(_INTERRUPT, wanted=row["id"], status="interrupted", lease_run=None, lease_until=None)
        self.run(
            END_ATTEMPT, of_task=row["id"], token=row["lease_token"], ended_at=now, outcome="interrupted"
        )
        self.note(
            row["mission_id"], "task", str(row["id"]), old="running", new="interrupted", actor=actor, at=now,
            payload={"lost_run": row["lease_run"]},
        )  # fmt: skip

    def _attempt_row(self, attempt_id: int) -> sqlite3.Row:
        row = self.one(_ATTEMPT, wanted=attempt_id)
        if row is None:
            raise UsageError(f"no attempt {attempt_id}", hint="recon show task KEY lists them")
        return row


def _run(row: sqlite3.Row) -> Run:
    return Run(**{name: row[name] for name in Run.model_fields})


def _attempt(row: sqlite3.Row) -> Attempt:
    return Attempt(
        id=row["id"], task_id=row["task_id"], n=row["n"], run_id=row["run_id"], cause=row["cause"], phase=row["phase"],
        input_hash=row["input_hash"], started_at=row["started_at"], ended_at=row["ended_at"], outcome=row["outcome"],
        error=None if row["error_json"] is None else json.loads(row["error_json"]), summary=row["summary"],
        reads=tuple(json.loads(row["reads_json"])),
    )  # fmt: skip
