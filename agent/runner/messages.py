"""What a run says while it works. Everything here was committed to state.db before it is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from recon.agent.model.words import StoredStatus


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A task was taken. `at` is UTC seconds."""

    key: str
    title: str
    at: float


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """What a running task does or waits for, in a few words."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task came to an end. `pending` means it will be tried again."""

    key: str
    status: StoredStatus
    summary: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TasksAdded:
    """Findings brought new todo items."""

    keys: tuple[str, ...]
    because: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why nothing runs just now."""

    reason: str


@dataclass(frozen=True, slots=True)
class MissionChanged:
    """Another process, or a decision, changed the mission."""

    mission_id: str


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """A fact may not be believed any more: the task that reads it starts again."""

    key: str
    because: str


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A reading of another mission still holds and is not made again. `read_at` is UTC seconds."""

    key: str
    mission_id: str
    read_at: float


@dataclass(frozen=True, slots=True)
class Reopened:
    """A question that was answered is open again."""

    key: str
    status: str
    reason: str


Message: TypeAlias = (
    TaskStarted
    | TaskProgress
    | TaskEnded
    | TasksAdded
    | Waiting
    | MissionChanged
    | ReadAgain
    | TakenOver
    | Reopened
)
