"""A directive while it is read: its tokens, the phrases the vocabulary knows, what has found a place, what was claimed."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from recon.agent.mission import language
from recon.agent.mission.text import Token, clauses_of, sentences_of, tokens_of
from recon.agent.mission.vocabulary import Term, Vocabulary
from recon.agent.model.base import Json
from recon.agent.model.missions import Claim

PhraseKind: TypeAlias = Literal[
    "format", "engine", "gpu", "transfer", "source", "topic", "action", "negation", "hedge", "must", "prefer", "here", "read_only", "dataset"
]  # fmt: skip
Span: TypeAlias = tuple[int, int]  # token numbers, the end not included

_QUOTE: Final = 160  # characters: the longest quotation a claim carries
_NEGATION_REACH: Final = 4  # words between "don't" and what it negates
_TYPO_LETTERS: Final = 6  # shorter words have too many neighbours
_TYPO_FORMAT: Final = 5  # words with digits in them have few


@dataclass(frozen=True, slots=True)
class Match:
    """A phrase of the vocabulary or of the language, found in the text."""

    kind: PhraseKind
    value: str
    start: int
    end: int


class Lexicon:
    """Every phrase by its first word, with what it stands for; and its single words for the correction of typing errors."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._phrases: dict[str, list[tuple[tuple[str, ...], PhraseKind, str]]] = {}
        groups: tuple[tuple[PhraseKind, tuple[Term, ...]], ...] = (
            ("format", vocabulary.formats), ("engine", vocabulary.engines), ("gpu", vocabulary.gpus),
            ("transfer", vocabulary.transfer_backends), ("source", vocabulary.engine_sources), ("topic", vocabulary.topics),
        )  # fmt: skip
        for kind, terms in groups:
            for term in terms:
                self._add(kind, term.value, term.words)
        heads = {head for action in vocabulary.actions for head in action.heads}
        for head in sorted(heads):
            self._add("action", head, (head,))
        for name, phrases in _LANGUAGE.items():
            self._add(name, name, phrases)
        for dataset in vocabulary.datasets:
            self._add("dataset", dataset, (dataset,))
        for rows in self._phrases.values():
            rows.sort(key=lambda row: (-len(row[0]), row[1], row[2]))
        self.filler = frozenset(vocabulary.filler)
        self.known = frozenset(self._phrases) | self.filler | language.STOP_WORDS | language.NEGATIONS
        self._deletes = self._typing_errors()

    def _add(self, kind: PhraseKind, value: str, phrases: Iterable[str]) -> None:
        for phrase in phrases:
            words = tuple(phrase.replace("-", " ").split())
            self._phrases.setdefault(words[0], []).append((words, kind, value))

    def _typing_errors(self) -> dict[str, set[str]]:
        single = {
            w for w, rows in self._phrases.items() if any(len(r[0]) == 1 and r[1] in _CORRECTED for r in rows)
        }
        found: dict[str, set[str]] = {}
        for word in single:
            if _correctable(word):
                for shorter in _shortened(word):
                    found.setdefault(shorter, set()).add(word)
        return found

    def at(self, words: list[str], start: int, end: int) -> Iterator[tuple[PhraseKind, str, int]]:
        """The phrases that begin at a word, longest first: kind, value, number of words."""
        for phrase, kind, value in self._phrases.get(words[start], ()):
            if start + len(phrase) <= end and all(words[start + n] == part for n, part in enumerate(phrase)):
                yield kind, value, len(phrase)

    def corrected(self, word: str) -> str:
        """The known word that this one is one typing error away from; the word itself where there is not exactly one."""
        if word in self.known or len(word) > 24 or not _correctable(word):
            return word
        near = {
            w for shorter in _shortened(word) for w in self._deletes.get(shorter, ()) if _one_error(word, w)
        }
        return near.pop() if len(near) == 1 else word


