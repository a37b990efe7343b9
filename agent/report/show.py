"""One thing in full: a task, a finding with its evidence, an unknown, a discrepancy."""

from __future__ import annotations

from recon.agent.model.changes import Rendered
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Finding, Observation, Option
from recon.agent.model.state import MissionState
from recon.agent.report import todo
from recon.agent.report.asks import option_command, option_name
from recon.agent.report.clean import clean, clean_lines, cut, subject_text, wrap
from recon.agent.report.excerpt import excerpt
from recon.agent.report.names import nearest, whole_key
from recon.agent.report.sections import change_lines, finding_text
from recon.agent.report.words import (
    UNKNOWN_GLYPH,
    VERDICT_GLYPH,
    added_text,
    seconds_text,
    status_glyph,
    status_word,
    time_text,
    value_text,
)

_LOG = 20  # lines of a log that are shown
_LOG_CAP = 100_000
_WIDE = 2000  # characters of a value that is shown in full


def find_finding(state: MissionState, wanted: str) -> Finding:
    """The finding with this id, the beginning of its id, or `subject name`; UsageError where none or several fit."""
    if wanted.startswith("o-"):
        raise UsageError(
            f"{clean(wanted)} is an observation: the answer of a source, from which findings are read",
            hint=f"recon show observation {clean(wanted)}",
        )
    found = [f for f in state.findings if f.id == wanted] or [
        f for f in state.findings if (len(wanted) > 2 and f.id.startswith(wanted)) or f.name == wanted
    ]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(f"{f.id} ({clean(f.subject, limit=60)})" for f in found[:8])
        raise UsageError(f"{clean(wanted)!r} fits several findings", hint=f"one of {ids}")
    names = [f.name for f in state.findings]
    raise UsageError(f"no finding is called {clean(wanted)!r}", hint=nearest(wanted, names))


def finding(
    state: MissionState, wanted: str, observation: Observation | None, stdout: bytes, *, width: int = 100
) -> list[str]:
    """A finding: value, level, source, revision, time, sha256, the excerpt it was read from, what it was derived from."""
    found = find_finding(state, wanted)
    rows = [
        f"finding   {found.id}",
        f"subject   {clean(found.subject)}",
        f"name      {clean(found.name)}",
        f"says      {finding_text(found, limit=_WIDE)}",
        f"level     {found.level_text}",
        f"read      {time_text(found.observed_at)} by {clean(found.producer)} {clean(found.producer_version)}",
        f"holds     {_holds(found)}",
    ]
    if found.locator:
        rows.append(f"locator   {clean(found.locator)}")
    out = [line for row in rows for line in _row(row, width)]
    if observation is not None:
        out += [line for row in observation_rows(observation) for line in _row(row, width)]
        out += ["", "excerpt", *(f"  {line}" for line in excerpt(stdout, found.locator))]
    return out + _inputs(state, found, width=width)


def observation(
    state: MissionState, found: Observation, stdout: bytes, stderr: bytes, *, width: int = 100
) -> list[str]:
    """An observation: who was asked what, when, how it ended, the beginning of the answer, what was read from it."""
    out = [line for row in (f"observed  {found.id}", *observation_rows(found)) for line in _row(row, width)]
    out += ["", "answer", *(f"  {line}" for line in excerpt(stdout, ""))]
    if stderr:
        out += ["", "stderr", *(f"  {line}" for line in excerpt(stderr, ""))]
    read = [f for f in state.findings if f.observation_id == found.id]
    for finding in read:
        text = f"{clean(finding.name)}: {finding_text(finding)} [{finding.level_text}]"
        out += wrap(text, width, first=f"finding   {finding.id}  ", rest=" " * 10)
    return out if read else [*out, "no finding of this mission rests on it"]


