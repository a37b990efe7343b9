"""Commands that packages bring: entry points of the group `recon.commands`, each `function(arguments) -> exit code`.

They read their own arguments and load nothing of recon but what they import. ValueError from one is bad usage.
"""

from __future__ import annotations

from importlib import metadata
from typing import Final

import typer

from recon.agent.model.errors import ConfigError, UsageError

GROUP: Final = "recon.commands"
RAW: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    app.command(
        "lint",
        short_help="Check launch lines against an engine release.",
        context_settings=RAW,
        add_help_option=False,
    )(lint)


def lint(context: typer.Context) -> int:
    """Check launch lines of an engine against one of its releases: recon lint --help."""
    return run_brought("lint", context.args)


def run_brought(name: str, arguments: list[str]) -> int:
    """Runs a command that a package brings. Raises ConfigError where none does, UsageError where it refuses the words."""
    point = next(iter(metadata.entry_points(group=GROUP, name=name)), None)
    if point is None:
        raise ConfigError(f"no package brings the command {name}", hint="pip install -e .")
    try:
        return int(point.load()(arguments))
    except ValueError as error:
        raise UsageError(str(error), hint=f"recon {name.replace('-', ' ')} --help") from error
