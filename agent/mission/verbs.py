"""Which steps a directive asks for, which it rules out, and which it is not sure about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from recon.agent.mission import language
from recon.agent.mission.reading import Match, Reading
from recon.agent.mission.vocabulary import Action
from recon.agent.model.base import Json

_REACH_AFTER: Final = 7  # words between a verb and what it is about
_REACH_BEFORE: Final = 4  # the same where the verb comes last ("das Modell herunterladen")
_OR: Final = frozenset({"or", "nor", "oder", "noch"})
_JOINED: Final = 8  # tokens between two verbs that share a "don't"


@dataclass
class Steps:
    """What was read: the steps asked for and ruled out, in the order they are carried out, and what is to be stopped."""

    asked: list[str] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    stopped: list[range] = field(default_factory=list)  # tokens that say what is to be stopped
    extra: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class _Use:
    """One verb in the text."""

    verb: str
    start: int
    end: int
    excluded: bool


def read_steps(reading: Reading) -> Steps:
    """Reads the verbs with what they are about, their negations and their hedges."""
    uses: list[_Use] = []
    done = -1
    for match in reading.found("action"):
        if match.start < done:
            continue
        use = _use(reading, match, uses[-1] if uses else None)
        if use is not None:
            uses.append(use)
            done = use.end
    for use in uses:
        reading.place(use.start, use.end)
    hedged = _hedged(reading, uses)
    for match in reading.found("read_only"):
        reading.claim("read_only", "yes", match.start, match.end)
    return _steps(reading, uses, hedged)


def _use(reading: Reading, match: Match, last: _Use | None) -> _Use | None:
    """The step that a verb asks for, given what stands around it; None where it asks for none."""
    chosen = _action(reading, match)
    if chosen is None:
        return None
    action, thing = chosen
    if thing is not None:
        reading.place(thing)
    negative = (
        reading.negated(match.start)
        or _negated_behind(reading, match)
        or _shares_negation(reading, match, last)
    )
    if action.spares:
        return (
            _Use(action.verb, match.start, match.end, excluded=True)
            if negative or _spares_alone(match)
            else None
        )
    return _Use(action.verb, match.start, match.end, excluded=negative)


def _spares_alone(match: Match) -> bool:
    return match.value in ("keep", "leave")


def _action(reading: Reading, match: Match) -> tuple[Action, int | None] | None:
    """The action whose object stands nearest behind the verb, else in front of it, else the one that needs none."""
    actions = [a for a in reading.vocabulary.actions if match.value in a.heads]
    clause = reading.clause(match.start)
    behind = range(match.end, min(clause.stop, match.end + _REACH_AFTER))
    before = range(match.start - 1, max(clause.start, match.start - _REACH_BEFORE) - 1, -1)
    bare = next((a for a in actions if not a.objects), None)
    for places in (behind, before) if bare is None else (behind,):
        for index in places:
            if found := next((a for a in actions if a.objects and _is_object(reading, index, a)), None):
                return found, index
            if places is behind and _begins_action(reading, index):
                break
    return (bare, None) if bare is not None else None


def _begins_action(reading: Reading, index: int) -> bool:
    if reading.words[index] in language.OBJECT_WORDS:
        return False  # "the running service"
    return reading.words[index] in ("and", "und", "then", "dann") or any(
        m.start == index for m in reading.near("action", index, reach=0)
    )


def _is_object(reading: Reading, index: int, action: Action) -> bool:
    if reading.words[index] in action.objects:
        return True
    kind = reading.tokens[index].kind
    if "<model>" in action.objects and (kind == "repo" or (kind == "url" and _is_model_url(reading, index))):
        return True
    if "<service>" in action.objects and reading.words[index].endswith(".service"):
        return True
    if "<pull>" in action.objects and kind == "url" and "/pull/" in reading.words[index]:
        return True
    pairs = (("<engine>", "engine"), ("<gpu>", "gpu"))
    return any(
        name in action.objects
        and any(
            m.start == index
            for m in (
                reading.near("engine", index, reach=0)
                if group == "engine"
                else reading.near("gpu", index, reach=0)
            )
        )
        for name, group in pairs
    )


def _is_model_url(reading: Reading, index: int) -> bool:
    return any(
        f"/{host}/" in reading.words[index] or reading.words[index].startswith(f"{host}/")
        for host in reading.vocabulary.hub_hosts
    )


def _negated_behind(reading: Reading, match: Match) -> bool:
    """German puts the "nicht" behind the object: `stoppe den Dienst nicht`."""
    clause = reading.clause(match.start)
    for index in range(match.end, min(clause.stop, match.end + _REACH_AFTER)):
        if _begins_action(reading, index):
            return False
        if reading.words[index] == "nicht":
            return True
    return False


def _shares_negation(reading: Reading, match: Match, last: _Use | None) -> bool:
    """`don't stop the service or download anything`: the second verb is negated too."""
    if last is None or not last.excluded or match.start - last.end > _JOINED:
        return False
    between = {reading.words[n] for n in range(last.end, match.start)}
    return reading.clause_of[last.start] == reading.clause_of[match.start] and bool(between & _OR)


def _hedged(reading: Reading, uses: list[_Use]) -> set[str]:
    """The verbs that stand with an "if needed": those of the same clause, else the one right before."""
    hedged: set[str] = set()
    at = 0
    by_clause: dict[int, list[_Use]] = {}
    for use in uses:
        by_clause.setdefault(reading.clause_of[use.start], []).append(use)
    for match in reading.found("hedge"):
        reading.place(match.start, match.end)
        here = by_clause.get(reading.clause_of[match.start])
        if here:
            hedged.add(min(here, key=lambda use: abs(use.start - match.start)).verb)
            continue
        while at < len(uses) and uses[at].start < match.start:
            at += 1
        if at and reading.sentence_of[uses[at - 1].start] == reading.sentence_of[match.start]:
            hedged.add(uses[at - 1].verb)
    return hedged


def _steps(reading: Reading, uses: list[_Use], hedged: set[str]) -> Steps:
    order = reading.vocabulary.verbs
    asked, excluded = {u.verb for u in uses if not u.excluded}, {u.verb for u in uses if u.excluded}
    steps = Steps(
        asked=[v for v in order if v in asked - excluded], excluded=[v for v in order if v in excluded]
    )
    steps.stopped = [_object_range(reading, u) for u in uses if u.verb == "stop"]
    first: dict[str, _Use] = {}
    for use in uses:
        first.setdefault(use.verb, use)
    for verb, use in first.items():
        if verb in asked and verb in excluded:
            reading.conflict(
                verb,
                says=[f"do {verb}", f"do not {verb}"],
                taken=f"do not {verb}",
                start=use.start,
                end=use.end,
            )
        if name := reading.vocabulary.uncertain_claims.get(verb):
            value = "no" if verb in excluded else "uncertain" if verb in hedged else "yes"
            reading.claim(name, value, use.start, use.end)
        elif verb in hedged:
            reading.claim("uncertain_steps", verb, use.start, use.end)
        reading.claim("excluded_steps" if verb in excluded else "steps", verb, use.start, use.end)
    return steps


def _object_range(reading: Reading, use: _Use) -> range:
    clause = reading.clause(use.start)
    end = next((n for n in range(use.end, clause.stop) if _begins_action(reading, n)), clause.stop)
    return range(use.start, end)
