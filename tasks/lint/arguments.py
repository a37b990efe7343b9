"""The arguments of a launch line against the flags of one release, read the way argparse reads them.

argparse takes a flag's unambiguous beginning for the flag, `--flag=value` and `--flag value`, and every word that begins
with a dash and is no negative number for a flag.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from recon.tasks.knowledge.flag_table import FlagTable, Span, version_key
from recon.tasks.lint.notes import Note, error, warning
from recon.tasks.lint.renames import OTHER_ENGINES, RENAMED

_NEGATIVE: Final = re.compile(r"^-\d+$|^-\d*\.\d+$")
_OPEN: Final = re.compile(r"[$<>{}%]|^@")  # a variable or a place-holder: its value is not known here
_COMMON: Final = frozenset({"--tp", "--dp", "--ep", "--pp"})  # the documentation writes these itself
_SIZE: Final = re.compile(r"^\s*(\d+|\d+(\.\d+)?[kMGT]|\d+[KMGT]i)\s*$")


def _size(word: str) -> None:
    if _SIZE.match(word) is None:
        raise ValueError(word)


# kind of word -> (reader that raises ValueError, what people call it)
_READERS: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "size": (_size, "a whole number, also as 1k, 1M, 1Ki or 1Mi"),
    "json": (json.loads, "JSON"),
}


@dataclass
class Given:
    """What a line sets. `values`: words by the flag's own name (the last one wins, as in argparse); `at`: the argument."""

    values: dict[str, list[str]] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def one(self, name: str) -> str | None:
        """The word given to a flag; None where it is not given, or not known here."""
        words = self.values.get(name)
        return words[0] if words and not opaque(words[0]) else None

    def number(self, name: str) -> float | None:
        """The number given to a flag."""
        word = self.one(name)
        try:
            return None if word is None else float(word)
        except ValueError:
            return None

    def has(self, *names: str) -> bool:
        """Whether any of the flags is given."""
        return any(name in self.values for name in names)


def opaque(word: str) -> bool:
    """Whether a word stands for a value that is filled in later."""
    return _OPEN.search(word) is not None and not word.startswith(("{", "["))


def read(arguments: Sequence[str], table: FlagTable, release: str) -> Given:
    """Reads the arguments of a server by the flags of a release of the table."""
    options = table.options(release)
    given = Given()
    if "--help" in arguments or "-h" in arguments:
        return given  # prints its help and ends
    i = 0
    while i < len(arguments):
        word = arguments[i]
        if word == "--" or not _is_flag(word):
            if word != "--":
                given.notes.append(error("extra", f"{word!r} belongs to no flag", i))
            i += 1
            continue
        name, equals, inline = word.partition("=")
        span, notes = _find(name, i, options, table, release)
        given.notes += notes
        values = _taken(arguments, i + 1) if not equals else [inline]
        if span is None:
            i += 1 + (0 if equals else len(values))
            continue
        used = _used(span, values, inline=bool(equals))
        given.notes += _check(span, name, values[:used], i, table, inline=bool(equals))
        known_as = table.canonical(span)
        given.values[known_as] = values[:used]
        given.at[known_as] = i
        i += 1 + (0 if equals else used)
    given.notes += _required(options, given, table)
    return given


def _is_flag(word: str) -> bool:
    return (
        word.startswith("-")
        and len(word) > 1
        and not _NEGATIVE.match(word)
        and " " not in word.partition("=")[0]
    )


def _taken(arguments: Sequence[str], begin: int) -> list[str]:
    """The words up to the next flag."""
    end = begin
    while end < len(arguments) and not _is_flag(arguments[end]) and arguments[end] != "--":
        end += 1
    return list(arguments[begin:end])


def _used(span: Span, values: Sequence[str], *, inline: bool) -> int:
    """How many of the words that follow belong to the flag."""
    if inline:
        return 1
    limit = {0: 0, 1: 1, "?": 1}.get(span.nargs, span.nargs if isinstance(span.nargs, int) else len(values))
    return min(int(limit), len(values))


# ---- which flag


