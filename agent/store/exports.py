"""What a bundle needs of a mission."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import bindparam, select

from recon.agent.model.findings import Finding, Observation
from recon.agent.model.missions import Mission, Revision
from recon.agent.model.records import Decision
from recon.agent.store.judgements import Judgements
from recon.agent.store.people import People
from recon.agent.store.runs import Runs
from recon.agent.store.schema import (
    attempt,
    finding,
    finding_input,
    judgement,
    judgement_finding,
    observation,
    task,
)
from recon.agent.store.sql import Sql

_MADE = Sql(
    select(observation.c.id)
    .join(attempt, attempt.c.id == observation.c.attempt_id)
    .join(task, task.c.id == attempt.c.task_id)
    .where(task.c.mission_id == bindparam("wanted"), observation.c.realm == bindparam("in_realm"))
)
_SIDES = Sql(
    select(judgement_finding.c.finding_id)
    .join(judgement, judgement.c.id == judgement_finding.c.judgement_id)
    .where(judgement.c.mission_id == bindparam("wanted"))
)
_SOURCES = Sql(select(finding.c.id, finding.c.observation_id).where(finding.c.realm == bindparam("in_realm")))
_INPUTS = Sql(
    select(finding_input.c.finding_id, finding_input.c.input_id).where(
        finding_input.c.realm == bindparam("in_realm")
    )
)


@dataclass(frozen=True, slots=True)
class ExportRows:
    """A mission with its revisions, decisions and the evidence it rests on. Read the bytes with `Store.blob`."""

    mission: Mission
    revisions: tuple[Revision, ...]
    decisions: tuple[Decision, ...]
    observations: tuple[Observation, ...]
    blobs: tuple[str, ...]  # sha256, sorted


class Exports(Judgements, People, Runs):
    """Holds one connection to state.db: what leaves it."""

    def export_rows(self, mission_id: str) -> ExportRows:
        """All that a replay of the mission needs. Observations are in the order they were stored.

        They are those its tasks made, those behind the findings its judgements rested on (a finding that
        another mission collected counts too), and those behind what is known of the subjects it is bound to.
        """
        with self.snapshot():
            held = self.mission(mission_id)
            revisions = tuple(self.revisions(held.id))
            used = self._used_findings(held, revisions)
            wanted = {str(row[0]) for row in self.rows(_MADE, wanted=held.id, in_realm=held.realm)}
            for row in self.rows(_SOURCES, in_realm=held.realm):
                if row["id"] in used and row["observation_id"] is not None:
                    wanted.add(row["observation_id"])
            seen = tuple(self.observations(held.realm, wanted))
            blobs = {sha for one in seen for sha in (one.stdout_sha, one.stderr_sha)}
            return ExportRows(held, revisions, tuple(self.decisions(held.id)), seen, tuple(sorted(blobs)))

    def _used_findings(self, held: Mission, revisions: tuple[Revision, ...]) -> set[str]:
        subjects = _followed(
            self.findings(held.realm), {s for one in revisions for s in one.bindings.values()}
        )
        used = {one.id for one in self.findings(held.realm, subjects)}
        used |= {str(row[0]) for row in self.rows(_SIDES, wanted=held.id)}
        inputs: dict[str, list[str]] = {}
        for row in self.rows(_INPUTS, in_realm=held.realm):
            inputs.setdefault(row["finding_id"], []).append(row["input_id"])
        todo = list(used)
        while todo:
            for input_id in inputs.get(todo.pop(), ()):
                if input_id not in used:
                    used.add(input_id)
                    todo.append(input_id)
        return used


def _followed(findings: Iterable[Finding], subjects: set[str]) -> set[str]:
    """The subjects and those that their `same_as` leads to."""
    pointers = {
        one.subject: str(one.value) for one in findings if one.name == "same_as" and one.outcome == "known"
    }
    found: set[str] = set()
    todo = list(subjects)
    while todo:
        subject = todo.pop()
        if subject not in found:
            found.add(subject)
            todo += [pointers[subject]] if subject in pointers else []
    return found
