"""What a directive is understood as, without running or storing anything."""

from __future__ import annotations

from recon.agent.api import View
from recon.agent.mission import (
    Ground,
    directive_drafts,
    directive_subject,
    sentence,
    with_additions,
    with_bindings,
)
from recon.agent.model.base import Json
from recon.agent.model.findings import make_finding
from recon.agent.model.missions import Triage
from recon.agent.model.tasks import Plan
from recon.agent.report.clean import clean, cut, wrap
from recon.agent.report.words import value_text


def plan_of(triage: Triage) -> Plan:
    """The first todo list: what playbook and mission file plan when nothing is known but the directive."""
    return with_additions(ground_of(triage).plan, triage.intent)


def ground_of(triage: Triage) -> Ground:
    """What the playbook alone plans when nothing is known, its roles, and what findings may add to it."""
    from recon.agent.cli.plugins import load_plugins

    registry = load_plugins().whole()
    book = registry.playbook(triage.playbook)
    subject = directive_subject(triage)
    claims = [
        make_finding(
            draft, subject=subject, producer="triage", producer_version="1", observation_id=None, inputs=(),
            observed_at=0.0, origin="captured",
        )
        for draft in directive_drafts(triage)
    ]  # fmt: skip
    bound = with_bindings(book.bindings(triage.intent, subject), triage.intent)
    view = View.of(claims, bindings=bound, intent=triage.intent, now=0.0)
    plan = registry.plan(triage.playbook, triage.intent, view)
    return Ground(plan=plan, roles=frozenset(bound), brings=tuple(getattr(book, "brings", ())))


def preview(triage: Triage, *, width: int) -> list[str]:
    """Mission, claims, unknowns and todo list as text."""
    plan = plan_of(triage)
    out = wrap(clean(sentence(triage.intent)), width)
    out += ["", "intent"]
    for name, value in _shown_intent(triage).items():
        out += wrap(value_text(value), width, first=f"  {name:<16} ")
    out += ["", "claims (not proved yet)", *_claims(triage, width)] if triage.claims else []
    if triage.unplaced:
        out += ["", "not understood", *(cut(f"  {clean(words)}", width) for words in triage.unplaced)]
    out += ["", f"unknowns ({triage.playbook})"]
    for unknown in plan.unknowns:
        kind = "" if unknown.required else " (advisory)"
        out += wrap(f"{unknown.key}{kind}: {clean(unknown.question)}", width, first="  ? ")
    out += ["", "todo"]
    for task in sorted(plan.tasks, key=lambda t: t.order):
        out.append(
            cut(f"  · {task.kind:<5} {task.priority:<6} {clean(task.key)}  {clean(task.title)}", width)
        )
    return out


def _shown_intent(triage: Triage) -> dict[str, Json]:
    """The intent without what the mission file brought: that is in the todo list."""
    shown: dict[str, Json] = triage.intent.model_dump(mode="json", exclude_defaults=True)
    extra = {name: value for name, value in shown.pop("extra", {}).items() if name != "additions"}
    return {**shown, "extra": extra} if extra else shown


def preview_json(triage: Triage) -> dict[str, Json]:
    """The same as JSON."""
    plan = plan_of(triage)
    return {
        "sentence": sentence(triage.intent),
        "triage": triage.model_dump(mode="json"),
        "unknowns": [u.model_dump(mode="json") for u in plan.unknowns],
        "tasks": [t.model_dump(mode="json") for t in plan.tasks],
    }


def _claims(triage: Triage, width: int) -> list[str]:
    out: list[str] = []
    for claim in triage.claims:
        words = f' ("{clean(claim.words)}")' if claim.words else ""
        out += wrap(
            f"{clean(claim.name)}: {value_text(claim.value)}{words}", width, first="  ", rest="      "
        )
    return out