def _find(
    name: str, at: int, options: Mapping[str, Span], table: FlagTable, release: str
) -> tuple[Span | None, list[Note]]:
    span = options.get(name)
    if span is not None:
        return span, list(_deprecated(span, name, at))
    candidates = sorted(o for o in options if o.startswith(name)) if name.startswith("--") else []
    spans = {id(options[o]): options[o] for o in candidates}
    if len(spans) == 1:
        full = min(candidates, key=len)
        note = warning(
            "abbreviated", f"{name} is taken for {full}; another release may not", at, instead=full
        )
        said = [] if name in _COMMON else [note]
        return options[full], [*said, *_deprecated(options[full], name, at)]
    if spans:
        shown = ", ".join(candidates[:6])
        return None, [
            error("ambiguous", f"{name} could be {shown}", at, instead=_best(name, candidates, table))
        ]
    return None, [_unknown(name, at, options, table, release)]


def _best(name: str, candidates: Sequence[str], table: FlagTable) -> str:
    """What an older release's own warning names for a flag that was split, where it is one of the candidates."""
    used = [s.use for s in table.history(name) if s.use]
    return used[-1] if used and used[-1] in candidates else ""


def _deprecated(span: Span, name: str, at: int) -> Iterator[Note]:
    if span.refused:
        yield error("refused", f"{name}: {span.refused}", at, instead=_replacement(name))
    elif span.deprecated:
        instead = span.use or _replacement(name)
        says = f"; use {instead}" if instead else ""
        yield warning("deprecated", f"{name} is deprecated since {span.first}{says}", at, instead=instead)


def _replacement(name: str) -> str:
    return RENAMED.get(name, "")


def _unknown(name: str, at: int, options: Mapping[str, Span], table: FlagTable, release: str) -> Note:
    spans = table.history(name)
    if spans and table.releases.index(spans[0].first) > table.releases.index(release):
        return error("too-new", f"{name} came with {spans[0].first}; this is {release}", at)
    if spans:
        use = RENAMED.get(name) or next((s.use for s in reversed(spans) if s.use), "")
        use = use if use.partition("=")[0] in options or "{" in use or not use.startswith("--") else ""
        after = table.releases[table.releases.index(spans[-1].last) + 1]
        says = f"; use {use}" if use else ""
        return error("removed", f"{name} was removed with {after}{says}", at, instead=use)
    if name in OTHER_ENGINES:
        engine, use = OTHER_ENGINES[name]
        return error("other-engine", f"{name} is a flag of {engine}; here: {use}", at, instead=use)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.75)
    hint = f"; did you mean {close[0]}?" if close else ""
    return error(
        "unknown", f"no release that was read has {name}{hint}", at, instead=close[0] if close else ""
    )


# ---- which values


def _check(
    span: Span, name: str, values: Sequence[str], at: int, table: FlagTable, *, inline: bool
) -> Iterator[Note]:
    if span.nargs == 0:
        if inline:
            yield error("value", f"{name} takes no value", at, instead=name)
        return
    if not values and span.nargs in (1, "+"):
        yield error("value", f"{name} needs a value", at)
    for k, value in enumerate(values):
        where = at if inline else at + 1 + k
        if not opaque(value):
            yield from _check_value(span, name, value, where, table)


def _check_value(span: Span, name: str, value: str, at: int, table: FlagTable) -> Iterator[Note]:
    reader = _READERS.get(span.type)
    if reader is not None:
        read_word, kind = reader
        try:
            read_word(value)
        except (ValueError, RecursionError):
            yield error("type", f"{name} takes {kind}, not {value!r}", at)
            return
    if span.choices is not None and value not in span.choices:
        for other in table.history(span.name):
            if value in (other.choices or ()):
                when = (
                    f"came with {other.first}"
                    if version_key(other.first) > version_key(span.last)
                    else f"went after {other.last}"
                )
                yield error("choice-release", f"{name} {value}: this choice {when}", at)
                return
        begun = sorted(c for c in span.choices if value and c.startswith(value))
        close = begun[:1] or difflib.get_close_matches(value, span.choices, n=1, cutoff=0.6)
        hint = f"; did you mean {close[0]}?" if close else ""
        shown = ", ".join(c for c in span.choices if c != "None")
        yield error(
            "choice",
            f"{name} has no {value!r}{hint} (choices: {shown})",
            at,
            instead=close[0] if close else "",
        )


def _required(options: Mapping[str, Span], given: Given, table: FlagTable) -> Iterator[Note]:
    if given.has("--config"):  # the file may say the rest
        return
    for name, span in sorted(options.items()):
        if span.required and name == span.name and table.canonical(span) not in given.values:
            yield error("required", f"{name} is missing")
