"""report, status, why, show, board: looking at a mission."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from recon.agent.cli import errors, output
from recon.agent.cli.commands.options import DEFAULT_DB, AsJson, Db, Force, reading, session
from recon.agent.model.errors import UsageError

if TYPE_CHECKING:
    from recon.agent.cli.compose import Session
    from recon.agent.model.state import MissionState


_WHOLE: Final = 10**6  # columns of what is not cut


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
    OBSERVATION = "observation"
    DISCREPANCY = "discrepancy"


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    app.command("report", short_help="The whole report, every finding with its proof.")(report)
    app.command("board", short_help="The live task board with the open questions.")(board)
    app.command("why", short_help="Why a task or question stands where it stands.")(why)
    app.command("show", short_help="A task, finding, observation, question or discrepancy.")(show)
    app.command("status", short_help="What the mission stands on, and what went stale.")(status)


def report(
    format: Annotated[Format, typer.Option("--format", "-f", help="text, md or json.")] = Format.TEXT,
    target: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it to this file.", readable=False)
    ] = None,
    canonical: Annotated[
        bool, typer.Option("--canonical", help="JSON: only what follows from the evidence.")
    ] = False,
    force: Force = False,
    db: Db = DEFAULT_DB,
) -> int:
    """The whole report of the current mission: verdict, contradictions, todo list, every finding with its proof.

    With --output, an earlier report of the same form is replaced, any other file only with --force, the state never.
    """
    from recon.agent.cli.writing import refuse_overwriting

    if canonical and format is not Format.JSON:
        raise UsageError(
            "--canonical is a form of the JSON report", hint="recon report --format json --canonical"
        )
    with reading(db) as opened:
        if target is not None:
            refuse_overwriting(target, db=db, kind=format.value, force=force)
        body = _body(opened.state(), format, canonical=canonical)
    if target is None:
        output.text(body)
    else:
        _write(target, body)
        output.note(f"written to {target}")
    return 0


def status(as_json: AsJson = False, db: Db = DEFAULT_DB) -> int:
    """What the mission stands on: verdict, facts that went stale and what hangs on them, runs, what is void.

    Nothing is read again. Exit code: 130 where the last run was interrupted or died and nobody has gone on since;
    else what a run would end with now: 4 or 1 where a needed task failed, 3 while it waits for you, 0 otherwise.
    """
    from recon.agent.engine.freshness import standing
    from recon.agent.engine.verdict import exit_code
    from recon.agent.report import standing as shown

    with reading(db) as opened:
        state = opened.state()
        runs, now = opened.unended_runs(), opened.now()
    stands = standing(state)
    code = errors.INTERRUPTED if shown.cut_short(state, runs) else exit_code(state.verdict, state.tasks)
    if as_json:
        output.as_json({**shown.as_json(state, stands, runs), "exit_code": code})
    else:
        output.lines(shown.lines(state, stands, runs, width=output.width(), code=code, clock=now))
    return code


def why(
    key: Annotated[
        str, typer.Argument(metavar="TASK", help="A task, unknown, judgement, finding or observation.")
    ],
    as_json: AsJson = False,
    db: Db = DEFAULT_DB,
) -> int:
    """Why something stands where it stands: gates, unknowns, findings, evidence, and who can move it on.

    The first lines say what blocks, who unblocks it and the cheapest next command. The beginning of a name is enough.
    """
    from recon.agent.report import why as chain

    with reading(db) as opened:
        state = opened.state()
    if as_json:
        link = chain.explain(state, key)
        output.as_json({**link.as_json(), "summary": chain.summary(state, link, width=_WHOLE)})
    else:
        output.lines(chain.explain_lines(state, key, width=output.width()))
    return 0


def show(
    kind: Annotated[Kind, typer.Argument(help="task, finding, observation, unknown or discrepancy.")],
    key: Annotated[str, typer.Argument(metavar="ID", help="Its key, or the first characters of its id.")],
    as_json: AsJson = False,
    db: Db = DEFAULT_DB,
) -> int:
    """One thing in full; a finding with source, revision, time, sha256 and the excerpt it was read from.

    An observation is the answer of a source, from which findings are read (`o-...`). A change that ran shows its log.
    """
    with reading(db) as opened:
        state = opened.state()
        if kind is Kind.FINDING and key.startswith("o-"):
            output.note(f"{key} is an observation: the answer of a source, from which findings are read")
            kind = Kind.OBSERVATION
        if as_json:
            output.as_json(_shown_json(opened, state, kind, key))
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
        return full.task(state, key, width=width, log=_log(opened, state, key))
    if kind is Kind.UNKNOWN:
        return full.unknown(state, key, width=width)
    if kind is Kind.DISCREPANCY:
        return full.discrepancy(state, key, width=width)
    if kind is Kind.OBSERVATION:
        observed = opened.observation(key)
        answer, errors_told = (opened.store.blob(sha) for sha in (observed.stdout_sha, observed.stderr_sha))
        return full.observation(state, observed, answer, errors_told, width=width)
    found = full.find_finding(state, key)
    observation, stdout = opened.evidence(found)
    return full.finding(state, found.id, observation, stdout, width=width)


def _log(opened: Session, state: MissionState, key: str) -> bytes:
    """The log of a change's last attempt."""
    from recon.agent.report.names import whole_key

    item = state.task(whole_key(key, [t.task.key for t in state.tasks]) or key)
    if item is None or item.task.planned.kind != "act":
        return b""
    attempts = opened.store.attempts(item.task.id)
    return opened.store.attempt_log(attempts[-1].id) if attempts else b""


def _shown_json(opened: Session, state: MissionState, kind: Kind, key: str) -> object:
    """The entry of the JSON report; an observation as it is stored."""
    if kind is Kind.OBSERVATION:
        return opened.observation(key).model_dump(mode="json")
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
