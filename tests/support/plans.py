"""Missions of changes for tests of consent: a bench, the session a person speaks through, and a real folder as the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from support.engine import Bench, NoSources, act

from recon.agent.api import Change, View
from recon.agent.cli.compose import Session
from recon.agent.connectors.local import LocalSource
from recon.agent.model.base import Json
from recon.agent.model.tasks import Edge, GateSpec, PlannedTask
from recon.agent.runner.host_lock import Locking
from recon.agent.runner.ports import Executor

APPEND = 'printf "%s\\n" "$1" >> "$2"'


def change_task(
    key: str, *needs: str, gate: str = "", effect: str = "mutating", **more: object
) -> PlannedTask:
    """A todo item that changes something."""
    return PlannedTask.model_validate(
        {
            "key": key, "definition": "change", "title": f"do {key}", "kind": "act", "effect": effect,
            "params": {"key": key}, "needs": [Edge(key=n) for n in needs],
            "gates": [GateSpec(text=gate)] if gate else [], **more,
        }
    )  # fmt: skip


class Host:
    """A folder that stands for what a host holds: one line of `done` for each time a change was applied."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.done = folder / "done"

    def lines(self) -> list[str]:
        """What was applied, in order."""
        return self.done.read_text().split() if self.done.exists() else []

    def change(self, view: View, params: Mapping[str, Json]) -> Change:
        """Appends the task's key."""
        del view
        key = str(params["key"])
        return Change(
            task=key, host="localhost", steps=(("sh", "-c", APPEND, "recon", key, str(self.done)),),
            exact=(("path", str(self.done)),),
        )  # fmt: skip

    def bench(
        self, folder: Path, *, hand: Executor | None = None, state: str = "",
        change: Callable[[View, Mapping[str, Json]], Change] | None = None,
    ) -> Bench:  # fmt: skip
        """A mission whose changes reach this folder through the real local connector, with the real lock."""
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(
            folder, [act("change", lambda key: key in self.lines(), change or self.change)],
            sources=NoSources(hand or LocalSource()),
        )  # fmt: skip
        bench.locking = Locking(
            state=state or str(folder), by="test", path=str(self.folder / "lock"), wait_s=0.3
        )
        return bench


def session_of(bench: Bench) -> Session:
    """What a person speaks through."""
    return Session(bench.store, registry=bench.registry)
