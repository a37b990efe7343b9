"""The only writer of stdout and stderr, and the only asker on a terminal. stdout is data, stderr is narration."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable
from typing import Final, TextIO

from recon.agent.model.errors import UsageError

_NARROW: Final = 60
_WIDE: Final = 120
_DEFAULT: Final = 80


def prepare() -> None:
    """Makes the streams unable to fail on a character: a C locale shows `?` where it has no glyph."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def width(stream: TextIO | None = None) -> int:
    """Columns to write for: those of the terminal within reason, 80 where there is none."""
    target = sys.stdout if stream is None else stream
    if not target.isatty():
        return _DEFAULT
    return min(max(shutil.get_terminal_size((_DEFAULT, 24)).columns, _NARROW), _WIDE)


def lines(rows: Iterable[str]) -> None:
    """Data: each row on a line of stdout."""
    sys.stdout.write("".join(f"{row}\n" for row in rows))
    sys.stdout.flush()


def text(body: str) -> None:
    """Data: text that ends in its own newline."""
    sys.stdout.write(body)
    sys.stdout.flush()


def as_json(value: object, *, compact: bool = False) -> None:
    """Data: one JSON value; `compact` puts it on one line."""
    indent = None if compact else 2
    lines([json.dumps(value, indent=indent, ensure_ascii=False, sort_keys=not compact, default=str)])


def note(*rows: str) -> None:
    """Narration: each row on a line of stderr."""
    sys.stderr.write("".join(f"{row}\n" for row in rows))
    sys.stderr.flush()


def interactive() -> bool:
    """Whether there is a person to ask: input and narration are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> str:
    """One line from the person, without its newline. Raises UsageError where there is nobody to ask."""
    if not interactive():
        raise UsageError(f"nobody to ask here: {question}", hint="give it on the command line")
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise KeyboardInterrupt
    return answer.strip()


def broken_pipe() -> None:
    """The reader of stdout went away (`recon report | head`): nothing more can be said, and nothing is wrong."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
