"""decide, approve, deny, retry, cancel: what a person says. Everything is shown before it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recon.agent.cli import errors, output
from recon.agent.cli.commands.options import DEFAULT_DB, Db, session
from recon.agent.model.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from recon.agent.cli.compose import Session
    from recon.agent.model.missions import Mission
    from recon.agent.model.state import TaskState, UnknownState

Because = Annotated[str | None, typer.Option("--because", help="The reason, for the record.")]


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    app.command("decide", short_help="Answer an open question, with your reason.")(decide)
    app.command("undo", short_help="Take a decision back, until a change rests on it.")(undo)
    app.command("approve", short_help="Consent to exactly the commands shown.")(approve)
    app.command("deny", short_help="Refuse a change.")(deny)
    app.command("retry", short_help="Let a failed task run again.")(retry)
    app.command("cancel", short_help="Cancel a task.")(cancel)


def decide(
    unknown: Annotated[
        str | None, typer.Argument(metavar="UNKNOWN", help="Which question.", show_default=False)
    ] = None,
    option: Annotated[
        str | None, typer.Argument(metavar="OPTION[=VALUE]", help="Which answer.", show_default=False)
    ] = None,
    because: Because = None,
    yes: Annotated[bool, typer.Option("--yes", help="Record it without asking once more.")] = False,
    shown: Annotated[
        str,
        typer.Option(
            "--shown", metavar="SHA", help="Only if the question is still this one (recon show unknown)."
        ),
    ] = "",
    db: Db = DEFAULT_DB,
) -> int:
    """Answer an open question; what it changes is shown, then it is recorded with your reason.

    Without arguments: list what is open, and ask. On a terminal it asks once more before it records.
    """
    with session(db) as opened:
        mission = opened.current()
        if unknown is None:
            chosen = _pick_question(opened, mission)
            if isinstance(chosen, int):
                return chosen
            unknown = chosen
        return _decide(opened, mission, unknown, option, because, yes=yes, shown=shown)


def undo(
    decision: Annotated[
        str,
        typer.Argument(metavar="DECISION", help="Its number, as in the report, or the question it is about."),
    ],
    because: Because = None,
    yes: Annotated[bool, typer.Option("--yes", help="Record it without asking once more.")] = False,
    db: Db = DEFAULT_DB,
) -> int:
    """Take a decision back: the mission is bound as before. Refused once a change that rests on it has begun."""
    from recon.agent.cli.consent import via
    from recon.agent.report import consequence
    from recon.agent.report.clean import clean

    with session(db) as opened:
        mission = opened.current()
        what = opened.foresee_undo(mission, decision)
        output.lines(consequence.lines(what, width=output.width()))
        asked = output.interactive() and not yes
        if asked and because is None:
            because = output.ask("because?")
        _confirm(f"undo {clean(decision)}", asked=asked)
        made, kept = opened.undo(mission, decision, because=because or "undone", via=via(asked=asked))
    output.lines([f"undone: decision d{made.undoes} about {clean(made.about_key)} ({clean(made.option)})"])
    if kept:
        output.lines([f"kept, because a later decision changed it again: {', '.join(kept)}"])
    output.lines(["next: recon resume"])
    return 0


def approve(
    task: Annotated[str | None, typer.Argument(metavar="TASK", show_default=False)] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="All changes of the plan at once, shown in full.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, except for what destroys.")] = False,
    confirm: Annotated[
        list[str] | None,
        typer.Option("--confirm", metavar="NAME", help="The target's name, for what destroys."),
    ] = None,
    message: Annotated[str, typer.Option("--message", "-m", help="A note for the record.")] = "",
    db: Db = DEFAULT_DB,
) -> int:
    """Consent to exactly the commands shown; void as soon as they or what they touch change.

    With --plan: to every change of the plan, those known later only within the form shown; what destroys is named singly.
    """
    from recon.agent.cli.consent import consent_to

    if plan and task is not None:
        raise UsageError("--plan is about all tasks", hint=f"recon approve {task}, or recon approve --plan")
    with session(db) as opened:
        mission = opened.current()
        if plan:
            return _approve_plan(opened, mission, yes=yes, confirmed=confirm or [], message=message)
        if task is None:
            chosen = _pick_approval(opened, mission)
            if isinstance(chosen, int):
                return chosen
            task = chosen
        consent_to(
            opened, mission, _task(opened, mission, task), yes=yes, confirm=_one(confirm), message=message
        )
    output.lines([f"approved: {task}", "next: recon resume"])
    return 0


def _one(confirm: list[str] | None) -> str:
    if confirm and len(confirm) > 1:
        raise UsageError("--confirm once for one task", hint="recon approve --plan takes several")
    return confirm[0] if confirm else ""


def _approve_plan(opened: Session, mission: Mission, *, yes: bool, confirmed: list[str], message: str) -> int:
    from recon.agent.cli.approvals import plan_items
    from recon.agent.cli.consent import consent_to_plan

    items = plan_items(opened.state(mission.id))
    if not items:
        output.lines(["nothing to approve"])
        return errors.OK
    if mission.origin == "replay":
        raise RefusedError(
            "this is a replay; nothing can be changed in it",
            hint="recon run ORG/MODEL HOST plans the same for a real host",
        )
    made = consent_to_plan(opened, mission, items, yes=yes, confirmed=confirmed, message=message)
    keys = {item.task.task.id: item.key for item in items}
    words = {"exact": "approved", "bounds": "approved within the bounds shown"}
    output.lines([f"{words[a.scope]}: {keys[a.task_id]}" for a in made])
    left = [item.key for item in items if item.task.task.id not in {a.task_id for a in made}]
    if left:
        output.lines([f"not approved: {', '.join(left)}"])
    output.lines(["next: recon resume"])
    return errors.OK


def deny(
    task: Annotated[str, typer.Argument(metavar="TASK")],
    because: Because = None,
    db: Db = DEFAULT_DB,
) -> int:
    """Refuse a change; it stands until somebody approves."""
    from recon.agent.cli.consent import via

    with session(db) as opened:
        opened.deny(opened.current(), task, message=because or "", via=via(asked=False))
    output.lines([f"denied: {task}"])
    return 0


def retry(task: Annotated[str, typer.Argument(metavar="TASK")], db: Db = DEFAULT_DB) -> int:
    """Let a failed or cancelled task run again at the next resume."""
    with session(db) as opened:
        opened.retry(opened.current(), task)
    output.lines([f"pending again: {task}", "next: recon resume"])
    return 0


def cancel(task: Annotated[str, typer.Argument(metavar="TASK")], db: Db = DEFAULT_DB) -> int:
    """Cancel a task; one that runs is stopped by its runner. What depends on it stays closed."""
    with session(db) as opened:
        opened.cancel(opened.current(), task)
    output.lines([f"cancelled: {task}"])
    return 0


def _decide(
    opened: Session,
    mission: Mission,
    key: str,
    option: str | None,
    because: str | None,
    *,
    yes: bool,
    shown: str,
) -> int:
    from recon.agent.cli.choices import find_unknown
    from recon.agent.cli.consent import via
    from recon.agent.report import consequence
    from recon.agent.report.clean import clean, wrap

    unknown = find_unknown(opened.state(mission.id), key)
    shown = shown or unknown.shown  # what is asked from here on is this question
    terminal = output.interactive()
    asked = option is None or because is None or (terminal and not yes)
    if option is None:
        option = _pick_option(unknown)
    what = opened.foresee_decision(mission, key, option, shown=shown)
    if because is None and not terminal:
        raise UsageError("a decision needs its reason", hint=f'recon decide {key} {option} --because "..."')
    output.lines(consequence.lines(what, width=output.width()))
    if because is None:
        because = output.ask("because?")
    _confirm(f"{clean(key)}: {clean(option)}", asked=terminal and not yes)
    decision = opened.decide(mission, key, option, because=because, via=via(asked=asked), shown=shown)
    after = opened.state(mission.id)
    chosen = decision.option + (f"={decision.value}" if decision.value else "")
    rows = [f"decided {key}: {chosen}"]
    if decision.to_n != decision.from_n:
        rows.append(f"mission revision {after.revision.n}: {clean(after.sentence)}")
    rows.append(f"to take it back: recon undo d{decision.id}")
    output.lines(
        [*(line for row in rows for line in wrap(row, output.width(), rest="  ")), "next: recon resume"]
    )
    return 0


def _confirm(what: str, *, asked: bool) -> None:
    if asked and output.ask(f"record {what}? [y/N]").lower() not in ("y", "yes"):
        raise RefusedError("nothing is recorded")


def _pick_question(opened: Session, mission: Mission) -> str | int:
    """The question a person chose from the list, or the exit code where there is nothing or nobody to ask."""
    from recon.agent.report.asks import asks

    state = opened.state(mission.id)
    ref = _pick(
        [a.ref for a in asks(state) if a.kind == "decision"], _listed(opened, mission, "decision"), "decide"
    )
    return ref


def _pick_approval(opened: Session, mission: Mission) -> str | int:
    from recon.agent.report.asks import asks

    state = opened.state(mission.id)
    return _pick(
        [a.ref for a in asks(state) if a.kind == "approval"], _listed(opened, mission, "approval"), "approve"
    )


def _listed(opened: Session, mission: Mission, kind: str) -> list[str]:
    from recon.agent.report.text import ask_lines

    return ask_lines(opened.state(mission.id), kind=kind, width=output.width())


def _pick(refs: list[str], listed: list[str], verb: str) -> str | int:
    if not refs:
        output.lines([f"nothing to {verb}"])
        return errors.OK
    output.lines(listed)
    if not output.interactive():
        return errors.WAITING
    return refs[_number(f"{verb} which (1-{len(refs)})?", len(refs))]


def _pick_option(unknown: UnknownState) -> str:
    from recon.agent.report.asks import option_name, option_tuples

    options = option_tuples(unknown)
    if not output.interactive():
        words = " | ".join(word for word, *_rest in options) or "VALUE"
        raise UsageError(f"{unknown.planned.key}: which option?", hint=words)
    if not options:
        return output.ask("answer?")
    rows = [
        f"  {n}. {option_name(option)}: {'. '.join(x for x in (title, said) if x)}"
        for n, (option, (_word, title, said, _e)) in enumerate(zip(unknown.options, options, strict=True), 1)
    ]
    output.note(*rows)
    chosen = unknown.options[_number(f"which (1-{len(options)})?", len(options))]
    return f"{chosen.id}={output.ask(f'{chosen.needs_value}?')}" if chosen.needs_value else chosen.id


def _number(question: str, count: int) -> int:
    answer = output.ask(question)
    if not answer.isdigit() or not 1 <= int(answer) <= count:
        raise UsageError(f"{answer!r} is not a number from 1 to {count}")
    return int(answer) - 1


def _task(opened: Session, mission: Mission, key: str) -> TaskState:
    from recon.agent.report.names import nearest

    state = opened.state(mission.id)
    task = state.task(key)
    if task is None:
        raise UsageError(
            f"no todo item is called {key!r}", hint=nearest(key, [t.task.key for t in state.tasks])
        )
    if task.task.planned.kind != "act":
        raise RefusedError(f"{key} changes nothing, so there is nothing to approve")
    return task
