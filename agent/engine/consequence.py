"""What a decision, or taking one back, does to a mission: two states compared. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from recon.agent.model.base import Json
from recon.agent.model.missions import Intent
from recon.agent.model.state import MissionState, TaskState

_ENDED: Final = frozenset({"succeeded", "skipped", "cancelled"})
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Consequence:
    """What is different afterwards. `intent`: (field, before, after); `asked`: (question, before, after)."""

    intent: tuple[tuple[str, Json, Json], ...] = ()
    come: tuple[str, ...] = ()
    go: tuple[str, ...] = ()
    void: tuple[str, ...] = ()  # tasks whose approval ends
    asked: tuple[tuple[str, str, str], ...] = ()
    ends: bool = False  # the mission goes no further
    sentence: str = ""  # what the mission is then, where that is another sentence

    @property
    def nothing(self) -> bool:
        """Whether only the record of the choice is new."""
        return not (self.intent or self.come or self.go or self.void or self.asked or self.ends)


def compare(before: MissionState, after: MissionState) -> Consequence:
    """What is different between two states of a mission."""
    old, new = {t.task.key for t in before.tasks}, {t.task.key for t in after.tasks}
    statuses = {u.planned.key: u.status for u in after.unknowns}
    asked: list[tuple[str, str, str]] = [
        (u.planned.key, u.status, statuses.get(u.planned.key, "not asked any more"))
        for u in before.unknowns
        if statuses.get(u.planned.key) != u.status
    ]
    known = {u.planned.key for u in before.unknowns}
    asked += [(key, "new", status) for key, status in statuses.items() if key not in known]
    return Consequence(
        intent=tuple(differences(before.revision.intent, after.revision.intent)),
        come=tuple(t.task.key for t in after.tasks if t.task.key not in old),
        go=tuple(t.task.key for t in before.tasks if t.task.key not in new),
        void=_void(before, after), asked=tuple(asked), ends=_stopped(after) and not _stopped(before),
        sentence=after.sentence if after.sentence != before.sentence else "",
    )  # fmt: skip


def differences(old: Intent, new: Intent) -> list[tuple[str, Json, Json]]:
    """The fields that differ, dotted, with both values; None for one that is not there."""
    out = []
    for path in _paths(old.model_dump(mode="json"), new.model_dump(mode="json")):
        out.append((".".join(path), _plain(_at(old, path)), _plain(_at(new, path))))
    return out


def reverted(head: Intent, *, before: Intent, after: Intent) -> tuple[Intent, tuple[str, ...]]:
    """The intent with what led from `before` to `after` taken back, and the fields that something later has changed
    again: those stay as they are."""
    data = head.model_dump(mode="json")
    kept = []
    for path in _paths(before.model_dump(mode="json"), after.model_dump(mode="json")):
        if _at(head, path) != _at(after, path):
            kept.append(".".join(path))
            continue
        node = data
        for part in path[:-1]:
            node = node.setdefault(part, {})
        if (value := _at(before, path)) is _ABSENT:
            node.pop(path[-1], None)
        else:
            node[path[-1]] = value
    return Intent.model_validate(data), tuple(kept)


def _paths(old: Json, new: Json, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the leaves that differ; a mapping that is there on one side only is one leaf."""
    for key in sorted({*old, *new}):
        a, b = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if a == b:
            continue
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from _paths(a, b, (*above, key))
        else:
            yield (*above, key)


def _at(intent: Intent, path: tuple[str, ...]) -> Json:
    node: Json = intent.model_dump(mode="json")
    for part in path:
        node = node.get(part, _ABSENT) if isinstance(node, Mapping) else _ABSENT
    return node


def _plain(value: Json) -> Json:
    return None if value is _ABSENT else value


def _stopped(state: MissionState) -> bool:
    """Whether a person chose to stop: then nothing is waited for although something is held up."""
    chosen = {u.planned.key: {o.id for o in u.options if o.effects.stop} for u in state.unknowns}
    return any(u.status == "answered" and str(u.answer) in chosen[u.planned.key] for u in state.unknowns)


def _void(before: MissionState, after: MissionState) -> tuple[str, ...]:
    """The tasks whose approval counts before and not after."""
    still = {t.task.key for t in after.tasks if _approved(t, after)}
    return tuple(t.task.key for t in before.tasks if _approved(t, before) and t.task.key not in still)


def _approved(item: TaskState, state: MissionState) -> bool:
    said = [a.verdict for a in state.approvals if a.task_id == item.task.id]
    if not said or said[-1] != "approve" or item.task.status in _ENDED:
        return False
    return all(b.kind != "approval" for b in item.blocked_by) and not (
        item.rendered and item.rendered.missing
    )