@dataclass
class Reading:
    """State of one reading: which tokens have found a place and what was claimed. Extractors write to it in turn."""

    text: str
    vocabulary: Vocabulary
    lexicon: Lexicon
    tokens: list[Token]
    words: list[str]  # per token: lower case, typing errors corrected; "" for breaks
    clauses: list[range]
    clause_of: list[int]
    sentence_of: list[int]
    placed: list[bool]
    matches: dict[PhraseKind, list[Match]] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _negations: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, vocabulary: Vocabulary) -> Reading:
        """Tokens and phrases of a cleaned text."""
        lexicon = Lexicon(vocabulary)
        cues = (
            frozenset(
                w for action in vocabulary.actions if action.verb in _ABOUT_MODELS for w in action.heads
            )
            | _MODEL_CUES
        )

        def is_repo(organisation: str, name: str, before: str) -> bool:
            return _looks_like_repo(organisation, name, before, known=lexicon.known, cues=cues)

        tokens = tokens_of(text, is_repo=is_repo)
        words = [
            lexicon.corrected(t.low) if t.kind == "word" else "" if t.kind == "break" else t.low
            for t in tokens
        ]
        clauses = clauses_of(tokens)
        clause_of = [-1] * len(tokens)
        for number, clause in enumerate(clauses):
            for index in clause:
                clause_of[index] = number
        reading = cls(
            text=text, vocabulary=vocabulary, lexicon=lexicon, tokens=tokens, words=words, clauses=clauses, clause_of=clause_of,
            sentence_of=sentences_of(tokens), placed=[t.kind == "break" for t in tokens], _starts=[t.start for t in tokens],
        )  # fmt: skip
        reading._find_phrases()
        return reading

    def _find_phrases(self) -> None:
        for clause in self.clauses:
            until: dict[str, int] = {}
            for index in clause:
                if self.tokens[index].kind != "word":
                    continue
                for kind, value, length in self.lexicon.at(self.words, index, clause.stop):
                    if until.get(kind, -1) > index or self._is_list(index, index + length):
                        continue
                    until[kind] = index + length
                    self.matches.setdefault(kind, []).append(Match(kind, value, index, index + length))
        for match in self.found("negation"):
            for index in range(match.start, match.end):
                self._negations[index] = True

    def _is_list(self, start: int, end: int) -> bool:
        """`W4A16/NVFP4` are two formats, `W4A16-NVFP4` is one."""
        return any(self.tokens[n].joiner not in ("", "-", "_", ".") for n in range(start + 1, end))

    def found(self, kind: PhraseKind) -> list[Match]:
        """The phrases of a kind, in the order of the text."""
        return self.matches.get(kind, [])

    def clause(self, index: int) -> range:
        """The clause a token is in (only the token itself for a break)."""
        number = self.clause_of[index]
        return self.clauses[number] if number >= 0 else range(index, index + 1)

    def place(self, start: int, end: int | None = None) -> None:
        """Says that tokens have found a place."""
        for index in range(start, start + 1 if end is None else end):
            self.placed[index] = True

    def span_at(self, start: int, end: int) -> Span:
        """The tokens that characters `start` to `end` of the text touch."""
        first = max(bisect.bisect_right(self._starts, start) - 1, 0)
        while first < len(self.tokens) and self.tokens[first].end <= start:
            first += 1
        last = first
        while last < len(self.tokens) and self.tokens[last].start < end:
            last += 1
        return first, last

    def quote(self, start: int, end: int) -> str:
        """The words of a stretch of tokens on one line."""
        if start >= end:
            return ""
        words = " ".join(self.text[self.tokens[start].start : self.tokens[end - 1].end].split())
        return words if len(words) <= _QUOTE else words[: _QUOTE - 1] + "…"

    def claim(self, name: str, value: Json, start: int, end: int) -> None:
        """Records a claim read from a stretch of tokens and says that they have found a place."""
        self.place(start, end)
        locator = f"characters {self.tokens[start].start + 1}-{self.tokens[end - 1].end}"
        claim = Claim(name=name, value=value, words=self.quote(start, end), locator=locator)
        if not any(held.name == name and held.value == value for held in self.claims[-_SAME:]):
            self.claims.append(claim)

    def conflict(self, about: str, *, says: list[str], taken: str, start: int, end: int) -> None:
        """Records that the words contradict themselves, and what was taken."""
        self.claim("conflicts", {"about": about, "says": says, "taken": taken}, start, end)

    def negated(self, start: int) -> bool:
        """Whether what begins at a token is said not to be wanted ("don't ...", "instead of ...")."""
        clause = self.clause(start)
        for index in range(start - 1, max(clause.start, start - 1 - _NEGATION_REACH) - 1, -1):
            if self.words[index] in language.NEGATION_ENDS or self.tokens[index].kind not in ("word", "flag"):
                return False
            if self.is_negation(index):
                return self.words[min(index + 1, clause.stop - 1)] not in language.AFFIRMED
        return False

    def is_negation(self, index: int) -> bool:
        """Whether a token is a negation or part of one."""
        return self.words[index] in language.NEGATIONS or index in self._negations

    def within(
        self, index: int, words: frozenset[str] | Mapping[str, int], *, before: int, after: int
    ) -> bool:
        """Whether one of the words stands near a token, in the same clause."""
        clause = self.clause(index)
        near = range(max(clause.start, index - before), min(clause.stop, index + after + 1))
        return any(self.words[n] in words for n in near if n != index)

    def near(self, kind: PhraseKind, index: int, *, reach: int = 8) -> list[Match]:
        """The phrases of a kind that begin at most `reach` tokens away, in the same clause."""
        found = self.found(kind)
        clause = self.clause(index)
        first = bisect.bisect_left(found, max(clause.start, index - reach), key=lambda m: m.start)
        last = bisect.bisect_right(found, min(clause.stop - 1, index + reach), key=lambda m: m.start)
        return found[first:last]

    def nearest(self, kind: PhraseKind, index: int, *, before: int, after: int) -> Match | None:
        """The phrase of a kind nearest to a token, in the same clause: it ends or begins within the reach."""
        near = [
            m
            for m in self.near(kind, index, reach=before + 4)
            if -before - 1 <= m.end - 1 - index and m.start - index <= after
        ]
        return min(near, key=lambda m: abs(m.start - index), default=None)

    def unplaced(self) -> tuple[str, ...]:
        """The phrases that found no place, without the little words at their ends, each once."""
        phrases: dict[str, None] = {}
        for clause in self.clauses:
            run: list[int] = []
            for index in [*clause, -1]:
                if index >= 0 and not self.placed[index]:
                    run.append(index)
                    continue
                heavy = [n for n in run if not self.is_light(n)]
                if heavy:
                    phrases[self._whole_quote(heavy[0], heavy[-1] + 1)] = None
                run = []
        return tuple(phrases)

    def is_light(self, index: int) -> bool:
        """Whether a token says nothing by itself: a stop word, a word of the trade, a bare number of one digit."""
        if self.tokens[index].kind != "word":
            return False
        word = self.words[index]
        return (
            word in language.STOP_WORDS
            or word in self.lexicon.filler
            or self.is_negation(index)
            or (len(word) == 1)
        )

    def _whole_quote(self, start: int, end: int) -> str:
        return " ".join(self.text[self.tokens[start].start : self.tokens[end - 1].end].split())


