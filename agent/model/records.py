"""Rows of state.db that are not findings or tasks: decisions, approvals, runs, events."""

from __future__ import annotations

from pydantic import Field

from recon.agent.model.base import Frozen, Json


class Decision(Frozen):
    """A person's recorded choice. `basis`: the judgements and the answer it was shown, see engine.basis."""

    id: int
    mission_id: str
    about_key: str
    option: str
    value: str
    because: str
    by: str
    via: str
    at: float
    shown_sha: str
    from_n: int
    to_n: int
    undoes: int | None = None
    basis: dict[str, Json] = Field(default_factory=dict)


class Approval(Frozen):
    """A person's consent (or refusal) to an exact change, or within bounds to one that is rendered later.

    `change_hash` names the blob with the canonical JSON of what was consented to.
    """

    id: int
    task_id: int
    change_hash: str
    exact_hash: str
    shown_sha: str
    verdict: str  # approve, deny
    message: str
    by: str
    via: str
    at: float
    scope: str = "exact"  # exact, bounds


class Run(Frozen):
    """One `recon run` or `resume` over a mission."""

    id: int
    mission_id: str
    host: str
    boot_id: str
    pid: int
    pid_started: float
    version: str
    started_at: float
    heartbeat_at: float
    ended_at: float | None
    exit_code: int | None


class Event(Frozen):
    """One status change. The event log reproduces every task, decision and approval status."""

    seq: int
    mission_id: str
    run_id: int | None
    actor: str
    entity: str
    entity_id: str
    old: str
    new: str
    payload: Json
    at: float
