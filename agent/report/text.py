"""The full report as text."""

from __future__ import annotations

from collections.abc import Sequence

from recon.agent.model.state import MissionState
from recon.agent.report import todo
from recon.agent.report.asks import asks
from recon.agent.report.clean import clean, wrap
from recon.agent.report.lines import ask_report, judgement_block
from recon.agent.report.sections import banner, finding_rows, run_rows
from recon.agent.report.summary import run_summary
from recon.agent.report.words import MISSION_WORD, UNKNOWN_GLYPH, time_text

__all__ = ["ask_lines", "report", "run_summary"]


def report(state: MissionState, *, width: int = 100) -> list[str]:
    """The whole report: verdict, what contradicts what, what is waited for, todo list, facts with proof, changes."""
    out = [*banner(state, width=width), f"verdict  {MISSION_WORD[state.verdict]}"]
    out += [*wrap(clean(state.verdict_line), width, first="  "), ""]
    out += _section(
        "mission",
        [line for row in _mission_rows(state) for line in wrap(row, width, first="  ", rest="    ")],
    )
    judged = [line for j in state.judgements for line in judgement_block(j, width)]
    out += _section("judgements", judged)
    waits = [line for n, ask in enumerate(asks(state), 1) for line in ask_report(n, ask, width)]
    out += _section("waiting for you", waits)
    out += _section("unknowns", [line for line in _unknown_lines(state, width)])
    out += _section("decisions", _decision_lines(state, width))
    out += _section("approvals", _approval_lines(state, width))
    out += _section("todo", [*todo.lines(state, width=width, full=True), todo.counts_text(state)])
    out += _section("findings", finding_rows(state, width=width))
    out += _section("runs", run_rows(state))
    return [*out, *wrap(clean(state.verdict_line), width)]


def ask_lines(state: MissionState, *, kind: str, width: int = 80) -> list[str]:
    """What is waited for of one kind (decision, approval), numbered, with options and their consequence."""
    chosen = [ask for ask in asks(state) if ask.kind == kind]
    return [line for n, ask in enumerate(chosen, 1) for line in ask_report(n, ask, width)]


def _section(title: str, rows: Sequence[str]) -> list[str]:
    return [f"-- {title} {'-' * max(60 - len(title), 3)}", *rows, ""] if rows else []


def _mission_rows(state: MissionState) -> list[str]:
    mission, revision = state.mission, state.revision
    rows = [
        clean(state.sentence),
        f"asked: {clean(mission.text)}" if mission.text else "",
        f"id {mission.id}  revision {revision.n}  {mission.origin}  as of {time_text(state.now)}",
        *(f"{role}: {clean(subject)}" for role, subject in sorted(revision.bindings.items())),
        "not understood: " + "; ".join(clean(w) for w in state.unplaced) if state.unplaced else "",
    ]
    return [row for row in rows if row]


def _unknown_lines(state: MissionState, width: int) -> list[str]:
    out: list[str] = []
    for unknown in state.unknowns:
        kind = "" if unknown.planned.required else " (advisory)"
        first = f"{UNKNOWN_GLYPH[unknown.status]} {unknown.status:<12} "
        out += wrap(f"{unknown.planned.key}{kind}: {clean(unknown.planned.question)}", width, first=first)
        said = clean(unknown.answer_text) or clean(unknown.reason)
        level = f" [{unknown.level}]" if unknown.level else ""
        if said:
            out += wrap(f"{said}{level}", width, first=" " * 15)
        if unknown.blocks:
            out += wrap(f"blocks {', '.join(unknown.blocks)}", width, first=" " * 15)
    return out


def _decision_lines(state: MissionState, width: int) -> list[str]:
    out: list[str] = []
    undone = {d.undoes: d.id for d in state.decisions if d.undoes is not None}
    for decision in state.decisions:
        if decision.undoes is not None:
            text = f"takes d{decision.undoes} back, by {clean(decision.by)} at {time_text(decision.at)}"
            out += wrap(f"{text}, because {clean(decision.because)}", width, first=f"d{decision.id}  ")
            continue
        chosen = clean(decision.option) + (f"={clean(decision.value)}" if decision.value else "")
        text = f"{clean(decision.about_key)}: {chosen}, by {clean(decision.by)} at {time_text(decision.at)}"
        gone = f" (undone by d{undone[decision.id]})" if decision.id in undone else ""
        out += wrap(f"{text}, because {clean(decision.because)}{gone}", width, first=f"d{decision.id}  ")
    return out


def _approval_lines(state: MissionState, width: int) -> list[str]:
    keys = {item.task.id: item.task.key for item in state.tasks}
    out: list[str] = []
    for approval in state.approvals:
        what = keys.get(approval.task_id, f"task {approval.task_id}")
        text = f"{approval.verdict} {what}, by {clean(approval.by)} via {clean(approval.via)}"
        text += f" at {time_text(approval.at)}, change {approval.change_hash[:12]}"
        out += wrap(text + (f": {clean(approval.message)}" if approval.message else ""), width, rest="    ")
    return out
