"""What a decision does to a mission, as lines: shown before it is confirmed."""

from __future__ import annotations

from collections.abc import Sequence

from recon.agent.engine.consequence import Consequence
from recon.agent.model.base import Json
from recon.agent.report.clean import clean, wrap
from recon.agent.report.words import value_text

_NAMED = 12  # todo items named in one line; the rest is counted


def lines(what: Consequence, *, width: int = 80) -> list[str]:
    """Each part on a line of its own; one line where nothing but the record is new."""
    rows = [f"  {clean(field)}: {value_text(old)} -> {value_text(new)}" for field, old, new in what.intent]
    rows += [f"  the mission is then: {clean(what.sentence)}"] if what.sentence else []
    rows += _keys("  + todo:", what.come) + _keys("  - no longer todo:", what.go)
    rows += _keys("  approvals that end:", what.void)
    rows += [f"  {clean(key)}: {old} -> {new}" for key, old, new in what.asked]
    rows += ["  the mission ends here: nothing more is changed"] if what.ends else []
    rows = rows or ["  nothing but the record of it"]
    return [
        "what it changes:",
        *(line for row in rows for line in wrap(row[2:], width, first="  ", rest="    ")),
    ]


def as_json(what: Consequence) -> dict[str, Json]:
    """The same as JSON."""
    return {
        "intent": [{"field": field, "old": old, "new": new} for field, old, new in what.intent],
        "tasks_added": list(what.come), "tasks_removed": list(what.go), "approvals_void": list(what.void),
        "unknowns": [{"id": key, "old": old, "new": new} for key, old, new in what.asked], "ends": what.ends,
    }  # fmt: skip


def _keys(word: str, keys: Sequence[str]) -> list[str]:
    if not keys:
        return []
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return [f"{word} {', '.join(clean(key) for key in keys[:_NAMED])}{more}"]
