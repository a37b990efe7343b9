"""What the words of `recon run` are: ORG/MODEL with a host, or a directive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from recon.agent.mission.directive import triage
from recon.agent.mission.places import is_host
from recon.agent.mission.reading import Lexicon
from recon.agent.mission.sources import hub_address, is_repo_id
from recon.agent.mission.text import clean_text
from recon.agent.mission.vocabulary import Vocabulary
from recon.agent.model.base import Json
from recon.agent.model.errors import MissionError
from recon.agent.model.missions import Triage

_SHORT: Final = 3  # words of an argument that is shown whole
_LONG: Final = 80  # characters of a text that is no longer shown whole
_PREPOSITIONS: Final = frozenset({"on", "auf", "at"})


def read_arguments(
    words: Sequence[str], vocabulary: Vocabulary, flags: Mapping[str, Json] | None = None
) -> Triage:
    """Reads `ORG/MODEL [[USER@]HOST]`, a directive in one word or in many, or flags alone; flags win.

    Raises MissionError where neither words nor flags say anything, or where the words contradict themselves.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    words = [w for w in (clean_text(word) for word in words) if w]
    text = " ".join(words)
    if not words and not given.get("model"):
        raise MissionError(
            "nothing was asked",
            hint='recon run ORG/MODEL [USER@]HOST, or recon run "what you want, in words"',
        )
    short = _short_form(words, vocabulary)
    if short is None:
        return _read(text, words, vocabulary, given)
    model, host, rest = short
    read = _read(rest, words[1:], vocabulary, {"model": model, "host": host, **given})
    return read.model_copy(update={"text": text})


def _read(text: str, words: Sequence[str], vocabulary: Vocabulary, given: Mapping[str, Json]) -> Triage:
    """The text read; where it says nothing at all, it found no place as a whole, little words too."""
    read = triage(text, vocabulary, overrides=given)
    nothing = triage("", vocabulary, overrides=given)
    if text and (read.intent, read.claims) == (nothing.intent, nothing.claims):
        return read.model_copy(update={"unplaced": read.unplaced if len(text) > _LONG else (text,)})
    return read.model_copy(update={"unplaced": _whole(read.unplaced, words)})


def _whole(unplaced: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """What found no place, each piece as the whole argument it was typed in where that is a short one."""
    short = [word for word in words if 1 < len(word.split()) <= _SHORT]
    return tuple(dict.fromkeys(next((w for w in short if piece in w), piece) for piece in unplaced))


def _short_form(words: list[str], vocabulary: Vocabulary) -> tuple[str, str | None, str] | None:
    """(model, host, what else was said) of `ORG/MODEL [on] [HOST] ...`; None where the words are something else."""
    if not words or any(" " in w or "\n" in w for w in words[:1]):
        return None
    model = words[0]
    if not is_repo_id(model) and hub_address(model, vocabulary.hub_hosts) is None:
        return None
    if (
        is_repo_id(model)
        and len(words) > 2
        and not any(c.isdigit() or c in "-_." for c in model.split("/", 1)[1])
    ):
        return None  # `prefill/decode on two nodes` is prose
    rest = words[1:]
    if rest and rest[0].lower() in _PREPOSITIONS:
        rest = rest[1:]
    if rest and _names_host(rest[0], vocabulary):
        return model, rest[0], " ".join(rest[1:])
    return model, None, " ".join(words[1:])


def _names_host(word: str, vocabulary: Vocabulary) -> bool:
    low = word.lower()
    if low == "localhost":
        return True
    sized = low.rstrip("0123456789") in ("tp", "pd", "pp", "dp", "ep")
    number = word[0].isdigit() and word.count(".") != 3
    return is_host(word) and not sized and not number and low not in Lexicon(vocabulary).known
