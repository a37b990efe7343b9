"""The server flags of SGLang by release: which there are, what values they take, what replaces them.

The table beside this file is written by `scripts/regenerate_knowledge.py` from the syntax trees of released wheels. Standard
library only: `recon lint` reads it at every start.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

SOURCE: Final = "argument definitions of the released sglang wheels, read without importing them"


@dataclass(frozen=True, slots=True)
class Span:
    """How a flag was declared from one release to another, both included.

    `nargs`: values it takes: 0, 1, "+" (one or more), "*" or "?"; `type`: str, int, float or any; `choices` None where every
    word of the type will do; `use`: what its own warning names instead; `refused`: the words it stops the launch with.
    """

    name: str
    first: str
    last: str
    nargs: int | str = 1
    type: str = "str"
    choices: tuple[str, ...] | None = None
    aliases: tuple[str, ...] = ()
    negated: tuple[str, ...] = ()
    deprecated: bool = False
    use: str = ""
    refused: str = ""
    required: bool = False
    default: Any = None

    @property
    def options(self) -> tuple[str, ...]:
        """Every way to write it."""
        return (self.name, *self.aliases, *self.negated)


class FlagTable:
    """All releases that were read, oldest first."""

    def __init__(self, releases: tuple[str, ...], spans: dict[str, tuple[Span, ...]]) -> None:
        self.releases = releases
        self._spans = spans
        self._by_option: dict[str, list[Span]] = {}
        for rows in spans.values():
            for span in rows:
                for option in span.options:
                    self._by_option.setdefault(option, []).append(span)

    @property
    def newest(self) -> str:
        """The newest release that was read."""
        return self.releases[-1]

    def release_for(self, version: str) -> str | None:
        """The release whose flags a version has: itself, its post release, or the last one before it; None for one older
        than the table or no version number."""
        key = version_key(version)[:3]
        if len(key) < 2:
            return None
        return next((r for r in reversed(self.releases) if version_key(r)[:3] <= key), None)

    def options(self, release: str) -> dict[str, Span]:
        """Every spelling of every flag of a release of the table."""
        return {
            option: span
            for option, spans in self._by_option.items()
            for span in spans
            if self.holds(span, release)
        }

    def canonical(self, span: Span) -> str:
        """The name that the newest release with any of its spellings gives a flag: names moved between aliases."""
        rows = [row for option in span.options for row in self._by_option[option]]
        return max(rows, key=lambda row: version_key(row.last)).name

    def holds(self, span: Span, release: str) -> bool:
        """Whether a span covers a release of the table."""
        return version_key(span.first) <= version_key(release) <= version_key(span.last)

    def history(self, option: str) -> tuple[Span, ...]:
        """The declarations of a spelling in all releases, oldest first; empty for one that no release has."""
        return tuple(sorted(self._by_option.get(option, ()), key=lambda s: version_key(s.first)))


def version_key(version: str) -> tuple[int, ...]:
    """A key that sorts releases: 0.5.9 < 0.5.10.post1. Local parts (`+cu130`) and words do not count."""
    return tuple(int(n) for n in re.findall(r"\d{1,6}", version.partition("+")[0])[:5])


def flag_table() -> FlagTable:
    """The server's flags."""
    return _table("sglang_flags.json")


def router_table() -> FlagTable:
    """The router's flags, whose releases are numbered on their own."""
    return _table("sglang_router_flags.json")


@cache
def _table(name: str) -> FlagTable:
    data = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    spans = {name: tuple(_span(name, row) for row in rows) for name, rows in data["flags"].items()}
    return FlagTable(tuple(data["releases"]), spans)


def _span(name: str, row: dict[str, Any]) -> Span:
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return Span(name=name, first=given.pop("from"), last=given.pop("to"), **given)
