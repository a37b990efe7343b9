"""Todo items: what a playbook plans, what state.db holds, what a status is blocked by."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recon.agent.model.base import Frozen, Json
from recon.agent.model.findings import Option
from recon.agent.model.words import (
    Answerer,
    Cause,
    Effect,
    Level,
    Phase,
    Priority,
    StoredStatus,
    TaskKind,
)


class RetryPolicy(Frozen):
    """How often and how soon a failed attempt is tried again. Delays in seconds; full jitter on top of back-off."""

    attempts: int = 1
    first_delay_s: float = 0.5
    factor: float = 2.0
    max_delay_s: float = 30.0


class Edge(Frozen):
    """A dependency. `succeeded`: only success satisfies it. `settled`: any end does (a judge says what is missing)."""

    key: str
    on: Literal["succeeded", "settled"] = "succeeded"


class GateSpec(Frozen):
    """A predicate in front of a task, in the language of the contracts, and the same in words."""

    text: str
    words: str = ""


class PlannedTask(Frozen):
    """A todo item as a playbook wants it. `key` is unique in a mission and names the subject it works on."""

    key: str
    definition: str
    params: dict[str, Json] = Field(default_factory=dict)
    title: str
    kind: TaskKind
    priority: Priority = "medium"
    effect: Effect = "read_only"
    needs: tuple[Edge, ...] = ()
    gates: tuple[GateSpec, ...] = ()
    timeout_s: float = 120.0
    retry: RetryPolicy = RetryPolicy()
    limit: str = ""  # the source whose concurrency limit it counts against: host, hub, web
    order: int = 0  # the position people see in the todo list
    because: str = ""  # "+ added because ..."
    discovered_from: str = ""  # the key of the task or judgement that brought it
    required: bool = True  # False: where it cannot be reached the mission goes on without it
    settles: tuple[str, ...] = ()  # act tasks: the unknowns whose block this change removes


class PlannedUnknown(Frozen):
    """A typed question of a playbook."""

    key: str
    question: str
    options: tuple[Option, ...] = ()  # fixed options; judgements may bring more
    domain: Literal["choice", "number", "yes_no", "text"] = "choice"
    unit: str | None = None  # of a number
    who: Answerer = "task"
    required: bool = True
    min_level: Level = "proved"
    finding_ref: str = ""  # role.name[key]: the finding that answers it


class Plan(Frozen):
    """What a playbook gives a mission revision."""

    tasks: tuple[PlannedTask, ...]
    unknowns: tuple[PlannedUnknown, ...] = ()


class Task(Frozen):
    """A stored todo item."""

    id: int
    mission_id: str
    definition_hash: str
    planned: PlannedTask
    status: StoredStatus
    lease_run: int | None = None
    lease_token: int = 0
    lease_until: float | None = None
    edited: tuple[str, ...] = ()  # the fields of the plan that a person changed for good
    in_head: bool = True  # belongs to the mission's current revision

    @property
    def key(self) -> str:
        """The key people type."""
        return self.planned.key


class Attempt(Frozen):
    """One execution of a task."""

    id: int
    task_id: int
    n: int
    run_id: int
    cause: Cause
    phase: Phase | None
    input_hash: str
    started_at: float
    ended_at: float | None
    outcome: str | None
    error: dict[str, Json] | None
    summary: str = ""
    reads: tuple[str, ...] = ()  # what a judge read, as its view recorded it


class Blocker(Frozen):
    """One reason why a task cannot start, and the command that helps."""

    kind: Literal["dependency", "gate", "decision", "approval", "manual", "stale", "ended"]
    ref: str
    state: str
    reason: str
    command: str = ""
