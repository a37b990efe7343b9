"""The status of every unknown: answered by findings, judgements or a decision, contradicted, waived, or open."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from recon.agent.engine.basis import question_hash, question_text
from recon.agent.engine.basis import why_void as why_decision_void
from recon.agent.engine.records import Records, active_decisions
from recon.agent.engine.view import View
from recon.agent.model.base import Json
from recon.agent.model.findings import Judgement, Option
from recon.agent.model.records import Decision
from recon.agent.model.state import (
    JudgementState,
    UnknownState,
)
from recon.agent.model.tasks import PlannedUnknown
from recon.agent.model.words import Level, UnknownStatus, at_least


def make_view(records: Records, *, now: float) -> View:
    """The view gates are evaluated on: findings, decisions and which are void, answered unknowns, done tasks."""
    decisions = active_decisions(records.decisions)
    view = View.of(
        records.findings, bindings=records.revision.bindings, intent=records.revision.intent, now=now,
        decisions=decisions, done=[t.key for t in records.tasks if t.in_head and t.status in ("succeeded", "skipped")],
    )  # fmt: skip
    view.void = _void(records, view, decisions)
    answered = [u.planned.key for u in _unknowns(records, view) if u.status in ("answered", "waived")]
    view.answered_keys = frozenset(answered)
    return view


def unknown_states(records: Records, *, now: float) -> list[UnknownState]:
    """The unknowns alone, without what they block: their statuses follow from findings, judgements and decisions."""
    return _unknowns(records, make_view(records, now=now))


def _void(records: Records, view: View, decisions: Mapping[str, Decision]) -> dict[str, str]:
    """The decisions that what is known now contradicts, with why."""
    asked = {p.key: p for p in records.unknowns}
    found = {}
    for key, decision in decisions.items():
        if key in asked:
            about = [j for j in records.judgements if j.about == key]
            found[key] = why_decision_void(decision, asked[key], about, view)
    return {key: why for key, why in found.items() if why}


def _unknowns(records: Records, view: View) -> list[UnknownState]:
    judged = [judged_state(j, holding(view)) for j in records.judgements]
    return [unknown_state(p, view, judged) for p in records.unknowns]


def holding(view: View) -> dict[str, Decision]:
    """The decisions in force that nothing known now contradicts."""
    return {key: decision for key, decision in view.decisions.items() if key not in view.void}


def judged_state(judgement: Judgement, decisions: Mapping[str, Decision]) -> JudgementState:
    """A judgement, and the decision that settled what it is about."""
    return JudgementState(
        judgement=judgement, verdict=judgement.verdict, decided=decisions.get(judgement.about)
    )


def _options(planned: PlannedUnknown, judgements: Sequence[JudgementState]) -> tuple[Option, ...]:
    merged = {o.id: o for o in planned.options}
    for state in judgements:
        for option in state.judgement.options:
            merged.setdefault(option.id, option)
    return tuple(merged.values())


def unknown_state(planned: PlannedUnknown, view: View, judgements: Sequence[JudgementState]) -> UnknownState:
    """One unknown with its status, answer, options and the command that answers it."""
    about = [j for j in judgements if j.judgement.about == planned.key]
    options = _options(planned, about)
    by_key = sorted((j.judgement for j in about), key=lambda j: j.key)
    asked = question_text(planned, sorted(options, key=lambda o: o.id), by_key)
    state = UnknownState(
        planned=planned, status="open", options=options, judgements=tuple(j.judgement.key for j in about),
        asked=asked, shown=question_hash(asked),
    )  # fmt: skip
    if (decision := view.decisions.get(planned.key)) is not None:
        void = view.void.get(planned.key)
        if not void:
            return _decided(state, decision)
        again = _answer_with(planned, options)
        if again:  # else nothing is left to choose between: what is known answers it, or a task will
            reason = f"decided as {decision.option}, but {void}"
            return state.model_copy(update={"status": "contradicted", "reason": reason, "answer_with": again})
    read = view.read(planned.finding_ref) if planned.finding_ref else None
    held = [j for j in about if j.verdict in ("conflict", "block")]
    status, answer, level, reason = _computed(planned, view, about, held)
    answer_with = "" if status == "answered" else _answer_with(planned, state.options)
    if read is not None and read.known and answer is None:
        answer, level = read.value, read.level
    return state.model_copy(
        update={
            "status": status, "answer": answer, "answer_text": "" if answer is None else _answer_text(answer),
            "level": level, "reason": reason, "answer_with": answer_with,
        }
    )  # fmt: skip


def _computed(
    planned: PlannedUnknown, view: View, about: Sequence[JudgementState], held: Sequence[JudgementState]
) -> tuple[UnknownStatus, Json, Level | None, str]:
    """Status, answer, level and reason without a decision. Order: contradicted, by finding, by judgement, open."""
    if held:
        return "contradicted", None, None, held[0].judgement.title
    if planned.finding_ref:
        read = view.read(planned.finding_ref)
        if read.known and read.level is not None and _enough(read.level, planned):
            return "answered", read.value, read.level, ""
        weak = (
            f"{planned.finding_ref} is only {read.level}, {planned.min_level} is needed" if read.known else ""
        )
        return "open", None, None, weak or f"{planned.finding_ref}: {read.reason or read.state}"
    settled = [j for j in about if j.verdict in ("pass", "warn")]
    if settled and not any(j.verdict == "unknown" for j in about):
        return "answered", settled[0].judgement.title, None, ""
    open_titles = [j.judgement.title for j in about if j.verdict == "unknown"]
    return "open", None, None, open_titles[0] if open_titles else "nobody has answered it yet"


def _enough(level: Level, planned: PlannedUnknown) -> bool:
    return at_least(level, planned.min_level)


def chosen(state: UnknownState, decisions: Mapping[str, Decision]) -> Option:
    """The option that a decision took; a bare one where the question offers it no more."""
    decision = decisions[state.planned.key]
    return next(
        (o for o in state.options if o.id == decision.option),
        Option(id=decision.option, title=decision.option),
    )


def _decided(state: UnknownState, decision: Decision) -> UnknownState:
    option = next((o for o in state.options if o.id == decision.option), None)
    waived = option is not None and option.effects.waive
    text = decision.option + (f"={decision.value}" if decision.value else "")
    return state.model_copy(
        update={
            "status": "waived" if waived else "answered", "answer": decision.value or decision.option,
            "answer_text": f"{text} (decided by {decision.by}: {decision.because})",
        }
    )  # fmt: skip


def _answer_text(answer: Json) -> str:
    return answer if isinstance(answer, str) else str(answer)


def _answer_with(planned: PlannedUnknown, options: Sequence[Option]) -> str:
    """The command, safe to paste: OPTION stands for the word to put in, a single option is written out."""
    if not options and (planned.who == "task" or planned.domain == "choice"):
        return ""  # a choice whose options are not known yet can be answered by nobody
    words = [f"{o.id}=<{o.needs_value}>" if o.needs_value else o.id for o in options]
    choice = shlex.quote(words[0]) if len(words) == 1 else "OPTION" if words else "VALUE"
    return f'recon decide {planned.key} {choice} --because "..."'
