"""The status of unknowns as events: computed, compared with what was written last, one event for each change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from recon.agent.engine.assemble import unknown_states
from recon.agent.model.records import Event
from recon.agent.model.state import UnknownState
from recon.agent.runner.records import load_records
from recon.agent.store import Store

ENTITY: Final = "unknown"
WITHDRAWN: Final = "withdrawn"  # the plan does not ask it any more


@dataclass(frozen=True, slots=True)
class Turned:
    """An unknown whose status became another one. `old` is "" for a new question."""

    key: str
    old: str
    new: str
    reason: str

    @property
    def reopened(self) -> bool:
        """Whether an answer was lost."""
        return self.old in ("answered", "waived") and self.new in ("open", "contradicted")


def note_unknowns(
    store: Store, mission_id: str, *, known_now: float, at: float, actor: str, run_id: int | None = None
) -> list[Turned]:
    """Writes one event for each unknown whose status, or whose question, is not the one written last.

    In one transaction with the look at what is known: two processes never write the same change. `known_now` counts
    for freshness, `at` stands in the event. The text of a question is kept under the hash in the event.
    """
    if not store.unknowns(mission_id) and not store.events_of(mission_id, ENTITY):
        return []
    turned = []
    with store.transaction():
        written = {event.entity_id: event for event in store.events_of(mission_id, ENTITY)}
        states = unknown_states(load_records(store, mission_id), now=known_now)
        for state in states:
            key, old = state.planned.key, written.get(state.planned.key)
            if _same(state, old):
                continue
            new, before = state.status, old.new if old is not None else ""
            payload = {
                "reason": state.reason or state.answer_text,
                "shown": store.keep_blob(state.asked.encode()),
            }
            store.note(
                mission_id,
                ENTITY,
                key,
                old=before,
                new=new,
                actor=actor,
                at=at,
                run_id=run_id,
                payload=payload,
            )
            if before != new:
                turned.append(Turned(key, before, new, state.reason or state.answer_text))
        asked = {state.planned.key for state in states}
        for key, event in written.items():
            if key not in asked and event.new != WITHDRAWN:
                store.note(
                    mission_id, ENTITY, key, old=event.new, new=WITHDRAWN, actor=actor, at=at, run_id=run_id
                )
                turned.append(Turned(key, event.new, WITHDRAWN, "not asked any more"))
    return turned


def _same(state: UnknownState, written: Event | None) -> bool:
    return written is not None and written.new == state.status and written.payload.get("shown") == state.shown
