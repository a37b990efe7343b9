"""Outside text made safe to show: one place, used for every string that people did not type themselves.

Cards, pages, command output and repository names may hold terminal escapes, bidirectional controls or markup. What
comes out of here holds printable characters only. Markup is never interpreted anywhere: writers print plain text.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# CSI and OSC sequences whole, so that their parameters do not stay behind as text; both 7-bit and 8-bit openers.
_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)?|\x1b[@-Z\\-_]?"
)
_SPACES: Final = re.compile(r"\s+")
# Cc control, Cf format (bidi, zero width, soft hyphen), Cs surrogate, Co private use, Zl/Zp line separators.
_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

_COMMIT: Final = re.compile(r"@[0-9a-f]{40}\b")

LIMIT: Final = 2000  # characters of one outside string on one line; more is cut with an ellipsis


def clean(text: object, *, limit: int = LIMIT) -> str:
    """One line of printable text: escapes and invisible controls removed, runs of white space one space, capped."""
    raw = str(text)[: 8 * limit]
    flat = _SPACES.sub(" ", _without_controls(raw, keep="\t\n\r\v\f\u2028\u2029\x85")).strip()
    return cut(flat, limit)


def clean_lines(text: object, *, limit: int = 400, lines: int = 2000) -> list[str]:
    """Several lines of printable text, line breaks kept, tabs as four spaces, each line and their number capped."""
    raw = str(text)[: 8 * limit * max(lines, 1)]
    rows = raw.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    kept = [cut(_without_controls(row.expandtabs(4), keep="").rstrip(), limit) for row in rows[:lines]]
    if len(rows) > lines:
        kept.append(f"… {len(rows) - lines} more lines")
    return kept


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, with an ellipsis where something was left out."""
    if columns(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        used += _width(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def columns(text: str) -> int:
    """How many terminal columns a line takes: wide characters count two, combining marks none."""
    return len(text) if text.isascii() else sum(_width(character) for character in text)


def subject_text(subject: str) -> str:
    """A subject with its commit shortened to twelve digits, for where the whole one would only fill the line."""
    return _COMMIT.sub(lambda match: match[0][:13], clean(subject))


def wrap(text: str, width: int, *, first: str = "", rest: str | None = None) -> list[str]:
    """The text in lines of at most `width` columns; `first` opens the first line, `rest` (default: spaces) the others.

    Words longer than a line are broken: nothing ever runs over the edge.
    """
    rest = " " * columns(first) if rest is None else rest
    lines: list[str] = []
    line, empty = first, True
    for word in text.split(" "):
        while word:
            room = width - columns(line) - (0 if empty else 1)
            if columns(word) <= room:
                line, empty, word = line + ("" if empty else " ") + word, False, ""
            elif empty:  # a word wider than a whole line
                head = _head(word, max(room, 1))
                lines.append(line + head)
                line, word = rest, word[len(head) :]
            else:
                lines.append(line)
                line, empty = rest, True
    if not empty or not lines:
        lines.append(line)
    return [entry.rstrip() for entry in lines]


def _head(word: str, width: int) -> str:
    used = 0
    for index, character in enumerate(word):
        used += _width(character)
        if used > width and index:
            return word[:index]
    return word


def _without_controls(text: str, *, keep: str) -> str:
    plain = text.isascii() and text.isprintable()
    if plain:
        return text
    bare = _ESCAPES.sub("", text)
    return "".join(c for c in bare if c in keep or unicodedata.category(c) not in _UNSAFE)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