def observation_rows(observation: Observation) -> list[str]:
    """Where evidence comes from: source, command or address, revision, time, how it ended, sha256."""
    request = observation.request
    rows = [f"source    {request.connector} {clean(request.target)}, probe {clean(request.probe)}"]
    if request.argv:
        rows.append(f"command   {clean(' '.join(request.argv))}")
    if request.path:
        rows.append(f"path      {clean(request.path)}")
    rows += (
        [f"revision  {clean(observation.revision or request.revision)}"]
        if observation.revision or request.revision
        else []
    )
    rows.append(
        f"time      {time_text(observation.observed_at)}, took {seconds_text(observation.duration_s)}"
    )
    end = f"{observation.state}, exit {observation.exit_code}" + (
        f" ({clean(observation.reason)})" if observation.reason else ""
    )
    rows.append(f"ended     {end}" + (", cut at the size limit" if observation.truncated else ""))
    rows.append(f"origin    {observation.origin}")
    return [*rows, f"sha256    {observation.stdout_sha}"]


def task(state: MissionState, key: str, *, width: int = 100, log: bytes = b"") -> list[str]:
    """A todo item: status, why it is there, what blocks it, what it would run or has run; of a change that ran, the end
    of its log."""
    item = state.task(whole_key(key, [t.task.key for t in state.tasks]) or key)
    if item is None:
        raise UsageError(
            f"no todo item is called {clean(key)!r}", hint=nearest(key, [t.task.key for t in state.tasks])
        )
    planned = item.task.planned
    rows = [
        f"task      {clean(planned.key)}",
        f"title     {clean(planned.title)}",
        f"status    {status_glyph(item)} {status_word(item)}",
        f"kind      {planned.kind}, {planned.effect.replace('_', ' ')}, priority {planned.priority}",
        f"needs     {', '.join(clean(e.key) for e in planned.needs) or '-'}",
        f"added     {added_text(planned.because).removeprefix('added ')}" if planned.because else "",
        f"attempts  {item.attempts}, last {time_text(item.started_at)}" if item.attempts else "",
        f"result    {clean(item.summary)}" if item.summary else "",
        f"error     {clean(item.error.get('message', item.error))}" if item.error else "",
        f"hint      {clean(item.error['hint'])}" if item.error and item.error.get("hint") else "",
    ]
    out = [line for row in rows if row for line in _row(row, width)]
    for gate in item.gates:
        out += wrap(f"{clean(gate.spec.text)} [{gate.result}]", width, first="gate      ")
        out += [line for r in gate.reasons for line in wrap(clean(r), width, first=" " * 12)]
    if item.blocked_by:
        out += ["", "blocked", *todo.reason_lines(state, item, width=width, pad="  ")]
    if item.rendered is not None:
        out += ["", *_rendered(item.rendered)]
        out += [
            line for m in item.rendered.missing for line in wrap(clean(m), width, first="not known yet: ")
        ]
    return out + _log_lines(log, width=width)


def _log_lines(log: bytes, *, width: int) -> list[str]:
    rows = (
        clean_lines(log.decode("utf-8", errors="replace").rstrip("\n"), lines=_LOG_CAP) if log.strip() else []
    )
    left = len(rows) - _LOG
    head = f"log of the last attempt ({left} lines before)" if left > 0 else "log of the last attempt"
    return ["", head, *(cut(f"  | {row}", width) for row in rows[-_LOG:])] if rows else []


def unknown(state: MissionState, key: str, *, width: int = 100) -> list[str]:
    """An unknown: question, status, answer, who may answer, options with their commands, what it blocks."""
    found = state.unknown(whole_key(key, [u.planned.key for u in state.unknowns]) or key)
    if found is None:
        keys = [u.planned.key for u in state.unknowns]
        raise UsageError(f"no question is called {clean(key)!r}", hint=nearest(key, keys))
    planned = found.planned
    said = clean(found.answer_text) or "-"
    rows = [
        f"unknown   {planned.key}",
        f"question  {clean(planned.question)}",
        f"status    {UNKNOWN_GLYPH[found.status]} {found.status}, {'required' if planned.required else 'advisory'}",
        f"answer    {said}" + (f" [{found.level}]" if found.level else ""),
        f"needs     level {planned.min_level}, answered by a {'person' if found.options else planned.who}",
        f"open      {clean(found.reason)}" if found.reason else "",
        f"judged    {', '.join(found.judgements)}" if found.judgements else "",
        f"shown     {found.shown[:16]}" if found.shown else "",
        f"blocks    {', '.join(found.blocks)}" if found.blocks else "",
    ]
    out = [line for row in rows if row for line in _row(row, width)]
    return out + [
        line for option in found.options for line in _option_lines(planned.key, option, width=width)
    ]


