"""The `recon` command as people start it, as a process or in this one; its exit code is checked."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

from recon.agent import cli

RECON = [sys.executable, "-m", "recon"]


def recon(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs `recon` in a folder as a process; stdin is empty. Checks the exit code."""
    ended = subprocess.run(
        [*RECON, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    return _checked(ended, code)


def within(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The same command line without the second that a process takes to start: for what only looks or refuses."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        returned = cli.run(arguments)
    ended = subprocess.CompletedProcess(list(arguments), returned, out.getvalue(), err.getvalue())
    return _checked(ended, code)


def _checked(ended: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    assert ended.returncode == code, f"{ended.args}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    assert "Traceback" not in ended.stderr
    return ended
