"""The command tree. Importing this loads typer and nothing heavy: every command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from recon import __version__
from recon.agent.cli import output
from recon.agent.cli.commands import brought, consent, inspecting, reading, running, state, todo
from recon.agent.cli.groups import Panels
from recon.agent.model.errors import UsageError

app = typer.Typer(
    name="recon", cls=Panels, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@app.callback(invoke_without_command=True)
def recon(
    context: typer.Context,
    db: Annotated[
        Path,
        typer.Option(
            "--db", envvar="RECON_DB", help="The state file; one file holds many missions.", readable=False
        ),
    ] = Path("state.db"),
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> int:
    """Know before you deploy: finds out what a deployment depends on, and changes nothing until you decide.

    Without arguments, `recon run` goes on with the current mission, or plays the bundled demo.

    Exit codes: 0 finished, 1 a task failed, 2 usage, 3 waiting for you, 4 a needed source is out of reach,
    5 state.db unusable, 130 interrupted.
    """
    # Each command has its own --db as well; what is given before the command's name is its default.
    names: dict[str, Any] = {name: {"db": str(db)} for name in Panels.list_commands(_group(context), context)}
    names["todo"] |= {name: {"db": str(db)} for name in todo.NAMES}
    context.default_map = names
    if version:
        output.lines([f"recon {__version__}"])
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        output.lines([context.get_help()])
    return 0


def _group(context: typer.Context) -> Panels:
    command = context.command
    assert isinstance(command, Panels)
    return command


for module in (running, reading, consent, todo, state, inspecting, brought):
    module.register(app)


def invoke(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. ReconErrors pass through; the parser's own become UsageError."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=list(arguments), prog_name="recon", standalone_mode=False)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        if not _is_click_error(error):
            raise
        raise _usage(error) from error
    return code if isinstance(code, int) else 0


# typer carries its own copy of click from 0.26 on, and uses the installed one before: the class is found by name.
_CLICK_ERROR: type = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _is_click_error(error: Exception) -> bool:
    return isinstance(error, _CLICK_ERROR)


def _usage(error: Any) -> UsageError:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "recon"
    return UsageError(str(error.format_message()), hint=f"{where} --help")
