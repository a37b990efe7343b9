"""The verdict of a mission from its unknowns, judgements and tasks; the exit code from the verdict and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from recon.agent.model.state import JudgementState, TaskState, UnknownState
from recon.agent.model.words import MissionVerdict

_WORDS: dict[MissionVerdict, str] = {
    "go": "GO", "no_go": "NO-GO", "needs_decision": "NEEDS DECISION", "needs_approval": "NEEDS APPROVAL",
}  # fmt: skip


def mission_verdict(
    *, unknowns: Sequence[UnknownState], judgements: Sequence[JudgementState], tasks: Sequence[TaskState],
    stopped: bool,
) -> MissionVerdict:  # fmt: skip
    """`no_go` if a required block has no option and no act task that removes it (or a person chose to stop);
    else `needs_decision` while a required unknown is open; else `needs_approval` while a change waits; else `go`."""
    if stopped or any(_hopeless(j, unknowns, tasks) for j in judgements):
        return "no_go"
    if any(needs_person(u, tasks) for u in unknowns):
        return "needs_decision"
    if any(t.status == "awaiting_approval" for t in tasks):
        return "needs_approval"
    return "needs_decision" if any(u.planned.required and u.status == "open" for u in unknowns) else "go"


def removable(key: str, tasks: Sequence[TaskState]) -> bool:
    """Whether an act task of this mission removes a block about this unknown."""
    return any(key in t.task.planned.settles for t in tasks)


def _hopeless(state: JudgementState, unknowns: Sequence[UnknownState], tasks: Sequence[TaskState]) -> bool:
    about = next((u for u in unknowns if u.planned.key == state.judgement.about), None)
    if state.verdict != "block" or state.decided is not None or about is None or not about.planned.required:
        return False
    return not about.options and not removable(about.planned.key, tasks)


def needs_person(unknown: UnknownState, tasks: Sequence[TaskState]) -> bool:
    """Whether only a person's choice moves this required unknown on."""
    if not unknown.planned.required or unknown.status in ("answered", "waived"):
        return False
    if unknown.status == "open":
        return unknown.planned.who == "person"
    return bool(unknown.options) or not removable(unknown.planned.key, tasks)


def verdict_line(
    verdict: MissionVerdict,
    judgements: Sequence[JudgementState],
    *,
    decisions: int,
    approvals: int,
    touched: bool,
) -> str:
    """The one line that answers "am I good to go?"."""
    counts = Counter(j.verdict for j in judgements)
    parts = [f"{counts[v]} {v}" for v in ("conflict", "block", "unknown", "warn", "pass") if counts[v]]
    waits = [
        f"{n} {name}{'' if n == 1 else 's'}"
        for n, name in ((decisions, "decision"), (approvals, "approval"))
        if n
    ]
    text = f"{_WORDS[verdict]}: {', '.join(parts) or 'nothing judged'}"
    if waits:
        text += f"; waits for {' and '.join(waits)}"
    return text if touched else f"{text}; nothing was touched"


def exit_code(verdict: MissionVerdict, tasks: Sequence[TaskState]) -> int:
    """4 where something required could not be reached, else 1 where a task failed, else 3 while a person is waited
    for, else 0 (also a finished `no_go`)."""
    failed = [t for t in tasks if t.status == "failed" and t.task.planned.required]
    if any((t.error or {}).get("kind") == "reach" for t in failed):
        return 4
    if failed:
        return 1
    return 3 if verdict in ("needs_decision", "needs_approval") else 0
