"""Where a report or a bundle may be written: never over the state file, and over other files only where that is meant."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from recon.agent.model.errors import UsageError

_LOOK: Final = 1 << 16  # bytes from which a file's kind is told
_SIDE: Final = ("", "-wal", "-shm", "-journal")  # SQLite's own files beside a state file


def refuse_overwriting(target: Path, *, db: Path, kind: str, force: bool) -> None:
    """Raises UsageError where writing to `target` would destroy something: the state file, which `force` does not
    change, or a file that is not an earlier output of the same kind (text, md, json, bundle)."""
    for suffix in _SIDE:
        part = db.with_name(db.name + suffix)
        if _same(target, part):
            what = "the state file" if not suffix else "a part of the state file"
            raise UsageError(
                f"{target}: is {what}; nothing is written there",
                hint="name another file; --force does not change that",
            )
    try:
        mode = target.stat().st_mode
    except OSError:  # not there, or not to be looked at: writing it will say so
        return
    if not stat.S_ISREG(mode):
        if kind == "bundle" and not stat.S_ISDIR(mode):  # a bundle takes the place of what has its name
            raise UsageError(f"{target}: is no ordinary file", hint="name a file: BUNDLE.tar.gz")
        return
    if force or _earlier(target, kind):
        return
    noun = "bundle" if kind == "bundle" else f"{kind} report"
    raise UsageError(
        f"{target}: is there already and is no earlier {noun}; it is left as it was",
        hint="name another file, or write over it with --force",
    )


def _same(target: Path, part: Path) -> bool:
    try:
        return target.samefile(part)
    except OSError:  # one of them is not there: the names decide, for a log that comes and goes
        return target.resolve() == part.resolve()


def _earlier(target: Path, kind: str) -> bool:
    """Whether the file was written by recon as this kind. An empty file holds nothing to lose."""
    try:
        with target.open("rb") as file:
            head = file.read(_LOOK)
    except OSError:
        return False
    return not head or _TOLD_BY[kind](head, target)


def _is_text(head: bytes, target: Path) -> bool:
    first = head.decode("utf-8", errors="replace").splitlines()[:4]
    return any(line.startswith("verdict  ") for line in first)


def _is_markdown(head: bytes, target: Path) -> bool:
    return head.startswith(b"# recon: ")


def _is_json(head: bytes, target: Path) -> bool:
    try:
        body = json.loads(target.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(body, dict) and str(body.get("schema", "")).startswith("recon.report/")


def _is_bundle(head: bytes, target: Path) -> bool:
    from recon.agent.connectors.replay import read_bundle
    from recon.agent.model.errors import ReconError

    if not head.startswith(b"\x1f\x8b"):
        return False
    try:
        read_bundle(target)
    except ReconError:
        return False
    return True


_TOLD_BY: Final[dict[str, Callable[[bytes, Path], bool]]] = {
    "text": _is_text, "md": _is_markdown, "json": _is_json, "bundle": _is_bundle,
}  # fmt: skip
