"""The floor: a bare asyncio loop over SQLite that loses nothing. Two WAL commits and two event rows per task."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from graphs import Graph, arguments, body

WORKERS = 8
SCHEMA = """
CREATE TABLE IF NOT EXISTS task(key TEXT PRIMARY KEY, status TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS event(seq INTEGER PRIMARY KEY, key TEXT, old TEXT, new TEXT, at REAL);
"""


def open_state(path: Path, graph: Graph) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.executescript(SCHEMA)
    db.execute("BEGIN")
    db.executemany("INSERT OR IGNORE INTO task VALUES(?, 'pending')", [(key,) for key in graph])
    db.execute("UPDATE task SET status = 'pending' WHERE status = 'running'")
    db.execute("COMMIT")
    return db


def move(db: sqlite3.Connection, key: str, old: str, new: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE task SET status = ? WHERE key = ? AND status = ?", (new, key, old))
    db.execute("INSERT INTO event(key, old, new, at) VALUES(?, ?, ?, ?)", (key, old, new, time.time()))
    db.execute("COMMIT")


async def run(db: sqlite3.Connection, graph: Graph, work: Callable[[str], str]) -> None:
    done = {key for (key,) in db.execute("SELECT key FROM task WHERE status = 'done'")}
    unmet = {key: sum(n not in done for n in needs) for key, needs in graph.items() if key not in done}
    dependents: dict[str, list[str]] = {key: [] for key in graph}
    for key, needs in graph.items():
        for need in needs:
            dependents[need].append(key)
    ready = [key for key, count in unmet.items() if count == 0]
    active: set[asyncio.Future[str]] = set()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(WORKERS) as pool:
        while ready or active:
            while ready and len(active) < WORKERS:
                key = ready.pop()
                move(db, key, "pending", "running")
                active.add(loop.run_in_executor(pool, work, key))
            ended, active = await asyncio.wait(active, return_when=asyncio.FIRST_COMPLETED)
            for future in ended:
                move(db, future.result(), "running", "done")
                for key in dependents[future.result()]:
                    unmet[key] -= 1
                    if unmet[key] == 0:
                        ready.append(key)


if __name__ == "__main__":
    given = arguments()
    asyncio.run(
        run(open_state(given.state / "state.db", given.graph), given.graph, body(given.log, given.seconds))
    )
