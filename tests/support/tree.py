"""The files of the project: what a commit would hold."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LEFT_BY_TOOLS = {"__pycache__", "build", "dist", "venv"}


def project_files() -> list[Path]:
    """Every file that is tracked or could be; links are left out. Works in an unpacked archive too."""
    names = _names_from_git() or _names_from_walk()
    paths = (ROOT / name for name in names)
    return sorted(p for p in paths if p.is_file() and not p.is_symlink())


def _names_from_git() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [name for name in done.stdout.split("\0") if name]


def _names_from_walk() -> list[str]:
    names = []
    for folder, inner, files in os.walk(ROOT):
        inner[:] = [d for d in inner if d not in _LEFT_BY_TOOLS and not d.startswith(".")]
        names += [str((Path(folder) / f).relative_to(ROOT)) for f in files if not f.endswith(".pyc")]
    return names
