"""Hints for names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from recon.agent.report.clean import clean

_SHOWN = 12


def nearest(word: str, known: Sequence[str]) -> str:
    """`did you mean X?`, or what there is."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(clean(c) for c in close)}?"
    if not known:
        return "there is nothing of this kind yet"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"there are: {', '.join(clean(k) for k in sorted(known)[:_SHOWN])}{more}"
