"""Readings that a new mission takes over from an earlier one of the same state.db, where all of them still hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from recon.agent.api import ReconTask
from recon.agent.engine.freshness import is_leftover
from recon.agent.engine.view import View
from recon.agent.model.findings import Finding
from recon.agent.model.missions import Intent, Mission
from recon.agent.model.tasks import Attempt, Task
from recon.agent.runner.ports import Registry
from recon.agent.store import Store


@dataclass(frozen=True, slots=True)
class Taken:
    """A reading taken over: which task, from which mission, and when its oldest fact was read (UTC seconds)."""

    task: Task
    mission_id: str
    read_at: float


@dataclass(frozen=True)
class _Donor:
    """An earlier mission: what its readings were made with."""

    mission: Mission
    intents: Mapping[int, Intent]
    tasks: Mapping[str, Task]
    last: Mapping[int, Attempt]


def take_over(
    store: Store, mission: Mission, wanted: Sequence[Task], *, intent: Intent, registry: Registry, view: View, at: float,
    actor: str, run_id: int | None,
) -> list[Taken]:  # fmt: skip
    """Gives tasks that have not begun the result of the same task of another live mission, inside the caller's
    transaction. Such a task has succeeded without an attempt, with an event that says from where. Only where every fact that it found is
    the latest and fresh, and where it was planned with the same parameters and the parts of the intent it reads."""
    if mission.origin != "live":
        return []
    donors = [_donor(store, other) for other in reversed(store.missions()) if _gives(other, mission)]
    found: dict[str, list[Finding]] = {}
    for finding in view.all_findings():
        found.setdefault(finding.producer, []).append(finding)
    taken = []
    for task in wanted:
        reading = _reading(task, donors, found, intent=intent, registry=registry, view=view)
        if reading is None:
            continue
        moved = store.set_status(
            task.id, old={"pending"}, new="succeeded", now=at, actor=actor, run_id=run_id,
            payload={"cause": "taken over", "from": reading.mission_id, "read_at": reading.read_at},
        )  # fmt: skip
        taken += [reading] if moved else []
    return taken


@dataclass(frozen=True, slots=True)
class Note:
    """What state.db says of a reading that was taken over: from which mission, when read, when taken over."""

    mission_id: str
    read_at: float
    at: float


def taken_notes(store: Store, mission_id: str, tasks: Iterable[Task]) -> dict[int, Note]:
    """The tasks whose result is another mission's, by number."""
    bare = {
        str(t.id)
        for t in tasks
        if t.status == "succeeded" and t.planned.kind == "recon" and not t.lease_token
    }
    if not bare:  # a task that was ever taken has a token
        return {}
    notes = {}
    for event in store.events_of(mission_id, "task"):
        said = event.payload
        if event.entity_id in bare and event.new == "succeeded" and said.get("cause") == "taken over":
            notes[int(event.entity_id)] = Note(str(said["from"]), float(said["read_at"]), event.at)
    return notes


def _gives(other: Mission, mission: Mission) -> bool:
    return (
        other.id != mission.id
        and other.origin == "live"
        and other.realm == mission.realm
        and bool(other.head)
    )


def _donor(store: Store, other: Mission) -> _Donor:
    tasks = {t.key: t for t in store.tasks(other.id) if t.planned.kind == "recon"}
    return _Donor(
        mission=other, intents={r.n: r.intent for r in store.revisions(other.id)}, tasks=tasks,
        last={a.task_id: a for a in store.mission_attempts(other.id)},
    )  # fmt: skip


def _reading(
    task: Task, donors: Iterable[_Donor], found: Mapping[str, Sequence[Finding]], *, intent: Intent, registry: Registry,
    view: View,
) -> Taken | None:  # fmt: skip
    """The latest reading of the same task that this one may take over."""
    definition = registry.definitions.get(task.planned.definition)
    if not isinstance(definition, ReconTask) or task.status != "pending":
        return None
    for donor in donors:
        other = donor.tasks.get(task.key)
        if other is None or other.status != "succeeded" or other.definition_hash != task.definition_hash:
            continue
        attempt = donor.last.get(other.id)
        if attempt is None or other.planned.params != task.planned.params:
            continue
        if not all(_same_intent(definition.reads_intent, intent, one) for one in donor.intents.values()):
            continue
        facts = [f for f in found.get(task.key, ()) if not is_leftover(f, attempt.started_at)]
        if facts and all(f.outcome != "unknown" and not view.why_stale(f) for f in facts):
            return Taken(task, donor.mission.id, min(f.observed_at for f in facts))
    return None


def _same_intent(parts: Sequence[str] | None, one: Intent, other: Intent) -> bool:
    """Whether two intents agree in what a reading looks at; None: nobody said what that is, so in everything."""
    if parts is None:
        return one == other
    return all(getattr(one, part) == getattr(other, part) for part in parts)
