"""A folder of stand-in commands that print what a corpus host printed: put it first in PATH and it looks like that host.

The commands are stand-ins and say so on an unknown argument vector, with exit code 64.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

_PLAIN = re.compile(r"^[\w./,:=@ '{}%-]+$")  # commands without pipes, patterns and remarks
_NOT_STOOD_IN = frozenset(
    {"cat", "ls", "grep", "readlink", "du"}
)  # real tools of the machine: they work on paths


def corpus_host(name: str) -> Path:
    """The folder of a corpus host; skips the test where RECON_CORPUS is not set."""
    root = os.environ.get("RECON_CORPUS")
    if not root:
        pytest.skip("RECON_CORPUS is not set: it names the folder with recorded hosts")
    folder = Path(root) / "hosts" / name
    if not folder.is_dir():
        pytest.skip(f"no host {name} in {root}")
    return folder


def commands_of(folder: Path) -> dict[tuple[str, ...], tuple[Path, int]]:
    """argv -> (file with its output, exit code), for commands that stand in for a program of the host."""
    files = json.loads((folder / "facts.json").read_text())["files"]
    found: dict[tuple[str, ...], tuple[Path, int]] = {}
    for name, row in files.items():
        command = re.sub(r" \(.*\)$", "", row.get("command") or "")
        argv = tuple(shlex.split(command)) if _PLAIN.match(command) else ()
        if (
            argv
            and argv[0] not in _NOT_STOOD_IN
            and not argv[0].startswith("/")
            and (folder / name).is_file()
        ):
            expected = row.get("expected") or {}
            found[argv] = (folder / name, int(expected.get("exit_status", expected.get("exit_code", 0))))
    return found


def build_path(folder: Path, into: Path) -> Path:
    """Writes one stand-in per program into a folder and returns it."""
    into.mkdir(parents=True, exist_ok=True)
    programs: dict[str, list[tuple[tuple[str, ...], Path, int]]] = {}
    for argv, (file, code) in sorted(commands_of(folder).items()):
        programs.setdefault(argv[0], []).append((argv, file, code))
    for program, rows in programs.items():
        cases = "\n".join(
            f"  {shlex.quote(' '.join(argv[1:]))}) cat -- {shlex.quote(str(file))}; exit {code};;"
            for argv, file, code in rows
        )
        script = f'#!/bin/sh\n# stand-in: prints recorded output\ncase "$*" in\n{cases}\nesac\n'
        script += f'echo "stand-in for {program}: not recorded: $*" >&2\nexit 64\n'
        (into / program).write_text(script)
        (into / program).chmod(0o755)
    return into
