"""Finding one row by the beginning of its id."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from recon.agent.model.errors import UsageError


def pick(wanted: str, ids: Sequence[str], *, what: str, see: str) -> str:
    """The one id that is or begins with `wanted` (the part after the first `-` will do).

    Raises UsageError with the nearest ones where there is none or more than one. `see`: the command that lists them.
    """
    if wanted in ids:
        return wanted
    found = [i for i in ids if wanted and (i.startswith(wanted) or i.partition("-")[2].startswith(wanted))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{wanted}: more than one {what} begins so: {', '.join(found[:6])}", hint="give more of the id"
        )
    near = get_close_matches(wanted, ids, n=3, cutoff=0.5)
    raise UsageError(
        f"{wanted or 'nothing'}: no such {what}" + (f"; did you mean {' or '.join(near)}?" if near else ""),
        hint=see,
    )
