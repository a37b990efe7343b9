"""missions, use, runs, export, schema: the state file and what goes out of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from recon.agent.cli import output
from recon.agent.cli.commands.options import DEFAULT_DB, AsJson, Db, reading, session
from recon.agent.model.errors import UsageError


class Schema(StrEnum):
    """What has a schema."""

    REPORT = "report"
    MISSION = "mission"


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    app.command("missions", short_help="The missions of the state file.")(missions)
    app.command("use", short_help="Make another mission the current one.")(use)
    app.command("runs", short_help="The runs over the current mission.")(runs)
    app.command("export", short_help="Write mission and evidence to one file.")(export)
    app.command("schema", short_help="The JSON schema of report or mission file.")(schema)


def missions(as_json: AsJson = False, db: Db = DEFAULT_DB) -> int:
    """The missions of the state file; `*` is the current one. Demos and replays say so."""
    from recon.agent.report.clean import clean, cut
    from recon.agent.report.words import time_text

    with reading(db) as opened:
        known = opened.store.missions()
        current = opened.store.current_mission()
    at = current.id if current is not None else ""
    if as_json:
        output.as_json([{**m.model_dump(mode="json"), "current": m.id == at} for m in known])
        return 0
    rows = [
        cut(
            f"{'*' if m.id == at else ' '} {m.id}  {m.origin:<9} {time_text(m.created_at)}  {clean(m.text)}",
            output.width(),
        )
        for m in known
    ]
    output.lines(rows or ["no missions yet: recon run starts one"])
    return 0


def use(mission: Annotated[str, typer.Argument(metavar="ID")], db: Db = DEFAULT_DB) -> int:
    """Make another mission the current one."""
    with session(db) as opened:
        chosen = opened.store.use_mission(mission)
    output.lines([f"current mission: {chosen.id}"])
    return 0


def runs(as_json: AsJson = False, db: Db = DEFAULT_DB) -> int:
    """The runs over the current mission, and how each ended."""
    from recon.agent.report.sections import run_rows

    with reading(db) as opened:
        state = opened.state()
    if as_json:
        output.as_json([run.model_dump(mode="json") for run in state.runs])
    else:
        output.lines(run_rows(state) or ["no runs yet"])
    return 0


def export(bundle: Annotated[Path, typer.Argument(metavar="BUNDLE.tar.gz")], db: Db = DEFAULT_DB) -> int:
    """Write the current mission with its evidence to one file; `recon run --replay` plays it anywhere."""
    with session(db) as opened:
        try:
            opened.export(opened.current(), bundle)
        except OSError as error:
            raise UsageError(f"{bundle}: {error.strerror or error}") from error
    output.lines([f"exported to {bundle}", f"play it with: recon run --replay {bundle}"])
    return 0


def schema(of: Annotated[Schema, typer.Argument(help="report or mission.")] = Schema.REPORT) -> int:
    """The JSON schema of the report, or of a mission file."""
    if of is Schema.MISSION:
        from recon.agent.mission import mission_schema

        output.as_json(mission_schema())
    else:
        from recon.agent.report import json_report

        output.as_json(json_report.schema())
    return 0
