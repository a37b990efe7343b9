"""Recording decisions and taking them back: what is recorded is an answer to the question that was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recon.agent.cli.choices import changed_intent, find_option, find_unknown, similar
from recon.agent.cli.identity import who_asks
from recon.agent.connectors.redact import redact, redact_text
from recon.agent.engine.assemble import active_decisions, make_view
from recon.agent.engine.basis import basis_of, what_changed
from recon.agent.engine.consequence import Consequence, compare, reverted
from recon.agent.engine.freshness import readers, standing
from recon.agent.model.errors import RefusedError, UsageError
from recon.agent.model.missions import Mission
from recon.agent.model.records import Decision
from recon.agent.model.state import MissionState, UnknownState
from recon.agent.runner.records import load_records
from recon.agent.runner.unknowns import ENTITY

if TYPE_CHECKING:
    from collections.abc import Callable

    from recon.agent.cli.compose import Session

_BEGUN = frozenset({"apply", "verify", "rollback"})
_PREFIX = 8  # characters of a question's hash that name it


class _TakenBack(Exception):
    """Ends a transaction that only was to be looked at."""


def decide(
    session: Session, mission: Mission, key: str, option: str, *, because: str, value: str, via: str, by: str | None,
    shown: str,
) -> Decision:  # fmt: skip
    """Records a choice in one transaction with the look at the question it answers."""
    if not because.strip():
        raise UsageError("a decision needs its reason", hint='--because "..."')
    store = session.store
    with store.transaction():
        state = session.state(mission.id)
        unknown = find_unknown(state, key)
        refuse_changed(session, mission, unknown, shown)
        option, _, given = option.partition("=") if not value else (option, "", value)
        chosen = find_option(unknown, option, given)
        intent = changed_intent(state.revision.intent, chosen, given)
        head = state.revision
        changes = intent != head.intent
        about = [j.judgement for j in state.judgements if j.judgement.about == key]
        view = make_view(load_records(store, mission.id), now=state.now)
        decision = store.decide(
            mission.id, about_key=key, option=chosen.id, value=redact_text(given), because=redact_text(because),
            by=by or who_asks(), via=via, shown_sha=store.keep_blob(redact(shown_text(unknown).encode())),
            now=session.now(), from_n=head.n, to_n=head.n + changes, basis=basis_of(unknown.planned, about, view),
        )  # fmt: skip
        if changes:
            session.new_revision(mission, intent, head, decision_id=decision.id)
        session.note_unknowns(mission)
    return decision


def shown_text(unknown: UnknownState) -> str:
    """What a person saw before they answered, for the record."""
    return "\n".join(
        (unknown.planned.question, *(f"{o.id}: {o.title}. {o.consequence}" for o in unknown.options))
    )


def refuse_changed(session: Session, mission: Mission, unknown: UnknownState, shown: str) -> None:
    """Raises RefusedError with what is different where the question is not the one that was shown."""
    wanted = shown.strip().lower()
    if not wanted:
        return
    if len(wanted) < _PREFIX:
        raise UsageError(f"--shown takes at least {_PREFIX} characters of the question's hash")
    if unknown.shown.startswith(wanted):
        return
    key = unknown.planned.key
    told = [
        str(e.payload.get("shown", ""))
        for e in session.store.events_of(mission.id, ENTITY)
        if e.entity_id == key
    ]
    held = next((sha for sha in reversed(told) if sha.startswith(wanted)), "")
    if not held:
        changed: tuple[str, ...] = ("the question that was shown is not one that this mission has asked",)
    else:
        changed = what_changed(session.store.blob(held).decode(), unknown.asked)
    raise RefusedError(
        f"{key} is not the question you were shown any more; nothing is decided", blockers=changed,
        hint=f"recon show unknown {key}",
    )  # fmt: skip


def foresee(session: Session, mission: Mission, act: Callable[[], object]) -> Consequence:
    """What something recorded would change: it is done, looked at, and taken back as a whole."""
    before = session.state(mission.id)
    after: list[MissionState] = []
    try:
        with session.store.transaction():
            act()
            after.append(session.state(mission.id))
            raise _TakenBack
    except _TakenBack:
        return compare(before, after[0])


# ---- undo


def find_decision(decisions: list[Decision], named: str) -> Decision:
    """A decision by number (`3`, `d3`) or by the question it is about: then the one in force. UsageError for neither."""
    number = named.removeprefix("d")
    found = next((d for d in decisions if number.isdigit() and d.id == int(number)), None)
    found = found or active_decisions(decisions).get(named)
    if found is None:
        known = [*active_decisions(decisions), *(f"d{d.id}" for d in decisions)]
        what = f"no decision {named!r}" if decisions else "nothing has been decided in this mission"
        raise UsageError(what, hint=similar(named, known) if decisions else "recon decide lists what is open")
    return found


def undo(
    session: Session, mission: Mission, named: str, *, because: str, via: str, by: str | None
) -> tuple[Decision, tuple[str, ...]]:
    """Takes a decision back: the mission is bound as if it had not been made. Returns the record, and the fields of
    the intent that later decisions changed again and that therefore stay."""
    store = session.store
    with store.transaction():
        decision = find_decision(store.decisions(mission.id), named)
        _refuse_begun(session, mission, decision)
        head = store.revision(mission.id)
        intent = head.intent
        kept: tuple[str, ...] = ()
        if decision.to_n != decision.from_n:
            before, after = (store.revision(mission.id, n).intent for n in (decision.from_n, decision.to_n))
            intent, kept = reverted(head.intent, before=before, after=after)
        changes = intent != head.intent
        shown = f"decision {decision.id} about {decision.about_key}: {decision.option}, because {decision.because}"
        made = store.decide(
            mission.id, about_key=decision.about_key, option=decision.option, value=decision.value,
            because=redact_text(because), by=by or who_asks(), via=via,
            shown_sha=store.keep_blob(redact(shown.encode())), now=session.now(), from_n=head.n,
            to_n=head.n + changes, undoes=decision.id,
        )  # fmt: skip
        if changes:
            session.new_revision(mission, intent, head, decision_id=made.id)
        session.note_unknowns(mission)
    return made, kept


def _refuse_begun(session: Session, mission: Mission, decision: Decision) -> None:
    """Raises RefusedError once an apply that rests on the decision has begun. By the order of events, not by clocks."""
    events = session.store.events_after(mission.id, 0)
    made = next(e.seq for e in events if e.entity == "decision" and e.entity_id == str(decision.id))
    tasks = {t.id: t for t in session.store.tasks(mission.id)}
    rebinds = decision.to_n != decision.from_n
    for event in events:
        if event.seq < made or event.entity != "attempt" or event.new not in _BEGUN:
            continue
        task = tasks[int(event.payload["task"])]
        # the gates as they were then: they may have been planned anew since
        if rebinds or decision.about_key in event.payload["keys"]:
            raise RefusedError(
                f"decision {decision.id} cannot be undone: {task.key} has begun to change the host on it",
                blockers=(f"{task.key} began to {event.new}",),
                hint=f'recon decide {decision.about_key} OPTION --because "..." goes another way from here',
            )


# ---- reading again


def refresh(session: Session, mission: Mission, named: str | None) -> list[tuple[str, str, bool]]:
    """Makes the tasks that read a fact pending again (without a name: those of all stale facts). Returns for each its
    key, why, and whether it changed: one that waits or runs already stays as it is."""
    if mission.origin != "live":
        raise RefusedError("this is a replay: what was recorded does not change", hint="recon run DIRECTIVE")
    done = []
    with session.store.transaction():
        state = session.state(mission.id)
        wanted = readers(state, named) if named else dict(standing(state).read_again)
        for key, why in wanted.items():
            task = state.task(key)
            assert task is not None
            moved = session.store.set_status(
                task.task.id, old={"succeeded", "failed", "skipped"}, new="pending", now=session.now(), actor=who_asks(),
                payload={"cause": "refresh", "because": why},
            )  # fmt: skip
            done.append((key, why, moved))
        session.note_unknowns(mission)
    return done
