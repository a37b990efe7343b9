"""What a mission file brings of its own, held against the rules and against the plan it is laid over; errors have a place.

The rules live in rooms above this one (the allow-list with the connectors, the gate language with the engine), so they
are arguments.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import ValidationError

from recon.agent.mission.additions import ROLE, fact_key, filled
from recon.agent.mission.own_parts import Additions, FileLook, look
from recon.agent.mission.patterns import bounded_pattern
from recon.agent.mission.strict_yaml import Path
from recon.agent.model.errors import MissionError, ReconError
from recon.agent.model.missions import Intent
from recon.agent.model.tasks import Plan

# What a decision about a question of one's own may change: the typed fields, never what the file itself brought.
_SETTABLE: Final = frozenset(Intent.model_fields) - {"extra"}
Where = Callable[[Path], str]


class ParsedGate(Protocol):
    """What a predicate reads: paths like `host.fs["/"].avail_bytes`, and the keys of questions and tasks."""

    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def keys(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Rules:
    """`argv` raises where a command is not read-only; `gate` reads a predicate or raises."""

    argv: Callable[[Sequence[str]], None]
    gate: Callable[[str], ParsedGate]


@dataclass(frozen=True)
class Ground:
    """What the parts of a file are laid over: the playbook's plan, its roles, and the items that findings may bring."""

    plan: Plan
    roles: Collection[str]
    brings: Collection[str] = ()


def check_own(own: Additions, intent: Intent, *, rules: Rules, where: Where) -> None:
    """Raises MissionError for a command that is not read-only, a pattern or gate that cannot be read, a missing host."""
    if not intent.host and (own.facts or any(t.command for t in own.tasks.values())):
        place = ("facts",) if own.facts else ("tasks",)
        raise MissionError(
            f"{where(place)}: own facts and commands need a host", hint="add it: intent: {host: localhost}"
        )
    for path, argv in _reads(own):
        with_place(where, path, lambda argv=argv: rules.argv(filled(argv, intent)))  # type: ignore[misc]
    for path, argv in _writes(own):
        with_place(where, path, lambda argv=argv: filled(argv, intent))  # type: ignore[misc]
    for path, pattern in _patterns(own):
        with_place(where, path, lambda pattern=pattern: bounded_pattern(pattern))  # type: ignore[misc]
    for path, text in _gates(own):
        with_place(where, path, lambda text=text: rules.gate(text))  # type: ignore[misc]
    _check_effects(own, where)


def check_ground(own: Additions, intent: Intent, ground: Ground, *, rules: Rules, where: Where) -> None:
    """Raises MissionError for a name that is taken already, or one that nothing in the mission has."""
    tasks = {t.key for t in ground.plan.tasks} | set(ground.brings)
    unknowns = {u.key for u in ground.plan.unknowns}
    _refuse_taken(own.tasks, tasks, ("tasks",), where)
    _refuse_taken(own.unknowns, unknowns, ("unknowns",), where)
    facts = {f"{ROLE}.{key}" for key in own.facts}
    every = tasks | set(own.tasks) | facts
    questions = unknowns | set(own.unknowns)
    for key, task in own.tasks.items():
        for n, need in enumerate(task.needs):
            _must_be(need, every, "todo item", ("tasks", key, "needs", n), where)
        for n, settled in enumerate(task.settles):
            _must_be(settled, questions, "question", ("tasks", key, "settles", n), where)
    for key in own.gates:
        _must_be(key, every - facts, "todo item", ("gates", key), where, is_key=True)
    done = every | {fact_key(key, own, intent) for key in own.facts}
    roles = {*ground.roles, "mission"} | ({ROLE} if own.facts else set())
    for path, text in _gates(own):
        gate = rules.gate(text)
        for key in gate.keys:
            _must_be(key, questions | done, "question or todo item", path, where)
            if key in own.unknowns and own.unknowns[key].domain == "yes_no":
                _refuse_any_answer(text, key, path, where)
        for read in gate.paths:
            _check_read(read, roles, facts, path, where)
    for key, unknown in own.unknowns.items():
        if unknown.finding_ref is not None:
            _check_read(unknown.finding_ref, roles, facts, ("unknowns", key, "finding_ref"), where)


