"""The mission file, `recon.mission/1`: the same mission as a directive, without prose to parse."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, PrivateAttr, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails

from recon.agent.mission.additions import KEY
from recon.agent.mission.directive import triage
from recon.agent.mission.own_checks import Rules, check_own
from recon.agent.mission.own_parts import (
    Additions,
    Directory,
    FactId,
    FileCommand,
    FileCsv,
    FileEffects,
    FileFact,
    FileGate,
    FileKeyValue,
    FileLook,
    FileOption,
    FileParser,
    FileRegex,
    FileTask,
    FileUnknown,
    Key,
    Part,
    Text,
)
from recon.agent.mission.sentence import sentence
from recon.agent.mission.strict_yaml import Document, Path, read_yaml
from recon.agent.mission.vocabulary import Vocabulary
from recon.agent.model.base import Frozen, Json
from recon.agent.model.errors import MissionError, UsageError
from recon.agent.model.missions import Triage
from recon.agent.model.words import Strength

FORMAT: Final = "recon.mission/1"
NO_PLAYBOOK: Final = "none"
_SHOWN_ERRORS: Final = 5
_Count: TypeAlias = Annotated[int, Field(ge=1, le=1024)]


class FileWish(Part):
    """The wanted format of the weights and how strong the wish is."""

    value: Text
    strength: Strength = "must"


class FileLayout(Part):
    """How the engine is spread over GPUs; counts are GPUs."""

    mode: Literal["pd", "single"] | None = None
    tp: _Count | None = None
    prefill_tp: _Count | None = None
    decode_tp: _Count | None = None
    one_node_per_instance: bool | None = None

    @model_validator(mode="after")
    def _one_mode(self) -> FileLayout:
        halves = self.prefill_tp is not None or self.decode_tp is not None
        if halves and (self.mode == "single" or self.tp is not None):
            raise ValueError(
                "tp belongs to mode single, prefill_tp and decode_tp to mode pd: give one of the two"
            )
        if self.mode == "pd" and self.tp is not None:
            raise ValueError("mode pd has prefill_tp and decode_tp, not tp")
        return self


class FileIntent(Part):
    """The typed intent."""

    model: Text | None = None
    revision: Text | None = None
    host: Text | None = None
    engine: Text | None = None
    engine_source: Literal["venv-update", "venv-wheel", "git-ref", "git-prs"] | None = None
    wanted_format: FileWish | Text | None = None
    layout: FileLayout | None = None
    verbs: list[Text] | None = None
    docs: list[Text] | None = None
    target_dir: Directory | None = None
    transfer_backend: Text | None = None
    extra: dict[str, Json] | None = None


class MissionFile(Part):
    """A mission file. `directive` is read like one given on the command line; `intent` wins over its words."""

    mission: Literal["recon.mission/1"]
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    directive: str | None = None
    intent: FileIntent = FileIntent()
    playbook: Text | None = None
    facts: dict[FactId, FileFact] = Field(default_factory=dict)
    tasks: dict[Key, FileTask] = Field(default_factory=dict)
    unknowns: dict[Key, FileUnknown] = Field(default_factory=dict)
    gates: dict[Key, list[FileGate]] = Field(default_factory=dict)
    _document: Document = PrivateAttr(default_factory=lambda: Document("mission"))

    def place(self, path: Path) -> str:
        """The same for a path as one value."""
        return self._document.where(path)

    def where(self, *path: str | int) -> str:
        """`FILE:LINE:COLUMN` of a value."""
        return self._document.where(path)

    @property
    def own(self) -> Additions:
        """What the file brings of its own."""
        return Additions(
            title=self.title or "",
            facts=self.facts,
            tasks=self.tasks,
            unknowns=self.unknowns,
            gates=self.gates,
        )


def load_mission(text: str, *, source: str) -> MissionFile:
    """Reads a mission file strictly. Raises MissionError that names source, line and column, with a suggestion."""
    document = read_yaml(text, source=source)
    if not isinstance(document.value, dict):
        raise MissionError(
            f"{document.where(())}: a mission file is a mapping", hint=f"start with: mission: {FORMAT}"
        )
    try:
        loaded = MissionFile.model_validate(document.value)
    except ValidationError as error:
        raise _refused(document, error) from None
    loaded._document = document
    _check_names(loaded)
    return loaded


def triage_file(
    mission: MissionFile, vocabulary: Vocabulary, *, overrides: Mapping[str, Json] | None = None,
    rules: Rules | None = None,
) -> Triage:  # fmt: skip
    """The triage of a mission file; `overrides` (flags) win over the file, the file over its directive.

    With `rules` its own commands, patterns and gates are checked too; without, the runner refuses them when they are used.

    Raises MissionError with the line where a value means nothing (an unknown format, not a repository id).
    """
    given: dict[str, Json] = mission.intent.model_dump(mode="json", exclude_none=True)
    if mission.playbook is not None:
        given["playbook"] = mission.playbook
    _check_values(mission, given, vocabulary)
    if mission.playbook is None and not mission.directive and not given.get("model"):
        given["playbook"] = NO_PLAYBOOK  # nothing to deploy: the file's own tasks are the mission
    flags = {name: value for name, value in (overrides or {}).items() if value is not None}
    for short, field in (("quant", "wanted_format"), ("pd", "layout"), ("tp", "layout")):
        if short in flags and field != "layout":
            given.pop(field, None)
    read = triage(mission.directive or "", vocabulary, overrides={**given, **flags})
    own = mission.own
    kept = own.model_dump(mode="json", exclude_defaults=True)
    if kept:
        extra = {**read.intent.extra, KEY: kept}
        read = read.model_copy(update={"intent": read.intent.model_copy(update={"extra": extra})})
    if rules is not None:
        check_own(own, read.intent, rules=rules, where=mission.place)
    return read if read.text else read.model_copy(update={"text": sentence(read.intent)})


def mission_schema() -> dict[str, Json]:
    """The JSON schema of the mission file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": FORMAT,
        **MissionFile.model_json_schema(),
    }


