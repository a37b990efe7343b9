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


def test_a_change_that_became_another_one_is_not_approved() -> None:
    ended = typed("mutating", (QUESTION, "y"), drift="drift")
    assert "CALL" not in ended.shown
    assert "changed while you read it" in ended.shown and ended.exit_code == 2


PLAN = SCRIPT.with_name("plan_script.py")
ALL = "approve these 2 (1 exactly as shown, 1 within the bounds shown)? [y/N]"
WIPE = "wipe cannot be taken back; type wipe to approve it, nothing to leave it out:"


def plan_typed(folder: Path, *answers: tuple[str, str]) -> Ended:
    """`recon approve --plan` on a terminal."""
    return on_terminal(
        [sys.executable, str(PLAN), str(folder), "--plan"], answers, cwd=SCRIPT.parent, env=environment()
    )


def test_a_whole_plan_in_one_dialogue_with_what_destroys_named_singly(tmp_path: Path) -> None:
    ended = plan_typed(tmp_path, (ALL, "y"), (WIPE, "wipe"))
    assert ended.exit_code == 0, ended.shown
    for words in (
        "1. one: do one (mutating)", "  $ one", "not known in full yet; only of this form",
        "  $ systemctl stop -- <unit>", '  decided("go")', "manual: do manual (destructive): not covered",
        "approved: one", "approved within the bounds shown: later", "approved: wipe", "not approved: manual",
    ):  # fmt: skip
        assert words in ended.shown, words
    assert ended.shown.index("$ wipe") < ended.shown.index(ALL)


def test_what_destroys_can_be_left_out_of_a_plan_but_a_wrong_name_stops_it(tmp_path: Path) -> None:
    left = plan_typed(tmp_path / "a", (ALL, "y"), (WIPE, ""))
    assert "approved: one" in left.shown and "not approved: wipe, manual" in left.shown
    wrong = plan_typed(tmp_path / "b", (ALL, "y"), (WIPE, "yes"))
    assert (
        "nothing is approved" in wrong.shown and "approved: one" not in wrong.shown and wrong.exit_code == 2
    )
    no = plan_typed(tmp_path / "c", (ALL, "n"))
    assert "not approved" in no.shown and "approved: one" not in no.shown and no.exit_code == 2


def test_a_plan_without_a_terminal_needs_the_word_of_who_started_it(tmp_path: Path) -> None:
    flags = ["--plan", "--yes", "--confirm", "wipe"]
    refused = unattended([sys.executable, str(PLAN), str(tmp_path / "a"), *flags])
    assert refused.returncode == 2 and ALLOW in refused.stderr
    allowed = unattended([sys.executable, str(PLAN), str(tmp_path / "b"), *flags], **{ALLOW: "1"})
    assert allowed.returncode == 0 and "approved: wipe" in allowed.stdout, allowed.stderr
