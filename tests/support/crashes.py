"""What a killed process leaves: the files of state.db as they are on the disk after each commit."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recon.agent.store.database import Database


@contextmanager
def a_copy_after_each_commit(folder: Path) -> Iterator[list[Path]]:
    """Copies state.db and its log after every commit of this process: exactly what kill -9 at that boundary leaves,
    since bytes handed to the kernel outlive the process. Yields the list of copies, in order.

    This process lives on, unlike a killed one: `killed` makes a copy say so.
    """
    copies: list[Path] = []
    plain = Database.transaction

    @contextmanager
    def transaction(self: Database, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        outermost = self._depth == 0
        with plain(self, durable=durable) as raw:
            yield raw
        if outermost:
            copies.append(_copy(self.path, folder / f"{len(copies):04d}"))

    Database.transaction = transaction  # type: ignore[method-assign]
    try:
        yield copies
    finally:
        Database.transaction = plain  # type: ignore[method-assign]


def _copy(database: Path, to: Path) -> Path:
    to.mkdir(parents=True)
    for name in (database.name, f"{database.name}-wal"):
        source = database.with_name(name)
        if source.exists():
            shutil.copyfile(source, to / name)
    return to / database.name


def killed(database: Path) -> Path:
    """The copy with another start time of the process in its runs: that process is gone, as after a kill -9."""
    with sqlite3.connect(database) as raw:
        raw.execute("UPDATE run SET pid_started = pid_started - 1 WHERE ended_at IS NULL")
    raw.close()
    return database


def integrity(database: Path) -> str:
    """What SQLite says of the file."""
    with sqlite3.connect(database) as raw:
        answer = raw.execute("PRAGMA integrity_check").fetchone()[0]
    raw.close()
    return str(answer)
