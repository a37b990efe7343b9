"""What a mission file may bring of its own: facts, tasks, unknowns and gates, as strict frozen types."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from recon.agent.model.base import Frozen, Json
from recon.agent.model.words import Answerer, Effort, Level, Priority

Text: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
Key: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.\[\]/@-]{0,159}$")]
# A fact's id is a part of a gate's path: facts.ID
FactId: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$", max_length=80)
]
Argv: TypeAlias = Annotated[list[Text], Field(min_length=1, max_length=64)]
Directory: TypeAlias = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f]*$", max_length=4096)]
Column: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200)]
ValueType: TypeAlias = Literal["text", "number", "yes_no"]

LONGEST_LIFE_S: Final = 86_400.0  # what a host says may change behind our back: a day at most


class Part(Frozen):
    """A part of a mission file: no unknown keys, no value of another kind."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# ---- facts


class FileCsv(Part):
    """Rows of a table with a header line. `row` (from 0) picks one; without it all rows are the value."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=32)]
    separator: Annotated[str, StringConstraints(min_length=1, max_length=5)] = (
        ","  # one character, or `space`
    )
    row: Annotated[int, Field(ge=0, le=100_000)] | None = None

    @model_validator(mode="after")
    def _one_character(self) -> FileCsv:
        if self.separator != "space" and (len(self.separator) != 1 or self.separator in '"\r\n'):
            raise ValueError("separator is one character, or the word space for columns set apart by spaces")
        return self


class FileRegex(Part):
    """A pattern with named groups, tried on each line: the first line that matches, or all of them."""

    pattern: Text
    all: bool = False


class FileKeyValue(Part):
    """Lines of `key=value`. `keys` picks some; without it all are the value."""

    separator: Annotated[str, StringConstraints(min_length=1, max_length=3)] = "="
    keys: Annotated[list[Column], Field(max_length=64)] = Field(default_factory=list)


class FileParser(Part):
    """How an answer is read: exactly one of these."""

    json_pointer: Annotated[str, StringConstraints(pattern=r"^(/[^\x00-\x1f]*)?$", max_length=500)] | None = (
        None
    )
    csv: FileCsv | None = None
    regex: FileRegex | None = None
    key_value: FileKeyValue | None = None

    @model_validator(mode="after")
    def _one(self) -> FileParser:
        if sum(value is not None for value in (self.json_pointer, self.csv, self.regex, self.key_value)) != 1:
            raise ValueError("give exactly one of json_pointer, csv, regex, key_value")
        return self


class FileFact(Part):
    """A read-only question to the host. Without a parser the value is the whole answer as text."""

    argv: Argv | None = None
    file: Directory | None = None  # an absolute path that is read
    parser: FileParser | None = None
    type: ValueType | dict[Column, ValueType] = "text"  # of the value, or of its fields
    unit: Literal["bytes", "MiB", "GiB", "s", "count"] | None = None
    lifetime_s: Annotated[float, Field(gt=0, le=LONGEST_LIFE_S)] = 60.0
    level: Level = "proved"
    exit_codes: Annotated[list[Annotated[int, Field(ge=0, le=255)]], Field(min_length=1, max_length=8)] = (
        Field(default_factory=lambda: [0])
    )
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 20.0

    @model_validator(mode="after")
    def _one_source(self) -> FileFact:
        if (self.argv is None) == (self.file is None):
            raise ValueError("give argv (a read-only command) or file (a path), one of the two")
        return self

    def words(self) -> list[str]:
        """The command that reads it."""
        return list(self.argv) if self.argv is not None else ["cat", "--", str(self.file)]


# ---- tasks


class FileLook(Part):
    """A read-only look whether something is so: it is where the command ends with 0 (and prints what is wanted).

    It is not so where it ends with one of `not_so`, or prints something else. Any other end means: could not tell.
    """

    argv: Argv
    prints: Text | None = None  # a pattern that a line of the output must match
    not_so: Annotated[list[Annotated[int, Field(ge=1, le=255)]], Field(max_length=8)] = Field(
        default_factory=lambda: [1]
    )


class FileCommand(Part):
    """A change: check -> apply -> verify. `verify` left out means: check again."""

    effect: Literal["mutating", "destructive"]
    check: Argv | FileLook
    apply: Annotated[list[Argv], Field(min_length=1, max_length=32)]
    verify: Argv | FileLook | None = None
    rollback: Annotated[list[Argv], Field(max_length=32)] = Field(default_factory=list)
    cwd: Directory | None = None
    target: Text | None = None  # what is destroyed: typed back by whoever approves
    takes_bytes: Annotated[int, Field(ge=0)] | None = None
    frees_bytes: Annotated[int, Field(ge=0)] | None = None
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 1200.0

    @model_validator(mode="after")
    def _names_what_it_destroys(self) -> FileCommand:
        if self.effect == "destructive" and self.target is None:
            raise ValueError("a destructive command names its target: whoever approves it types that name")
        return self


class FileTask(Part):
    """A todo item: a change that recon carries out, or without `command` a step for a person."""

    title: Text
    priority: Priority = "medium"
    needs: list[Key] = Field(default_factory=list)
    command: FileCommand | None = None
    settles: list[Key] = Field(default_factory=list)  # the unknowns whose block this removes


# ---- unknowns and gates


class FileEffects(Part):
    """What choosing an option does: other values of the intent, a waiver, or the end of the mission."""

    intent: dict[Column, Json] = Field(default_factory=dict)
    waive: bool = False
    stop: bool = False


class FileOption(Part):
    """One answer with its consequence."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/+-]{0,79}$")]
    title: Text
    consequence: str = ""
    effort: Effort | None = None
    needs_value: str = ""
    effects: FileEffects = FileEffects()


class FileUnknown(Part):
    """A question of the mission's own."""

    question: Text
    domain: Literal["choice", "number", "yes_no", "text"] | None = (
        None  # None: choice with options, text without
    )
    unit: Annotated[str, StringConstraints(min_length=1, max_length=20)] | None = None
    options: Annotated[list[FileOption], Field(max_length=32)] = Field(default_factory=list)
    who: Answerer = "person"
    required: bool = True
    min_level: Level = "proved"
    finding_ref: Text | None = None  # role.name[key]: the finding that answers it

    @model_validator(mode="after")
    def _answerable(self) -> FileUnknown:
        if self.domain == "choice" and not self.options:
            raise ValueError("a choice needs its options")
        if self.unit is not None and self.domain != "number":
            raise ValueError("a unit belongs to domain number")
        if self.who == "task" and self.finding_ref is None:
            raise ValueError("who: task needs finding_ref, the finding that answers it")
        if len({option.id for option in self.options}) != len(self.options):
            raise ValueError("two options have the same id")
        return self


class FileGate(Part):
    """A predicate in front of a task, and the same in words."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    words: str = ""


class Additions(Part):
    """Everything a mission file brings of its own, as the mission's intent keeps it."""

    title: str = ""
    facts: dict[FactId, FileFact] = Field(default_factory=dict)
    tasks: dict[Key, FileTask] = Field(default_factory=dict)
    unknowns: dict[Key, FileUnknown] = Field(default_factory=dict)
    gates: dict[Key, list[FileGate]] = Field(default_factory=dict)


def look(written: list[str] | FileLook) -> FileLook:
    """A look as a value, however it was written."""
    return written if isinstance(written, FileLook) else FileLook(argv=list(written))