def discrepancy(state: MissionState, key: str, *, width: int = 100) -> list[str]:
    """A judgement with both sides: what each finding says, where from, the consequence and the ways out."""
    judged = next((j for j in state.judgements if j.judgement.key == key), None)
    if judged is None:
        judged = next(
            (j for j in state.judgements if j.judgement.about == key and j.judgement.is_discrepancy), None
        )
    if judged is None:
        keys = [j.judgement.key for j in state.judgements]
        raise UsageError(f"no discrepancy is called {clean(key)!r}", hint=nearest(key, keys))
    judgement = judged.judgement
    rows = [
        f"judgement {judgement.key}",
        f"verdict   {VERDICT_GLYPH[judged.verdict]} {judged.verdict}",
        f"title     {clean(judgement.title)}",
        f"seen      {value_text(judgement.observed, limit=_WIDE)}",
        f"expected  {value_text(judgement.expected, limit=_WIDE)}",
        *(f"          {clean(line)}" for line in judgement.detail),
        f"so        {clean(judgement.consequence)}" if judgement.consequence else "",
        f"decided   {clean(judged.decided.option)}: {clean(judged.decided.because)}"
        if judged.decided
        else "",
    ]
    out = [line for row in rows if row for line in _row(row, width)]
    by_id = {f.id: f for f in state.findings}
    for side in judgement.sides:
        if (found := by_id.get(side.finding_id)) is not None:
            text = f"{found.id} {clean(found.name)} of {subject_text(found.subject)}: {finding_text(found)}"
            text += f" [{found.level_text}, {time_text(found.observed_at)}]"
            out += wrap(text, width, first=f"{side.side:<12} ")
    about = judgement.about or judgement.key
    return out + [line for option in judgement.options for line in _option_lines(about, option, width=width)]


def _row(row: str, width: int) -> list[str]:
    """A label of ten columns and a text; what is too long goes on below the text."""
    return wrap(row[10:], width, first=row[:10]) if len(row) > 10 else [row]


def _holds(found: Finding) -> str:
    parts = [] if found.lifetime_s is None else [f"for {seconds_text(found.lifetime_s)}"]
    parts += [f"while {clean(name)} is {clean(value)}" for name, value in found.valid_while]
    return ", ".join(parts) or "always: it does not age"


def _inputs(state: MissionState, found: Finding, *, width: int) -> list[str]:
    by_id = {f.id: f for f in state.findings}
    out: list[str] = []
    for identity in found.inputs:
        source = by_id.get(identity)
        text = (
            f"{clean(source.name)} of {subject_text(source.subject)}: {finding_text(source)}"
            if source
            else "superseded"
        )
        out += wrap(text, width, first=f"from {identity}  ", rest="    ")
    return ["", "derived", *out] if out else []


def _rendered(rendered: Rendered) -> list[str]:
    if rendered.change is not None:
        return change_lines(rendered.change)
    return [f"  $ {line}" for line in todo.rendered_lines(rendered)]


def _option_lines(key: str, option: Option, *, width: int) -> list[str]:
    effort = f" [{option.effort}]" if option.effort else ""
    said = ": ".join(clean(x) for x in (option.title, option.consequence) if x)
    return [
        *wrap(f"{option_name(option)}{effort} · {said}", width, first="option    ", rest=" " * 10),
        f"          $ {option_command(key, option)}",
    ]
