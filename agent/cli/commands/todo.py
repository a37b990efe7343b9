"""todo: the list, and what people may do with it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from recon.agent.cli import output
from recon.agent.cli.commands.options import DEFAULT_DB, AsJson, Db, reading, session
from recon.agent.model.errors import UsageError

NAMES: Final = ("add", "edit", "done", "cancel")
Key = Annotated[str, typer.Argument(metavar="TASK")]


class Priority(StrEnum):
    """How soon."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    group.callback(invoke_without_command=True)(todo)
    group.command("add")(add)
    group.command("edit")(edit)
    group.command("done")(done)
    group.command("cancel")(cancel)
    app.add_typer(group, name="todo", short_help="The todo list; add, edit, done, cancel.")


def todo(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what earlier bindings of the mission had to do.")
    ] = False,
    as_json: AsJson = False,
    db: Db = DEFAULT_DB,
) -> int:
    """The todo list: what is done, what runs, what waits and for whom. Also: add, edit, done, cancel."""
    if context.invoked_subcommand is not None:
        # `recon todo --db X add ...` means X as well
        context.default_map = {name: {"db": str(db)} for name in NAMES}
        return 0
    from recon.agent.report import todo as view

    with reading(db) as opened:
        state = opened.state()
    if as_json:
        output.as_json(view.view(state, everything=everything))
    else:
        past = ["", *view.history_lines(state, width=output.width())] if everything else []
        output.lines([*view.lines(state, width=output.width()), *past, "", view.counts_text(state)])
    return 0


def add(
    title: Annotated[str, typer.Argument()],
    priority: Annotated[Priority, typer.Option(help="How urgent it is.")] = Priority.MEDIUM,
    db: Db = DEFAULT_DB,
) -> int:  # fmt: skip
    """Add an item that a person carries out."""
    if not title.strip():
        raise UsageError("a todo item needs a title")
    with session(db) as opened:
        task = opened.todo_add(opened.current(), title, priority=priority.value)
    output.lines([f"added {task.key}"])
    return 0


def edit(
    key: Key,
    title: Annotated[str | None, typer.Option(help="The new title.")] = None,
    priority: Annotated[Priority | None, typer.Option(help="The new urgency.")] = None,
    db: Db = DEFAULT_DB,
) -> int:
    """Change an item's title or priority."""
    if title is None and priority is None:
        raise UsageError("nothing to change", hint="--title or --priority")
    with session(db) as opened:
        task = opened.todo_edit(
            opened.current(), key, title=title, priority=None if priority is None else priority.value
        )
    output.lines([f"changed {task.key}"])
    return 0


def done(
    key: Key,
    note: Annotated[str, typer.Option(help="What was done, for the record.")] = "",
    db: Db = DEFAULT_DB,
) -> int:
    """Say that an item you carry out yourself is done."""
    with session(db) as opened:
        opened.todo_done(opened.current(), key, note=note)
    output.lines([f"done: {key}", "next: recon resume"])
    return 0


def cancel(key: Key, db: Db = DEFAULT_DB) -> int:
    """Cancel an item; what depends on it stays closed."""
    with session(db) as opened:
        opened.cancel(opened.current(), key)
    output.lines([f"cancelled {key}"])
    return 0
