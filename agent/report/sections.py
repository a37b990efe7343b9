"""Parts that several forms of the report share: banner, findings with their proof, runs, changes."""

from __future__ import annotations

from recon.agent.engine.units import bytes_text, join_argv
from recon.agent.model.changes import Change
from recon.agent.model.findings import Finding
from recon.agent.model.state import MissionState
from recon.agent.report.clean import clean, clean_lines, wrap
from recon.agent.report.words import seconds_text, time_text, value_text


def banner(state: MissionState, *, width: int) -> list[str]:
    """The first line of anything that is not live: nobody may take a recorded host for a real one."""
    if state.mission.origin == "live":
        return []
    when = time_text(state.now)
    if state.mission.origin == "rehearsal":
        return wrap(f"REHEARSAL of {when}: changes go to a stand-in", width)
    composed = any(f.origin == "composed" for f in state.findings)
    word, what = ("DEMO", "a recorded host") if composed else ("REPLAY", "recorded evidence")
    return wrap(f"{word}: {what}, nothing is contacted (as of {when})", width)


def finding_text(finding: Finding, *, limit: int = 160) -> str:
    """What a finding says: its value, or that there is none and why."""
    if finding.outcome == "known":
        return value_text(finding.value, unit=finding.unit, limit=limit)
    return clean(f"{finding.outcome}: {finding.reason}" if finding.reason else finding.outcome, limit=limit)


def finding_rows(state: MissionState, *, width: int) -> list[str]:
    """Every finding: id, name, value, level and time; grouped by subject."""
    out: list[str] = []
    subject = None
    for finding in sorted(state.findings, key=lambda f: (f.subject, f.name)):
        if finding.subject != subject:
            subject = finding.subject
            out.append(clean(subject, limit=width))
        text = f"{clean(finding.name)}: {finding_text(finding)} [{finding.level_text}]"
        out += wrap(text, width, first=f"  {finding.id}  ", rest=" " * 6)
    return out


def run_rows(state: MissionState) -> list[str]:
    """One line a run: when, how long, how it ended."""
    out = []
    for run in state.runs:
        if run.ended_at is None:
            end = "not ended"
        else:
            end = f"{seconds_text(run.ended_at - run.started_at)}, exit {run.exit_code}"
        out.append(f"run {run.id}  {time_text(run.started_at)}  {clean(run.host)} pid {run.pid}  {end}")
    return out


def change_lines(change: Change) -> list[str]:
    """A change as it is consented to: where, every command and file in full, what it is bound to, how to undo it."""
    user = f"{clean(change.user)}@" if change.user else ""
    out = [f"on {user}{clean(change.host)}" + (f" in {clean(change.cwd)}" if change.cwd else "")]
    if change.env_names:
        out.append("with the environment variables " + ", ".join(clean(n) for n in change.env_names))
    out += (
        ["run, in this order:", *(f"  $ {clean(join_argv(s), limit=10**6)}" for s in change.steps)]
        if change.steps
        else []
    )
    for file in change.files:
        was = f"replaces sha256 {file.sha_before[:12]}" if file.sha_before else "must not exist yet"
        out += [
            f"write {clean(file.path)} ({was}):",
            *(f"  | {line}" for line in clean_lines(file.text_after)),
        ]
    if change.frees_bytes is not None:
        out.append(f"frees {bytes_text(change.frees_bytes)}")
    if change.takes_bytes is not None:
        out.append(f"takes {bytes_text(change.takes_bytes)}")
    if change.exact:
        out += ["bound to:", *(f"  {clean(name)} = {clean(value)}" for name, value in change.exact)]
    if change.rollback:
        out += ["undo with:", *(f"  $ {clean(join_argv(s), limit=10**6)}" for s in change.rollback)]
    else:
        out.append("cannot be undone")
    return [*out, f"change {change.change_hash[:16]}"]
