"""A documentation page: its title, headings, command-line flags, tables, and the KV transfer backends it speaks of.

The page is outside text: it is read as claims, its markup is dropped and nothing in it is followed or run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import plain_text, unknown

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

NAMES: Final = ("title", "headings", "flags", "backends")
# How a page may spell a backend -> how people write it.
_BACKENDS: Final = (("mooncake", "Mooncake"), ("nixl", "NIXL"), ("mori", "MoRI"), ("ascend", "Ascend"))
_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?![\w])")
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+\b")
_LONGEST: Final = 200
_MOST: Final = 200


def parse_page(raw: Raw) -> Sequence[Draft]:
    """`title`, `headings`, `flags`, `backends`, `tables`, `commands`, `variables`; all at level claimed."""
    if raw.state != "ok":
        status = f"HTTP status {raw.exit_code}" if raw.exit_code else raw.state
        return unknown(NAMES, f"the page was not read: {raw.reason or status}")
    from bs4 import BeautifulSoup

    page = BeautifulSoup(raw.stdout, "html.parser")
    for tag in page(["script", "style", "noscript", "template"]):
        tag.decompose()
    text = _short(page.get_text(" "), limit=1 << 20)
    if not text:
        return unknown(NAMES, "the page holds no text (it may be built by a script)")
    return [_claim(name, value) for name, value in _values(page, text).items()]


def _values(page: BeautifulSoup, text: str) -> dict[str, Json]:
    main = page.find("h1") or page.find("title")
    return {
        "title": _short(main.get_text(" ")) if main else text[:80],
        "headings": _texts(page.find_all(["h1", "h2", "h3", "h4"])),
        "flags": sorted(set(_FLAG.findall(text)))[:_MOST],
        "backends": [shown for word, shown in _BACKENDS if re.search(rf"\b{word}\b", text, re.IGNORECASE)],
        "tables": [_table(table) for table in page.find_all("table")[:20]],
        "commands": _texts(page.find_all("pre"), limit=2000),
        "variables": sorted(set(_VARIABLE.findall(text)))[:_MOST],
    }


def _table(table: Tag) -> dict[str, Json]:
    rows = [
        [_short(cell.get_text(" ")) for cell in row.find_all(["th", "td"])]
        for row in table.find_all("tr")[:100]
    ]
    rows = [row for row in rows if row]
    return {"header": rows[0] if rows else [], "rows": rows[1:]}


def _texts(tags: Iterable[Tag], *, limit: int = _LONGEST) -> list[str]:
    found = [_short(tag.get_text(" "), limit=limit) for tag in tags]
    return [text for text in found if text][:_MOST]


def _short(text: str, *, limit: int = _LONGEST) -> str:
    return " ".join(plain_text(text.encode("utf-8", errors="replace")).split())[:limit]


def _claim(name: str, value: Json) -> Draft:
    return Draft(name=name, value=value, level="claimed", locator=name)


PAGE: Final = Fact("docs.page", parse_page)
