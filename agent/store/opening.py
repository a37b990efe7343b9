"""How state.db is found, checked, made and brought up to date, before anything is written to it."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from recon.agent.model.errors import StateDamaged, StateLocked, StateNewer, StoreError
from recon.agent.store.faults import damaged, is_busy, read_only, store_error
from recon.agent.store.schema import SCHEMA, metadata
from recon.agent.store.sql import ddl

BUSY_WAIT_S: Final = 30.0  # rides out a checkpoint on a slow disk and any single step of another recon
BUSY_TIMEOUT_S: Final = 0.25  # inside the driver; short, so that Ctrl-C is heard between two tries
_MAGIC: Final = b"SQLite format 3\0"
APPLICATION_ID: Final = 0x5245434E  # "RECN" in the file's header


def open_database(path: Path, *, create: bool, read_only: bool, busy_wait_s: float) -> sqlite3.Connection:
    """A checked connection. Raises StoreError and its kinds; see Database.open."""
    deadline = time.monotonic() + busy_wait_s
    while True:
        try:
            return _open(path, create=create, read_only=read_only)
        except OSError as error:  # a folder that may not be searched, a file that may not be opened
            raise StoreError(
                f"{path}: cannot be opened ({error.strerror or error})",
                hint="check its folder and rights, or name another with --db",
            ) from error
        except sqlite3.Error as error:
            if not is_busy(error):
                raise store_error(error, path) from error
            if time.monotonic() >= deadline:
                raise StateLocked(
                    f"{path}: held by another process for {busy_wait_s:g} s", hint="wait for it or end it"
                ) from error
        time.sleep(0.05)


def close_quietly(raw: sqlite3.Connection) -> None:
    """Closes; what cannot be tidied up then (a full disk) is tidied up by the next open."""
    with suppress(sqlite3.Error):
        raw.close()


def _open(path: Path, *, create: bool, read_only: bool) -> sqlite3.Connection:
    if not path.exists():
        _refuse_missing(path, create=create and not read_only)
        _make_file(path)
    found = _look(path)
    if found is None and read_only:
        raise StoreError(f"{path}: holds no state yet", hint="recon run makes one")
    if read_only:
        return _connect(path, _reading_mode(path))
    _refuse_unwritable(path)
    raw = _connect(path, "rw")
    try:
        _prepare(raw, path, found)
    except BaseException:
        close_quietly(raw)
        raise
    return raw


def _refuse_missing(path: Path, *, create: bool) -> None:
    if not path.parent.is_dir():
        raise StoreError(
            f"{path}: there is no folder {path.parent}", hint="make the folder, or name another with --db"
        )
    if not create:
        raise StoreError(f"{path}: there is no such file", hint="recon run makes one; --db names another")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise read_only(path)


def _refuse_unwritable(path: Path) -> None:
    # The folder too: the write-ahead log lives beside the file.
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        raise read_only(path)


def _make_file(path: Path) -> None:
    """Makes the empty file with its final rights: there is no moment at which others could read it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:  # another recon was first
        return
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be made ({error.strerror})", hint="name another place with --db PATH or RECON_DB"
        ) from error


def _look(path: Path) -> str | None:
    """The schema revision of the file, None for an empty one. Writes nothing, not even beside the file."""
    if not path.is_file():
        raise StoreError(f"{path}: is not a file", hint="name a file with --db PATH or RECON_DB")
    if not os.access(path, os.R_OK):
        raise StoreError(
            f"{path}: may not be read", hint="it belongs to another user; name your own with --db"
        )
    with path.open("rb") as file:
        magic = file.read(len(_MAGIC))
    if magic not in (b"", _MAGIC):
        raise damaged(path, "another kind of file")
    if _in_use(path):
        return _look_inside(path, "ro")
    try:
        return _look_inside(path, "ro&immutable=1")  # takes no lock and makes no shared-memory file
    except (sqlite3.Error, StateDamaged):
        if not _in_use(path):
            raise
        return _look_inside(path, "ro")  # another recon has begun to write under our eyes


def _look_inside(path: Path, mode: str) -> str | None:
    raw = _connect(path, mode)
    try:
        application = raw.execute("PRAGMA application_id").fetchone()[0]
        tables = {row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables and application in (0, APPLICATION_ID):
            return None
        if application != APPLICATION_ID or "alembic_version" not in tables:
            raise damaged(path, "a database of another program")
        row = raw.execute("SELECT version_num FROM alembic_version").fetchone()
    finally:
        close_quietly(raw)
    if row is None:
        raise damaged(path, "it does not say its schema")
    return _refuse_newer(path, str(row[0]))


def _refuse_newer(path: Path, found: str) -> str:
    if found > SCHEMA or not found.isdigit():
        raise StateNewer(
            f"{path}: written by a newer recon (its schema is {found}, this recon knows {SCHEMA}); left as it is",
            hint="upgrade recon, or start another state with --db OTHER.db",
        )
    return found


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    raw = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None,
        check_same_thread=False, cached_statements=256,
    )  # fmt: skip
    raw.row_factory = sqlite3.Row
    raw.execute("PRAGMA foreign_keys=ON")
    return raw


def _reading_mode(path: Path) -> str:
    """A folder that may not be written takes no shared-memory file; without a log none is needed."""
    alone = not os.access(path.parent, os.W_OK) and not _in_use(path)
    return "ro&immutable=1" if alone else "ro"


def _in_use(path: Path) -> bool:
    """Whether a log with something in it, or a process that may be writing one, belongs to the file."""
    try:
        logged = path.with_name(path.name + "-wal").stat().st_size > 0
    except FileNotFoundError:  # none, or its process has just ended
        logged = False
    return logged or path.with_name(path.name + "-shm").exists()


def _prepare(raw: sqlite3.Connection, path: Path, found: str | None) -> None:
    if found is None:
        # Only here: an existing file is in this mode already, and asking for it may have to wait for others.
        raw.execute("PRAGMA journal_mode=WAL")
        _create(raw)
    elif found != SCHEMA:
        from recon.agent.store.migrations import upgrade  # alembic is slow to import and hardly ever needed

        upgrade(raw)
    # A commit survives a kill of the process; only a power cut can lose the last ones. See `durable`.
    raw.execute("PRAGMA synchronous=NORMAL")


def _create(raw: sqlite3.Connection) -> None:
    """Makes the tables as they are now and notes the revision, as alembic would."""
    raw.execute("BEGIN IMMEDIATE")
    try:
        if (
            raw.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        ):  # else another recon was first
            for statement in ddl(metadata.sorted_tables):
                raw.execute(statement)
            raw.execute(
                "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
                "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
            )
            raw.execute("INSERT INTO alembic_version VALUES (?)", (SCHEMA,))
            raw.execute(f"PRAGMA application_id={APPLICATION_ID}")
        raw.execute("COMMIT")
    finally:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
