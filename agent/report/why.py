"""Why something is as it is: task -> gate -> predicate -> unknown -> findings -> evidence -> who can unblock it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recon.agent.engine.view import View
from recon.agent.model.base import Json
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Finding, Judgement
from recon.agent.model.state import GateState, MissionState, TaskState, UnknownState
from recon.agent.report.asks import option_command
from recon.agent.report.clean import clean, subject_text, wrap
from recon.agent.report.names import nearest
from recon.agent.report.sections import finding_text
from recon.agent.report.todo import blocker_command, current_blockers
from recon.agent.report.words import STATUS_WORD, time_text, value_text

_DEPTH = 12  # links below the first; dependencies among tasks repeat soon after
_INPUTS = 4  # inputs of a derived finding that are followed; the rest is counted
_SHORT = 100  # characters of a finding's value inside a chain
_LONG = 600  # characters of the value of the finding that was asked about


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain. `kind` is task, dependency, gate, unknown, judgement, finding, evidence or unblock."""

    kind: str
    ref: str
    state: str
    text: str
    command: str = ""
    below: tuple[Link, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """The same as JSON."""
        return {
            "kind": self.kind, "ref": self.ref, "state": self.state, "text": self.text, "command": self.command,
            "below": [link.as_json() for link in self.below],
        }  # fmt: skip


def explain(state: MissionState, key: str) -> Link:
    """The chain under a task, unknown, judgement or finding. Raises UsageError with the nearest name."""
    chain = _Chain(state)
    if (task := state.task(key)) is not None:
        return chain.task(task, depth=0)
    if (unknown := state.unknown(key)) is not None:
        return chain.unknown(unknown, depth=0)
    judged = next((j for j in state.judgements if j.judgement.key == key), None)
    if judged is not None:
        return chain.judgement(judged.judgement, verdict=judged.verdict, depth=0)
    found = [f for f in state.findings if len(key) > 2 and f.id.startswith(key)]
    if len(found) == 1:
        return chain.finding(found[0], depth=0)
    known = [t.task.key for t in state.tasks] + [u.planned.key for u in state.unknowns]
    known += [j.judgement.key for j in state.judgements]
    raise UsageError(f"nothing here is called {clean(key)!r}", hint=nearest(key, known))


def explain_lines(state: MissionState, key: str, *, width: int = 100) -> list[str]:
    """The chain as indented text; commands stand on lines of their own, uncut."""
    return list(_lines(explain(state, key), depth=0, width=width))


def _lines(link: Link, *, depth: int, width: int) -> Iterator[str]:
    pad = "  " * depth
    head = " ".join(part for part in (link.kind, link.ref, f"[{link.state}]" if link.state else "") if part)
    text = f"{head}: {link.text}" if link.text else head
    yield from wrap(text, width, first=pad if depth == 0 else f"{pad[:-2]}└ ", rest=pad + "  ")
    if link.command:
        yield f"{pad}  $ {link.command}"
    for below in link.below:
        yield from _lines(below, depth=depth + 1, width=width)


class _Chain:
    """Builds links over one state; remembers what was explained, so that a part is spelled out once."""

    def __init__(self, state: MissionState) -> None:
        self._state = state
        self._view = View.of(
            state.findings, bindings=state.revision.bindings, intent=state.revision.intent, now=state.now
        )
        self._by_id = {f.id: f for f in state.findings}
        self._said: set[tuple[str, str]] = set()

    def task(self, item: TaskState, *, depth: int, kind: str = "task") -> Link:
        planned = item.task.planned
        text = clean(planned.title)
        if item.error:
            text += f"; failed: {clean(item.error.get('message', ''))}"
        below: list[Link] = []
        if self._first("task", planned.key) and depth < _DEPTH:
            below += self._dependencies(item, depth=depth)
            below += [self._gate(g, depth=depth) for g in item.gates if g.result != "true" or depth == 0]
            below += self._unblock(item)
        command = f"recon retry {planned.key}" if item.status in ("failed", "cancelled") else ""
        return Link(kind, planned.key, STATUS_WORD[item.status], text, command, tuple(below))

    def _dependencies(self, item: TaskState, *, depth: int) -> list[Link]:
        waits = [b.ref for b in item.blocked_by if b.kind == "dependency"]
        tasks = [t for ref in waits if (t := self._state.task(ref)) is not None]
        return [self.task(t, depth=depth + 1, kind="waits for task") for t in tasks]

    def _gate(self, gate: GateState, *, depth: int) -> Link:
        text = clean(gate.spec.words) or "; ".join(clean(r) for r in gate.reasons)
        below: list[Link] = []
        if gate.result != "true":
            below += [Link("reason", "", "", clean(reason)) for reason in gate.reasons]
        for ref in gate.refs:
            below += self._ref(ref, depth=depth + 1)
        return Link("gate", clean(gate.spec.text), gate.result, text, "", tuple(below))

    def _ref(self, ref: str, *, depth: int) -> list[Link]:
        if (unknown := self._state.unknown(ref)) is not None:
            return [self.unknown(unknown, depth=depth)]
        if (task := self._state.task(ref)) is not None:
            return [self.task(task, depth=depth)]
        return [self._path(ref, depth=depth)]

    def _path(self, path: str, *, depth: int) -> Link:
        read = self._view.read(path)
        if read.finding is None:
            return Link("fact", clean(path), read.state, clean(read.reason))
        shown = self.finding(read.finding, depth=depth)
        text = value_text(read.value, unit=read.unit) if read.known else clean(read.reason)
        return Link("fact", clean(path), read.state, text, "", (shown,))

    def unknown(self, unknown: UnknownState, *, depth: int) -> Link:
        planned = unknown.planned
        text = clean(planned.question)
        said = clean(unknown.answer_text) or clean(unknown.reason)
        below: list[Link] = []
        if self._first("unknown", planned.key) and depth < _DEPTH:
            if planned.finding_ref:
                below.append(self._path(planned.finding_ref, depth=depth + 1))
            judged = [j for j in self._state.judgements if j.judgement.key in unknown.judgements]
            below += [self.judgement(j.judgement, verdict=j.verdict, depth=depth + 1) for j in judged]
            below += _answers(unknown)
        return Link("unknown", planned.key, unknown.status, f"{text} {said}".strip(), "", tuple(below))

    def judgement(self, judgement: Judgement, *, verdict: str, depth: int) -> Link:
        below: list[Link] = []
        if self._first("judgement", judgement.key) and depth < _DEPTH:
            below += [Link("because", "", "", clean(line)) for line in judgement.detail]
            if judgement.consequence:
                below.append(Link("so", "", "", clean(judgement.consequence)))
            for side in judgement.sides:
                if (found := self._by_id.get(side.finding_id)) is not None:
                    below.append(self.finding(found, depth=depth + 1, kind=f"finding ({side.side})"))
            below += self._options(judgement, depth=depth)
        return Link("judgement", judgement.key, verdict, clean(judgement.title), "", tuple(below))

    def _options(self, judgement: Judgement, *, depth: int) -> list[Link]:
        """The ways out, where the judgement is asked about alone; under an unknown they are listed there."""
        if depth or not judgement.about:
            return []
        return [
            Link("option", o.id, o.effort or "", clean(o.title), option_command(judgement.about, o))
            for o in judgement.options
        ]

    def finding(self, finding: Finding, *, depth: int, kind: str = "finding") -> Link:
        said = finding_text(finding, limit=_SHORT if depth else _LONG)
        text = f"{clean(finding.name)} of {subject_text(finding.subject)}: {said}"
        below: list[Link] = []
        if self._first("finding", finding.id) and depth < _DEPTH:
            stale = self._view.why_stale(finding)
            if stale:
                below.append(Link("stale", "", "", clean(stale), "recon resume"))
            below += [_evidence(finding)] if finding.observation_id else []
            inputs = [self._by_id[i] for i in finding.inputs if i in self._by_id]
            below += [self.finding(f, depth=depth + 1, kind="derived from") for f in inputs[:_INPUTS]]
            if len(inputs) > _INPUTS:
                below.append(
                    Link(
                        "derived from",
                        "",
                        "",
                        f"{len(inputs) - _INPUTS} more",
                        f"recon show finding {finding.id}",
                    )
                )
        return Link(kind, finding.id, finding.level_text, text, "", tuple(below))

    def _unblock(self, item: TaskState) -> list[Link]:
        out = []
        for blocker in current_blockers(item):
            who = {"decision": "you", "approval": "you", "manual": "you"}.get(blocker.kind, "recon")
            command = blocker_command(self._state, blocker)
            if command and blocker.kind != "dependency":
                out.append(Link("unblock", clean(blocker.ref), who, clean(blocker.reason), command))
            elif not command and blocker.kind in ("stale", "gate", "source"):
                out.append(Link("blocked", clean(blocker.ref), blocker.state, clean(blocker.reason)))
        return out

    def _first(self, kind: str, ref: str) -> bool:
        if (kind, ref) in self._said:
            return False
        self._said.add((kind, ref))
        return True


def _answers(unknown: UnknownState) -> list[Link]:
    """Who can answer: a person with one of the options, or the task that looks."""
    if unknown.status in ("answered", "waived"):
        return []
    if unknown.options:
        return [
            Link(
                "option",
                o.id,
                o.effort or "",
                ". ".join(clean(x) for x in (o.title, o.consequence) if x),
                option_command(unknown.planned.key, o),
            )
            for o in unknown.options
        ]
    who = "you" if unknown.planned.who == "person" else "a read-only task"
    return [Link("answered by", "", who, "", clean(unknown.answer_with) or "recon resume")]


def _evidence(finding: Finding) -> Link:
    where = f" at {clean(finding.locator, limit=120)}" if finding.locator else ""
    text = f"read {time_text(finding.observed_at)} by {clean(finding.producer)}{where}"
    return Link(
        "evidence", str(finding.observation_id), finding.origin, text, f"recon show finding {finding.id}"
    )


def blockers_in_short(item: TaskState) -> str:
    """What a task waits for, or what came of it, on one short line: for tables."""
    if item.blocked_by:
        return ", ".join(clean(blocker.ref, limit=40) for blocker in item.blocked_by)
    return clean(item.progress or item.summary or (item.error or {}).get("message", ""), limit=80)
