"""The event log read from the beginning: it reproduces every task, decision and approval status."""

from __future__ import annotations

from collections.abc import Iterable

from recon.agent.model.records import Event


def fold(events: Iterable[Event]) -> dict[tuple[str, str], str]:
    """The status of everything the events speak of, by (entity, id). Events in order of their sequence number.

    Raises ValueError where an event starts from another status than the one before it left: the log has a hole.
    """
    statuses: dict[tuple[str, str], str] = {}
    for event in events:
        key = (event.entity, event.entity_id)
        held = statuses.get(key, "")
        if held != event.old:
            raise ValueError(
                f"event {event.seq}: {event.entity} {event.entity_id} was {held!r}, not {event.old!r}"
            )
        statuses[key] = event.new
    return statuses


def statuses(events: Iterable[Event], *, entity: str) -> dict[str, str]:
    """The status of every task, decision or approval, by id."""
    return {key: status for (kind, key), status in fold(events).items() if kind == entity}
