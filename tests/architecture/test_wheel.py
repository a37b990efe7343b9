"""What is built is what is in the tree: a new package or data file cannot be left out of the wheel unseen."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.tree import ROOT, project_files

pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed (make install)")
ROOMS = ("agent", "tasks", "kernels")


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel_names: set[str]) -> None:
    paths = [p.relative_to(ROOT) for p in project_files()]
    expected = {f"recon/{p}" for p in paths if p.parts[0] in ROOMS}
    expected |= {str(Path(*p.parts[1:])) for p in paths if p.parts[:2] == ("src", "recon")}
    packed = {name for name in wheel_names if ".dist-info/" not in name}
    assert packed == expected


def test_the_wheel_takes_no_name_that_belongs_to_others(wheel_names: set[str]) -> None:
    """`kernels`, `tasks` and `agent` at the top would overwrite packages of these names."""
    assert {name.split("/")[0].split("-")[0] for name in wheel_names} == {"recon", "recon_runner"}
