"""inspect: one subject looked at once; no mission stays."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from recon.agent.cli import output
from recon.agent.cli.commands.brought import RAW, run_brought
from recon.agent.model.errors import UsageError

inspect = typer.Typer(
    name="inspect", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Look at one subject once; nothing is kept.",
)  # fmt: skip
_REPO: Final = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$")


class Format(StrEnum):
    """Forms of an inspection."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Adds the command and its kinds."""
    app.add_typer(inspect, name="inspect", short_help="Look at one subject once; nothing is kept.")


@inspect.command("model")
def model(
    target: Annotated[
        str,
        typer.Argument(
            metavar="REPO | DIRECTORY", show_default=False, help="ORG/NAME on the Hub, or a folder."
        ),
    ],
    revision: Annotated[str, typer.Option(help="Branch, tag or commit.")] = "main",
    tp: Annotated[int, typer.Option(min=1, max=1024, help="Ranks that sizes are given for.")] = 1,
    hub: Annotated[str | None, typer.Option(help="Address of the Hub (default: HF_ENDPOINT).")] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="text or json.")] = Format.TEXT,
) -> int:
    """What a checkpoint really holds: format of each component with its proof, sizes, contradictions, siblings.

    Only the headers of weight files are read, a few megabytes of a large one.
    """
    from recon.agent.cli.inspection import load_inspection, look
    from recon.agent.cli.progress import listener
    from recon.agent.connectors.directory import DirectorySource
    from recon.agent.model.missions import Intent, Layout
    from recon.agent.report.clean import clean

    folder = None if _REPO.match(target) and not _looks_like_path(target) else Path(target)
    if folder is not None and hub is not None:
        raise UsageError("a folder is read here, so there is no --hub", hint="leave --hub out")
    source = DirectorySource(folder) if folder is not None else None
    repo = source.repo if source is not None else target
    intent = Intent(model=repo, revision=revision, layout=Layout(tp=tp))
    inspection = load_inspection("model")
    with listener(as_json=False) as listen:
        looked = look(inspection, intent, listen=listen, hub=hub, source=source)
    judgements = [j.judgement for j in looked.state.judgements]
    document = inspection.document(looked.view, judgements)
    if format is Format.JSON:
        output.as_json(document)
    elif document["components"] or looked.code == 0:  # else there is nothing to show but what went wrong
        output.lines(inspection.text(document, width=output.width()))
    said: dict[str, str] = {}
    for item in looked.state.tasks:
        if item.task.status == "failed" and item.error:
            said.setdefault(str(item.error.get("message", "failed")), str(item.error.get("hint") or ""))
    for message, hint in said.items():
        output.note(f"recon: {clean(message)}", *([f"  -> {clean(hint)}"] if hint else []))
    return looked.code


@inspect.command("log", context_settings=RAW, add_help_option=False, short_help="What an engine's log says.")
def log(context: typer.Context) -> int:
    """What an engine's log says: the cause of a failure, memory, backends: recon inspect log FILE|-."""
    return run_brought("inspect-log", context.args)


def _looks_like_path(target: str) -> bool:
    """A folder of that name is meant only where it says so: a repository is never taken from the disk silently."""
    return target.startswith((".", "/", "~"))
