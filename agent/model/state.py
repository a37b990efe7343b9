"""A mission as a reader sees it at one moment: what report, board, CLI and JSON are made of. Computed, never stored."""

from __future__ import annotations

from typing import Literal

from recon.agent.model.base import Frozen, Json
from recon.agent.model.changes import Rendered
from recon.agent.model.findings import Finding, Judgement, Option
from recon.agent.model.missions import Mission, Revision
from recon.agent.model.records import Approval, Decision, Run
from recon.agent.model.tasks import Blocker, GateSpec, PlannedUnknown, Task
from recon.agent.model.words import JudgementVerdict, Level, MissionVerdict, TaskStatus, UnknownStatus


class GateState(Frozen):
    """A gate and what it evaluates to now. Only `true` opens."""

    spec: GateSpec
    result: Literal["true", "false", "unknown", "stale", "error"]
    refs: tuple[str, ...] = ()  # the paths or keys it hangs on
    reasons: tuple[str, ...] = ()


class TaskState(Frozen):
    """A todo item with its computed status and what it waits for."""

    task: Task
    status: TaskStatus
    blocked_by: tuple[Blocker, ...] = ()
    gates: tuple[GateState, ...] = ()
    rendered: Rendered | None = None  # act tasks
    attempts: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    summary: str = ""
    error: dict[str, Json] | None = None
    progress: str = ""


class UnknownState(Frozen):
    """An unknown with its computed status. `options` merges the planned ones with those judgements brought."""

    planned: PlannedUnknown
    status: UnknownStatus
    answer: Json = None
    answer_text: str = ""
    level: Level | None = None
    options: tuple[Option, ...] = ()
    judgements: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()  # keys of the tasks whose gates name it
    answer_with: str = ""  # the command
    reason: str = ""  # why it is not answered
    asked: str = ""  # the question as it stands, without numbers that drift
    shown: str = ""  # its hash: what an answer may name


class JudgementState(Frozen):
    """A judgement, and whether a decision has settled the question it is about."""

    judgement: Judgement
    verdict: JudgementVerdict
    decided: Decision | None = None


class Waiting(Frozen):
    """One thing the mission waits for from a person, with the exact command that gives it."""

    kind: Literal["decision", "approval", "answer", "manual", "retry"]
    ref: str
    text: str
    command: str


class MissionState(Frozen):
    """Everything a report says. Lists are in the order people read; exporters sort by id."""

    mission: Mission
    revision: Revision
    now: float
    sentence: str
    verdict: MissionVerdict
    verdict_line: str
    tasks: tuple[TaskState, ...]
    unknowns: tuple[UnknownState, ...]
    judgements: tuple[JudgementState, ...]
    findings: tuple[Finding, ...]
    decisions: tuple[Decision, ...]
    approvals: tuple[Approval, ...]
    waiting: tuple[Waiting, ...]
    runs: tuple[Run, ...] = ()
    events: int = 0
    unplaced: tuple[str, ...] = ()
    history: tuple[TaskState, ...] = ()  # todo items of earlier bindings, with what came of them

    def task(self, key: str) -> TaskState | None:
        """A todo item by key."""
        return next((t for t in self.tasks if t.task.key == key), None)

    def task_by_id(self, task_id: int) -> TaskState | None:
        """A todo item of the current revision by its number."""
        return next((t for t in self.tasks if t.task.id == task_id), None)

    def unknown(self, key: str) -> UnknownState | None:
        """An unknown by key."""
        return next((u for u in self.unknowns if u.planned.key == key), None)
