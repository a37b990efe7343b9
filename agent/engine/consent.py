"""Whether a consent still covers a change, and in words why not. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from recon.agent.engine.units import join_argv
from recon.agent.model.changes import Bounds, Change, Consented, Rendered, gaps
from recon.agent.model.missions import Intent
from recon.agent.model.records import Approval, Decision
from recon.agent.model.tasks import PlannedTask, Task

_SHOWN: Final = 3  # differences named in one line; the rest is counted
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f<>]|(?:^|/)\.\.(?:/|$)")


# ---- exact


def last_word(task: Task, approvals: Iterable[Approval]) -> Approval | None:
    """The latest approval or refusal of a task."""
    mine = [a for a in approvals if a.task_id == task.id]
    return mine[-1] if mine else None


def why_void(
    last: Approval, change: Change, *, to: Consented | None, decisions: Mapping[str, Decision]
) -> str:
    """Why an approval does not cover a change; "" where it does. `to`: what it was given to, where that was kept."""
    if last.scope == "bounds":
        against = (
            why_outside(to, change, decisions) if isinstance(to, Bounds) else ("its bounds are not kept",)
        )
        return f"the approval of the plan does not cover it: {_few(against)}" if against else ""
    if last.change_hash == change.change_hash:
        return ""
    if isinstance(to, Change):
        return f"the approval is void: {_few(differences(to, change))}"
    what = "what it touches" if last.exact_hash != change.exact_hash else "the commands"
    return f"the approval is void: {what} changed since"


def differences(old: Change, new: Change) -> tuple[str, ...]:
    """What differs between two changes, one line each; measured byte counts aside, which consent is not bound to."""
    out = [
        f"{name} was {getattr(old, name) or 'not said'}, is {getattr(new, name) or 'not said'}"
        for name in ("task", "host", "user", "cwd", "effect")
        if getattr(old, name) != getattr(new, name)
    ]
    out += _pairs(dict(old.exact), dict(new.exact))
    out += _numbered("step", old.steps, new.steps)
    out += _pairs(
        {f.path: f"{f.sha_before[:12] or 'new'}:{f.text_after}" for f in old.files},
        {f.path: f"{f.sha_before[:12] or 'new'}:{f.text_after}" for f in new.files},
        say="what is written there, or what was there before, is another",
    )
    out += _sets("environment variable", old.env_names, new.env_names)
    out += _sets("gate", old.gates, new.gates)
    out += _numbered("undo step", old.rollback, new.rollback)
    return tuple(out) or (("the order of its identities or gates is another",) if old != new else ())


def _pairs(old: Mapping[str, str], new: Mapping[str, str], *, say: str = "") -> list[str]:
    out = []
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            out.append(f"{name} is not part of it any more")
        elif name not in old:
            out.append(f"{name} is new" + ("" if say else f": {new[name]}"))
        elif old[name] != new[name]:
            out.append(f"{name}: {say}" if say else f"{name} was {old[name]}, is {new[name]}")
    return out


def _numbered(word: str, old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> list[str]:
    out = []
    for n in range(max(len(old), len(new))):
        was = join_argv(old[n]) if n < len(old) else "not there"
        now = join_argv(new[n]) if n < len(new) else "not there"
        if was != now:
            out.append(f"{word} {n + 1} was {was}, is {now}")
    return out


def _sets(word: str, old: Sequence[str], new: Sequence[str]) -> list[str]:
    gone = [f"{word} {one} is not part of it any more" for one in old if one not in new]
    return gone + [f"{word} {one} is new" for one in new if one not in old]


def _few(lines: Sequence[str]) -> str:
    more = f"; {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


# ---- bounds: changes that are rendered later


def bounds_of(planned: PlannedTask, rendered: Rendered | None, intent: Intent) -> Bounds | None:
    """How far a plan's approval may reach for a step that is not known in full; None where it cannot be said.

    None for what destroys or reads only, for a person's own steps, and where the command lines are not known at all.
    """
    if rendered is None or rendered.change is not None or rendered.manual or planned.effect != "mutating":
        return None
    patterns = _patterns(rendered.lines)
    user, name = _place(intent.host or "")
    if not patterns or not name:
        return None
    return Bounds(
        task=planned.key, host=name, user=user, effect=planned.effect, gates=tuple(g.text for g in planned.gates),
        patterns=patterns,
    )  # fmt: skip


def _patterns(lines: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    try:
        return tuple(tuple(shlex.split(line)) for line in lines if not line.lstrip().startswith("#"))
    except ValueError:  # not command lines
        return ()


def _place(host: str) -> tuple[str, str]:
    """User and bare name of `[user@]name[:port]`."""
    user, _, rest = host.rpartition("@")
    if rest.startswith("["):
        return user, rest[1:].partition("]")[0]
    return user, rest.partition(":")[0] if rest.count(":") == 1 else rest


def why_outside(bounds: Bounds, change: Change, decisions: Mapping[str, Decision]) -> tuple[str, ...]:
    """What takes a change out of the bounds that were consented to; empty where it stays inside."""
    out = [
        f"{name} is {given}, consented to was {wanted}"
        for name, given, wanted in (
            ("host", change.host, bounds.host), ("user", change.user, bounds.user),
            ("effect", change.effect, bounds.effect), ("working directory", change.cwd, ""),
        )
        if given != wanted
    ]  # fmt: skip
    out += _sets("gate", bounds.gates, change.gates)
    out += [f"it writes {file.path}, and a file is consented to in full" for file in change.files]
    out += [f"it passes the environment variable {name}" for name in change.env_names]
    if len(change.steps) != len(bounds.patterns):
        return (*out, f"it has {len(change.steps)} commands, consented to were {len(bounds.patterns)}")
    filled: dict[str, str] = {}
    for step, pattern in zip(change.steps, bounds.patterns, strict=True):
        if not _fits(step, pattern, filled):
            out.append(f"{join_argv(step)} is not of the form {' '.join(pattern)}")
    return (
        *out,
        *(why for name, value in filled.items() if (why := _unsaid(name, value, change, decisions))),
    )


def _fits(step: Sequence[str], pattern: Sequence[str], filled: dict[str, str]) -> bool:
    """Whether each word is of its form; fills the open places, each with one value everywhere."""
    if len(step) != len(pattern):
        return False
    for word, form in zip(step, pattern, strict=True):
        parts = gaps(form)
        names = parts[1::2]
        form_re = "".join(re.escape(p) if i % 2 == 0 else "(.+?)" for i, p in enumerate(parts))
        found = re.fullmatch(form_re, word, flags=re.DOTALL)
        if found is None or (names and word.startswith("-") and not parts[0].startswith("-")):
            return False
        for name, value in zip(names, found.groups(), strict=True):
            if filled.setdefault(name, value) != value:
                return False
    return True


def _unsaid(name: str, value: str, change: Change, decisions: Mapping[str, Decision]) -> str:
    """Why a value must not stand in an open place; "" where the change or a decision names it under that name."""
    if _UNSAFE.search(value):
        return f"<{name}> became {value!r}, which is not a plain value"
    said = [v for n, v in change.exact if _plain(n) == _plain(name)]
    said += [d.value or d.option for key, d in decisions.items() if _plain(key) == _plain(name)]
    if value in said:
        return ""
    return (
        f"<{name}> became {value}, which is neither an identity of the change nor an answer that was decided"
    )


def _plain(name: str) -> str:
    return name.casefold().replace(" ", "_").replace("-", "_")
