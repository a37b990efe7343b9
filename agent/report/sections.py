"""Parts that several forms of the report share: banner, findings with their proof, runs, changes."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

from recon.agent.engine.units import bytes_text, join_argv
from recon.agent.model.changes import Bounds, Change, FileChange
from recon.agent.model.findings import Finding
from recon.agent.model.state import MissionState
from recon.agent.report.clean import clean, clean_lines, wrap
from recon.agent.report.words import seconds_text, time_text, value_text

_WHOLE: Final = 10**6  # what is consented to is shown in full


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


def run_rows(state: MissionState, *, dead: Collection[int] = ()) -> list[str]:
    """One line a run: when, how long, how it ended. `dead`: runs whose process is known to be gone."""
    out = []
    for run in state.runs:
        if run.ended_at is None:
            end = "died" if run.id in dead else "not ended"
        elif run.exit_code is None:
            end = f"died, found at {time_text(run.ended_at)}"
        else:
            word = " (interrupted)" if run.exit_code == 130 else ""
            end = f"{seconds_text(run.ended_at - run.started_at)}, exit {run.exit_code}{word}"
        out.append(f"run {run.id}  {time_text(run.started_at)}  {clean(run.host)} pid {run.pid}  {end}")
    return out


def bounds_lines(bounds: Bounds) -> list[str]:
    """What a plan's approval covers of a step that is not known in full yet."""
    user = f"{clean(bounds.user)}@" if bounds.user else ""
    out = [f"on {user}{clean(bounds.host)}, not known in full yet; only of this form, in this order:"]
    out += [f"  $ {clean(' '.join(pattern), limit=_WHOLE)}" for pattern in bounds.patterns]
    if bounds.names():
        names = ", ".join(f"<{clean(name)}>" for name in bounds.names())
        out.append(
            f"{names}: an identity that the change names so, or the answer you decide; else you are asked again"
        )
    if bounds.gates:
        out += ["only while:", *(f"  {clean(gate, limit=_WHOLE)}" for gate in bounds.gates)]
    return [
        *out,
        "once; no files, no other user; undoing it is asked for",
        f"bounds {bounds.bounds_hash[:16]}",
    ]


def _file_lines(file: FileChange) -> list[str]:
    """A file's new text, as a diff where the old one is known."""
    if file.text_before is None or not file.sha_before:
        return clean_lines(file.text_after, limit=_WHOLE, lines=_WHOLE)
    old, new = (clean_lines(t, limit=_WHOLE, lines=_WHOLE) for t in (file.text_before, file.text_after))
    diff = list(difflib.unified_diff(old, new, "before", "after", lineterm=""))
    return diff or ["the same lines, but not the same bytes"]


def change_lines(change: Change) -> list[str]:
    """A change as it is consented to: where, every command and file in full, what it is bound to, how to undo it."""
    user = f"{clean(change.user)}@" if change.user else ""
    out = [f"on {user}{clean(change.host)}" + (f" in {clean(change.cwd)}" if change.cwd else "")]
    if change.env_names:
        out.append("with the environment variables " + ", ".join(clean(n) for n in change.env_names))
    out += (
        ["run, in this order:", *(f"  $ {clean(join_argv(s), limit=_WHOLE)}" for s in change.steps)]
        if change.steps
        else []
    )
    for file in change.files:
        was = f"replaces sha256 {file.sha_before[:12]}" if file.sha_before else "must not exist yet"
        out += [f"write {clean(file.path)} ({was}):", *(f"  | {line}" for line in _file_lines(file))]
    if change.frees_bytes is not None:
        out.append(f"frees {bytes_text(change.frees_bytes)}")
    if change.takes_bytes is not None:
        out.append(f"takes {bytes_text(change.takes_bytes)}")
    if change.exact:
        out += ["bound to:", *(f"  {clean(name)} = {clean(value)}" for name, value in change.exact)]
    if change.rollback:
        out += ["undo with:", *(f"  $ {clean(join_argv(s), limit=_WHOLE)}" for s in change.rollback)]
    else:
        out.append("cannot be undone")
    if change.gates:
        out += ["only while:", *(f"  {clean(gate, limit=_WHOLE)}" for gate in change.gates)]
    return [*out, f"change {change.change_hash[:16]}"]
