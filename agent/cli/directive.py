"""From the words of a command line to what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recon.agent.model.base import Json
from recon.agent.model.errors import MissionError, UsageError
from recon.agent.model.missions import Triage

if TYPE_CHECKING:
    from recon.agent.mission import Ground, MissionFile

_FILE_CAP: Final = 1 << 20  # bytes of a mission file; what people write is a few kilobytes


def triage_of(words: Sequence[str], flags: dict[str, Json]) -> Triage:
    """What was asked: a mission file, `ORG/MODEL [[USER@]HOST]`, or a directive in words; flags win over words."""
    from recon.agent.connectors.redact import redact_text
    from recon.agent.mission import read_arguments
    from recon.tasks.knowledge.vocabulary import VOCABULARY

    path = _alone(words)
    if path is not None:
        return from_file(path, flags)
    # before anything is read from them: what is kept of a directive never held the secret
    return read_arguments([redact_text(word) for word in words], VOCABULARY, flags)


def asked_of(words: Sequence[str], flags: dict[str, Json]) -> Triage:
    """What is to be run. Raises UsageError where the words name no model, no host and nothing to do: a mission of
    guesses helps nobody."""
    read = triage_of(words, flags)
    intent = read.intent
    hinted = any(claim.name == "model_hint" for claim in read.claims)
    if _alone(words) or intent.model or intent.host or intent.verbs or hinted:
        return read
    text = " ".join(words)
    if len(words) == 1 and Path(words[0]).is_dir():
        raise UsageError(
            f"{words[0]}: is a folder; a mission file is one file in it",
            hint=f"recon run {words[0]}/MISSION.yaml",
        )
    known = [f"{c.name} {c.value}" for c in read.claims if isinstance(c.value, str | int)]
    missing = "it names no model (ORG/NAME), no host and nothing to do"
    lost = "; ".join(read.unplaced) or ("" if known else text)
    rows = [f"{text!r}: {missing}", f"understood: {', '.join(known) or 'nothing'}"]
    raise UsageError(
        "\n".join([*rows, *([f"not understood: {lost}"] if lost else [])]),
        hint='recon run ORG/MODEL [USER@]HOST, or recon run "deploy ORG/MODEL on HOST, TP4"',
    )


def _alone(words: Sequence[str]) -> Path | None:
    """The mission file that the words name; None where they are a directive. Raises UsageError where more is said."""
    if len(words) == 1:
        return mission_file(words[0])
    named = [word for n, word in enumerate(words) if _is_file_name(word) and (n == 0 or Path(word).is_file())]
    if named:
        others = " ".join(word for word in words if word != named[0])
        raise UsageError(
            f"{named[0]}: a mission file says everything itself; {others!r} does not belong here",
            hint=f"recon run {named[0]}, with flags such as --host where the file is to be overruled",
        )
    return None


def _is_file_name(word: str) -> bool:
    return Path(word).suffix.lower() in (".yaml", ".yml") and " " not in word.strip()


def mission_file(word: str) -> Path | None:
    """The word as a mission file, where it is one by its ending. Raises UsageError where that file is not there."""
    path = Path(word)
    if not _is_file_name(word):
        return None
    if not path.is_file():
        raise UsageError(f"{word}: there is no such mission file", hint="recon run --help")
    return path


def from_file(path: Path, flags: dict[str, Json]) -> Triage:
    """A mission file as what was asked. Raises MissionError with line and column."""
    from recon.agent.connectors.allowlist import check_argv
    from recon.agent.connectors.redact import redact_text
    from recon.agent.engine.gates import parse_gate
    from recon.agent.mission import Rules, check_ground, load_mission, triage_file
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
    rules = Rules(argv=check_argv, gate=parse_gate)
    loaded = load_mission(redact_text(text), source=str(path))
    read = triage_file(loaded, VOCABULARY, overrides=flags, rules=rules)
    check_ground(loaded.own, read.intent, _ground(loaded, read), rules=rules, where=loaded.place)
    return read


def _ground(loaded: MissionFile, read: Triage) -> Ground:
    """What the file's parts are laid over. An unknown playbook gets the place where the file names it."""
    from recon.agent.cli.plugins import load_plugins
    from recon.agent.cli.preview import ground_of

    known = load_plugins().whole().playbooks
    if read.playbook not in known:
        raise MissionError(
            f"{loaded.where('playbook')}: no playbook is called {read.playbook!r}",
            hint=f"there are: {', '.join(sorted(known))}",
        )
    return ground_of(read)
