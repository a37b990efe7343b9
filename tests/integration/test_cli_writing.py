"""What is written goes nowhere where something would be lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.command_line import recon, within

REPORT = ("report", "-o")
EXPORT = ("export",)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the bundled mission ran."""
    folder = tmp_path_factory.mktemp("played")
    recon(folder, "run", code=3)
    return folder


@pytest.fixture
def folder(played: Path, tmp_path: Path) -> Path:
    """A copy to write in."""
    shutil.copy(played / "state.db", tmp_path / "state.db")
    return tmp_path


@pytest.mark.parametrize("command", [REPORT, EXPORT], ids=" ".join)
@pytest.mark.parametrize(
    "target", ["state.db", "./state.db", "state.db-wal", "hard", "soft", "sub/../state.db"]
)
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["plain", "force"])
def test_nothing_is_written_onto_the_state(
    folder: Path, command: tuple[str, ...], target: str, force: tuple[str, ...]
) -> None:
    (folder / "sub").mkdir()
    os.link(folder / "state.db", folder / "hard")
    (folder / "soft").symlink_to("state.db")
    before = (folder / "state.db").read_bytes()
    told = within(folder, *command, target, *force, code=2).stderr
    assert "the state file; nothing is written there" in told
    assert (folder / "state.db").read_bytes() == before and (folder / "soft").is_symlink()
    within(folder, "missions")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("report", "-o"), "r.txt"),
        (("report", "-f", "md", "-o"), "r.md"),
        (("report", "-f", "json", "-o"), "r.json"),
        (("export",), "b.tar.gz"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_only_an_earlier_output_of_the_same_kind_is_replaced(
    folder: Path, command: tuple[str, ...], name: str
) -> None:
    target = folder / name
    within(folder, *command, name)
    first = target.read_bytes()
    within(folder, *command, name)
    assert target.read_bytes() == first
    for other in (b"my notes", b"PK\x03\x04", b'{"schema": 1}', b"\x1f\x8bnot a bundle"):
        target.write_bytes(other)
        told = within(folder, *command, name, code=2).stderr
        assert "is there already and is no earlier" in told and "--force" in told
        assert target.read_bytes() == other
    within(folder, *command, name, "--force")
    assert target.read_bytes() == first


def test_one_kind_does_not_replace_another(folder: Path) -> None:
    within(folder, "report", "-f", "md", "-o", "r")
    for command in (("report", "-o", "r"), ("report", "-f", "json", "-o", "r"), ("export", "r")):
        within(folder, *command, code=2)
    assert (folder / "r").read_text().startswith("# recon: ")


def test_an_empty_file_and_a_pipe_may_be_written(folder: Path) -> None:
    (folder / "made").touch()
    within(folder, "report", "-o", "made")
    within(folder, "report", "-o", "/dev/null")
    assert "no ordinary file" in within(folder, "export", "/dev/null", code=2).stderr
    assert Path("/dev/null").is_char_device()
