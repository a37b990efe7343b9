"""What lint says: one note a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Note:
    """`argument`: the index of the word it is about, None for the line as a whole. `instead`: what to write."""

    severity: Severity
    code: str
    text: str
    argument: int | None = None
    instead: str = ""
    source: str = ""


def error(code: str, text: str, argument: int | None = None, *, instead: str = "", source: str = "") -> Note:
    """A line that does not start, or does not do what it says."""
    return Note("error", code, text, argument, instead, source)


def warning(
    code: str, text: str, argument: int | None = None, *, instead: str = "", source: str = ""
) -> Note:
    """A line that starts, but ought to be looked at."""
    return Note("warning", code, text, argument, instead, source)
