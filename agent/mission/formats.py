"""Which format of the weights is wanted, and how strongly."""

from __future__ import annotations

from typing import Final

from recon.agent.mission.reading import Match, PhraseKind, Reading
from recon.agent.model.missions import Wish
from recon.agent.model.words import Strength

_RANK: Final[dict[Strength, int]] = {"must": 2, "prefer": 1, "mentioned": 0}
_BEFORE: Final = 6  # words between "focusing on" and the format
_AFTER: Final = 4  # words between the format and "preferred"
_CACHE: Final = frozenset({"kv", "cache"})
_CACHE_REACH: Final = 2
_NEEDED: Final = frozenset({"needed", "wanted", "required", "necessary", "desired", "nötig", "erforderlich"})
_NEEDLESS: Final = frozenset({"unnecessary", "unwanted", "unnötig"})
_COMPARED: Final = frozenset(
    {"baseline", "vs", "versus", "against", "compared", "reference", "gegen", "vergleich", "current"}
)


def read_format(reading: Reading) -> Wish | None:
    """The wanted format: the strongest wish, of equal ones the first. Everything else said about formats is claimed."""
    wishes: list[tuple[Wish, Match]] = []
    for match in reading.found("format"):
        if _is_about_cache(reading, match):
            reading.claim("kv_cache_format", match.value, match.start, match.end)
        elif reading.negated(match.start) or _is_dismissed(reading, match):
            reading.claim("unwanted_formats", match.value, match.start, match.end)
        elif reading.within(match.start, _COMPARED, before=2, after=2) or _is_second_best(reading, match):
            reading.claim("compared_formats", match.value, match.start, match.end)
        else:
            reading.place(match.start, match.end)
            wishes.append(_wish(reading, match))
    if not wishes:
        return None
    chosen, at = max(wishes, key=lambda pair: _RANK[pair[0].strength])
    if chosen.strength == "mentioned" and len({wish.value for wish, _ in wishes}) > 1:
        for wish, match in wishes:  # "W4A16 or NVFP4": no wish at all
            reading.claim("mentioned_formats", wish.value, match.start, match.end)
        return None
    reading.claim("wanted_format", chosen.value, at.start, at.end)
    reading.claim("wanted_format_strength", chosen.strength, at.start, at.end)
    others = list(
        dict.fromkeys(w.value for w, _ in wishes if w.value != chosen.value and w.strength == chosen.strength)
    )
    if others:
        reading.conflict(
            "wanted_format", says=[chosen.value, *others[:8]], taken=chosen.value, start=at.start, end=at.end
        )
    return chosen


def _is_dismissed(reading: Reading, match: Match) -> bool:
    """`NVFP4 not needed`, `NVFP4 is not wanted`: the refusal stands behind what it refuses."""
    words = [
        w.lower() for w in reading.words[match.end : min(reading.clause(match.start).stop, match.end + 4)]
    ]
    for at, word in enumerate(words):
        if word in _NEEDLESS:
            return True
        if reading.is_negation(match.end + at):
            return any(later in _NEEDED for later in words[at + 1 : at + 3])
    return False


def _wish(reading: Reading, match: Match) -> tuple[Wish, Match]:
    start, end, strength = match.start, match.end, _after_in(reading, match)
    kinds: tuple[tuple[PhraseKind, Strength], ...] = (("prefer", "prefer"), ("must", "must"))
    for kind, found in kinds:
        cue = reading.nearest(kind, match.start, before=_BEFORE, after=_AFTER)
        if cue is not None and not _nearer_to_another(reading, match, cue):
            reading.place(cue.start, cue.end)
            start, end, strength = min(match.start, cue.start), max(match.end, cue.end), found
    return Wish(value=match.value, strength=strength, words=reading.quote(start, end)), match


def _is_second_best(reading: Reading, match: Match) -> bool:
    """`prefer NVFP4 over FP8`."""
    before = reading.words[match.start - 1] if match.start > reading.clause(match.start).start else ""
    return before in ("over", "than", "statt", "als") and len(reading.near("format", match.start)) > 1


def _nearer_to_another(reading: Reading, match: Match, cue: Match) -> bool:
    """Whether the cue belongs to another format: `the W4A16 checkpoint, but focus on NVFP4`."""
    return any(
        other is not match and _distance(other, cue.start) < _distance(match, cue.start)
        for other in reading.near("format", cue.start)
    )


def _after_in(reading: Reading, match: Match) -> Strength:
    """`in NVFP4`, `as FP8`: said on purpose, so it is more than a mention."""
    before = reading.words[match.start - 1] if match.start > reading.clause(match.start).start else ""
    return (
        "prefer"
        if before
        in (
            "in",
            "as",
            "im",
            "als",
            "--quant",
            "--quantization",
            "--format",
            "quant",
            "quantization",
            "format",
        )
        else "mentioned"
    )


def _is_about_cache(reading: Reading, match: Match) -> bool:
    clause = reading.clause(match.start)
    near = range(max(clause.start, match.start - _CACHE_REACH), min(clause.stop, match.end + _CACHE_REACH))
    if any(reading.words[n].startswith("--kv-cache-dtype") for n in near):
        return True
    words = {reading.words[n] for n in near}
    if not words & _CACHE:
        return False
    # "w4a16 with fp8 kv cache": the nearest format only
    nearest = min((n for n in near if reading.words[n] in _CACHE), key=lambda n: _distance(match, n))
    return not any(
        other is not match and _distance(other, nearest) < _distance(match, nearest)
        for other in reading.near("format", nearest)
    )


def _distance(match: Match, index: int) -> int:
    return match.start - index if index < match.start else index - match.end + 1
