"""From the words of a command line to what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from recon.agent.model.base import Json
from recon.agent.model.errors import MissionError, UsageError
from recon.agent.model.missions import Triage

_FILE_CAP: Final = 1 << 20  # bytes of a mission file; what people write is a few kilobytes


def triage_of(words: Sequence[str], flags: dict[str, Json]) -> Triage:
    """What was asked: a mission file, `ORG/MODEL [[USER@]HOST]`, or a directive in words; flags win over words."""
    from recon.agent.connectors.redact import redact_text
    from recon.agent.mission import read_arguments
    from recon.tasks.knowledge.vocabulary import VOCABULARY

    if len(words) == 1 and (path := mission_file(words[0])) is not None:
        return from_file(path, flags)
    # before anything is read from them: what is kept of a directive never held the secret
    return read_arguments([redact_text(word) for word in words], VOCABULARY, flags)


def mission_file(word: str) -> Path | None:
    """The word as a mission file, where it is one by its ending. Raises UsageError where that file is not there."""
    path = Path(word)
    if path.suffix.lower() not in (".yaml", ".yml") or " " in word.strip():
        return None
    if not path.is_file():
        raise UsageError(f"{word}: there is no such mission file", hint="recon run --help")
    return path


def from_file(path: Path, flags: dict[str, Json]) -> Triage:
    """A mission file as what was asked. Raises MissionError with line and column."""
    from recon.agent.connectors.redact import redact_text
    from recon.agent.mission import load_mission, triage_file
    from recon.tasks.knowledge.vocabulary import VOCABULARY

    try:
        body = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    if len(body) > _FILE_CAP:
        raise MissionError(f"{path}: a mission file has at most {_FILE_CAP >> 20} MiB")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise MissionError(f"{path}: not UTF-8 at byte {error.start}") from error
    return triage_file(load_mission(redact_text(text), source=str(path)), VOCABULARY, overrides=flags)
