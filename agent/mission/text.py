"""A directive as words with places: cleaned, cut into tokens, cut into clauses. Linear in the length of the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TokenKind: TypeAlias = Literal["word", "url", "flag", "repo", "path", "address", "break"]
IsRepo: TypeAlias = Callable[[str, str, str], bool]  # (organisation, name, word before it)

_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,256}(?:\x07|\x1b\\|\x9c)|\x1b[@-Z\\-_]?"
)
_DASHES: Final = str.maketrans(
    {"‐": "-", "‑": "-", "–": "-", "—": "-", "−": "-", "’": "'", "‘": "'", "×": "x", "\xa0": " "}
)
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_ADDRESSED: Final = (
    r"(?:https?|hf)://[^\s<>\"'`]{1,4000}|(?:www\.)?(?:huggingface\.co|hf\.co)/[^\s<>\"'`]{1,4000}"
)
_URL: Final = re.compile(_ADDRESSED, re.IGNORECASE)
_CHUNK: Final = re.compile(rf"{_ADDRESSED}|[^\s\[\](){{}}<>\"`|]{{1,4096}}|[\[\](){{}}<>|]", re.IGNORECASE)
_FLAG: Final = re.compile(r"--([A-Za-z][A-Za-z0-9-]{0,63})(?:=([^\s,;)]{1,256}))?")
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPO: Final = re.compile(rf"({_NAME})/({_NAME})(?:@([A-Za-z0-9][A-Za-z0-9._/-]{{0,127}}))?")
_PATH: Final = re.compile(r"/[A-Za-z0-9._+-]{1,255}(?:/[A-Za-z0-9._+-]{1,255}){0,40}/?")
_ADDRESS: Final = re.compile(
    r"([A-Za-z_][A-Za-z0-9._-]{0,31})@([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::(\d{1,5}))?"
)
_WORD: Final = re.compile(r"[^\W_]{1,128}(?:[.'][^\W_]{1,64}){0,16}|[^\w\s]")
_ABBREVIATIONS: Final = frozenset(
    {
        "e.g",
        "i.e",
        "etc",
        "incl",
        "vs",
        "approx",
        "evtl",
        "bzw",
        "z.b",
        "ca",
        "ggf",
        "max",
        "min",
        "no",
        "nr",
        "inkl",
    }
)
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z_-]{1,24})[=:](?=[\w/\"'`.])(?!//)")
_COUNTED: Final = re.compile(r"(\d{1,3}[xX])([A-Za-z]\w+|\d{4})")  # 8xH100, 4x4090
_OPENERS: Final = frozenset("([{")
_BREAKS: Final = frozenset(",;:!?()[]{}|…")
_LIGHT: Final = frozenset(",:()[]{}|")  # ends a clause, not a sentence


@dataclass(frozen=True, slots=True)
class Token:
    """A word, an address, or the end of a clause. `start` and `end` are characters of the cleaned text."""

    kind: TokenKind
    text: str
    start: int
    end: int
    glued: bool = False  # written together with the token before it (`kv-cache`, `4+4`)
    joiner: str = ""  # the character in between

    @property
    def low(self) -> str:
        """The text in lower case."""
        return self.text.lower()


def clean_text(text: str) -> str:
    """The text without escapes, control and invisible characters; typographic dashes and quotes made plain."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text.strip()
    bare = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).translate(_DASHES)
    kept = (" " if c == "\t" else c for c in bare if c in "\n\t" or unicodedata.category(c) not in _INVISIBLE)
    return "".join(kept).strip()


def tokens_of(text: str, *, is_repo: IsRepo) -> list[Token]:
    """The tokens of a cleaned text, in order. `is_repo` tells a repository id from two words with a slash."""
    found: list[Token] = []
    at = 0
    for chunk in _CHUNK.finditer(text):
        gap = text[at : chunk.start()]
        if "\n" in gap and (gap.count("\n") > 1 or chunk.group()[0] in "-*•#"):
            found.append(Token("break", "\n", at, chunk.start()))
        before = found[-1].low if found else ""
        found.extend(_chunk_tokens(chunk.group(), chunk.start(), is_repo, before))
        at = chunk.end()
    return found


def sentences_of(tokens: Sequence[Token]) -> list[int]:
    """For every token the number of its sentence."""
    number, numbers = 0, []
    for token in tokens:
        numbers.append(number)
        number += token.kind == "break" and token.text not in _LIGHT and token.text != "-"
    return numbers


