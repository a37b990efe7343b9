"""Consent is asked for on a real terminal, for exactly what is shown, and nothing else counts as one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.terminal import Ended, on_terminal

SCRIPT = Path(__file__).parent.parent / "support" / "consent_script.py"
ALLOW = "RECON_ALLOW_NONINTERACTIVE_APPROVAL"
QUESTION = "approve exactly this? [y/N]"
NAME = "type /models/old to approve:"


def command(effect: str, *, yes: str = "", confirm: str = "", drift: str = "") -> list[str]:
    """The script's command line."""
    return [sys.executable, str(SCRIPT), effect, yes, confirm, drift]


def environment(**more: str) -> dict[str, str]:
    """The tests folder importable; no consent by environment unless a test says so."""
    kept = {k: v for k, v in os.environ.items() if k != ALLOW}
    return {**kept, "PYTHONPATH": str(SCRIPT.parent.parent), **more}


def typed(effect: str, *answers: tuple[str, str], drift: str = "") -> Ended:
    """Runs it on a terminal."""
    return on_terminal(command(effect, drift=drift), answers, cwd=SCRIPT.parent, env=environment())


def unattended(argv: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    """Runs it without a terminal."""
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(**more),
        timeout=60,
        check=False,
    )


def test_the_exact_change_is_shown_and_yes_approves_it() -> None:
    ended = typed("mutating", (QUESTION, "y"))
    assert "  $ systemctl stop old.service" in ended.shown and "  path = /models/old" in ended.shown
    assert ended.shown.index("systemctl stop") < ended.shown.index(QUESTION)
    assert "CALL approve | disk.free |  | cli, asked on a terminal, from " in ended.shown
    assert ended.exit_code == 0


@pytest.mark.parametrize("answer", ["", "n", "maybe"])
def test_anything_but_yes_approves_nothing(answer: str) -> None:
    ended = typed("mutating", (QUESTION, answer))
    assert "CALL" not in ended.shown and ended.exit_code == 2


def test_what_destroys_wants_its_name_typed() -> None:
    assert (
        "CALL approve | disk.free | /models/old | cli, asked"
        in typed("destructive", (NAME, "/models/old")).shown
    )
    refused = typed("destructive", (NAME, "yes"))
    assert "CALL" not in refused.shown and "nothing is approved" in refused.shown


def test_yes_does_not_do_for_what_destroys() -> None:
    ended = unattended(command("destructive", yes="1"), **{ALLOW: "1"})
    assert "CALL" not in ended.stdout and "nobody to ask here" in ended.stderr


@pytest.mark.parametrize(
    "argv", [command("mutating", yes="1"), command("destructive", confirm="/models/old")]
)
def test_flags_count_without_a_terminal_only_where_a_person_allowed_it(argv: list[str]) -> None:
    refused = unattended(argv)
    assert "CALL" not in refused.stdout and ALLOW in refused.stderr and refused.returncode == 2
    allowed = unattended(argv, **{ALLOW: "1"})
    assert f"no terminal ({ALLOW}), from" in allowed.stdout and allowed.returncode == 0


def test_nobody_is_taken_for_a_yes() -> None:
    ended = unattended(command("mutating"))
    assert "CALL" not in ended.stdout and ended.returncode == 2


def test_a_change_that_became_another_one_is_taken_back() -> None:
    ended = typed("mutating", (QUESTION, "y"), drift="drift")
    assert "CALL approve" in ended.shown and "CALL deny" in ended.shown
    assert "changed while you read it" in ended.shown and ended.exit_code == 2
