"""Brings an older state.db up to date, all of it or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import StaticPool

_HERE = Path(__file__).parent


def upgrade(
    raw: sqlite3.Connection, *, versions: Sequence[Path] = (_HERE / "versions",), to: str = "head"
) -> None:
    """Runs the missing migrations in one transaction of `raw`, which must be in autocommit mode."""
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    connection = engine.connect()
    try:
        # Foreign keys cannot be switched off inside a transaction, and a rebuilt table needs them off.
        raw.execute("PRAGMA foreign_keys=OFF")
        raw.execute("BEGIN IMMEDIATE")
        command.upgrade(configuration(connection, versions=versions), to)
        if raw.in_transaction:
            raw.execute("COMMIT")
    finally:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raw.execute("PRAGMA foreign_keys=ON")
        connection.detach()  # the connection is the caller's: the engine must not close it


def configuration(
    connection: Connection | None = None, *, versions: Sequence[Path] = (_HERE / "versions",)
) -> Config:
    """The alembic configuration, without an ini file."""
    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(str(v) for v in versions).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