def clauses_of(tokens: Sequence[Token]) -> list[range]:
    """Stretches of token numbers between breaks, in order; none is empty."""
    clauses, begin = [], 0
    for index, token in enumerate(tokens):
        if token.kind == "break":
            if index > begin:
                clauses.append(range(begin, index))
            begin = index + 1
    if len(tokens) > begin:
        clauses.append(range(begin, len(tokens)))
    return clauses


def _chunk_tokens(chunk: str, offset: int, is_repo: IsRepo, before: str) -> Iterator[Token]:
    """The tokens of a stretch without white space. `before`: the word in front of it, in lower case."""
    if chunk in ("-", "--", "->", "=>"):
        yield Token("break", "-", offset, offset + len(chunk))
        return
    at = 0
    if key := _KEY.match(chunk):
        yield Token("word", key.group(1), offset, offset + key.end(1))
        at, before = key.end(), key.group(1).lower()
    while at < len(chunk):
        whole = _whole(chunk, at, offset, is_repo, before)
        if whole is None:
            yield from _words(chunk[at:], offset + at)
            return
        if _OPENERS & set(chunk[at : whole.start - offset]):
            yield Token("break", "(", offset + at, whole.start)
        yield whole
        at = whole.end - offset


def _whole(chunk: str, at: int, offset: int, is_repo: IsRepo, before: str) -> Token | None:
    """The address, flag, repository id or path that a chunk holds from its first letter on, if any."""
    lead = at
    while lead < len(chunk) and chunk[lead] in "([{<\"'`*>#":
        lead += 1
    for kind, pattern in (("url", _URL), ("flag", _FLAG)):
        if match := pattern.match(chunk, lead):
            return _token(kind, match, offset)
    for kind, pattern in (("path", _PATH), ("address", _ADDRESS), ("repo", _REPO)):
        match = pattern.match(chunk, lead)
        if not match or not _ends_there(chunk, match.end()):
            continue
        if kind != "repo" or is_repo(match.group(1), match.group(2), before):
            return _token(kind, match, offset)
    return None


def _ends_there(chunk: str, end: int) -> bool:
    rest = chunk[end:]
    return not rest or (rest[0] in ".,;:!?)]}>\"'`*" and not rest[1:2].isalnum()) or rest[0] in ",;)]}>\"'`*"


def _token(kind: str, match: re.Match[str], offset: int) -> Token:
    text = match.group()
    if kind in ("url", "path"):
        text = text.rstrip(".,;:!?\"'`*>}|…")
        while text.endswith((")", "]")) and text.count("(") + text.count("[") < text.count(")") + text.count(
            "]"
        ):
            text = text[:-1].rstrip(".,;:!?\"'`*>")
    start = offset + match.start()
    for known in ("url", "flag", "path", "address", "repo"):
        if kind == known:
            return Token(known, text, start, start + len(text))
    raise AssertionError(kind)


def _words(chunk: str, offset: int) -> Iterator[Token]:
    """Words and breaks of ordinary text; hyphens, slashes and the like only glue words together."""
    last_end, joiner = -1, ""
    matches = list(_WORD.finditer(chunk))
    for position, match in enumerate(matches):
        text, start, end = match.group(), offset + match.start(), offset + match.end()
        if text[0].isalnum():
            yield from _split_count(Token("word", text, start, end, glued=last_end >= 0, joiner=joiner))
            last_end, joiner = end, ""
        elif text in _BREAKS or (
            text == "." and _stops(chunk, match, matches[position - 1] if position else None)
        ):
            if text != ":" or match.end() == len(chunk):
                yield Token("break", text, start, end)
            last_end, joiner = -1, ""
        else:
            joiner = text


def _split_count(token: Token) -> Iterator[Token]:
    """`8xH100` as `8x` and `H100`; other words as they are."""
    match = _COUNTED.fullmatch(token.text)
    if match is None:
        yield token
        return
    cut = token.start + match.end(1)
    yield Token("word", match.group(1), token.start, cut, glued=token.glued, joiner=token.joiner)
    yield Token("word", match.group(2), cut, token.end, glued=True)


def _stops(chunk: str, match: re.Match[str], before: re.Match[str] | None) -> bool:
    """Whether a full stop ends a clause here: not behind an abbreviation, not inside a name."""
    if before is not None and before.group().lower() in _ABBREVIATIONS:
        return False
    return not chunk[match.end() :].lstrip(".").strip("\"')]*`")
