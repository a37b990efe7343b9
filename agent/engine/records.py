"""The stored rows of one mission, as the engine takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recon.agent.model.changes import Change, Consented
from recon.agent.model.findings import Finding, Judgement
from recon.agent.model.missions import Mission, Revision
from recon.agent.model.records import Approval, Decision, Run
from recon.agent.model.tasks import Attempt, PlannedUnknown, Task


@dataclass(frozen=True)
class Records:
    """The stored rows of one mission."""

    mission: Mission
    revision: Revision
    tasks: Sequence[Task]
    edges: Sequence[tuple[int, int, str]]
    unknowns: Sequence[PlannedUnknown]
    judgements: Sequence[Judgement]
    findings: Sequence[Finding]
    decisions: Sequence[Decision]
    approvals: Sequence[Approval]
    attempts: Mapping[int, Sequence[Attempt]] = field(default_factory=dict)  # by task
    runs: Sequence[Run] = ()
    events: int = 0
    unplaced: tuple[str, ...] = ()
    admitted: Mapping[int, Change] = field(
        default_factory=dict
    )  # interrupted tasks: the change last approved
    taken: Mapping[int, str] = field(default_factory=dict)  # readings of other missions: what to say, by task
    consents: Mapping[int, Consented] = field(
        default_factory=dict
    )  # by task: what its last approval was given to


def active_decisions(decisions: Sequence[Decision]) -> dict[str, Decision]:
    """The decisions in force, by what they are about: the latest that was not undone."""
    undone = {d.undoes for d in decisions if d.undoes is not None}
    return {d.about_key: d for d in decisions if d.undoes is None and d.id not in undone}
