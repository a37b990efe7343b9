"""Options and steps that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from recon.agent.cli.compose import Session

Db = Annotated[
    Path,
    # readable=False: the parser looks at no file; what cannot be read is said by the store, with its exit code
    typer.Option(
        "--db",
        help="The state file (default: state.db here, or RECON_DB).",
        show_default=False,
        readable=False,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Write over a file that is no earlier output of this kind.")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]
DEFAULT_DB = Path("state.db")

Command = Callable[..., int]


def session(db: Path, *, create: bool = False, read_only: bool = False) -> AbstractContextManager[Session]:
    """Opens the state file. The imports behind it cost a third of a second, so they wait until a command runs."""
    from recon.agent.cli.compose import open_session

    return open_session(db, create=create, read_only=read_only)


def reading(db: Path) -> AbstractContextManager[Session]:
    """Opens the state file for looking only."""
    return session(db, read_only=True)
