"""What README.md shows is what happens: its blocks are run here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support import readme_blocks

TEXT = readme_blocks.README.read_text()
SHOWN = [b for b in readme_blocks.blocks(TEXT) if b.mark.startswith("shown: ")]


@pytest.mark.parametrize("shown", SHOWN, ids=lambda b: b.mark)
def test_the_output_shown_is_the_real_output(shown: readme_blocks.Block, tmp_path: Path) -> None:
    argv = tuple(shlex.split(shown.mark.removeprefix("shown: ")))
    ended = readme_blocks.run(argv, cwd=tmp_path)
    assert readme_blocks.comparable(ended.stdout) == readme_blocks.comparable(shown.body), "run `make readme`"
    assert ended.exit_code == 3


def test_the_output_of_run_is_shown_and_fits_a_small_terminal() -> None:
    lines = readme_blocks.block(TEXT, "shown: recon run").body.splitlines()
    assert 10 < len(lines) <= 40
    assert max(map(len, lines)) <= readme_blocks.WIDTH


def test_every_step_of_the_tour_ends_as_promised(tmp_path: Path) -> None:
    for step in readme_blocks.tour(TEXT):
        ended = readme_blocks.run(step.argv, cwd=tmp_path)
        told = f"{shlex.join(step.argv)}\n{ended.stdout}\n{ended.stderr}"
        assert ended.exit_code == step.exit_code, told


def test_the_two_commands_are_one_line_each() -> None:
    for mark in ("command: run", "command: test"):
        assert len(readme_blocks.block(TEXT, mark).body.strip().splitlines()) == 1


def test_the_exit_codes_are_the_contract() -> None:
    rows = re.findall(r"^\| (\d+) \| ", TEXT, flags=re.MULTILINE)
    assert rows == ["0", "1", "2", "3", "4", "5", "130"]


def test_the_smallest_mission_file_is_understood(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(readme_blocks.block(TEXT, "mission: smallest").body)
    ended = readme_blocks.run(("recon", "triage", "m.yaml"), cwd=tmp_path)
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.startswith("Serve ORG/MODEL with SGLang on host: prefill TP4 + decode TP4")


def test_commands_alone_are_used_only_after_the_path_is_explained() -> None:
    assert TEXT.index("source .venv/bin/activate") < TEXT.index("<!-- tour -->")
