"""Whether a directive only asks ("can X run on Y?", "just check") or wants something done."""

from __future__ import annotations

from typing import Final

from recon.agent.mission.language import words_of
from recon.agent.mission.reading import Reading

# Said of a whole mission: what else is asked for is meant as a dry run.
_DRY: Final = frozenset(
    {"dry run", "read only", "check only", "only check", "just check", "nur prüfen", "just look", "only look"}
)
_OPENERS: Final = words_of(
    "hi hello hey hallo moin so and but ok okay quick question now please also then und oder or"
)
_MODALS: Final = words_of("can could will would does do kann könnte wird würde")
_ABLE: Final = words_of(
    "run runs fit fits work works be load laufen läuft passen passt starten funktionieren use"
)
_BARE: Final = words_of("läuft passt reicht")  # "Läuft X auf Y?"
_ASKED: Final = words_of(
    "you u ya someone somebody anyone du ihr sie jemand wer"
)  # "can you deploy ...": a request
_WE: Final = words_of("we i wir ich")
_WE_ABLE: Final = words_of("run fit load use laufen starten")
_CHECKS: Final = words_of("check verify see tell know find test prüfe prüf schau sag teste")
_WHETHER: Final = words_of("whether if ob")
_ASKING: Final = _MODALS | _BARE | _CHECKS | _WHETHER


def only_asks(reading: Reading) -> bool:
    """Whether nothing is to be done but to find out."""
    said = [" ".join(reading.words[m.start : m.end]) for m in reading.found("read_only")]
    if any(words.replace("-", " ") in _DRY for words in said):
        return True
    actions = {reading.sentence_of[m.start] for m in reading.found("action")}
    questions = {n for n, words in _sentences(reading).items() if _is_question(words)}
    _place(reading, questions)
    if questions:
        return actions <= questions
    return bool(said) and not actions


def _sentences(reading: Reading) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for index, word in enumerate(reading.words):
        if word:
            found.setdefault(reading.sentence_of[index], []).append(word)
    return found


def _place(reading: Reading, questions: set[int]) -> None:
    """The words that make a sentence a question have found their place."""
    for index, word in enumerate(reading.words):
        if word in _ASKING and reading.sentence_of[index] in questions:
            reading.place(index)


def _is_question(words: list[str]) -> bool:
    while words and words[0].strip(",:") in _OPENERS:
        words = words[1:]
    if len(words) < 3:
        return False
    first, second, rest = words[0], words[1], set(words[1:])
    if first in _CHECKS and any(word in _WHETHER for word in words[1:4]):
        return bool(rest & (_ABLE | _MODALS))
    if first in _BARE:
        return True
    if first in ("is", "ist") and second in ("it", "es") and words[2] in ("possible", "möglich"):
        return True
    if first not in _MODALS or second in _ASKED:
        return False
    return bool(rest & (_WE_ABLE if second in _WE else _ABLE))
