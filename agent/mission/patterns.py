"""Regular expressions from a mission file, bounded: how much work one may make is known before it is tried.

Python's matcher goes back and tries again; a bad pattern takes longer than anybody waits. So the language is cut down (no
repeats inside repeats, no look-around, no back-references) and what is left has a price. A repeat whose characters the next
part cannot match has one length only and costs nothing extra; `n` others, on a line of `L` characters, cost at most about
`branches * L^(n+2) / (n+1)!` steps. A text that would cost more than the budget is refused before it is tried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from recon.agent.model.errors import UsageError

LONGEST_PATTERN: Final = 300  # characters
MOST_REPEATS: Final = 4  # whose length is open
MOST_BRANCHES: Final = 1024
MOST_COUNTED: Final = 100  # the largest number inside {m,n}
# Steps over a whole text. The matcher does some 10^8 a second, so this is a few seconds at worst.
BUDGET: Final = 100_000_000

_COUNTS: Final = re.compile(r"\{(\d{1,4})?(,)?(\d{1,4})?\}")
_SAMPLES: Final = (
    "".join(map(chr, range(128))) + "\u00e9"
)  # with re.ASCII all others behave like the last one


@dataclass(frozen=True)
class BoundedPattern:
    """A compiled pattern with named groups, tried line by line, and what makes it expensive."""

    compiled: re.Pattern[str]
    repeats: int  # those whose length is open
    branches: int
    anchored: bool

    def cost(self, length: int) -> int:
        """At most so many steps on a line of this many characters."""
        power = self.repeats + (1 if self.anchored else 2)
        return int(self.branches * (length + 1) ** power // math.factorial(self.repeats + 1))

    def matches(self, text: str) -> Iterator[tuple[int, dict[str, str]]]:
        """(line number from 1, named groups) of every line that matches, the first match of each.

        Raises UsageError before the line on which the whole text would cost more than the budget.
        """
        spent = 0
        for number, line in enumerate(text.splitlines(), start=1):
            spent += self.cost(len(line))
            if spent > BUDGET:
                raise UsageError(
                    f"line {number} ({len(line)} characters) is too much for a pattern with {self.repeats} open repeats",
                    hint="begin it with ^, let what follows a repeat differ from it, or let the command print less",
                )
            if found := self.compiled.search(line):
                yield number, {name: value or "" for name, value in found.groupdict().items()}


@lru_cache(maxsize=256)
def bounded_pattern(text: str) -> BoundedPattern:
    """Reads a pattern. Raises UsageError naming what is not allowed and at which character."""
    if len(text) > LONGEST_PATTERN:
        raise UsageError(f"longer than {LONGEST_PATTERN} characters", hint="a simpler pattern, line by line")
    scan = _Scan(text)
    scan.run()
    try:
        compiled = re.compile(text, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"not a regular expression: {error}", hint="see the re module of Python") from None
    if not compiled.groupindex:
        raise UsageError("it has no named group", hint="name what is to be read: (?P<name>...)")
    if compiled.groups != len(compiled.groupindex):
        raise UsageError("a group without a name", hint="write (?:...) or (?P<name>...)")
    repeats = scan.open_repeats()
    if repeats > MOST_REPEATS:
        raise UsageError(
            f"{repeats} repeats of open length, at most {MOST_REPEATS} are allowed",
            hint="let what follows a repeat differ from it, like \\S+ and then a space",
        )
    return BoundedPattern(compiled, repeats, scan.branches, text.startswith("^") and not scan.chooses)


class _Item(NamedTuple):
    """A part of the pattern in reading order. `chars` None: a place where what follows is not one thing."""

    chars: frozenset[str] | None
    low: int = 1
    varies: bool = False


_BREAK: Final = _Item(None)


class _Scan:
    """Walks a pattern once from left to right (stateful: place, open groups, what was seen)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.branches = 1
        self.chooses = False  # alternatives outside of every group
        self._items: list[_Item] = []
        self._open: list[
            tuple[int, int, bool]
        ] = []  # open groups: first item, alternatives and choices around them
        self._alternatives = 1
        self._choices = False
        self._last: tuple[int, bool] | None = (
            None  # what a repeat would be about: its first item, whether it is complex
        )

    def run(self) -> None:
        """Raises UsageError for what is not part of the language."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "(":
                self._group()
            elif char == ")":
                self._close()
            elif char == "|":
                self._alternatives += 1
                self.chooses = self.chooses or not self._open
                self._items.append(_BREAK)
                self._last = None
                self.at += 1
            elif char in "*+?" or (char == "{" and _COUNTS.match(self.text, self.at)):
                self._repeat()
            else:
                self._atom(char)
        if self._open:
            raise self._refuse("a ( without its )")
        self._branch(self._alternatives)

    def open_repeats(self) -> int:
        """How many repeats may end at several places: what follows them can match what they match."""
        return sum(item.varies and not self._determined(n) for n, item in enumerate(self._items))

    def _determined(self, index: int) -> bool:
        mine = self._items[index].chars
        for item in self._items[index + 1 :]:
            if item.chars is None or mine is None or item.chars & mine:
                return False
            if item.low:
                return True
        return True  # nothing follows that could fail

    def _group(self) -> None:
        if self.text.startswith("(?P<", self.at):
            self.at = self.text.find(">", self.at) + 1 or len(self.text)
        elif self.text.startswith("(?:", self.at):
            self.at += 3
        elif self.text.startswith("(?", self.at):
            raise self._refuse(
                f"{self.text[self.at : self.at + 4]} is not allowed: only (?:...) and (?P<name>...)"
            )
        else:
            self.at += 1
        self._open.append((len(self._items), self._alternatives, self._choices))
        self._alternatives, self._choices, self._last = 1, False, None

    def _close(self) -> None:
        if not self._open:
            raise self._refuse("a ) without its (")
        self._branch(self._alternatives)
        first, around, choices = self._open.pop()
        complex_group = self._choices or self._alternatives > 1
        if self._alternatives > 1:
            self._fence(first)
        self._alternatives, self._choices = around, choices or complex_group
        self._last = (first, complex_group)
        self.at += 1

    def _fence(self, first: int) -> None:
        """Marks both ends of a group: what stands before or behind it has no single successor."""
        self._items.insert(first, _BREAK)
        self._items.append(_BREAK)

    def _repeat(self) -> None:
        """One of * + ? {m,n}, and what it costs."""
        begin, char = self.at, self.text[self.at]
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char, (0, None))
        if char == "{":
            low, high = self._counted()
        else:
            self.at += 1
        if self._last is None:
            raise self._refuse("a repeat of nothing", place=begin)
        first, complex_atom = self._last
        if complex_atom and high != 1:
            raise self._refuse("a repeat around something that repeats or chooses", place=begin)
        if self.text[self.at : self.at + 1] == "?":
            self.at += 1  # as few as possible: the same work
        elif self.text[self.at : self.at + 1] in ("+", "*"):
            raise self._refuse("two repeats in a row", place=self.at)
        self._last = (first, True)
        single = first == len(self._items) - 1 and self._items[first].chars is not None
        if single and self.text[begin - 1] != ")":
            self._items[first] = self._items[first]._replace(low=min(low, 1), varies=low != high)
        else:
            self._fence(first)
        if low != high:
            self._choices = True
            if not single or self.text[begin - 1] == ")":
                self._branch((high or MOST_COUNTED) - low + 1)

    def _counted(self) -> tuple[int, int | None]:
        match = _COUNTS.match(self.text, self.at)
        assert match is not None
        begin, self.at = self.at, match.end()
        low = int(match[1] or 0)
        high = int(match[3]) if match[3] else None if match[2] else low
        if max(low, high or 0) > MOST_COUNTED:
            raise self._refuse(f"more than {MOST_COUNTED} times", place=begin)
        return low, high

    def _atom(self, char: str) -> None:
        begin = self.at
        if char == "\\":
            if self.text[self.at + 1 : self.at + 2].isdigit():
                raise self._refuse("a back-reference")
            self.at += 2
        elif char == "[":
            self._set()
        else:
            self.at += 1
        written = self.text[begin : self.at]
        if written in ("^", "$", "\\b", "\\B", "\\A", "\\Z"):
            self._last = None  # a place, not a character
            return
        try:
            one = re.compile(written, re.ASCII)
        except re.error as error:
            raise self._refuse(f"not a regular expression: {error.msg}", place=begin) from None
        self._items.append(_Item(frozenset(c for c in _SAMPLES if one.fullmatch(c))))
        self._last = (len(self._items) - 1, False)

    def _set(self) -> None:
        begin, self.at = self.at, self.at + 1
        if self.text[self.at : self.at + 1] == "^":
            self.at += 1
        first = True
        while self.at < len(self.text) and (first or self.text[self.at] != "]"):
            self.at += 2 if self.text[self.at] == "\\" else 1
            first = False
        if self.at >= len(self.text):
            raise self._refuse("a [ without its ]", place=begin)
        self.at += 1

    def _branch(self, ways: int) -> None:
        self.branches *= ways
        if self.branches > MOST_BRANCHES:
            raise self._refuse(f"more than {MOST_BRANCHES} ways to choose")

    def _refuse(self, why: str, *, place: int | None = None) -> UsageError:
        at = min(self.at if place is None else place, max(len(self.text) - 1, 0))
        return UsageError(f"{why} (character {at + 1})", hint="a simpler pattern, line by line")
