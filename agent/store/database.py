"""The connection to state.db: transactions, waiting for other writers, reads."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from sqlalchemy import bindparam, select

from recon.agent.model.errors import StateLocked, StoreError
from recon.agent.store import schema
from recon.agent.store.faults import is_busy, read_only, store_error
from recon.agent.store.opening import BUSY_WAIT_S, close_quietly, open_database
from recon.agent.store.sql import Sql, insert_of

T = TypeVar("T")
_NOTHING: Final[Mapping[str, Any]] = {}
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.25

_LIVE_RUNS = Sql(select(schema.run).where(schema.run.c.ended_at.is_(None)).order_by(schema.run.c.id))
_SETTING = Sql(select(schema.setting.c.value).where(schema.setting.c.key == bindparam("wanted")))
_UPDATE_SETTING = Sql(
    schema.setting.update().where(schema.setting.c.key == bindparam("wanted")), columns=["value"]
)
_INSERT_SETTING = insert_of(schema.setting)


class Database:
    """Holds one open connection. May be used from several threads of a process; they take turns."""

    def __init__(self, raw: sqlite3.Connection, path: Path, *, read_only: bool, busy_wait_s: float) -> None:
        self._raw = raw
        self._path = path
        self._read_only = read_only
        self._busy_wait_s = busy_wait_s
        self._lock = threading.RLock()
        self._depth = 0

    @classmethod
    def open(
        cls, path: Path, *, create: bool = True, read_only: bool = False, busy_wait_s: float = BUSY_WAIT_S
    ) -> Self:
        """Opens state.db, makes it where it is missing and `create`, brings an older one up to date.

        Raises StoreError, StateNewer, StateDamaged or StateLocked; a file that was there is then as it was.
        `busy_wait_s`: for how long another writer is waited for.
        """
        raw = open_database(path, create=create, read_only=read_only, busy_wait_s=busy_wait_s)
        return cls(raw, path, read_only=read_only, busy_wait_s=busy_wait_s)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def close(self) -> None:
        """Closes the connection. Asked twice it does nothing."""
        with self._lock:
            close_quietly(self._raw)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def data_version(self) -> int:
        """A number that changes when another connection has written."""
        with self._lock:
            return int(self._patiently(lambda: self._raw.execute("PRAGMA data_version").fetchone())[0])

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """All of the writes inside, or none. Inside another one it is a part of that one.

        `durable`: on the disk when it ends, also after a power cut; set it before a step that cannot be taken back.
        Raises StateLocked where another process writes for longer than we wait.
        """
        with self._lock:
            if self._depth:
                with self._nested() as raw:
                    yield raw
                return
            if self._read_only:
                raise read_only(self._path)
            with self._outermost(durable=durable) as raw:
                yield raw

    def setting(self, key: str) -> str | None:
        """A value kept by name, None where there is none."""
        row = self.one(_SETTING, wanted=key)
        return None if row is None else str(row[0])

    def put_setting(self, key: str, value: str) -> None:
        """Keeps a value by name."""
        with self.transaction():
            if self.run(_UPDATE_SETTING, wanted=key, value=value).rowcount == 0:
                self.run(_INSERT_SETTING, key=key, value=value)

    # What the other modules of the store use.

    def rows(self, sql: Sql, **params: Any) -> list[sqlite3.Row]:
        """All rows of a SELECT."""
        with self._lock:
            return self._patiently(lambda: self._raw.execute(sql.text, sql.params(params)).fetchall())

    def one(self, sql: Sql, **params: Any) -> sqlite3.Row | None:
        """The first row of a SELECT."""
        found = self.rows(sql, **params)
        return found[0] if found else None

    def run(self, sql: Sql, **params: Any) -> sqlite3.Cursor:
        """One INSERT, UPDATE or DELETE, inside a transaction of the caller's."""
        return self._raw.execute(sql.text, sql.params(params))

    def run_many(self, sql: Sql, params: Iterable[Mapping[str, Any]]) -> None:
        """The same statement for many parameters, inside a transaction of the caller's."""
        self._raw.executemany(sql.text, (sql.params(p) for p in params))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Several reads that see the same state, whatever other processes write meanwhile."""
        with self._lock:
            if self._raw.in_transaction:
                yield
                return
            self._patiently(lambda: self._raw.execute("BEGIN"))
            try:
                yield
            finally:
                self._rollback()

    @contextmanager
    def _outermost(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        try:
            if durable:  # cannot be changed inside a transaction
                self._raw.execute("PRAGMA synchronous=FULL")
            self._patiently(lambda: self._raw.execute("BEGIN IMMEDIATE"))
            self._depth = 1
            yield self._raw
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._translated(error) from error
        finally:
            self._depth = 0
            self._rollback()
            if durable:
                self._raw.execute("PRAGMA synchronous=NORMAL")

    @contextmanager
    def _nested(self) -> Iterator[sqlite3.Connection]:
        name = f"nested_{self._depth}"
        try:
            self._raw.execute(f"SAVEPOINT {name}")
            self._depth += 1
            try:
                yield self._raw
            except BaseException:
                if self._raw.in_transaction:  # a full disk may have ended all of it already
                    self._raw.execute(f"ROLLBACK TO {name}")
                    self._raw.execute(f"RELEASE {name}")
                raise
            self._raw.execute(f"RELEASE {name}")
        except sqlite3.Error as error:
            raise self._translated(error) from error
        finally:
            self._depth = max(self._depth - 1, 0)

    def _rollback(self) -> None:
        if self._raw.in_transaction:
            self._raw.execute("ROLLBACK")

    def _patiently(self, call: Callable[[], T]) -> T:
        """Calls again while another connection is in the way: each call itself waits a quarter of a second."""
        deadline = time.monotonic() + self._busy_wait_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return call()
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() >= deadline:
                    raise self._translated(error) from error
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _translated(self, error: sqlite3.Error) -> StoreError:
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            return StoreError(f"{self._path}: already closed")
        return self._locked() if is_busy(error) else store_error(error, self._path)

    def _locked(self) -> StateLocked:
        """Names the run that is probably in the way."""
        try:
            holders = self._raw.execute(_LIVE_RUNS.text).fetchall()
        except sqlite3.Error:
            holders = []
        who = ", ".join(f"run {r['id']} (process {r['pid']} on {r['host']})" for r in holders)
        return StateLocked(
            f"{self._path}: another process has been writing for {self._busy_wait_s:g} s"
            + (f"; {who} is on it" if who else ""),
            hint="wait for it or end it, then run recon resume",
        )
