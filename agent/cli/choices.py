"""What a person may choose and what a choice does: looked up, shown, applied to the intent. Pure."""

from __future__ import annotations

import difflib
import math

from recon.agent.mission.values import check_value
from recon.agent.model.errors import RefusedError, UsageError
from recon.agent.model.findings import Option
from recon.agent.model.missions import Intent
from recon.agent.model.state import MissionState, TaskState, UnknownState
from recon.agent.model.tasks import PlannedUnknown
from recon.agent.report.sections import change_lines


def confirm_name(task: TaskState) -> str:
    """What has to be typed to approve a destructive change: its first path or unit, else its key."""
    change = task.rendered.change if task.rendered else None
    targets = [
        value for name, value in (change.exact if change else ()) if name in ("path", "unit", "target")
    ]
    return targets[0] if targets else task.task.key


def shown_change(task: TaskState) -> str:
    """Exactly what a person sees before they approve: the change in full, and the gates it rests on."""
    change = task.rendered.change if task.rendered else None
    if change is None:
        return "\n".join(task.rendered.lines) if task.rendered else ""
    return "\n".join([f"{task.task.planned.title} ({task.task.planned.effect})", *change_lines(change)])


def find_unknown(state: MissionState, key: str) -> UnknownState:
    """The unknown a person named; UsageError with the nearest name where there is none."""
    unknown = state.unknown(key)
    if unknown is None:
        raise UsageError(
            f"no question is called {key!r}", hint=similar(key, [u.planned.key for u in state.unknowns])
        )
    return unknown


def find_option(unknown: UnknownState, option: str, value: str) -> Option:
    """The option a person named; UsageError where there is none, RefusedError where a task has to answer."""
    known = {o.id: o for o in unknown.options}
    if not known:
        if unknown.planned.who != "person":
            raise RefusedError(
                f"{unknown.planned.key} is answered by a task, not by a person",
                hint=f"recon why {unknown.planned.key}",
            )
        if unknown.planned.domain == "choice":
            raise RefusedError(
                f"{unknown.planned.key} has no options yet: {unknown.reason or 'what they rest on is not known'}",
                hint=f"recon why {unknown.planned.key}",
            )
        return Option(id=checked_answer(unknown.planned, option), title=option)
    chosen = known.get(option) or _by_tail(known, option)
    if chosen is None:
        raise UsageError(
            f"{unknown.planned.key} has no option {option!r}",
            hint=similar(option, list(known)) or f"there are: {', '.join(known)}",
        )
    if chosen.needs_value and not value:
        raise UsageError(
            f"option {chosen.id} needs its {chosen.needs_value}", hint=f"{chosen.id}=<{chosen.needs_value}>"
        )
    if value and not chosen.needs_value:
        raise UsageError(
            f"option {chosen.id} takes no value", hint=f"recon decide {unknown.planned.key} {chosen.id}"
        )
    if value:
        check_value(chosen.needs_value, value)
    return chosen


def checked_answer(asked: PlannedUnknown, answer: str) -> str:
    """An answer in a person's words, of the kind that was asked for. Raises UsageError where it is not."""
    text = " ".join(answer.split())
    if not text:
        raise UsageError(f"{asked.key}: an answer is missing")
    if asked.domain != "number":
        return text
    number, _, unit = text.partition(" ")
    wanted = f"a number of {asked.unit}" if asked.unit else "a number"
    try:
        good = math.isfinite(float(number)) and unit in ("", asked.unit or "")
    except ValueError:
        good = False
    if not good:
        raise UsageError(
            f"{asked.key}: {text[:80]!r} is not {wanted}", hint=f"12{' ' + asked.unit if asked.unit else ''}"
        )
    return f"{number} {asked.unit}" if asked.unit else number


def _by_tail(known: dict[str, Option], option: str) -> Option | None:
    """`ORG/NAME` for the option that takes this model, or for `sibling:ORG/NAME`, where only one option does."""
    for fits in (
        [o for o in known.values() if o.effects.intent.get("model") == option],
        [o for key, o in known.items() if key.partition(":")[2] == option],
    ):
        if len(fits) == 1:
            return fits[0]
    return None


def changed_intent(intent: Intent, option: Option, value: str) -> Intent:
    """The intent with an option's effects: dotted field -> new value, `{value}` standing for what was given."""
    data = intent.model_dump(mode="json")
    for path, new in option.effects.intent.items():
        *parents, last = path.split(".")
        node = data
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value if new == "{value}" else new
    return Intent.model_validate(data)


def similar(word: str, known: list[str]) -> str:
    """A hint: the nearest name, or what there is."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(known)[:12])}"
