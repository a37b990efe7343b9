"""Every command explains itself and stands in the README; the README names no command that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from support.readme_blocks import README

from recon.agent.cli.app import app


def _commands(group: Any, prefix: str = "recon") -> Iterator[tuple[str, Any]]:
    """Every command below a group with its full name."""
    for name, command in group.commands.items():
        yield f"{prefix} {name}", command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix} {name}")


COMMANDS = dict(_commands(typer.main.get_command(app)))


def test_there_are_commands() -> None:
    assert {"recon run", "recon resume", "recon report", "recon decide", "recon todo add"} <= set(COMMANDS)


def test_every_command_has_help() -> None:
    silent = [name for name, command in COMMANDS.items() if not (command.help or "").strip()]
    assert silent == []


def test_every_option_has_help() -> None:
    silent = [
        f"{name} {parameter.opts[0]}"
        for name, command in COMMANDS.items()
        for parameter in command.params
        if parameter.param_type_name == "option" and not (parameter.help or "").strip()
    ]
    assert silent == []


def test_every_command_stands_in_the_readme() -> None:
    text = README.read_text()
    top = {name for name in COMMANDS if name.count(" ") == 1}
    assert {name for name in top if not re.search(rf"\b{name}\b", text)} == set()
    todo = {name.split()[-1] for name in COMMANDS if name.startswith("recon todo ")}
    line = next(line for line in text.splitlines() if line.startswith("| `recon todo`"))
    assert {name for name in todo if f"`{name}`" not in line} == set()


def test_the_readme_names_no_command_that_is_not_there() -> None:
    named = set(re.findall(r"(?:^|`)recon ([a-z]+)\b", README.read_text(), flags=re.MULTILINE))
    assert "run" in named
    assert named - {name.split()[1] for name in COMMANDS} == set()
