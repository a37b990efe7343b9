"""A model card's Markdown as plain sentences and tables: what a reader would see, with the line and the date of each.

Cards are outside text: length, lines and nesting are bounded, HTML comments are dropped (a reader does not see them),
tags are stripped, control characters removed. Nothing is rendered or evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from markdown_it.token import Token

Kind = Literal["prose", "heading", "row", "code"]

DATE: Final = re.compile(r"\b(20\d\d-[01]\d-[0-3]\d)\b")
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]{0,1000}>")
_END: Final = re.compile(r"(?<=[.!;])\s+(?=[A-Z`*(])")
_MAX_LINES: Final = 4000
_MAX_LINE: Final = 2000
_MAX_BODY: Final = 200_000  # characters: what a parser of nested marks reads in about two seconds at worst


def clean_line(text: str) -> str:
    """Outside text as one line without control characters and terminal sequences, at most 300 characters."""
    flat = "".join(c if c.isprintable() else " " for c in _ANSI.sub("", text[:2000]))
    return " ".join(flat.split())[:300]


@dataclass(frozen=True)
class Sentence:
    """One sentence, table row or line of code: cleaned text, the date that holds for it ("" for none), its line."""

    text: str
    date: str
    line: int
    kind: Kind = "prose"
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """One table: the cells of its head, and (line, cells) of each row, all cleaned."""

    head: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    date: str = ""


@dataclass
class CardText:
    """What a card's body says, in its order."""

    sentences: list[Sentence] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    title: str = ""  # the first heading


def read_body(body: str, *, offset: int = 0) -> CardText:
    """The sentences and tables of a Markdown body whose first line is line `offset` + 1 of its file."""
    return _Reader(offset).read(_bounded(body))


def _bounded(body: str) -> str:
    lines = body[:_MAX_BODY].replace("\x00", " ").splitlines()[:_MAX_LINES]
    return "\n".join(line[:_MAX_LINE] for line in lines)


class _Reader:
    """Walks the tokens of one body (stateful: the heading's date goes on to what stands under it)."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._date = ""
        self._found = CardText()

    def read(self, body: str) -> CardText:
        from markdown_it import MarkdownIt

        tokens = MarkdownIt("commonmark").enable("table").parse(body)
        at = 0
        while at < len(tokens):
            at = self._block(tokens, at)
        return self._found

    def _block(self, tokens: Sequence[Token], at: int) -> int:
        """Reads one block and says where the next one begins."""
        token = tokens[at]
        line = self._line(token)
        if token.type == "heading_open":
            self._heading(_inline(tokens[at + 1]), line)
            return at + 3
        if token.type == "table_open":
            return self._table(tokens, at)
        if token.type == "inline":
            text, links = _inline(token)
            self._say(text, line, "prose", links)
        elif token.type in ("fence", "code_block"):
            first = line + (token.type == "fence")
            for number, code in enumerate(token.content.splitlines()):
                self._one(code, first + number, "code", code)
        elif token.type == "html_block":
            self._say(_stripped(token.content), line, "prose", ())
        return at + 1

    def _line(self, token: Token) -> int:
        return self._offset + (token.map[0] if token.map else 0) + 1

    def _heading(self, inline: tuple[str, tuple[str, ...]], line: int) -> None:
        text, links = inline
        dates = DATE.findall(text)
        self._date = dates[-1] if dates else ""
        if not self._found.title:
            self._found.title = clean_line(text)
        self._say(text, line, "heading", links)

    def _say(self, text: str, line: int, kind: Kind, links: tuple[str, ...]) -> None:
        """The sentences of a block. A sentence may run over a line's end; its date is looked for in its own line."""
        lines = text.split("\n")
        before = 0
        at = 0
        for part in _END.split(text):
            start = text.find(part, at)
            at = start + len(part)
            before = text.count("\n", 0, start + len(part) - len(part.lstrip()))
            self._one(part, line + before, kind, lines[min(before, len(lines) - 1)], links)

    def _one(self, part: str, line: int, kind: Kind, around: str, links: tuple[str, ...] = ()) -> None:
        text = clean_line(part)
        if text:
            own, near = DATE.findall(part), DATE.findall(around)
            date = own[-1] if own else near[-1] if near else self._date
            self._found.sentences.append(Sentence(text, date, line, kind, links))

    def _table(self, tokens: Sequence[Token], at: int) -> int:
        rows: list[tuple[int, list[str]]] = []
        links: list[str] = []
        while at < len(tokens) and tokens[at].type != "table_close":
            token = tokens[at]
            if token.type == "tr_open":
                rows.append((self._line(token), []))
            elif token.type == "inline" and rows:
                text, more = _inline(token)
                rows[-1][1].append(clean_line(text))
                links += more
            at += 1
        for line, cells in rows:
            text = ": ".join(cell for cell in cells if cell)
            for part in _END.split(text):
                self._one(part, line, "row", text, tuple(links[:20]))
        if rows:
            head, *rest = rows
            found = Table(tuple(head[1]), tuple((n, tuple(cells)) for n, cells in rest), self._date)
            self._found.tables.append(found)
        return at + 1


def _inline(token: Token) -> tuple[str, tuple[str, ...]]:
    """(text without marks, addresses it links to) of one inline token."""
    words: list[str] = []
    links: list[str] = []
    for child in _leaves(token):
        if child.type in ("text", "code_inline"):
            words.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            words.append("\n")
        elif child.type == "html_inline":
            words.append(_stripped(child.content) or " ")
        elif child.type == "link_open":
            links.append(str(child.attrGet("href") or "")[:300])
    return "".join(words), tuple(links[:20])


def _leaves(token: Token) -> Iterator[Token]:
    yield from token.children or ()


def _stripped(html: str) -> str:
    """HTML without its comments and tags. A comment that is not closed runs to the end."""
    kept: list[str] = []
    at = 0
    while (start := html.find("<!--", at)) >= 0:
        kept.append(html[at:start])
        end = html.find("-->", start)
        kept.append(
            "\n" * html.count("\n", start, end if end >= 0 else len(html))
        )  # later lines keep their numbers
        at = end + 3 if end >= 0 else len(html)
    return _TAG.sub(" ", "".join(kept) + html[at:])
