"""doit, SQLite backend, one task at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain
from doit.tools import run_once
from graphs import arguments, body

given = arguments()
work = body(given.log, given.seconds)


def task_t() -> Iterator[dict[str, object]]:
    for key, needs in given.graph.items():
        yield {
            "name": key, "actions": [(lambda key: bool(work(key)), [key])], "uptodate": [run_once],
            "task_dep": [f"t:{n}" for n in needs],
        }  # fmt: skip


config = {"backend": "sqlite3", "dep_file": str(given.state / "doit.db"), "verbosity": 0, "reporter": "zero"}
sys.exit(DoitMain(ModuleTaskLoader({"task_t": task_t, "DOIT_CONFIG": config})).run(["run"]))
