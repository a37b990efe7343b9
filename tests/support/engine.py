"""A real store and a real loop around tasks whose behaviour a test scripts. The sources are stand-ins that refuse."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recon.agent.api import (
    ActTask,
    Change,
    CheckResult,
    CommandResult,
    Definition,
    ReconContext,
    ReconTask,
    Rendered,
    View,
)
from recon.agent.engine.assemble import assemble
from recon.agent.model.base import Json
from recon.agent.model.findings import Raw, Request
from recon.agent.model.missions import Intent, Mission, Triage
from recon.agent.model.state import MissionState
from recon.agent.model.tasks import Plan
from recon.agent.runner.host_lock import Locking
from recon.agent.runner.loop import Loop
from recon.agent.runner.messages import Message
from recon.agent.runner.ports import Clock, Executor, Options, Registry
from recon.agent.runner.process import this_process
from recon.agent.runner.records import load_records, renderer
from recon.agent.store import Store


class NoSources:
    """A stand-in for all sources: every fetch fails the test."""

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor

    async def fetch(self, request: Request) -> Raw:
        raise AssertionError(f"nothing may be asked here: {request}")

    def executor(self, host: str) -> Executor:
        assert self._executor is not None, f"nothing may be changed on {host}"
        return self._executor

    async def close(self) -> None:
        return None


@dataclass
class Recorder:
    """A stand-in for a hand on a host: it writes down what it was told to run."""

    ran: list[tuple[str, ...]] = field(default_factory=list)
    exit_code: int = 0
    before: Callable[[tuple[str, ...]], None] | None = None

    async def execute(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        cwd: str = "",
        log: Callable[[str], None] | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        if self.before is not None:
            self.before(tuple(argv))
        self.ran.append(tuple(argv))
        return CommandResult(exit_code=self.exit_code, stdout="", stderr="")


def recon(name: str, body: Callable[[ReconContext], Awaitable[str]]) -> ReconTask:
    """A read-only definition from a coroutine function."""
    return ReconTask(name, run=body)


def act(
    name: str, done: Callable[[str], bool], change: Callable[[View, Mapping[str, Json]], Change]
) -> ActTask:
    """A change whose check asks `done(task key)`."""

    async def check(context: object, wanted: Change) -> CheckResult:
        del context
        holds = done(wanted.task)
        return CheckResult(holds=holds, because=f"{wanted.task} is {'' if holds else 'not '}so")

    return ActTask(
        name, render=lambda view, params: Rendered(change=change(view, params)), check=check, verify=check
    )


class Bench:
    """One mission in one state.db, with the loop around it."""

    def __init__(
        self, folder: Path, definitions: Sequence[Definition], *, sources: NoSources | None = None
    ) -> None:
        self.path = folder / "state.db"
        self.registry = Registry.of(definitions)
        self.sources = sources or NoSources()
        self.messages: list[Message] = []
        self.locking: Locking | None = None  # set it where the hand reaches a real host
        self.wall: Callable[[], float] = time.time
        self.store = Store.open(self.path)
        self.mission = self._begin()

    def _begin(self) -> Mission:
        triage = Triage(text="test", intent=Intent())
        mission = self.store.add_mission(
            triage, key="k", origin="live", realm="", as_of=None, now=time.time(), actor="test"
        )
        if mission.head:
            return mission
        self.store.add_revision(
            mission.id, intent=Intent(), bindings={"host": "host:h"}, playbook="", playbook_hash="", parent_n=None,
            decision_id=None, now=time.time(), actor="test",
        )  # fmt: skip
        return self.store.mission(mission.id)

    def plan(self, plan: Plan) -> None:
        """Stores todo items."""
        self.store.put_plan(
            self.mission.id, 1, plan, definition_hashes=self.registry.hashes(), now=time.time(), actor="test"
        )

    def loop(self, *, concurrency: int = 8, lease_s: float = 30.0) -> Loop:
        """A loop with its own run row."""
        me = this_process()
        run = self.store.start_run(
            self.mission.id, host=me.host, boot_id=me.boot_id, pid=me.pid, pid_started=me.started, version="t",
            now=time.time(),
        )  # fmt: skip
        return Loop(
            store=self.store, mission=self.mission, registry=self.registry, sources=self.sources,
            clock=Clock(self.wall, self.wall, time.monotonic, random.Random(1).random),
            options=Options(concurrency=concurrency, lease_s=lease_s, poll_s=0.02), listen=self.messages.append,
            run_row=run, render=renderer(self.registry), locking=self.locking,
        )  # fmt: skip

    def run(self, **options: int) -> Loop:
        """Runs to the end."""
        loop = self.loop(**options)
        asyncio.run(loop.run())
        self.store.end_run(loop.run_row.id, time.time(), 0)
        return loop

    def reopen(self) -> None:
        """What a new process does after a crash: opens the file again and takes over what the dead one held."""
        self.store.close()
        self.store = Store.open(self.path)
        self.store.reclaim(time.time(), lambda run: True)

    def state(self) -> MissionState:
        """The mission as a reader sees it."""
        records = load_records(self.store, self.mission.id, attempts=True)
        return assemble(records, now=self.wall(), render=renderer(self.registry))

    def statuses(self) -> dict[str, str]:
        """Stored status by key."""
        return {t.key: t.status for t in self.store.tasks(self.mission.id)}

    def close(self) -> None:
        """Closes the file."""
        self.store.close()
