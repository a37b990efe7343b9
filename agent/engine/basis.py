"""What a decision was shown, and whether what is known now still agrees with it. Pure.

A decision holds for the facts it was shown. The basis keeps, for every judgement about the question, its verdict and
the identities in what was observed: a format, a mount, a list of GPUs. A number that drifts is no identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from recon.agent.engine.view import View
from recon.agent.model.base import Json, canonical_json, sha256_hex
from recon.agent.model.findings import Judgement, Option
from recon.agent.model.records import Decision
from recon.agent.model.tasks import PlannedUnknown

HELD: Final = ("conflict", "block")  # the verdicts that hold something up
_QUANTITY: Final = re.compile(
    r"\d[\d,]*(?:\.\d+)?\s?(?:[KMGT]i?B|bytes|B|%|ms|s|min|h|d|days|hours|minutes|tok/s)(?![\w/])"
)
_SHOWN: Final = 80  # characters of an identity in words


def identity(value: Json) -> Json:
    """A value without what is measured: single numbers are left out, lists of numbers (GPUs, ports) are names."""
    if isinstance(value, Mapping):
        parts = {str(key): identity(inner) for key, inner in value.items() if not _measured(inner)}
        return {key: parts[key] for key in sorted(parts)}
    if isinstance(value, (list, tuple)):
        return [one if _measured(one) else identity(one) for one in value]
    if isinstance(value, str):
        return _QUANTITY.sub("…", value)
    return None if _measured(value) else value


def _measured(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def basis_of(planned: PlannedUnknown, about: Iterable[Judgement], view: View) -> dict[str, Json]:
    """What an answer to this question rests on now: the judgements about it, and the finding it refers to."""
    judgements = {
        j.key: {"verdict": j.verdict, "of": _subjects(j, view), "input": j.input_hash, **_seen(j.observed)}
        for j in about
    }
    return {"judgements": judgements, "finding": _answer(planned, view)}


def _subjects(judgement: Judgement, view: View) -> list[str]:
    """The subjects a judgement is about: what its findings are findings of."""
    cited = {side.finding_id for side in judgement.sides}
    return sorted({f.subject for f in view.all_findings() if f.id in cited})


def _seen(value: Json) -> dict[str, Json]:
    text = canonical_json(identity(value))
    return {
        "identity": sha256_hex(text)[:16],
        "seen": text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…",
    }


def _answer(planned: PlannedUnknown, view: View) -> dict[str, Json]:
    if not planned.finding_ref:
        return {}
    read = view.read(planned.finding_ref)
    if not read.known or read.finding is None:
        return {}
    role = planned.finding_ref.partition(".")[0]
    return {
        "path": planned.finding_ref, "id": read.finding.id, "subject": view.bindings.get(role, ""), **_seen(read.value),
    }  # fmt: skip


def why_void(decision: Decision, planned: PlannedUnknown, about: Sequence[Judgement], view: View) -> str:
    """Why a decision does not hold any more: what contradicts it that it was not shown. "" where it holds."""
    if not decision.basis:  # made before a basis was kept, or by a program that gave none
        return ""
    shown = decision.basis.get("judgements", {})
    for judgement in about:
        if judgement.verdict in HELD and (why := _unseen(judgement, shown.get(judgement.key), view)):
            return f"{judgement.title} ({why})"
    return _other_answer(decision.basis.get("finding", {}), planned, view)


def _unseen(judgement: Judgement, shown: Mapping[str, Json] | None, view: View) -> str:
    """How what holds the question up differs from what was shown when it was decided; "" where it is the same."""
    if shown is None:
        return "nothing of it was known when it was decided"
    if shown["input"] and shown["input"] == judgement.input_hash:
        return ""  # the very judgement that was shown
    if shown["verdict"] != judgement.verdict:
        return f"it was {shown['verdict']} when it was decided"
    if shown["identity"] != _seen(judgement.observed)["identity"]:
        return f"decided on {shown['seen']}"
    subjects = _subjects(judgement, view)
    others = [s for s in subjects if s not in shown["of"]]
    return f"the same of {others[0]}" if others and shown["of"] else ""


def _other_answer(shown: Mapping[str, Json], planned: PlannedUnknown, view: View) -> str:
    now = _answer(planned, view) if shown else {}
    same = now and now["subject"] == shown["subject"] and now["path"] == shown["path"]
    if not same or now["identity"] == shown["identity"]:
        return ""
    return f"{shown['path']} is {now['seen']} now, decided on {shown['seen']}"


def question_text(planned: PlannedUnknown, options: Iterable[Option], about: Iterable[Judgement]) -> str:
    """The question as a person sees it, without numbers that drift: what an answer may say that it answers."""
    lines = [f"question: {planned.question}"]
    lines += [
        f"option {o.id}{f'=<{o.needs_value}>' if o.needs_value else ''}: "
        + _QUANTITY.sub("…", f"{o.title}. {o.consequence}")
        for o in options
    ]
    lines += [
        f"{j.key} is {j.verdict}: {_seen(j.observed)['seen']} {_seen(j.observed)['identity']}" for j in about
    ]
    return "\n".join(lines)


def question_hash(text: str) -> str:
    """The hash of a question's text."""
    return sha256_hex(text)


def what_changed(old: str, new: str) -> tuple[str, ...]:
    """The lines of a question that are new or gone, in words."""
    before, after = old.splitlines(), new.splitlines()
    gone = [f"gone: {line}" for line in before if line not in after]
    return (*gone, *(f"new: {line}" for line in after if line not in before))
