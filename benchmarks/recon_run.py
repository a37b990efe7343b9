"""recon's own engine on a graph of tasks that do nothing: the store, the planner and the loop that `recon run` uses."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from graphs import Graph, arguments, body

from recon import __version__
from recon.agent.api import Edge, Intent, Plan, PlannedTask, ReconContext, ReconTask, Request, Triage, View
from recon.agent.runner.loop import Loop
from recon.agent.runner.ports import Clock, Options, Registry
from recon.agent.runner.process import is_dead, this_process
from recon.agent.runner.records import renderer
from recon.agent.store import Store

KEY = "bench"


class Nowhere:
    """Sources for tasks that ask nothing."""

    async def fetch(self, request: Request) -> object:
        raise AssertionError(f"a benchmark task asked for {request}")

    def executor(self, host: str) -> object:
        raise AssertionError(f"a benchmark task wanted to change {host}")

    async def close(self) -> None:
        """Nothing is open."""


class Playbook:
    """Plans the graph it was given."""

    name = "bench"
    version = "1"

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def bindings(self, intent: Intent, directive_subject: str) -> dict[str, str]:
        return {"mission": directive_subject}

    def plan(self, intent: Intent, view: View) -> Plan:
        tasks = tuple(
            PlannedTask(
                key=key, definition="bench.noop", title=key, kind="recon", order=order, params={"key": key},
                needs=tuple(Edge(key=n) for n in needs),
            )
            for order, (key, needs) in enumerate(self.graph.items())
        )  # fmt: skip
        return Plan(tasks=tasks)


def noop(log: Path, seconds: float) -> ReconTask:
    """The one definition: writes its two lines in the log, in a thread where it takes time."""
    work = body(log, seconds)

    async def run(context: ReconContext) -> str:
        key = str(context.params["key"])
        return await asyncio.to_thread(work, key) if seconds else work(key)

    return ReconTask("bench.noop", run=run)


def main() -> int:
    given = arguments()
    playbook = Playbook(given.graph)
    registry = Registry.of([noop(given.log, given.seconds)], [playbook])
    me, now = this_process(), time.time()
    with Store.open(given.state / "state.db") as store:
        triage = Triage(text=KEY, intent=Intent(), playbook=playbook.name)
        mission = store.add_mission(triage, key=KEY, origin="live", realm="", as_of=None, now=now, actor=KEY)
        if not mission.head:
            store.add_revision(
                mission.id, intent=triage.intent, bindings={}, playbook=playbook.name, playbook_hash=KEY,
                parent_n=None, decision_id=None, now=now, actor=KEY,
            )  # fmt: skip
        mission = store.mission(mission.id)
        store.reclaim(now, lambda run: is_dead(run, me))
        row = store.start_run(
            mission.id, host=me.host, boot_id=me.boot_id, pid=me.pid, pid_started=me.started, version=__version__, now=now,
        )  # fmt: skip
        clock = Clock(wall=time.time, known=time.time, monotonic=time.monotonic, jitter=random.random)
        loop = Loop(
            store=store, mission=mission, registry=registry, sources=Nowhere(), clock=clock,
            options=Options(concurrency=16), listen=lambda message: None, run_row=row, render=renderer(registry),
        )  # fmt: skip
        asyncio.run(loop.run())
        store.end_run(row.id, time.time(), 0)
        done = sum(t.status == "succeeded" for t in store.tasks(mission.id))
        return 0 if done == len(given.graph) else 1


if __name__ == "__main__":
    raise SystemExit(main())
