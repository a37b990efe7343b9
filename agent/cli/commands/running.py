"""run, resume, refresh, triage: what looks, and what only reads the words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recon.agent.cli import output
from recon.agent.cli.commands.options import DEFAULT_DB, AsJson, Db, session
from recon.agent.model.errors import UsageError

if TYPE_CHECKING:
    from recon.agent.cli.compose import Session
    from recon.agent.model.base import Json
    from recon.agent.model.missions import Mission

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[DIRECTIVE | MISSION.yaml | ORG/MODEL [[USER@]HOST]]", show_default=False),
]
Model = Annotated[str | None, typer.Option(help="ORG/NAME of the checkpoint, or a folder on the host.")]
Host = Annotated[str | None, typer.Option(help="[USER@]NAME[:PORT], or localhost.")]
Engine = Annotated[str | None, typer.Option(help="The engine, e.g. sglang.")]
PlaybookName = Annotated[
    str | None, typer.Option("--playbook", help="Which playbook plans it (recon playbooks lists them).")
]
Quant = Annotated[str | None, typer.Option(help="The wanted format, e.g. nvfp4.")]
Tp = Annotated[int | None, typer.Option(help="GPUs of one instance.")]
Pd = Annotated[str | None, typer.Option(help="GPUs for prefill and decode, e.g. 4+4.")]
Hub = Annotated[str | None, typer.Option(help="Address of the Hub (default: HF_ENDPOINT).")]
Concurrency = Annotated[int, typer.Option(min=1, max=256, help="Tasks that may run at once.")]
Pace = Annotated[
    float, typer.Option(min=0.0, help="Replays: 1 takes as long as the recording did, 0 no time.")
]
Events = Annotated[bool, typer.Option("--json", help="Events and the result as JSON lines on stdout.")]


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    app.command("run", short_help="Find out what is true, what is open, what it waits for.")(run)
    app.command("resume", short_help="Go on; what is done is not done again.")(resume)
    app.command("refresh", short_help="Read facts again, and judge again what rests on them.")(refresh)
    app.command("triage", short_help="Show what a directive is understood as; runs nothing.")(triage)


def run(
    words: Words = None,
    model: Model = None,
    host: Host = None,
    engine: Engine = None,
    quant: Quant = None,
    tp: Tp = None,
    pd: Pd = None,
    playbook: PlaybookName = None,
    hub: Hub = None,
    replay: Annotated[
        Path | None, typer.Option(help="Play an exported bundle; nothing is contacted.")
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="A mission of its own, even if the same was asked before.")
    ] = False,
    pace: Pace = 0.0,
    concurrency: Concurrency = 16,
    as_json: Events = False,
    db: Db = DEFAULT_DB,
) -> int:
    """Find out what a deployment depends on, and say what is true, what is open and what it waits for.

    Without arguments: the current mission of the state file, or the bundled demo where there is none.
    """
    from recon.agent.report.clean import clean

    flags = intent_flags(model=model, host=host, engine=engine, quant=quant, tp=tp, pd=pd, playbook=playbook)
    asked = bool(words or flags)
    if replay is not None and asked:
        raise UsageError(
            "--replay plays what was recorded: it takes no directive and no flags of one",
            hint="recon run --replay BUNDLE",
        )
    if replay is not None and hub is not None:
        raise UsageError("--replay contacts nothing, so there is no --hub", hint="leave --hub out")
    if new and not asked:
        raise UsageError(
            "--new needs a directive, a mission file or ORG/MODEL", hint="recon run --new ORG/MODEL HOST"
        )
    if asked:  # before state.db is made: words that say nothing leave nothing behind
        from recon.agent.cli.directive import asked_of

        understood = asked_of(words or [], flags)
        for piece in understood.unplaced:
            output.note(f"not understood: {clean(piece)}")
    with session(db, create=True) as opened:
        if replay is not None:
            mission = opened.begin_replay(replay)
        elif asked:
            mission = opened.begin(understood, new=new)
        else:
            mission = opened.store.current_mission() or opened.begin_bundled()
        return _carry_on(opened, mission, hub=hub, pace=pace, concurrency=concurrency, as_json=as_json)


def resume(
    hub: Hub = None,
    pace: Pace = 0.0,
    concurrency: Concurrency = 16,
    as_json: Events = False,
    db: Db = DEFAULT_DB,
) -> int:
    """Go on with the current mission: nothing that is done is done again."""
    with session(db) as opened:
        mission = opened.current()
        return _carry_on(opened, mission, hub=hub, pace=pace, concurrency=concurrency, as_json=as_json)


def refresh(
    fact: Annotated[
        str | None,
        typer.Argument(
            metavar="[FACT | TASK]", help="A fact (host.fs, a finding's id) or the task that reads it."
        ),
    ] = None,
    stale: Annotated[bool, typer.Option("--stale", help="All that went stale (the default).")] = False,
    no_run: Annotated[bool, typer.Option("--no-run", help="Only let the next run read them again.")] = False,
    hub: Hub = None,
    concurrency: Concurrency = 16,
    as_json: Events = False,
    db: Db = DEFAULT_DB,
) -> int:
    """Read facts again; what was judged on another value is judged again, and its question opened again."""
    from recon.agent.report.clean import clean

    if fact is not None and stale:
        raise UsageError("--stale names all that went stale: it takes no FACT", hint="recon refresh --stale")
    with session(db) as opened:
        mission = opened.current()
        again = opened.refresh(mission, fact)
        output.note(
            *(
                f"↻ {clean(key)}  {'read again' if moved else 'waits to be read already'}: {clean(why)}"
                for key, why, moved in again
            )
        )
        if not again:
            output.note("nothing went stale")
        if no_run:
            output.lines([f"to be read again: {len(again)}", "next: recon resume"])
            return 0
        return _carry_on(opened, mission, hub=hub, pace=0.0, concurrency=concurrency, as_json=as_json)


def triage(
    words: Words = None,
    model: Model = None,
    host: Host = None,
    engine: Engine = None,
    quant: Quant = None,
    tp: Tp = None,
    pd: Pd = None,
    playbook: PlaybookName = None,
    as_json: AsJson = False,
) -> int:
    """Show what a directive is understood as: mission, claims, unknowns and todo list. Nothing is run or stored."""
    from recon.agent.cli.directive import triage_of
    from recon.agent.cli.preview import preview, preview_json

    flags = intent_flags(model=model, host=host, engine=engine, quant=quant, tp=tp, pd=pd, playbook=playbook)
    if not words and not flags:
        raise UsageError("nothing to triage", hint='recon triage "deploy ORG/MODEL on HOST, TP4"')
    read = triage_of(words or [], flags)
    if as_json:
        output.as_json(preview_json(read))
    else:
        output.lines(preview(read, width=output.width()))
    return 0


def intent_flags(
    *,
    model: str | None,
    host: str | None,
    engine: str | None,
    quant: str | None,
    tp: int | None,
    pd: str | None,
    playbook: str | None,
) -> dict[str, Json]:
    """The flags that were given, by name; the mission room checks them."""
    given: dict[str, Json] = {
        "model": model, "host": host, "engine": engine, "quant": quant, "tp": tp, "pd": pd,
        "playbook": playbook,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def _carry_on(
    opened: Session, mission: Mission, *, hub: str | None, pace: float, concurrency: int, as_json: bool
) -> int:
    from recon.agent.cli.progress import listener
    from recon.agent.report import text
    from recon.agent.report.asks import asks

    with listener(as_json=as_json) as listen:
        code = opened.run(mission, hub=hub, pace=pace, concurrency=concurrency, listen=listen)
    state = opened.state(mission.id)
    if as_json:
        waiting = [{"kind": a.kind, "ref": a.ref, "text": a.text, "command": a.command} for a in asks(state)]
        end: dict[str, Json] = {
            "event": "end",
            "exit_code": code,
            "mission": mission.id,
            "verdict": state.verdict,
        }
        output.as_json({**end, "verdict_line": state.verdict_line, "waiting": waiting}, compact=True)
    else:
        output.lines(text.run_summary(state, width=output.width(), code=code))
    return code
