"""Why something is as it is: task -> gate -> predicate -> unknown -> findings -> evidence -> who can unblock it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recon.agent.engine.view import View
from recon.agent.model.base import Json
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Finding, Judgement
from recon.agent.model.state import GateState, MissionState, TaskState, UnknownState
from recon.agent.report.asks import decide_command, option_command
from recon.agent.report.blocking import task_summary, unknown_summary
from recon.agent.report.clean import clean, subject_text, wrap
from recon.agent.report.names import nearest, whole_key
from recon.agent.report.sections import finding_text
from recon.agent.report.todo import blocker_command, current_blockers
from recon.agent.report.words import status_word, time_text, value_text

_DEPTH = 12  # links below the first; dependencies among tasks repeat soon after
_SHOWN_DEPTH = 3  # links below the first that the text shows
_SETTLED = frozenset({"true", "answered", "waived", "pass", "done"})
_ONCE = frozenset({"task", "unknown", "judgement", "finding", "gate"})  # kinds that are spelled out once
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
    """The chain under a task, unknown, judgement, finding, observation or path of a fact; the beginning of a name is
    enough where only one begins so. Raises UsageError with the nearest name."""
    chain = _Chain(state)
    known = [t.task.key for t in state.tasks] + [u.planned.key for u in state.unknowns]
    known += [j.judgement.key for j in state.judgements]
    if (found_id := _by_id(state, chain, key)) is not None:
        return found_id
    asked, key = key, whole_key(key, known) or key
    if (task := state.task(key)) is not None:
        return chain.task(task, depth=0)
    if (unknown := state.unknown(key)) is not None:
        return chain.unknown(unknown, depth=0)
    judged = next((j for j in state.judgements if j.judgement.key == key), None)
    if judged is not None:
        return chain.judgement(judged.judgement, verdict=judged.verdict, depth=0)
    named = [f for f in state.findings if f.name == key]
    if len(named) == 1:
        return chain.finding(named[0], depth=0)
    path = chain.fact(key)
    if path is not None:
        return path
    raise UsageError(f"nothing here is called {clean(asked)!r}", hint=nearest(asked, known))


def _by_id(state: MissionState, chain: _Chain, key: str) -> Link | None:
    """A finding or an observation by its id or the beginning of it."""
    if len(key) < 3 or key[:2] not in ("f-", "o-"):
        return None
    if key.startswith("f-"):
        found = [f for f in state.findings if f.id.startswith(key)]
        return chain.finding(found[0], depth=0) if len(found) == 1 else None
    ids = {f.observation_id for f in state.findings if f.observation_id and f.observation_id.startswith(key)}
    return chain.observation(ids.pop()) if len(ids) == 1 else None


def summary(state: MissionState, link: Link, *, width: int = 100) -> list[str]:
    """What an explained thing waits for in at most five lines: what blocks, who unblocks, the cheapest next command."""
    if (task := state.task(link.ref)) is not None and link.kind == "task":
        return task_summary(state, task, width=width)
    unknown = state.unknown(link.ref) if link.kind == "unknown" else None
    if unknown is not None:
        return unknown_summary(unknown, command=_decide(unknown), width=width)
    return []


def explain_lines(state: MissionState, key: str, *, width: int = 100) -> list[str]:
    """A summary, then the chain as indented text: each thing once, cut in depth where `recon why` of the thing goes on.
    Commands stand on lines of their own, uncut."""
    link = explain(state, key)
    head = summary(state, link, width=width)
    shown = list(_Page(link, width=width).lines(link))
    return [*head, "", *shown] if head else shown


class _Page:
    """Writes a chain as lines (stateful: what was said, so that it is said once). What holds nothing up is only named,
    unless nothing is held up at all: then it is what the answer rests on."""

    def __init__(self, root: Link, *, width: int) -> None:
        self._width = width
        self._root_settled = root.state in _SETTLED
        self._said: set[tuple[str, str]] = set()

    def lines(self, link: Link, *, depth: int = 0) -> Iterator[str]:
        pad = "  " * depth
        head = " ".join(
            part for part in (link.kind, link.ref, f"[{link.state}]" if link.state else "") if part
        )
        again = self._again(link)
        text = f"{head}: see above" if again else f"{head}: {link.text}" if link.text else head
        first = pad if depth == 0 else f"{pad[:-2]}└ "
        yield from wrap(text, self._width, first=first, rest=pad + "  ")
        if again:
            return
        if link.command:
            yield f"{pad}  $ {link.command}"
        options = [below for below in link.below if below.kind == "option"] if depth else []
        yield from self._below(link, [below for below in link.below if below not in options], depth=depth)
        if options:  # in full where the question itself is asked about
            named = " | ".join(option.ref for option in options)
            yield from wrap(named, self._width, first=f"{pad}└ options: ", rest=pad + "    ")
            yield f"{pad}    $ {_any_option(options)}"

    def _below(self, link: Link, rest: Sequence[Link], *, depth: int) -> Iterator[str]:
        settled = depth > 0 and link.state in _SETTLED and not self._root_settled
        if rest and (settled or depth >= _SHOWN_DEPTH):
            yield from _more(link, "  " * depth)
            return
        for below in rest:
            if not self._told(below):
                yield from self.lines(below, depth=depth + 1)

    def _again(self, link: Link) -> bool:
        kind = link.kind.partition(" ")[0].replace("waits", "task").replace("derived", "finding")
        again = bool(link.ref) and kind in _ONCE and (kind, link.ref) in self._said
        self._said.add((kind, link.ref))
        return again

    def _told(self, link: Link) -> bool:
        """Whether a gate, or a closing remark on what blocks, says only what was said above."""
        if link.kind == "gate":
            return ("gate", link.ref) in self._said
        told = {("gate", link.ref), ("unknown", link.ref)} & self._said
        return link.kind in ("blocked", "unblock") and bool(told)


def _more(link: Link, pad: str) -> Iterator[str]:
    if link.kind == "gate":
        return
    if link.ref.startswith("f-"):
        yield f"{pad}  $ recon show finding {link.ref}"
    elif link.ref and link.kind not in ("evidence", "fact"):
        yield f"{pad}  more: recon why {shlex.quote(link.ref)}"


def _any_option(options: Sequence[Link]) -> str:
    """The command with OPTION for the word to put in; a single option is written out."""
    if len(options) == 1:
        return options[0].command
    return " ".join([*options[0].command.split(" ")[:3], 'OPTION --because "..."'])


def _decide(unknown: UnknownState) -> str:
    return decide_command(unknown.planned.key, unknown.options) if unknown.options else ""


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
            text += f" ({clean(item.error['hint'])})" if item.error.get("hint") else ""
        below: list[Link] = []
        if self._first("task", planned.key) and depth < _DEPTH:
            below += self._dependencies(item, depth=depth)
            below += [self._gate(g, depth=depth) for g in item.gates if g.result != "true" or depth == 0]
            below += self._unblock(item)
        command = f"recon retry {planned.key}" if item.status in ("failed", "cancelled") else ""
        return Link(kind, planned.key, status_word(item), text, command, tuple(below))

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

    def fact(self, path: str) -> Link | None:
        """What a path such as `host.fs` reads; None where it is no path of this mission."""
        read = self._view.read(path)
        return None if read.state in ("missing", "error") else self._path(path, depth=0)

    def observation(self, identity: str) -> Link:
        """What was made of one observation."""
        found = [f for f in self._state.findings if f.observation_id == identity]
        text = f"read {time_text(found[0].observed_at)}; {len(found)} findings rest on it"
        below = [
            Link("finding", f.id, f.level_text, f"{clean(f.name)}: {finding_text(f, limit=_SHORT)}")
            for f in found
        ]
        show = f"recon show observation {identity}"
        return Link("evidence", identity, found[0].origin, text, show, tuple(below))

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
            elif not command and blocker.kind in ("stale", "gate"):
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
