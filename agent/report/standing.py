"""What a mission stands on, as lines and as JSON: `recon status`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recon.agent.engine.freshness import StaleFact, Standing
from recon.agent.model.base import Json
from recon.agent.model.records import Run
from recon.agent.model.state import MissionState
from recon.agent.report import todo
from recon.agent.report.asks import asks
from recon.agent.report.clean import clean, cut, subject_text, wrap
from recon.agent.report.lines import ask_line
from recon.agent.report.sections import banner
from recon.agent.report.words import EXIT_WORD, seconds_text, time_text

RUN_WORD: Final = {"live": "is at work", "dead": "died", "elsewhere": "is at work elsewhere, or died there"}
_SHOWN = 12  # stale facts shown one by one; the rest is counted


@dataclass(frozen=True, slots=True)
class RunState:
    """A run that has not said that it ended. `word`: live, dead (its process is gone), elsewhere (another machine)."""

    run: Run
    word: str


def lines(
    state: MissionState, stands: Standing, runs: Sequence[RunState], *, width: int = 80, code: int = 0,
    clock: float | None = None,
) -> list[str]:  # fmt: skip
    """The mission, what went stale and what that holds up, what is void, who works on it, what it waits for.

    `clock`: the time it is, where that is another one than the mission's (a replay's is its recording's).
    """
    out = [*banner(state, width=width), *wrap(clean(state.sentence), width)]
    out.append(cut(f"mission {state.mission.id}, revision {state.revision.n}, {state.mission.origin}", width))
    out += ["", *_stale_lines(stands, width=width)]
    out += _void_lines(stands, width=width)
    out += _run_lines(state, runs, width=width, clock=state.now if clock is None else clock)
    waiting = [line for n, ask in enumerate(asks(state), 1) for line in ask_line(n, ask, width)]
    out += ["", *waiting] if waiting else []
    out += ["", cut(f"todo: {todo.counts_text(state)} (recon todo)", width)]
    return [*out, *wrap(clean(state.verdict_line), width), f"exit {code}: {EXIT_WORD.get(code, 'see above')}"]


def as_json(state: MissionState, stands: Standing, runs: Sequence[RunState]) -> dict[str, Json]:
    """The same as JSON."""
    return {
        "mission": state.mission.id, "revision": state.revision.n, "origin": state.mission.origin,
        "sentence": state.sentence, "now": state.now, "verdict": state.verdict, "verdict_line": state.verdict_line,
        "stale": [_stale_json(fact) for fact in stands.stale],
        "read_again": [{"task": task, "because": why} for task, why in stands.read_again],
        "void_decisions": [
            {"id": d.id, "about": d.about_key, "option": d.option, "because": why} for d, why in stands.void_decisions
        ],
        "void_approvals": [{"task": task, "because": why} for task, why in stands.void_approvals],
        "runs": [
            {"id": r.run.id, "mission": r.run.mission_id, "host": r.run.host, "pid": r.run.pid, "state": r.word,
             "started_at": r.run.started_at, "heartbeat_at": r.run.heartbeat_at}
            for r in runs
        ],
        "waiting": [{"kind": a.kind, "ref": a.ref, "command": a.command} for a in asks(state)],
    }  # fmt: skip


def _stale_json(fact: StaleFact) -> dict[str, Json]:
    finding = fact.finding
    return {
        "finding": finding.id, "subject": finding.subject, "name": finding.name, "observed_at": finding.observed_at,
        "because": fact.why, "read_by": fact.task, "gates": list(fact.gates), "judgements": list(fact.judgements),
    }  # fmt: skip


def _stale_lines(stands: Standing, *, width: int) -> list[str]:
    if not stands.stale:
        return ["every fact it stands on still holds"]
    out = [f"{len(stands.stale)} facts went stale:"]
    for fact in stands.stale[:_SHOWN]:
        out += wrap(
            f"{clean(fact.finding.name)} of {subject_text(fact.finding.subject)}: {clean(fact.why)}", width, first="  ~ ",
            rest="    ",
        )  # fmt: skip
        out += (
            wrap(f"gates of {', '.join(map(clean, fact.gates))}", width, first="      ") if fact.gates else []
        )
        said = ", ".join(map(clean, fact.judgements))
        out += wrap(f"judgements {said}", width, first="      ", rest="      ") if said else []
    if len(stands.stale) > _SHOWN:
        out.append(f"  and {len(stands.stale) - _SHOWN} more (recon status --json)")
    if stands.read_again:
        keys = ", ".join(clean(task) for task, _ in stands.read_again)
        out += wrap(f"read again by recon resume, or recon refresh: {keys}", width, first="  ", rest="    ")
    return out


def _void_lines(stands: Standing, *, width: int) -> list[str]:
    out = []
    for decision, why in stands.void_decisions:
        text = f"decision d{decision.id} about {clean(decision.about_key)} is void: {clean(why)}"
        out += wrap(text, width, first="  ! ", rest="    ")
    for task, why in stands.void_approvals:
        out += wrap(f"approval of {clean(task)}: {clean(why)}", width, first="  ! ", rest="    ")
    return ["", *out] if out else []


def _run_lines(state: MissionState, runs: Sequence[RunState], *, width: int, clock: float) -> list[str]:
    out = []
    for one in runs:
        run = one.run
        where = "" if run.mission_id == state.mission.id else f" on mission {run.mission_id}"
        beat = seconds_text(max(0.0, clock - run.heartbeat_at))
        word = RUN_WORD[one.word]
        said = f"run {run.id}{where} {word}: pid {run.pid} on {clean(run.host)}, last heard {beat} ago"
        out.append(cut(said, width))
    ended = [r for r in state.runs if r.ended_at is not None]
    if not out and ended:
        last = ended[-1]
        words = {None: "died", 130: "was interrupted"}
        how = words.get(last.exit_code, f"ended with exit {last.exit_code}")
        out.append(f"nothing runs; run {last.id} {how} at {time_text(last.ended_at)}")
    if cut_short(state, runs):
        out.append("  what it had done is kept; recon resume goes on from there")
    return ["", *out] if out else []


def cut_short(state: MissionState, runs: Sequence[RunState]) -> bool:
    """Whether the last run over the mission was interrupted or died, and nobody has gone on since."""
    if not state.runs or any(r.run.mission_id == state.mission.id and r.word != "dead" for r in runs):
        return False
    return state.runs[-1].exit_code in (None, 130)