_SAME: Final = 64  # claims looked back at for a repetition: keeps long texts linear
_CORRECTED: Final = frozenset({"format", "engine", "action", "transfer", "prefer", "must"})
_ABOUT_MODELS: Final = frozenset({"launch", "download", "benchmark"})
_MODEL_CUES: Final = frozenset({"model", "of", "checkpoint", "modell", "weights", ""})
_PLACE_CUES: Final = frozenset({"on", "auf", "host", "hosts", "ssh"})
_LANGUAGE: Final[dict[PhraseKind, tuple[str, ...]]] = {
    "negation": language.NEGATION_PHRASES,
    "hedge": language.HEDGES,
    "must": language.MUST,
    "prefer": language.PREFER,
    "here": language.HERE,
    "read_only": language.READ_ONLY,
}


def _looks_like_repo(
    organisation: str, name: str, before: str, *, known: frozenset[str], cues: frozenset[str]
) -> bool:
    """Tells `Qwen/Qwen3-32B` from `prefill/decode`, `GB/s`, `24/7` and `W4A16/NVFP4`."""
    if len(name) < 2 or not any(c.isalpha() for c in organisation) or not any(c.isalpha() for c in name):
        return False
    parts = [
        p
        for side in (organisation, name)
        for p in side.lower().replace("_", "-").replace(".", "-").split("-")
        if p
    ]
    if all(p in known or p.isdigit() or len(p) == 1 or _is_size(p) for p in parts):
        return False
    marked = any(c.isdigit() or c in "-._" for c in name) or (
        name != name.lower() != name.upper() and not name.isupper()
    )
    if before in _PLACE_CUES:
        return "-" in name or any(c.isupper() for c in name)
    return marked or before in cues


def _is_size(word: str) -> bool:
    return (
        word.rstrip("0123456789") in {"tp", "pp", "dp", "ep", "p", "d", "x"} or word.rstrip("xgbk").isdigit()
    )


def _correctable(word: str) -> bool:
    digits = any(c.isdigit() for c in word)
    return word.isalnum() and len(word) >= (_TYPO_FORMAT if digits else _TYPO_LETTERS)


def _shortened(word: str) -> set[str]:
    return {word} | {word[:n] + word[n + 1 :] for n in range(len(word))}


def _one_error(typed: str, meant: str) -> bool:
    """One letter left out, doubled, wrong, or two exchanged; never a digit, never the first letter."""
    if typed[0] != meant[0] or [c for c in typed if c.isdigit()] != [c for c in meant if c.isdigit()]:
        return False
    if len(typed) == len(meant):
        off = [n for n, (a, b) in enumerate(zip(typed, meant, strict=True)) if a != b]
        swapped = (
            len(off) == 2
            and off[1] == off[0] + 1
            and typed[off[0]] == meant[off[1]]
            and typed[off[1]] == meant[off[0]]
        )
        return swapped or (len(off) == 1 and any(c.isdigit() for c in meant))
    longer, shorter = (typed, meant) if len(typed) > len(meant) else (meant, typed)
    return len(longer) == len(shorter) + 1 and any(
        longer[:n] + longer[n + 1 :] == shorter for n in range(len(longer))
    )
