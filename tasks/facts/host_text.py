"""What parsers of host commands share: how a probe that did not end well reads, and text cleaned for parsing.

A parser gets every answer, whatever its state. `trouble` turns a state that carries no data into a reason, so that
"we could not ask" never looks like "there is none".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from recon.agent.api import Draft, Raw

# A minute: how long numbers that others change (free bytes, GPU processes, ports) may be believed.
VOLATILE_S: Final = 60.0

_ANSI: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NO_FILE: Final = ("no such file or directory", "cannot access", "not a directory")
_DENIED: Final = ("permission denied", "operation not permitted", "access denied", "insufficient permissions")
_NO_COMMAND: Final = ("command not found", "no such command", "not found")
_SHOWN: Final = 160


def plain_text(data: bytes) -> str:
    """Bytes as text: bad UTF-8 replaced, terminal escapes and carriage returns removed, tabs and newlines kept."""
    return _CONTROL.sub("", _ANSI.sub("", data.decode("utf-8", errors="replace")))


def had_ansi(data: bytes) -> bool:
    """Whether the text carried terminal escapes."""
    return b"\x1b[" in data


def whole_lines(raw: Raw) -> list[str]:
    """The lines of stdout. Of an answer that was cut at the byte cap the last, broken line is left out."""
    text = plain_text(raw.stdout)
    lines = text.split("\n")
    if raw.truncated and lines and lines[-1]:
        lines.pop()
    return [line for line in lines if line.strip()]


def said(raw: Raw) -> str:
    """The first telling line of stderr, else of stdout, short enough for a reason; "" for silence."""
    for data in (raw.stderr, raw.stdout):
        for line in plain_text(data).split("\n"):
            if line.strip():
                text = " ".join(line.split())
                return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return ""


def no_such_file(raw: Raw) -> bool:
    """Whether the answer says that the path it was asked about does not exist (and the command itself ran)."""
    if raw.state not in ("failed", "missing") or raw.exit_code == 127:
        return False
    text = plain_text(raw.stderr).lower()
    return any(words in text for words in _NO_FILE) and not any(words in text for words in _DENIED)


def no_command(raw: Raw) -> bool:
    """Whether the command is not installed or not in PATH."""
    if raw.exit_code == 127:
        return True
    if raw.state != "missing" or no_such_file(raw):
        return False
    text = plain_text(raw.stderr).lower()
    return not text or any(words in text for words in _NO_COMMAND)


def denied(raw: Raw) -> bool:
    """Whether this user was not allowed to ask."""
    text = plain_text(raw.stderr).lower() if raw.state != "ok" else ""
    return raw.state == "denied" or any(words in text for words in _DENIED)


def trouble(raw: Raw, what: str) -> str:
    """Why an answer holds no data, in words; "" where it does. `what` names the question: `nvidia-smi`, `df`."""
    if raw.state == "ok":
        return ""
    words = said(raw) or _clean(raw.reason)
    if raw.state == "timeout":
        return f"{what} did not end in time"
    if raw.state == "lost":
        return f"{what}: {words or 'the connection was lost before it ended'}"
    if denied(raw):
        return f"{what}: permission denied for this user{_after(words)}"
    if no_command(raw):
        return f"{what} is not installed or not in PATH"
    if raw.state == "unparsable":
        return f"{what}: the answer could not be read{_after(words)}"
    code = "" if raw.exit_code is None else f" with exit code {raw.exit_code}"
    return f"{what} ended{code}{_after(words)}"


def unknown(names: Iterable[str], reason: str, *, lifetime_s: float | None = None) -> list[Draft]:
    """The honest answer: one unknown a name, all with the same reason."""
    return [Draft(name=name, outcome="unknown", reason=reason, lifetime_s=lifetime_s) for name in names]


def whole_number(text: str) -> int | None:
    """A decimal number without sign, None for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _clean(text: str) -> str:
    return " ".join(plain_text(text.encode()).split())[:_SHOWN]


def _after(words: str) -> str:
    return f": {words}" if words else ""
