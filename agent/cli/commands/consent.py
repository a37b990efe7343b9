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
    db: Db = DEFAULT_DB,
) -> int:
    """Answer an open question; it is recorded with your reason. Without arguments: list what is open, and ask."""
    with session(db) as opened:
        mission = opened.current()
        if unknown is None:
            chosen = _pick_question(opened, mission)
            if isinstance(chosen, int):
                return chosen
            unknown = chosen
        return _decide(opened, mission, unknown, option, because)


def approve(
    task: Annotated[str | None, typer.Argument(metavar="TASK", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, except for what destroys.")] = False,
    confirm: Annotated[
        str, typer.Option("--confirm", metavar="NAME", help="The target's name, for what destroys.")
    ] = "",
    message: Annotated[str, typer.Option("--message", "-m", help="A note for the record.")] = "",
    db: Db = DEFAULT_DB,
) -> int:
    """Consent to exactly the commands shown; void as soon as they or what they touch change."""
    from recon.agent.cli.consent import consent_to

    with session(db) as opened:
        mission = opened.current()
        if task is None:
            chosen = _pick_approval(opened, mission)
            if isinstance(chosen, int):
                return chosen
            task = chosen
        consent_to(opened, mission, _task(opened, mission, task), yes=yes, confirm=confirm, message=message)
    output.lines([f"approved: {task}", "next: recon resume"])
    return 0


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


def _decide(opened: Session, mission: Mission, key: str, option: str | None, because: str | None) -> int:
    from recon.agent.cli.choices import find_unknown
    from recon.agent.cli.consent import via
    from recon.agent.report.clean import clean, wrap

    asked = option is None or because is None
    if option is None:
        option = _pick_option(find_unknown(opened.state(mission.id), key))
    if because is None:
        if not output.interactive():
            raise UsageError(
                "a decision needs its reason", hint=f'recon decide {key} {option} --because "..."'
            )
        because = output.ask("because?")
    before = opened.state(mission.id)
    decision = opened.decide(mission, key, option, because=because, via=via(asked=asked))
    after = opened.state(mission.id)
    chosen = decision.option + (f"={decision.value}" if decision.value else "")
    rows = [f"decided {key}: {chosen}"]
    if after.revision.n != before.revision.n:
        rows += [
            f"mission revision {after.revision.n}: {clean(after.sentence)}",
            *_new_tasks(before.tasks, after.tasks),
        ]
    output.lines(
        [*(line for row in rows for line in wrap(row, output.width(), rest="  ")), "next: recon resume"]
    )
    return 0


def _new_tasks(before: tuple[TaskState, ...], after: tuple[TaskState, ...]) -> list[str]:
    from recon.agent.report.clean import clean

    known = {item.task.key for item in before}
    added = [item.task.key for item in after if item.task.key not in known]
    return [f"new in the todo list: {', '.join(clean(key) for key in added)}"] if added else []


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
    from recon.agent.report.asks import option_tuples

    options = option_tuples(unknown)
    if not output.interactive():
        words = " | ".join(word for word, *_rest in options) or "VALUE"
        raise UsageError(f"{unknown.planned.key}: which option?", hint=words)
    if not options:
        return output.ask("answer?")
    rows = [
        f"  {n}. {word}: {'. '.join(x for x in (title, said) if x)}"
        for n, (word, title, said, _e) in enumerate(options, 1)
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
