"""A change is a value: plan, approval and act all use the same one."""

from __future__ import annotations

import re
from typing import Final

from pydantic import model_validator

from recon.agent.model.base import Frozen, canonical_json, sha256_hex

_MEASURED: Final = frozenset({"frees_bytes", "takes_bytes"})  # numbers that drift: shown, never bound
_GAP: Final = re.compile(r"<([^<>]+)>")


class FileChange(Frozen):
    """A file a change writes: its sha256 before ("" = must not exist) and its text after.

    `text_before`, where it is known, is what the file held when it was read: what a diff is shown against.
    """

    path: str
    sha_before: str
    text_after: str
    text_before: str | None = None

    @model_validator(mode="after")
    def _is_what_was_read(self) -> FileChange:
        if self.text_before is not None and sha256_hex(self.text_before) != self.sha_before:
            raise ValueError(f"{self.path}: the text before has not the sha256 that is named")
        return self


class Change(Frozen):
    """Exactly what an act task will do. Bytes are counts; `exact` holds identities only, never numbers that drift.

    `effect` and `gates` (predicate texts) come from the todo item, not from the definition: see `sealed`.
    """

    task: str
    host: str
    user: str = ""
    cwd: str = ""
    env_names: tuple[str, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()  # argument vectors, in order
    files: tuple[FileChange, ...] = ()
    frees_bytes: int | None = None
    takes_bytes: int | None = None
    exact: tuple[
        tuple[str, str], ...
    ] = ()  # (identity, value): boot id, unit, fragment path, main pid, commit, path
    rollback: tuple[tuple[str, ...], ...] = ()
    effect: str = ""
    gates: tuple[str, ...] = ()

    def sealed(self, *, effect: str, gates: tuple[str, ...]) -> Change:
        """The same change bound to the effect it was planned with and the predicates it rests on."""
        return self.model_copy(update={"effect": effect, "gates": gates})

    @property
    def canonical(self) -> str:
        """The canonical JSON that consent is bound to: everything but the measured byte counts, which gates hold."""
        return canonical_json(self.model_dump(mode="json", exclude=set(_MEASURED)))

    @property
    def change_hash(self) -> str:
        """sha256 of the canonical JSON: what an approval is bound to."""
        return sha256_hex(self.canonical)

    @property
    def exact_hash(self) -> str:
        """sha256 of the identities alone, to say what kind of change voided an approval."""
        return sha256_hex(canonical_json([list(pair) for pair in self.exact]))


class Bounds(Frozen):
    """What a later change of one task may be and still be covered by a plan's approval. Never for what destroys.

    A word of `patterns` is literal except for `<name>`: it stands for one value, the same everywhere, which the change
    has to name as an identity, or a decision as its answer.
    """

    task: str
    host: str
    user: str = ""
    effect: str
    gates: tuple[str, ...] = ()
    patterns: tuple[tuple[str, ...], ...]

    @property
    def canonical(self) -> str:
        """The canonical JSON that consent is bound to."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def bounds_hash(self) -> str:
        """sha256 of the canonical JSON."""
        return sha256_hex(self.canonical)

    def names(self) -> tuple[str, ...]:
        """The open places, in order of appearance."""
        found = (name for pattern in self.patterns for word in pattern for name in _GAP.findall(word))
        return tuple(dict.fromkeys(found))


def gaps(word: str) -> list[str]:
    """Literal text and names of a pattern's word in turn: `a<b>c` gives a, b, c."""
    return _GAP.split(word)


Consented = Change | Bounds


def consented(text: str | bytes, scope: str) -> Consented:
    """What an approval was given to, from its canonical JSON."""
    model: type[Change | Bounds] = Bounds if scope == "bounds" else Change
    return model.model_validate_json(text)


class Rendered(Frozen):
    """How an act task looks now: the change, or the command lines with `<...>` for what is not known yet and why."""

    change: Change | None = None
    lines: tuple[str, ...] = ()  # what will run, as people read it
    missing: tuple[str, ...] = ()  # what has to be known or decided before it can be a change
    manual: bool = False  # recon renders it, a person carries it out


class CheckResult(Frozen):
    """What a check or verify saw: whether the wanted state holds, and in words why it thinks so."""

    holds: bool | None  # None: could not tell
    because: str
