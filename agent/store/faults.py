"""What the driver's errors mean for the person who reads them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from recon.agent.model.errors import StateDamaged, StateLocked, StoreError


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection is in the way and the same call may go through later."""
    return _name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """The error to raise in place of a driver's error."""
    name = _name(error)
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return damaged(path, str(error))
    if is_busy(error):
        return StateLocked(f"{path}: held by another process", hint="wait for the other recon to end")
    if name.startswith("SQLITE_FULL"):
        return StoreError(
            f"{path}: the disk is full; nothing of this step was written",
            hint="make room on that file system, then run recon resume",
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return read_only(path)
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreError(
            f"{path}: cannot be opened ({error})",
            hint="check its folder and rights, or name another with --db",
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"{path}: the file system refused a read or write ({error}); nothing of this step was written",
            hint="look for a full or failing disk or a file size limit, then run recon resume",
        )
    return StoreError(
        f"{path}: {error}", hint="this is a fault in recon: please report it with the command you ran"
    )


def damaged(path: Path, why: str) -> StateDamaged:
    """`path` is no usable database of recon."""
    return StateDamaged(
        f"{path}: not a usable state of recon ({why}); the file was left as it is",
        hint="put a copy back in its place, or start a new one with --db OTHER.db",
    )


def read_only(path: Path) -> StoreError:
    """`path` may not be written."""
    return StoreError(
        f"{path}: may not be written",
        hint="take a folder you own (--db PATH or RECON_DB); report, show and why also work on a read-only file",
    )


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or ""
