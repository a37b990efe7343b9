"""What is known at one moment, read by path: `role.name[key].attr`.

A role (checkpoint, host, engine, docs, mission) is bound by the mission revision to a subject. A subject may be a
pointer (`hf:ORG/NAME@main`, `engine:HOST`) with a finding `same_as` that names the subject it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from recon.agent.model.base import Json, content_id
from recon.agent.model.findings import Finding
from recon.agent.model.missions import Intent
from recon.agent.model.records import Decision
from recon.agent.model.words import Level

ReadState: TypeAlias = Literal["known", "absent", "unknown", "missing", "stale", "error"]
Step: TypeAlias = str | int

_TOKEN = re.compile(r"""\.?([A-Za-z_][A-Za-z0-9_]*)|\[(?:"([^"]*)"|'([^']*)'|(-?\d+))\]""")
_AT = " @ "  # joins a path and the subject it was read on, where the role was bound to another one
_CLOCKS_APART_S = 60.0  # how far the clocks of two machines that share a state may differ
_OF = " of "  # joins a name and the subject it is read on, in what a finding holds for
_UNIT_SUFFIXES: tuple[tuple[str, str], ...] = (
    ("_bytes", "bytes"),
    ("_mib", "MiB"),
    ("_gib", "GiB"),
    ("_s", "s"),
)


@dataclass(frozen=True, slots=True)
class Read:
    """One look at a path: the value if there is one, and in every case why or why not."""

    path: str
    state: ReadState
    value: Json = None
    unit: str | None = None
    level: Level | None = None
    reason: str = ""
    finding: Finding | None = None

    @property
    def known(self) -> bool:
        """A fresh value is there."""
        return self.state == "known"


