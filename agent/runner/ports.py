"""What the runner needs from outside: sources of evidence, a hand on the host, clocks, definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from recon.agent.api import Definition, Intent, Plan, Playbook, View
from recon.agent.model.base import content_id
from recon.agent.model.errors import ConfigError, PlanError, ReconError
from recon.agent.model.findings import Raw, Request


class Outcome(Protocol):
    """How one command of a change ended."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def timed_out(self) -> bool: ...


class Executor(Protocol):
    """Runs an argument vector on a host and streams its output to `log`."""

    async def execute(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        cwd: str = "",
        log: Callable[[str], None] | None = None,
        stdin: bytes = b"",
    ) -> Outcome: ...


class Sources(Protocol):
    """Answers requests (recorded, redacted) and gives hands on hosts."""

    async def fetch(self, request: Request) -> Raw: ...
    def executor(self, host: str) -> Executor: ...
    async def close(self) -> None: ...


@dataclass(frozen=True)
class Clock:
    """`wall`: UTC seconds for rows and events. `known`: the time that counts for freshness (a replay's as_of)."""

    wall: Callable[[], float]
    known: Callable[[], float]
    monotonic: Callable[[], float]
    jitter: Callable[[], float]  # uniform in [0, 1)


@dataclass(frozen=True)
class Options:
    """Limits of a run. `per_lane`: tasks at once per limit name; `fetches`: requests at once per connector."""

    concurrency: int = 16
    per_lane: Mapping[str, int] = field(default_factory=lambda: {"hub": 8, "host": 8, "web": 4})
    fetches: Mapping[str, int] = field(default_factory=lambda: {"hub": 8, "host": 6, "web": 4})
    lease_s: float = 30.0
    poll_s: float = 0.25


@dataclass(frozen=True)
class Registry:
    """Task definitions and playbooks by name."""

    definitions: Mapping[str, Definition]
    playbooks: Mapping[str, Playbook] = field(default_factory=dict)

    @classmethod
    def of(cls, definitions: Sequence[Definition], playbooks: Sequence[Playbook] = ()) -> Registry:
        """Refuses two definitions or playbooks of one name (ConfigError)."""
        by_name: dict[str, Definition] = {}
        for definition in definitions:
            if definition.name in by_name:
                raise ConfigError(f"two task definitions are called {definition.name!r}")
            by_name[definition.name] = definition
        return cls(by_name, {p.name: p for p in playbooks})

    def definition(self, name: str) -> Definition:
        """The definition of a task. Raises PlanError where a plug-in that brought it is gone."""
        if name not in self.definitions:
            raise PlanError(
                f"no task definition is called {name!r}", hint="is a plug-in not installed any more?"
            )
        return self.definitions[name]

    def playbook(self, name: str) -> Playbook:
        """A playbook by name (ConfigError where there is none)."""
        if name not in self.playbooks:
            raise ConfigError(
                f"no playbook is called {name!r}", hint=f"there are: {', '.join(sorted(self.playbooks))}"
            )
        return self.playbooks[name]

    def plan(self, name: str, intent: Intent, view: View) -> Plan:
        """What a playbook plans now. A bug in it gets its name (PlanError)."""
        playbook = self.playbook(name)
        try:
            return playbook.plan(intent, view)
        except ReconError:
            raise
        except Exception as error:  # a stranger's code may raise anything
            raise PlanError(f"playbook {name} failed: {type(error).__name__}: {error}") from error

    def hashes(self) -> dict[str, str]:
        """What a stored task remembers of the definition it was planned with."""
        return {name: content_id("t", [name, d.version]) for name, d in self.definitions.items()}
