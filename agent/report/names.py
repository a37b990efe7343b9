"""Hints for names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from recon.agent.model.errors import UsageError
from recon.agent.report.clean import clean

_SHOWN = 12


def whole_key(wanted: str, known: Sequence[str]) -> str | None:
    """The one key that is `wanted`, that is `wanted` about some subject (`host.gpus` for `host.gpus[HOST]`), or that
    begins so. None where none does; UsageError where several do."""
    keys = list(dict.fromkeys(known))
    if wanted in keys:
        return wanted
    for found in ([k for k in keys if k.startswith(f"{wanted}[")], [k for k in keys if k.startswith(wanted)]):
        if len(found) == 1:
            return found[0]
        if found and len(wanted) > 1:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise UsageError(
                f"{clean(wanted)!r} fits several",
                hint=f"one of {', '.join(map(clean, found[:_SHOWN]))}{more}",
            )
    return None


def nearest(word: str, known: Sequence[str]) -> str:
    """`did you mean X?`, or what there is."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(clean(c) for c in close)}?"
    if not known:
        return "there is nothing of this kind yet"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"there are: {', '.join(clean(k) for k in sorted(known)[:_SHOWN])}{more}"
