"""missions, use, runs, export, playbooks, schema: the state file and what goes out of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recon.agent.cli import output
from recon.agent.cli.commands.options import DEFAULT_DB, AsJson, Db, Force, reading, session
from recon.agent.model.errors import UsageError

if TYPE_CHECKING:
    from recon.agent.cli.compose import Session
    from recon.agent.model.missions import Mission


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
    app.command("playbooks", short_help="Which playbooks there are, and what each needs.")(playbooks)
    app.command("schema", short_help="The JSON schema of report or mission file.")(schema)


def missions(as_json: AsJson = False, db: Db = DEFAULT_DB) -> int:
    """The missions of the state file; `*` is the current one. Demos and replays say so."""
    from recon.agent.report.clean import clean, cut
    from recon.agent.report.words import time_text

    with reading(db) as opened:
        known = [(m, _what(opened, m)) for m in opened.store.missions()]
        current = opened.store.current_mission()
    at = current.id if current is not None else ""
    if as_json:
        output.as_json(
            [{**m.model_dump(mode="json"), "what": what, "current": m.id == at} for m, what in known]
        )
        return 0
    rows = [
        cut(
            f"{'*' if m.id == at else ' '} {m.id}  {m.origin:<9} {time_text(m.created_at)}  {clean(what)}",
            output.width(),
        )
        for m, what in known
    ]
    output.lines(rows or ["no missions yet: recon run starts one"])
    return 0


def _what(opened: Session, mission: Mission) -> str:
    """What was asked; a mission asked for without words (flags, a file) as a sentence."""
    from recon.agent.mission import sentence

    if mission.text.strip() or not mission.head:
        return mission.text
    return sentence(opened.store.revision(mission.id).intent)


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
        dead = {one.run.id for one in opened.unended_runs() if one.word == "dead"}
    if as_json:
        output.as_json([run.model_dump(mode="json") | {"died": run.id in dead} for run in state.runs])
    else:
        output.lines(run_rows(state, dead=dead) or ["no runs yet"])
    return 0


def export(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE.tar.gz", readable=False)],
    force: Force = False,
    db: Db = DEFAULT_DB,
) -> int:
    """Write the current mission with its evidence to one file; `recon run --replay` plays it anywhere.

    An earlier bundle is replaced, any other file only with --force, the state file never.
    """
    from recon.agent.cli.writing import refuse_overwriting

    with session(db) as opened:
        refuse_overwriting(bundle, db=db, kind="bundle", force=force)
        try:
            opened.export(opened.current(), bundle)
        except OSError as error:
            raise UsageError(f"{bundle}: {error.strerror or error}") from error
    output.lines([f"exported to {bundle}", f"play it with: recon run --replay {bundle}"])
    return 0


def playbooks(as_json: AsJson = False) -> int:
    """Which playbooks there are, what each needs, and which plug-in brings it. Broken plug-ins are named."""
    from recon.agent.cli.plugins import OURS, load_plugins
    from recon.agent.report.clean import clean, wrap

    installed = load_plugins()
    known = [
        {
            "name": name, "version": book.version, "about": str(getattr(book, "about", "")),
            "needs": [str(need) for need in getattr(book, "needs", ())], "from": installed.origin.get(name, ""),
        }
        for name, book in sorted(installed.registry.playbooks.items())
    ]  # fmt: skip
    if as_json:
        output.as_json({"playbooks": known, "broken": [b.words for b in installed.broken]})
        return 0
    for row in known:
        needs = f" Needs {', '.join(row['needs'])}." if row["needs"] else ""
        brought = f" (plug-in {row['from']})" if row["from"] not in (OURS, "") else ""
        text = clean(f"{row['about'] or 'says nothing about itself'}.{needs}{brought}")
        output.lines(wrap(text, output.width(), first=f"{clean(str(row['name'])):<12} ", rest=" " * 13))
    output.note(*(clean(broken.words) for broken in installed.broken))
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
