"""Secrets out of bytes before they are stored: tokens by shape, values by the name in front of them.

One pass per rule, each linear in the input. Line breaks and NULs stay, so that parsers see the structure they expect.
What is already redacted stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

_SpanOf: TypeAlias = Callable[[bytes, "re.Match[bytes]"], tuple[int, int] | None]

MASK: Final = b"***"

# Lower case. Bytes without any of these hold nothing that the rules about names could match.
_NAME_HINTS: Final = (b"secret", b"token", b"pass", b"credential", b"private", b"api", b"access", b"authoriz")

# Shapes that issuers document for their tokens. The lower bounds keep words of prose out.
_SHAPES: Final = re.compile(
    rb"hf_[A-Za-z0-9]{30,}"  # Hugging Face
    rb"|(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}"  # OpenAI style, engines' own API keys
    rb"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    rb"|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"
    rb"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"  # JSON web token
)
_SHAPE_HINTS: Final = (
    b"hf_", b"sk-", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"glpat-", b"xox", b"AKIA", b"ASIA", b"eyJ",
)  # fmt: skip
_URL: Final = re.compile(rb"(://[^\s/:@\"'<>\0]{0,256}:)[^\s/@\"'<>\0]{1,512}(?=@)")
_BEARER: Final = re.compile(rb"(?i)(?<![a-z])(bearer[ \t]+)([A-Za-z0-9._~+/=-]{8,})")
_AUTH: Final = re.compile(
    rb"(?i)(authorization\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?:(?:basic|bearer|token)[ \t]+)?)([^\s\"'\0\\]+)"
)
_PEM_BEGIN: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_PEM_END: Final = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")

# Starts are held to the beginning of a word, and words are taken whole: every byte is looked at a fixed number of times.
_FLAG: Final = re.compile(
    rb"(?<![A-Za-z0-9_-])--?([A-Za-z][A-Za-z0-9_-]*+)(=|[ \t]+|\0|\\?[\"'],[ \t\r\n]*\\?[\"'])(?![-=])"
)
_ASSIGN: Final = re.compile(rb"(?<![A-Za-z0-9_-])([A-Za-z0-9_][A-Za-z0-9_-]*+)=(?!=)")
_ITEM: Final = re.compile(rb"(\\{0,3}[\"'])([A-Za-z0-9_-]{1,80}+)\1[ \t]*:[ \t]*(\\{0,3}[\"'])")
_YAML: Final = re.compile(
    rb"(?im)^([ \t]*(?:-[ \t]+)?[A-Za-z0-9_-]{0,40}(?:passw(?:or)?d|passphrase|api[_-]?key|secret(?:[_-]?key)?)"
    rb"[ \t]*:[ \t]+)(\"[^\"\n]*\"|'[^'\n]*'|[^\s#\"'|>]\S*)[ \t]*$"
)

# One shell word: plain characters, escapes, balanced quotes. A value in quotes that never close is plain up to them.
_WORD: Final = re.compile(
    rb"(?:[^\s\0\"'\\]|\\[^\n\0]|\"(?:[^\"\\\n\0]|\\[^\n\0]){0,4096}+\"|'[^'\n\0]{0,4096}+')++"
)
_TO_QUOTE: Final = {
    b'"': re.compile(rb"(?:[^\"\\\n\0]|\\[^\n\0])*+"),
    b"'": re.compile(rb"(?:[^'\\\n\0]|\\[^\n\0])*+"),
}
_TO_NUL: Final = re.compile(rb"[^\0\n]*+")
_TO_LINE_END: Final = re.compile(rb"[^\0\r\n]*+")

_STRONG: Final = re.compile(
    rb"(?i)secret|api[_-]?key|passw|passphrase|credential|access[_-]?key|private[_-]?key|[_-]pass$"
)
_TOKEN_WORD: Final = re.compile(rb"(?i)(?:^|[_-])(?:auth|access|refresh|api)?tokens?(?:$|[_-])")
_TOKEN_OWNER: Final = re.compile(
    rb"(?i)(?:^|[_-])(?:hf|hub|huggingface|github|gitlab|git|gh|auth|access|refresh|bearer|api|bot|session|id|wandb|"
    rb"admin|user|csrf|slack|npm|pypi|client|service|personal|jwt|oauth2?|login|secret|vault|registry)[_-]?tokens?(?:$|[_-])"
)
# Tokens of a tokenizer and counts of tokens are facts about a model.
_NO_SECRET_TOKEN: Final = re.compile(
    rb"(?i)(?:^|[_-])(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio|vision|start|end|begin|stop|special|think|tool|"
    rb"max|min|num|total|n|per|prompt|input|output|cached|new|draft|prefill|decode|running|extend|first|last|next)[_-]tokens?"
    rb"(?:$|[_-])|tokens?[_-](?:id|ids|count|counts|usage|size|len|length|limit|type|types|ratio|embed\w*|per\w*|num)(?:$|[_-])"
)
_SYSTEMD_PRIVATE: Final = re.compile(rb"Private(?:Tmp|Devices|Network|Users|Mounts|IPC|PIDs|BPF)$")
_PLAIN: Final = re.compile(rb"(?i)(?:true|false|yes|no|on|off|none|null|auto|\*\*\*)?$")
_HEAD: Final = 80  # bytes of a value that tell whether it is one
_NUMBER: Final = re.compile(rb"[-+]?[0-9][0-9_,.eE+-]*$")


@lru_cache(maxsize=4096)
def secret_name(name: bytes) -> bool:
    """Whether a variable, key or flag of this name is expected to hold a secret."""
    if _SYSTEMD_PRIVATE.match(name) or name.lower().endswith((b"_file", b"-file", b"keyfile", b"tokenizer")):
        return False
    if _STRONG.search(name):
        return True
    upper = name.isupper()
    if upper and b"PRIVATE" in name:
        return True
    if not _TOKEN_WORD.search(name) or _NO_SECRET_TOKEN.search(name):
        return False
    return upper or name.lower() == b"token" or bool(_TOKEN_OWNER.search(name))


def redact(data: bytes) -> bytes:
    """The same bytes with secrets replaced by `***`. Idempotent; keeps line breaks and NULs."""
    if any(hint in data for hint in _SHAPE_HINTS):
        data = _SHAPES.sub(MASK, data)
    if b"://" in data:
        data = _URL.sub(rb"\1" + MASK, data)
    if b"PRIVATE KEY-----" in data:
        data = _without_keys(data)
    lower = data.lower()
    if b"bearer" in lower:
        data = _BEARER.sub(_masked_bearer, data)
    if not any(hint in lower for hint in _NAME_HINTS):
        return data
    data = _AUTH.sub(rb"\1" + MASK, data)
    data = _named(data, _FLAG, _flag_span)
    data = _named(data, _ITEM, _item_span)
    data = _named(data, _ASSIGN, _assign_span)
    return _YAML.sub(_masked_yaml, data)


def redact_text(text: str) -> str:
    """`redact` for text: directives, reasons, messages."""
    return redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _masked_bearer(match: re.Match[bytes]) -> bytes:
    # "bearer authentication" is prose: a token is long or holds a digit
    value = match[2]
    if len(value) >= 20 or any(48 <= byte <= 57 for byte in value):
        return match[1] + MASK
    return match[0]


def _masked_yaml(match: re.Match[bytes]) -> bytes:
    return match[0] if _PLAIN.match(match[2].strip(b"\"'")) else match[1] + MASK


def _named(data: bytes, pattern: re.Pattern[bytes], span_of: _SpanOf) -> bytes:
    """Replaces the value behind each name the pattern finds; values may hold further names, so only names are consumed."""
    out: list[bytes] = []
    at = 0
    for match in pattern.finditer(data):
        if match.start() < at:
            continue
        span = span_of(data, match)
        if span is None:
            continue
        out += [data[at : span[0]], MASK]
        at = span[1]
    if not out:
        return data
    out.append(data[at:])
    return b"".join(out)


def _flag_span(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    name, separator = match[1], match[2]
    if not secret_name(name):
        return None
    if separator == b"\0":
        return _span(_TO_NUL, data, match.end(), name)
    if separator[-1:] in _TO_QUOTE:
        return _span(_TO_QUOTE[separator[-1:]], data, match.end(), name)
    return _word_span(data, match.end(), name, quote=_quote_before(data, match.start()), nul=b"\0" in data)


def _item_span(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    name, opening = match[2], match[3]
    if not secret_name(name):
        return None
    if len(opening) > 1:  # JSON inside a string: the value ends at the same escaped quote
        end = data.find(opening, match.end(), match.end() + 4096)
        harmless = end < 0 or _harmless(data[match.end() : end], name)
        return None if harmless else (match.end(), end)
    return _span(_TO_QUOTE[opening], data, match.end(), name)


def _assign_span(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    name, begin = match[1], match.start()
    if not secret_name(name):
        return None
    # NAME=value alone on its line or between NULs is an environment dump: the value goes to the end, blanks included
    before = data[begin - 1 : begin]
    if before == b"\0":
        return _span(_TO_NUL, data, match.end(), name)
    if before in (b"", b"\n") and name.isupper():
        return _span(_TO_LINE_END, data, match.end(), name)
    return _word_span(
        data, match.end(), name, quote=_quote_before(data, begin), nul=b"\0" in data[begin - 1 : begin]
    )


def _word_span(data: bytes, begin: int, name: bytes, *, quote: bytes, nul: bool) -> tuple[int, int] | None:
    if nul:
        return _span(_TO_NUL, data, begin, name)
    if quote:  # "NAME=value with blanks"
        return _span(_TO_QUOTE[quote], data, begin, name)
    opening = data[begin : begin + 1]
    if opening in _TO_QUOTE and opening:
        return _span(_TO_QUOTE[opening], data, begin + 1, name)
    return _span(_WORD, data, begin, name)


def _quote_before(data: bytes, begin: int) -> bytes:
    before = data[begin - 1 : begin] if begin else b""
    return before if before in (b'"', b"'") else b""


def _span(pattern: re.Pattern[bytes], data: bytes, begin: int, name: bytes) -> tuple[int, int] | None:
    # A short look decides; only a value that is going to be replaced is scanned to its end, so no byte is scanned twice.
    head = pattern.match(data, begin, begin + _HEAD)
    if head is None or _harmless(head[0], name):
        return None
    match = head if head.end() < begin + _HEAD else pattern.match(data, begin)
    return None if match is None else (begin, match.end())


def _harmless(value: bytes, name: bytes) -> bool:
    """A switch, a special token such as `<s>`, the count of something, or nothing at all."""
    if len(value) < _HEAD and _PLAIN.match(value.strip(b"\"' \t,;)]}")):
        return True
    return value.startswith(b"<") or (_NUMBER.match(value) is not None and not _STRONG.search(name))


def _without_keys(data: bytes) -> bytes:
    """Blanks the lines of private keys; a key that never ends goes to the end of the data."""
    out: list[bytes] = []
    at = 0
    while (begin := _PEM_BEGIN.search(data, at)) is not None:
        end = _PEM_END.search(data, begin.end())
        stop = len(data) if end is None else end.start()
        out += [data[at : begin.end()], re.sub(rb"[^\r\n\0]+", MASK, data[begin.end() : stop])]
        at = stop if end is None else end.end()
        if end is not None:
            out.append(end[0])
    out.append(data[at:])
    return b"".join(out)
