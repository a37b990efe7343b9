"""The `recon` command: thin commands over one session; output and exit codes in one module each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main", "run"]


def main() -> NoReturn:
    """Runs the command line of this process and ends it with the exit code of the contract."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; returns its exit code and never raises for what a person can cause."""
    from recon.agent.cli import errors, output
    from recon.agent.cli.app import invoke
    from recon.agent.model.errors import ReconError

    output.prepare()
    try:
        return invoke(arguments)
    except ReconError as error:
        output.note(*errors.told(error))
        return errors.exit_code(error)
    except KeyboardInterrupt as error:
        output.note("recon: interrupted; recon resume goes on where it stopped")
        return errors.exit_code(error)
    except BrokenPipeError:
        output.broken_pipe()
        return errors.OK
