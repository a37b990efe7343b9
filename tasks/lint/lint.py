"""Launch lines against a release: every line alone, then all of one deployment against one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recon.tasks.knowledge.flag_table import flag_table, router_table
from recon.tasks.lint.arguments import read
from recon.tasks.lint.checkpoint import Checkpoint
from recon.tasks.lint.lines import Launch
from recon.tasks.lint.notes import Note, error, warning
from recon.tasks.lint.pairs import between
from recon.tasks.lint.rules import Setting, together

# Formats that people write after --quantization, which are no choice of it.
_FORMATS = frozenset(
    {"nvfp4", "w4a16", "int4", "w4a8", "w8a8", "int8", "fp4", "w4a16-int4", "modelopt_nvfp4"}
)


@dataclass(frozen=True)
class Against:
    """What lines are held against. `version`: of the engine, "" for the newest that is known; `sm` "" where not said."""

    version: str = ""
    sm: str = ""
    rdma: bool | None = None
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True)
class Linted:
    """A launch with what was found; `release`: the one of the table it was held against."""

    launch: Launch
    release: str
    notes: tuple[Note, ...]

    @property
    def errors(self) -> int:
        """How many notes are errors."""
        return sum(note.severity == "error" for note in self.notes)


def lint(launches: Sequence[Launch], against: Against) -> list[Linted]:
    """Every launch with its notes, in order. Raises ValueError for a version older than the table or none at all."""
    table = flag_table()
    release = table.newest if not against.version else table.release_for(against.version)
    if release is None:
        raise ValueError(
            f"the flags of SGLang {against.version!r} are not known: the table begins with {table.releases[0]}"
        )
    rows: list[tuple[Launch, str, list[Note]]] = []
    settings: list[tuple[int, Setting]] = []
    for launch in launches:
        if launch.kind == "router":
            rows.append((launch, router_table().newest, _router(launch)))
            continue
        given = read(launch.arguments, table, release)
        setting = Setting(given, release, launch.environment, against.sm, against.rdma, against.checkpoint)
        notes = [_plainer(note, launch) for note in given.notes] + together(setting)
        settings.append((len(rows), setting))
        rows.append((launch, release, notes))
    for index, note in between([setting for _, setting in settings]):
        rows[settings[index][0]][2].append(note)
    return [Linted(launch, held, _in_order(notes)) for launch, held, notes in rows]


def _in_order(notes: Sequence[Note]) -> tuple[Note, ...]:
    return tuple(sorted(notes, key=lambda n: (n.argument is None, n.argument or 0, n.severity)))


def _plainer(note: Note, launch: Launch) -> Note:
    """A format word after --quantization: SGLang takes a pre-quantized checkpoint without the flag."""
    word = (
        launch.arguments[note.argument].partition("=")[2] or launch.arguments[note.argument]
        if note.argument is not None
        else ""
    )
    if note.code == "choice" and "--quantization" in note.text and word.lower() in _FORMATS:
        text = f"--quantization has no {word!r}: a checkpoint that is quantized says so itself"
        return error("choice", text, note.argument, instead="leave it out")
    return note


def _router(launch: Launch) -> list[Note]:
    given = read(launch.arguments, router_table(), router_table().newest)
    notes = list(given.notes)
    split = given.has("--pd-disaggregation")
    addressed = given.has("--prefill", "--decode")
    if addressed and not split:
        first = min(given.at[name] for name in ("--prefill", "--decode") if name in given.at)
        notes.append(
            warning("router", "--prefill and --decode are read with --pd-disaggregation only", first)
        )
    if split and not given.has("--service-discovery"):
        notes += [
            error(
                "router",
                f"--pd-disaggregation without {name}: no worker of that role",
                given.at["--pd-disaggregation"],
            )
            for name in ("--prefill", "--decode")
            if not given.has(name)
        ]
    return notes