def with_place(where: Where, path: Path, check: Callable[[], object]) -> None:
    """Runs a check; what it raises becomes a MissionError that names the place in the file."""
    try:
        check()
    except ReconError as error:
        raise MissionError(f"{where(path)}: {error.message}", hint=error.hint) from None


def _reads(own: Additions) -> Iterator[tuple[Path, Sequence[str]]]:
    for key, fact in own.facts.items():
        yield ("facts", key, "file" if fact.argv is None else "argv"), fact.words()
    for key, task in own.tasks.items():
        if task.command is not None:
            for name, written in (("check", task.command.check), ("verify", task.command.verify)):
                if written is not None:
                    path: Path = ("tasks", key, "command", name)
                    yield ((*path, "argv") if isinstance(written, FileLook) else path), look(written).argv


def _writes(own: Additions) -> Iterator[tuple[Path, Sequence[str]]]:
    for key, task in own.tasks.items():
        if task.command is None:
            continue
        for name, steps in (("apply", task.command.apply), ("rollback", task.command.rollback)):
            for n, step in enumerate(steps):
                yield ("tasks", key, "command", name, n), step
        if task.command.target is not None:
            yield ("tasks", key, "command", "target"), [task.command.target]


def _patterns(own: Additions) -> Iterator[tuple[Path, str]]:
    for key, fact in own.facts.items():
        if fact.parser is not None and fact.parser.regex is not None:
            yield ("facts", key, "parser", "regex", "pattern"), fact.parser.regex.pattern
    for key, task in own.tasks.items():
        if task.command is None:
            continue
        for name, written in (("check", task.command.check), ("verify", task.command.verify)):
            if isinstance(written, FileLook) and written.prints is not None:
                yield ("tasks", key, "command", name, "prints"), f"(?P<line>{written.prints})"


def _gates(own: Additions) -> Iterator[tuple[Path, str]]:
    for key, gates in own.gates.items():
        for n, gate in enumerate(gates):
            yield ("gates", key, n, "text"), gate.text


def _check_effects(own: Additions, where: Where) -> None:
    for key, unknown in own.unknowns.items():
        for n, option in enumerate(unknown.options):
            for field, value in option.effects.intent.items():
                path: Path = ("unknowns", key, "options", n, "effects", "intent", field)
                head, _, rest = field.partition(".")
                _must_be(head, _SETTABLE, "field of the intent", path, where, is_key=True)
                if value != "{value}" and not rest:
                    _check_value(head, value, path, where)


def _check_value(field: str, value: object, path: Path, where: Where) -> None:
    try:
        Intent.model_validate({field: value})
    except ValidationError as error:
        raise MissionError(f"{where(path)}: {field}: {error.errors()[0]['msg'].lower()}") from None


def _check_read(read: str, roles: Collection[str], facts: Collection[str], path: Path, where: Where) -> None:
    role = read.partition(".")[0].partition("[")[0]
    _must_be(role, roles, "role", path, where)
    if role == ROLE and not any(read == f or read.startswith((f"{f}.", f"{f}[")) for f in facts):
        _must_be(read, facts, "fact", path, where)


def _refuse_any_answer(text: str, key: str, path: Path, where: Where) -> None:
    """A gate that a `no` would open as well is a mistake."""
    if re.search(rf"""(?:answered|decided)\(\s*(["']){re.escape(key)}\1\s*\)""", text):
        raise MissionError(
            f"{where(path)}: an answer of no would open this gate too", hint=f'write decided("{key}", "yes")'
        )


def _refuse_taken(mine: Mapping[str, object], taken: Collection[str], at: Path, where: Where) -> None:
    for key in mine:
        if key in taken or (at == ("tasks",) and key.startswith(("fact.", "host.identity[", "judge."))):
            raise MissionError(
                f"{where((*at, key))}: {key} is a name of the playbook's or of recon's",
                hint="choose another one",
            )


def _must_be(
    name: str, known: Collection[str], what: str, path: Path, where: Where, *, is_key: bool = False
) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = (
        f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known)[:12])}" if known else ""
    )
    raise MissionError(f"{where(path)}: there is no {what} {name!r}", hint=hint)
