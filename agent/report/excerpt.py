"""The part of the evidence a finding was read from, found by its locator. Pure; the bytes were redacted before."""

from __future__ import annotations

import json
import re
from typing import Final

from recon.agent.model.base import Json
from recon.agent.report.clean import clean_lines, cut

CONTEXT: Final = 2  # lines before and after
_LINE: Final = re.compile(r"^(?:stdout )?lines? (\d+)(?:\s*[-–]\s*(\d+))?\b", re.IGNORECASE)
_PATTERN_SIGNS: Final = re.compile(r"\\\*|\\\{[^}]*\\\}|<[^<>]*>")
_WIDTH: Final = 200  # characters of one line of an excerpt
_PARSED: Final = 64 << 20  # bytes of JSON that are parsed to follow a pointer


def excerpt(body: bytes, locator: str, *, lines: int = 12) -> list[str]:
    """A few lines of the evidence around the locator, numbered where it is text; the beginning where it is not found.

    A locator is a line number (`line 12`), a JSON pointer (`/quantization_config/format`, `#` in front allowed), a
    name with `*` for a part that varies, or a piece of the text.
    """
    if not body:
        return ["(no bytes: the answer was empty)"]
    text = body.decode("utf-8", errors="replace")
    if (pointed := _pointer(text, locator, size=len(body))) is not None:
        return pointed[:lines]
    rows = text.split("\n")
    if len(rows) <= 2 and len(text) > 4 * _WIDTH:
        return _around(text, locator)
    at = _row(rows, locator)
    first = max(at - CONTEXT, 0)
    shown = rows[first : first + lines]
    return [
        cut(f"{first + n + 1:>5} | {line}", _WIDTH)
        for n, raw in enumerate(shown)
        for line in clean_lines(raw)[:1]
    ]


def _pointer(text: str, locator: str, *, size: int) -> list[str] | None:
    pointer = locator.split(" ")[0].lstrip("#")
    if not pointer.startswith("/") or size > _PARSED or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for part in pointer[1:].split("/"):
        step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return _json_lines(pointer, value)


def _json_lines(pointer: str, value: Json) -> list[str]:
    lines = clean_lines(json.dumps(value, indent=2, ensure_ascii=False), lines=40)
    return [cut(f"{pointer}: {lines[0]}", _WIDTH), *(cut(line, _WIDTH) for line in lines[1:])]


def _row(rows: list[str], locator: str) -> int:
    if (match := _LINE.match(locator)) is not None:
        return min(max(int(match[1]) - 1, 0), len(rows) - 1)
    if locator:
        wanted = _matcher(locator)
        return next((n for n, row in enumerate(rows) if wanted.search(row)), 0)
    return 0


def _around(text: str, locator: str) -> list[str]:
    """Evidence that is one long line (JSON as servers send it): the piece around the first match."""
    match = _matcher(locator).search(text) if locator else None
    at = match.start() if match else 0
    piece = text[max(at - _WIDTH // 2, 0) : at + 2 * _WIDTH]
    where = f"characters {max(at - _WIDTH // 2, 0)}-{at + 2 * _WIDTH} of {len(text)}"
    flat = clean_lines(piece, limit=4 * _WIDTH)
    return [f"({where})", *(flat[0][n : n + 100] for n in range(0, len(flat[0]), 100))] if flat else []


def _matcher(locator: str) -> re.Pattern[str]:
    """The locator as a pattern: `*`, `{...}` and `<...>` stand for one name or number."""
    return re.compile(_PATTERN_SIGNS.sub(r"[^\\s\"]{0,80}", re.escape(locator[:300])))
