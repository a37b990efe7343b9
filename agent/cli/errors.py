"""From errors to exit codes and to what a person on call reads."""

from __future__ import annotations

from typing import Final

from recon.agent.model.errors import ParseError, ReachError, ReconError, RefusedError, StoreError, UsageError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
WAITING: Final = 3
UNREACHABLE: Final = 4
STATE: Final = 5
INTERRUPTED: Final = 130


def exit_code(error: BaseException) -> int:
    """The exit code an error ends the process with."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, StoreError):
        return STATE
    if isinstance(error, ReachError):
        return UNREACHABLE
    if isinstance(error, UsageError):
        return USAGE
    if isinstance(
        error, RefusedError
    ):  # something else has to be settled first, or it is not for here at all
        return WAITING if error.blockers else USAGE
    return FAILED


def told(error: ReconError) -> list[str]:
    """The lines for stderr: what happened, what blocks, what to run next."""
    from recon.agent.report.clean import clean_lines

    rows = [
        f"recon: {line}" if n == 0 else f"       {line}" for n, line in enumerate(clean_lines(error.message))
    ]
    if isinstance(error, RefusedError):
        rows += [f"  - {line}" for blocker in error.blockers for line in clean_lines(blocker)]
    if isinstance(error, ParseError):
        rows.append("  the bytes are kept: recon show finding names them")
    return rows + [f"  -> {line}" for line in clean_lines(error.hint) if error.hint]
