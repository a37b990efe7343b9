"""report, status, why, show, board: looking at a mission."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recon.agent.cli import output
from recon.agent.cli.commands.options import DEFAULT_DB, AsJson, Db, reading, session
from recon.agent.model.errors import UsageError

if TYPE_CHECKING:
    from recon.agent.cli.compose import Session
    from recon.agent.model.state import MissionState


class Format(StrEnum):
    """Forms of the report."""

    TEXT = "text"
    MD = "md"
    JSON = "json"


class Kind(StrEnum):
    """What can be shown in full."""

    TASK = "task"
    FINDING = "finding"
    UNKNOWN = "unknown"
    DISCREPANCY = "discrepancy"


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    app.command("report", short_help="The whole report, every finding with its proof.")(report)
    app.command("board", short_help="The live task board with the open questions.")(board)
    app.command("why", short_help="Why a task or question stands where it stands.")(why)
    app.command("show", short_help="A task, finding, unknown or discrepancy in full.")(show)
    app.command("status", short_help="What the last run ended with.")(status)


def report(
    format: Annotated[Format, typer.Option("--format", "-f", help="text, md or json.")] = Format.TEXT,
    target: Annotated[Path | None, typer.Option("--output", "-o", help="Write it to this file.")] = None,
    canonical: Annotated[
        bool, typer.Option("--canonical", help="JSON: only what follows from the evidence.")
    ] = False,
    db: Db = DEFAULT_DB,
) -> int:
    """The whole report of the current mission: verdict, contradictions, todo list, every finding with its proof."""
    if canonical and format is not Format.JSON:
        raise UsageError(
            "--canonical is a form of the JSON report", hint="recon report --format json --canonical"
        )
    with reading(db) as opened:
        body = _body(opened.state(), format, canonical=canonical)
    if target is None:
        output.text(body)
    else:
        _write(target, body)
        output.note(f"written to {target}")
    return 0


def status(db: Db = DEFAULT_DB) -> int:
    """What the last run ended with, from the state file alone. Exits as that run would."""
    from recon.agent.engine.verdict import exit_code
    from recon.agent.report import text

    with reading(db) as opened:
        state = opened.state()
    output.lines(text.run_summary(state, width=output.width()))
    return exit_code(state.verdict, state.tasks)


def why(
    key: Annotated[str, typer.Argument(metavar="TASK", help="A task, unknown, judgement or finding.")],
    as_json: AsJson = False,
    db: Db = DEFAULT_DB,
) -> int:
    """Why something stands where it stands: gates, unknowns, findings, evidence, and who can move it on."""
    from recon.agent.report import why as chain

    with reading(db) as opened:
        state = opened.state()
    if as_json:
        output.as_json(chain.explain(state, key).as_json())
    else:
        output.lines(chain.explain_lines(state, key, width=output.width()))
    return 0


def show(
    kind: Annotated[Kind, typer.Argument(help="task, finding, unknown or discrepancy.")],
    key: Annotated[str, typer.Argument(metavar="ID", help="Its key, or the first characters of its id.")],
    as_json: AsJson = False,
    db: Db = DEFAULT_DB,
) -> int:
    """One thing in full; a finding with source, revision, time, sha256 and the excerpt it was read from."""
    with reading(db) as opened:
        state = opened.state()
        if as_json:
            output.as_json(_shown_json(state, kind, key))
        else:
            output.lines(_shown(opened, state, kind, key))
    return 0


def board(db: Db = DEFAULT_DB) -> int:
    """The task board: live, with the open questions; decide and approve from it."""
    if not output.interactive():
        raise UsageError("the board needs a terminal", hint="recon report")
    from recon.agent.board import BoardApp
    from recon.agent.cli.choices import confirm_name

    with session(db) as opened:
        BoardApp(opened, confirm_name=confirm_name).run()
    return 0


def _body(state: MissionState, format: Format, *, canonical: bool) -> str:
    import json

    from recon.agent.report import json_report, markdown, text

    if format is Format.JSON:
        return (
            json.dumps(
                json_report.report(state, canonical=canonical), indent=2, sort_keys=True, ensure_ascii=False
            )
            + "\n"
        )
    if format is Format.MD:
        return markdown.report(state)
    return "\n".join(text.report(state, width=output.width())) + "\n"


def _write(target: Path, body: str) -> None:
    try:
        target.write_text(body, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{target}: {error.strerror or error}", hint="--output takes a file that can be written"
        ) from error


def _shown(opened: Session, state: MissionState, kind: Kind, key: str) -> list[str]:
    from recon.agent.report import show as full

    width = output.width()
    if kind is Kind.TASK:
        return full.task(state, key, width=width)
    if kind is Kind.UNKNOWN:
        return full.unknown(state, key, width=width)
    if kind is Kind.DISCREPANCY:
        return full.discrepancy(state, key, width=width)
    found = full.find_finding(state, key)
    observation, stdout = opened.evidence(found)
    return full.finding(state, found.id, observation, stdout, width=width)


def _shown_json(state: MissionState, kind: Kind, key: str) -> object:
    """The entry of the JSON report."""
    from recon.agent.report import json_report
    from recon.agent.report import show as full
    from recon.agent.report.names import nearest

    part = {"task": "tasks", "finding": "findings", "unknown": "unknowns", "discrepancy": "judgements"}[
        kind.value
    ]
    if kind is Kind.FINDING:
        key = full.find_finding(state, key).id
    rows = json_report.report(state)[part]
    row = next((row for row in rows if row["id"] == key), None)
    if row is None:
        raise UsageError(f"no {kind.value} is called {key!r}", hint=nearest(key, [row["id"] for row in rows]))
    return row