def parse_path(path: str) -> tuple[str, tuple[Step, ...]]:
    """Splits `host.fs["/"].avail_bytes` into the role and the steps. Raises ValueError where it is not a path."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        match = _TOKEN.match(path, at)
        if match is None:
            raise ValueError(f"not a path: {path!r} at character {at + 1}")
        name, double, single, index = match.groups()
        steps.append(int(index) if index is not None else name or double or single or "")
        at = match.end()
    if not steps or not isinstance(steps[0], str):
        raise ValueError(f"not a path: {path!r} starts with no role")
    return steps[0], tuple(steps[1:])


@dataclass
class View:
    """A snapshot of findings, decisions and answers at `now` (UTC seconds). Records what was read in `seen`."""

    bindings: Mapping[str, str]
    intent: Intent
    now: float
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    void: Mapping[str, str] = field(default_factory=dict)  # decisions that do not hold any more, and why
    answered_keys: frozenset[str] = frozenset()
    done_keys: frozenset[str] = frozenset()
    seen: dict[str, str] = field(default_factory=dict)  # what was read -> finding id or marker
    _index: dict[str, dict[str, Finding]] = field(default_factory=dict)
    _overrides: dict[str, str] = field(default_factory=dict)  # role -> subject, in a rebound view

    @classmethod
    def of(
        cls, findings: Iterable[Finding], *, bindings: Mapping[str, str], intent: Intent, now: float,
        decisions: Mapping[str, Decision] | None = None, answered: Iterable[str] = (), done: Iterable[str] = (),
    ) -> View:  # fmt: skip
        """A view of the latest finding per subject and name."""
        index: dict[str, dict[str, Finding]] = {}
        for finding in findings:
            names = index.setdefault(finding.subject, {})
            held = names.get(finding.name)
            if held is None or (finding.seq, finding.observed_at) >= (held.seq, held.observed_at):
                names[finding.name] = finding
        return cls(
            bindings=dict(bindings), intent=intent, now=now, decisions=dict(decisions or {}),
            answered_keys=frozenset(answered), done_keys=frozenset(done), _index=index,
        )  # fmt: skip

    def tracking(self) -> View:
        """The same view with an empty record of reads."""
        return View(
            bindings=self.bindings, intent=self.intent, now=self.now, decisions=self.decisions, void=self.void,
            answered_keys=self.answered_keys, done_keys=self.done_keys, _index=self._index,
        )  # fmt: skip

    def rebound(self, role: str, subject: str) -> View:
        """The same facts with a role bound to another subject: how a judge looks at an alternative."""
        other = self.tracking()
        other.bindings = {**self.bindings, role: subject}
        other._overrides = {**self._overrides, role: subject}
        other.seen = self.seen
        return other

    def with_findings(self, findings: Iterable[Finding]) -> View:
        """The same view with later findings laid over; the original is untouched."""
        other = self.tracking()
        index = dict(self._index)
        fresh: set[str] = set()
        for finding in findings:
            if finding.subject not in fresh:
                index[finding.subject] = dict(index.get(finding.subject, {}))
                fresh.add(finding.subject)
            index[finding.subject][finding.name] = finding
        other._index = index
        return other

    def reread(self, keys: Iterable[str]) -> str:
        """The input hash that the same reads (the keys of an earlier `seen`) give on this view."""
        again = self.tracking()
        for key in keys:
            kind, _, rest = key.partition(":")
            path, _, subject = key.partition(_AT)
            if kind == "revision":  # which revision was judged; the runner looks at it itself
                continue
            if kind in ("answered", "done"):
                again.seen[key] = str(rest in (self.done_keys if kind == "done" else self.answered_keys))
                continue
            if kind == "decision":
                again.decided(rest)
            elif kind == "findings":
                again.findings(rest)
            elif subject:
                again.rebound(path.partition(".")[0], subject).read(path)
            else:
                again.read(path)
        return again.input_hash()

    def subject(self, role: str) -> str:
        """The subject a role stands for, pointers followed; "" where the role is not bound."""
        return self.resolve(self.bindings.get(role, ""))

    def resolve(self, subject: str) -> str:
        """Follows `same_as` from a pointer subject (at most four steps)."""
        for _ in range(4):
            pointer = self._index.get(subject, {}).get("same_as")
            if pointer is None or pointer.outcome != "known":
                break
            subject = str(pointer.value)
        return subject

    def findings(self, subject: str) -> Mapping[str, Finding]:
        """The latest findings of a subject by name."""
        names = self._index.get(subject, {})
        self.seen[f"findings:{subject}"] = content_id("n", sorted(f.id for f in names.values()))
        return names

    def all_findings(self) -> list[Finding]:
        """Every latest finding, in order of subject and name."""
        return [self._index[s][n] for s in sorted(self._index) for n in sorted(self._index[s])]

    def any_finding(self) -> bool:
        """Whether anything is known at all."""
        return bool(self._index)

    def why_stale(self, finding: Finding) -> str:
        """Why a finding may not be believed any more; "" while it may."""
        if finding.lifetime_s is not None and self.now - finding.observed_at > finding.lifetime_s:
            age = self.now - finding.observed_at
            return f"read {_age(age)} ago, holds for {_age(finding.lifetime_s)}"
        if finding.lifetime_s is not None and finding.observed_at - self.now > _CLOCKS_APART_S:
            return f"read {_age(finding.observed_at - self.now)} in the future: a clock was set back"
        return self.why_invalid(finding)

    def why_invalid(self, finding: Finding) -> str:
        """Why a finding ended with something it depends on: another boot, another main pid; "" where nothing did.

        An identity that is not there any more (a service that was stopped) has not become another one.
        """
        for name, value in finding.valid_while:
            current = self._identity(finding.subject, name)
            if current not in (None, value):
                return f"{name} changed from {value} to {current}"
        return ""

    def _identity(self, subject: str, name: str) -> str | None:
        """What `name`, or `name.part of SUBJECT`, is now."""
        path, _, elsewhere = name.partition(_OF)
        head, _, part = path.partition(".")
        about = self.resolve(elsewhere) if elsewhere else subject
        current = self._of_subject(about, path) or self._of_subject(about, head)
        if current is None or current.outcome != "known":
            return None
        value = current.value
        if current.name != path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return None if value is None else str(value)

    def _of_subject(self, subject: str, name: str) -> Finding | None:
        """A finding of a subject; a part of one (`host:NAME#part`) shares those of the whole."""
        whole = subject.partition("#")[0]
        return self._index.get(subject, {}).get(name) or self._index.get(whole, {}).get(name)

    def read(self, path: str) -> Read:
        """Looks a path up. Never raises for missing data; a malformed path is state `error`."""
        result = self._read(path)
        role = path.partition(".")[0]
        key = f"{path}{_AT}{self._overrides[role]}" if role in self._overrides else path
        self.seen[key] = result.finding.id if result.finding is not None else f"-{result.state}"
        return result

    def value(self, path: str, default: Json = None) -> Json:
        """The value at a path where a fresh one is known, else the default."""
        read = self.read(path)
        return read.value if read.known else default

    def decided(self, key: str) -> Decision | None:
        """The active decision about an unknown."""
        decision = self.decisions.get(key)
        self.seen[f"decision:{key}"] = "-" if decision is None else f"d{decision.id}"
        return decision

    def input_hash(self) -> str:
        """The hash of everything read so far: what a judgement is keyed by."""
        return content_id("i", [self.intent.model_dump(mode="json"), sorted(self.seen.items())])

    def _read(self, path: str) -> Read:
        try:
            role, steps = parse_path(path)
        except ValueError as error:
            return Read(path, "error", reason=str(error))
        if role not in self.bindings:
            return Read(path, "missing", reason=f"no {role} is named yet")
        names = self._index.get(self.subject(role), {})
        finding, rest = _longest(names, steps)
        if finding is None:
            return Read(path, "missing", reason="not collected")
        if finding.outcome == "unknown":
            return Read(path, "unknown", level=finding.level, reason=finding.reason, finding=finding)
        if stale := self.why_stale(finding):
            return Read(path, "stale", level=finding.level, reason=stale, finding=finding)
        if finding.outcome == "absent":
            return Read(path, "absent", level=finding.level, reason=finding.reason, finding=finding)
        return _walk(path, finding, rest)


def _longest(
    names: Mapping[str, Finding], steps: tuple[Step, ...]
) -> tuple[Finding | None, tuple[Step, ...]]:
    for length in range(len(steps), 0, -1):
        head = steps[:length]
        if all(isinstance(step, str) for step in head):
            finding = names.get(".".join(str(step) for step in head))
            if finding is not None:
                return finding, steps[length:]
    return None, steps


def _walk(path: str, finding: Finding, rest: tuple[Step, ...]) -> Read:
    value, unit = finding.value, finding.unit
    for step in rest:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, Mapping) and str(step) in value:
            value = value[str(step)]
        elif isinstance(value, (list, tuple)) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return Read(
                path,
                "missing",
                level=finding.level,
                reason=f"{finding.name} has no {step!r}",
                finding=finding,
            )
        unit = next((u for suffix, u in _UNIT_SUFFIXES if str(step).endswith(suffix)), unit)
    if value is None:
        return Read(
            path, "unknown", level=finding.level, reason=f"{path} was not said by its source", finding=finding
        )
    return Read(path, "known", value=value, unit=unit, level=finding.level, finding=finding)


def _age(seconds: float) -> str:
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