def _check_values(mission: MissionFile, given: Mapping[str, Json], vocabulary: Vocabulary) -> None:
    """Each value by itself, so that what is wrong gets its line."""
    for name, value in given.items():
        if name == "verbs":
            _check_verbs(mission, value, vocabulary)
        try:
            triage("", vocabulary, overrides={name: value})
        except MissionError:
            raise
        except UsageError as error:
            path = ("intent", name) if name != "playbook" else (name,)
            raise MissionError(f"{mission.where(*path)}: {error.message}", hint=error.hint) from None


def _check_verbs(mission: MissionFile, verbs: list[str], vocabulary: Vocabulary) -> None:
    for n, verb in enumerate(verbs):
        if verb not in vocabulary.verbs:
            raise MissionError(
                f"{mission.where('intent', 'verbs', n)}: unknown step: {verb[:64]!r}",
                hint=_suggest(verb, vocabulary.verbs),
            )


def _check_names(mission: MissionFile) -> None:
    """Tasks of the file may need each other, not themselves. What else they may name only the playbook knows."""
    for key, task in mission.tasks.items():
        for n, need in enumerate(task.needs):
            if need == key:
                raise MissionError(
                    f"{mission.where('tasks', key, 'needs', n)}: {key} needs itself", hint="take it out"
                )


def _refused(document: Document, error: ValidationError) -> MissionError:
    found: dict[str, str] = {}
    for details in sorted(_told(error.errors()), key=lambda details: details["type"] != "extra_forbidden"):
        message, suggestion = _explained(document, details)
        found.setdefault(message, suggestion)
    if len(found) == 1:
        message, hint = next(iter(found.items()))
        return MissionError(message, hint=hint)
    lines = [f"{message} ({hint})" for message, hint in found.items()]
    more = [f"and {len(lines) - _SHOWN_ERRORS} more"] if len(lines) > _SHOWN_ERRORS else []
    return MissionError(
        "\n".join([*lines[:_SHOWN_ERRORS], *more]),
        hint="mend these lines and run the same command again",
    )


