"""A change is a value: plan, approval and act all use the same one."""

from __future__ import annotations

from recon.agent.model.base import Frozen, canonical_json, sha256_hex


class FileChange(Frozen):
    """A file a change writes: its sha256 before ("" = must not exist) and its text after."""

    path: str
    sha_before: str
    text_after: str


class Change(Frozen):
    """Exactly what an act task will do. Bytes are counts; `exact` holds identities only, never numbers that drift."""

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

    @property
    def change_hash(self) -> str:
        """sha256 of the canonical JSON: what an approval is bound to."""
        return sha256_hex(canonical_json(self.model_dump(mode="json")))

    @property
    def exact_hash(self) -> str:
        """sha256 of the identities alone, to say what kind of change voided an approval."""
        return sha256_hex(canonical_json([list(pair) for pair in self.exact]))


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
