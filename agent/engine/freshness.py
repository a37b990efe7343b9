"""What a mission stands on: which facts may not be believed any more, what they hold up, what is void. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from recon.agent.engine.assemble import active_decisions
from recon.agent.engine.gates import parse_gate
from recon.agent.engine.view import View
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Finding
from recon.agent.model.records import Decision
from recon.agent.model.state import MissionState, TaskState

_ENDED = frozenset({"succeeded", "skipped", "cancelled", "failed"})


@dataclass(frozen=True, slots=True)
class StaleFact:
    """A finding that may not be believed any more, why, the task that reads it again, and what hangs on it."""

    finding: Finding
    why: str
    task: str  # "" where no task of this mission reads it
    gates: tuple[str, ...] = ()  # keys of the tasks whose gates rest on it
    judgements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """What a mission stands on now. `read_again`: (task, why) of what a run would read first."""

    stale: tuple[StaleFact, ...] = ()
    read_again: tuple[tuple[str, str], ...] = ()
    void_decisions: tuple[tuple[Decision, str], ...] = ()
    void_approvals: tuple[tuple[str, str], ...] = ()  # (task, why)


def is_leftover(finding: Finding, read_since: float | None) -> bool:
    """Whether the task that found it has read again since and did not find it: it was about something that is gone.

    What was concluded from nothing that was seen has no time to compare.
    """
    return read_since is not None and 0 < finding.observed_at < read_since


def stale_findings(
    findings: Iterable[Finding], view: View, read_since: Mapping[str, float | None], *, by_age: bool = True
) -> list[tuple[Finding, str]]:
    """The stale findings of these tasks with why. `read_since`: by task key, when its last reading that succeeded
    began (None: nothing to compare with). Without `by_age` only those that ended with an identity."""
    found = []
    for finding in findings:
        if finding.producer in read_since and not is_leftover(finding, read_since[finding.producer]):
            why = view.why_stale(finding) if by_age else view.why_invalid(finding)
            if why:
                found.append((finding, why))
    return found


def view_of(state: MissionState) -> View:
    """The facts of a state, to be read by path."""
    revision = state.revision
    return View.of(state.findings, bindings=revision.bindings, intent=revision.intent, now=state.now)


def standing(state: MissionState) -> Standing:
    """What the mission stands on."""
    view = view_of(state)
    reads = {t.task.key: _read_since(t) for t in state.tasks if t.task.planned.kind == "recon"}
    known = {t.task.key for t in state.tasks}
    since = {**{f.producer: None for f in state.findings if f.producer not in known}, **reads}
    stale = [
        StaleFact(
            finding=finding, why=why, task=finding.producer if finding.producer in reads else "",
            gates=_gates(state, view, finding), judgements=_judgements(state, finding),
        )
        for finding, why in stale_findings(state.findings, view, since)
    ]  # fmt: skip
    stale.sort(key=lambda s: (-len(s.gates), -len(s.judgements), s.finding.subject, s.finding.name))
    again: dict[str, str] = {}
    for fact in stale:
        if fact.task:
            again.setdefault(fact.task, f"{fact.finding.name}: {fact.why}")
    return Standing(
        stale=tuple(stale), read_again=tuple(again.items()), void_decisions=_void_decisions(state),
        void_approvals=_void_approvals(state),
    )  # fmt: skip


def _read_since(item: TaskState) -> float | None:
    return item.started_at if item.task.status == "succeeded" else None


def _gates(state: MissionState, view: View, finding: Finding) -> tuple[str, ...]:
    """The tasks that have not ended and whose gates read this finding."""
    held = []
    for item in state.tasks:
        if item.task.status in _ENDED:
            continue
        paths = {path for gate in item.gates for path in parse_gate(gate.spec.text).paths}
        found = [view.read(path).finding for path in paths]
        if any(f is not None and f.id == finding.id for f in found):
            held.append(item.task.key)
    return tuple(held)


def _judgements(state: MissionState, finding: Finding) -> tuple[str, ...]:
    """The judgements that cite this finding, or one that was derived from it."""
    above: dict[str, list[str]] = {}
    for one in state.findings:
        for identity in one.inputs:
            above.setdefault(identity, []).append(one.id)
    reached, queue = {finding.id}, [finding.id]
    while queue:
        fresh = [i for i in above.get(queue.pop(), ()) if i not in reached]
        reached.update(fresh)
        queue += fresh
    cites = (j.judgement for j in state.judgements)
    return tuple(sorted(j.key for j in cites if any(s.finding_id in reached for s in j.sides)))


def _void_decisions(state: MissionState) -> tuple[tuple[Decision, str], ...]:
    """The decisions in force whose question is contradicted again all the same."""
    active = active_decisions(state.decisions)
    return tuple(
        (active[u.planned.key], u.reason)
        for u in state.unknowns
        if u.planned.key in active and u.status == "contradicted"
    )


def _void_approvals(state: MissionState) -> tuple[tuple[str, str], ...]:
    """The tasks whose last word was yes and that wait for a yes all the same."""
    last = {a.task_id: a.verdict for a in state.approvals}
    return tuple(
        (item.task.key, blocker.reason)
        for item in state.tasks
        for blocker in item.blocked_by
        if blocker.kind == "approval" and last.get(item.task.id) == "approve"
    )


# ---- which task reads a fact


def readers(state: MissionState, named: str) -> dict[str, str]:
    """The recon tasks that read what a person named, with why: a task key, a path such as `host.fs`, a finding's name
    or id. What a judge derived is read by reading what it was derived from. Raises UsageError for an unknown name."""
    tasks = {t.task.key: t for t in state.tasks if t.task.planned.kind == "recon"}
    if named in tasks:
        return {named: "asked for"}
    found = _named(state, named)
    by_id = {f.id: f for f in state.findings}
    keys: dict[str, str] = {}
    queue, seen = list(found), {f.id for f in found}
    while queue:
        finding = queue.pop(0)
        if finding.producer in tasks:
            keys.setdefault(finding.producer, f"{finding.name} was asked for")
            continue
        inputs = [by_id[i] for i in finding.inputs if i in by_id and i not in seen]
        seen.update(f.id for f in inputs)
        queue += inputs
    if not keys:
        known = sorted({f.name for f in state.findings if f.producer in tasks})
        what = "no task of this mission reads it" if found else "no fact or reading task is called so"
        raise UsageError(f"{named}: {what}", hint=_nearest(named, [*tasks, *known]))
    return keys


def _named(state: MissionState, named: str) -> Sequence[Finding]:
    read = view_of(state).read(named)
    if read.finding is not None:
        return [read.finding]
    exact = [f for f in state.findings if f.name == named]
    return exact or [f for f in state.findings if len(named) > 5 and f.id.startswith(named)]


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else "recon report lists the findings, recon todo the tasks"