def _told(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """The errors worth telling: where a value may be written in two ways, only those of the way it was written."""
    other_way = {"string_type": dict, "list_type": dict, "model_type": list, "literal_error": dict}
    kept = [e for e in errors if not isinstance(e["input"], other_way.get(e["type"], ()))]
    return kept or errors


_PLAINLY: Final = {
    "bool_type": ("must be true or false", "without quotes"),
    "int_type": ("must be a whole number", "without quotes"),
    "list_type": ("must be a list", "write [a, b] or one a line behind dashes"),
    "dict_type": ("must be a mapping", "write key: value"),
    "model_type": ("must be a mapping", "write key: value"),
}


def _explained(document: Document, details: ErrorDetails) -> tuple[str, str]:
    """One error of a mission file in words, with its place, and what to write instead."""
    path = _existing(document.value, details["loc"])
    name = ".".join(str(part) for part in path) or "the file"
    where, kind, context = document.where(path), details["type"], details.get("ctx", {})
    match kind:
        case "extra_forbidden":
            word, where = str(path[-1]), document.where(path, key=True)
            return f"{where}: unknown key {word[:64]!r}", _suggest(word, tuple(_fields_at(path[:-1])))
        case "missing":
            return f"{where}: {details['loc'][-1]} is missing", f"add {details['loc'][-1]}: ..."
        case "string_type":
            return f"{where}: {name} must be text", f'write it in quotes: "{_short(details["input"])}"'
        case "literal_error":
            expected = str(context.get("expected", ""))
            return f"{where}: {name} is {_short(details['input'])}", f"write {expected}"
        case "string_pattern_mismatch" if path[-1:] == ("target_dir",):
            return f"{where}: {name} must be an absolute directory", "start it with /"
        case _ if kind in _PLAINLY:
            return f"{where}: {name} {_PLAINLY[kind][0]}, not {_short(details['input'])}", _PLAINLY[kind][1]
        case _:
            message = str(context.get("error", details["msg"])).replace("Input should", "it should")
            return f"{where}: {name}: {message}", f"got {_short(details['input'])}"


def _existing(value: Json, loc: tuple[int | str, ...]) -> Path:
    """The part of an error's place that is in the file (pydantic adds the names of union members)."""
    path: list[str | int] = []
    for step in loc:
        held: Json = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(held, dict) and step in held:
            value = held[step]
            path.append(step)
    return tuple(path)


_MODELS: Final[tuple[tuple[re.Pattern[str], type[Frozen]], ...]] = tuple(
    (re.compile(pattern), model)
    for pattern, model in (
        (r"", MissionFile), (r"intent", FileIntent), (r"intent/layout", FileLayout), (r"intent/wanted_format", FileWish),
        (r"facts/[^/]+", FileFact), (r"facts/[^/]+/parser", FileParser), (r"facts/[^/]+/parser/csv", FileCsv),
        (r"facts/[^/]+/parser/regex", FileRegex), (r"facts/[^/]+/parser/key_value", FileKeyValue),
        (r"tasks/[^/]+", FileTask), (r"tasks/[^/]+/command", FileCommand), (r"tasks/[^/]+/command/(?:check|verify)", FileLook),
        (r"unknowns/[^/]+", FileUnknown), (r"unknowns/[^/]+/options/\d+", FileOption),
        (r"unknowns/[^/]+/options/\d+/effects", FileEffects), (r"gates/[^/]+/\d+", FileGate),
    )
)  # fmt: skip


def _fields_at(path: Path) -> list[str]:
    """The keys that may stand at a place of the file."""
    at = "/".join(str(step).replace("/", "~") for step in path)
    model = next((model for pattern, model in _MODELS if pattern.fullmatch(at)), None)
    return [] if model is None else list(model.model_fields)


def _suggest(word: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word[:64], known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
