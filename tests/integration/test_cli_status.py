"""`recon status` and `recon runs` after a run that did not come to its end; a state file that may not be read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import RECON, recon, within
from support.killed import forked

NOBODY = 65534


def stopped_by(number: signal.Signals, folder: Path) -> int:
    """Starts the bundled mission, sends a signal once something is done; the exit code."""
    child = subprocess.Popen(
        [*RECON, "run", "--pace", "2"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    assert child.stderr.readline().startswith("✓")
    child.send_signal(number)
    shown = child.communicate(timeout=30)[0]
    assert " running" not in shown
    return child.returncode


def test_a_killed_run_is_said_to_have_died_until_somebody_goes_on(tmp_path: Path) -> None:
    assert stopped_by(signal.SIGKILL, tmp_path) == -9
    shown = within(tmp_path, "status", code=130).stdout
    assert "run 1 died: pid " in shown and "recon resume goes on from there" in shown
    assert " running" not in shown and " interrupted" in shown.split("todo: ")[1]
    assert shown.splitlines()[-1].startswith("exit 130: interrupted")
    assert json.loads(within(tmp_path, "status", "--json", code=130).stdout)["exit_code"] == 130
    assert within(tmp_path, "runs").stdout.strip().endswith("died")
    recon(tmp_path, "resume", code=3)
    assert "run 2 ended with exit 3" in within(tmp_path, "status", code=3).stdout
    assert "died, found at" in within(tmp_path, "runs").stdout


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    assert stopped_by(signal.SIGINT, tmp_path) == 130
    shown = within(tmp_path, "status", code=130).stdout
    assert "nothing runs; run 1 was interrupted at " in shown and " running" not in shown
    assert "exit 130 (interrupted)" in within(tmp_path, "runs").stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="recon-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def as_somebody_else(folder: Path, *words: str) -> str:
    """Runs a command line as a user who owns nothing, in a forked process; what it said. Its exit code must be 5."""
    told = folder / "told"

    def body() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        ended = within(folder, *words, code=5)
        told.write_text(ended.stderr)

    told.unlink(missing_ok=True)
    assert forked(body) == 0, words
    return told.read_text()


@pytest.mark.parametrize("db", ["state.db", "shut/state.db"])
def test_a_state_that_may_not_be_read_ends_with_5(open_folder: Path, db: str) -> None:
    recon(open_folder, "run", code=3)
    within(open_folder, "status", code=3)  # what it imports is loaded: the other user may not read it
    (open_folder / "shut").mkdir()
    shutil.copy(open_folder / "state.db", open_folder / "shut" / "state.db")
    (open_folder / "state.db").chmod(0)
    (open_folder / "shut").chmod(0)
    for words in (
        ("report", "--db", db),
        ("--db", db, "status"),
        ("run", "--db", db),
        ("decide", "--db", db),
    ):
        told = as_somebody_else(open_folder, *words)
        assert db in told and "  -> " in told
    (open_folder / "shut").chmod(0o700)
