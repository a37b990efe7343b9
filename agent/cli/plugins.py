"""Definitions and playbooks by entry point, ours and plug-ins' alike. A plug-in that is broken is named, never hidden.

`recon.tasks`: a function without arguments that returns definitions. `recon.playbooks`: a playbook. What cannot be loaded is
left out and remembered: looking goes on without it, running is refused until it is mended or gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from recon.agent.api import ActTask, Definition, JudgeTask, Playbook, ReconTask
from recon.agent.model.errors import ConfigError
from recon.agent.runner.ports import Registry

TASKS: Final = "recon.tasks"
PLAYBOOKS: Final = "recon.playbooks"
OURS: Final = "recon-runner"


@dataclass(frozen=True)
class Broken:
    """A plug-in that could not be taken: its entry point, its distribution, and why."""

    point: str
    distribution: str
    reason: str

    @property
    def words(self) -> str:
        """What a person reads."""
        return f"plug-in {self.distribution} ({self.point}): {self.reason}"


@dataclass(frozen=True)
class Plugins:
    """Everything that is installed. `origin`: the distribution of each playbook by name."""

    registry: Registry
    origin: dict[str, str]
    broken: tuple[Broken, ...] = ()

    def whole(self) -> Registry:
        """The registry; ConfigError where a plug-in is broken."""
        if self.broken:
            names = ", ".join(sorted({b.distribution for b in self.broken}))
            raise ConfigError(
                "\n".join(b.words for b in self.broken), hint=f"mend it, or: pip uninstall {names}"
            )
        return self.registry


def load_plugins() -> Plugins:
    """Loads every entry point. Ours come first, so that no plug-in takes the name of a bundled definition."""
    definitions: dict[str, Definition] = {}
    playbooks: dict[str, Playbook] = {}
    origin: dict[str, str] = {}
    broken: list[Broken] = []
    for point, distribution in _points(TASKS):
        try:
            brought = _definitions(point)
            _refuse_taken([d.name for d in brought], definitions)
            definitions |= {d.name: d for d in brought}
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's import may raise anything
            broken.append(Broken(f"{TASKS}: {point.name}", distribution, _reason(error)))
    for point, distribution in _points(PLAYBOOKS):
        try:
            book = _playbook(point)
            _refuse_taken([book.name], playbooks)
            playbooks[book.name], origin[book.name] = book, distribution
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            broken.append(Broken(f"{PLAYBOOKS}: {point.name}", distribution, _reason(error)))
    if OURS not in origin.values() and not any(b.distribution == OURS for b in broken):
        raise ConfigError(
            "recon is not installed properly: it finds no task definitions", hint="pip install -e ."
        )
    return Plugins(Registry.of([*definitions.values()], [*playbooks.values()]), origin, tuple(broken))


def _points(group: str) -> Iterator[tuple[metadata.EntryPoint, str]]:
    found = {
        (point.name, point.value): (point, point.dist.name if point.dist is not None else "unknown")
        for point in metadata.entry_points(group=group)
    }
    yield from sorted(found.values(), key=lambda row: (row[1] != OURS, row[1], row[0].name))


def _definitions(point: metadata.EntryPoint) -> list[Definition]:
    brought = list(point.load()())
    for one in brought:
        if not isinstance(one, (ReconTask, JudgeTask, ActTask)):
            raise ConfigError(f"{type(one).__name__} is no task definition (ReconTask, JudgeTask, ActTask)")
    _refuse_taken([d.name for d in brought], {})
    return brought


def _playbook(point: metadata.EntryPoint) -> Playbook:
    book: Playbook = point.load()
    lacking = [name for name in ("name", "version", "bindings", "plan") if not hasattr(book, name)]
    if lacking:
        raise ConfigError(f"{point.value} is no playbook: it has no {', '.join(lacking)}")
    if book.name != point.name:
        raise ConfigError(f"the playbook calls itself {book.name!r} and is registered as {point.name!r}")
    return book


def _refuse_taken(names: list[str], taken: dict[str, Definition] | dict[str, Playbook]) -> None:
    twice = [n for i, n in enumerate(names) if n in taken or n in names[:i]]
    if twice:
        raise ConfigError(f"the name {twice[0]!r} is taken already")


def _reason(error: BaseException) -> str:
    text = error.message if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300]
