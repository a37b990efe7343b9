"""The closed sets of words. DESIGN's vocabulary, spelled once."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal["proved", "declared", "claimed"]
Outcome: TypeAlias = Literal["known", "absent", "unknown"]
ProbeState: TypeAlias = Literal["ok", "failed", "timeout", "missing", "denied", "unparsable", "lost"]
Origin: TypeAlias = Literal["captured", "composed"]
MissionOrigin: TypeAlias = Literal["live", "replay", "rehearsal"]
Connector: TypeAlias = Literal["host", "hub", "web", "person"]  # person: the words of a directive

JudgementVerdict: TypeAlias = Literal["pass", "warn", "block", "unknown", "conflict"]
MissionVerdict: TypeAlias = Literal["go", "no_go", "needs_decision", "needs_approval"]

TaskKind: TypeAlias = Literal["recon", "judge", "act"]
Effect: TypeAlias = Literal["read_only", "mutating", "destructive"]
Priority: TypeAlias = Literal["high", "medium", "low"]
StoredStatus: TypeAlias = Literal[
    "pending", "running", "succeeded", "failed", "skipped", "cancelled", "interrupted"
]
TaskStatus: TypeAlias = Literal[
    "pending", "running", "succeeded", "failed", "skipped", "cancelled", "interrupted",
    "ready", "blocked", "awaiting_decision", "awaiting_approval",
]  # fmt: skip
UnknownStatus: TypeAlias = Literal["open", "answered", "contradicted", "waived"]
Answerer: TypeAlias = Literal["task", "person"]
Cause: TypeAlias = Literal["first", "retry", "resume", "refresh", "rollback"]
Phase: TypeAlias = Literal["check", "apply", "verify", "rollback"]
Strength: TypeAlias = Literal["must", "prefer", "mentioned"]
Effort: TypeAlias = Literal["minutes", "hours", "days", "weeks"]

LEVEL_RANK: Final[dict[Level, int]] = {"claimed": 0, "declared": 1, "proved": 2}
PRIORITY_RANK: Final[dict[Priority, int]] = {"high": 0, "medium": 1, "low": 2}
VERDICT_RANK: Final[dict[JudgementVerdict, int]] = {
    "conflict": 0,
    "block": 1,
    "unknown": 2,
    "warn": 3,
    "pass": 4,
}
FINAL_STATUSES: Final[frozenset[str]] = frozenset({"succeeded", "failed", "skipped", "cancelled"})


def at_least(level: Level, needed: Level) -> bool:
    """Whether a finding of `level` is proof enough where `needed` is asked."""
    return LEVEL_RANK[level] >= LEVEL_RANK[needed]
