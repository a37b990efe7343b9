"""What `recon run` prints at its end: everything that matters in forty lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from recon.agent.engine.verdict import exit_code
from recon.agent.model.state import JudgementState, MissionState
from recon.agent.report import todo
from recon.agent.report.asks import Ask, asks
from recon.agent.report.clean import clean, columns, cut, wrap
from recon.agent.report.lines import (
    ask_command,
    ask_full,
    ask_line,
    ask_short,
    detail_groups,
    judgement_line,
)
from recon.agent.report.sections import banner
from recon.agent.report.words import EXIT_WORD, VERDICT_GLYPH

LINES: Final = 40  # of a run's summary at 80 columns


def run_summary(
    state: MissionState, *, width: int = 80, code: int | None = None, lines: int = LINES
) -> list[str]:
    """The end of a run in at most `lines` lines where that can be done without losing a judgement or a command.

    Order: banner, the mission in a sentence, one line a judgement with details while there is room, what it waits
    for with the commands, the todo counts, the verdict, what the exit code means. `code` is the code the process
    ends with (None: the one the state gives).
    """
    code = exit_code(state.verdict, state.tasks) if code is None else code
    head = banner(state, width=width) + wrap(clean(state.sentence), width)
    if state.unplaced:
        head += [cut("not understood: " + "; ".join(clean(w) for w in state.unplaced), width)]
    tail = wrap(f"todo: {todo.counts_text(state)} (recon todo)", width, rest="      ")
    tail += [_verdict_row(state, width), _last(code)]
    plain = [line for judged in state.judgements for line in judgement_line(judged, width)]
    room = lines - len(head) - len(plain) - len(tail)
    waiting = asks(state)
    waits = _waits(waiting, width=width, room=room)
    left = room - len(waits) - (2 if waits else 1)  # blank lines
    if left < 0:
        return [*head, *_tight(state, plain, width=width, room=room - len(waits)), *waits, *tail]
    full = [line for n, ask in enumerate(waiting, 1) for line in ask_full(n, ask, width)]
    details = sum(len(g) for j in state.judgements for g in detail_groups(j, width))
    if len(full) - len(waits) + details <= left:
        waits, left = full, left - len(full) + len(waits)
    body = _with_details(state.judgements, width=width, room=left)
    return [*head, "", *body, *([""] if waits else []), *waits, *tail]


def _verdict_row(state: MissionState, width: int) -> str:
    """The verdict on one line; the clauses at its end give way where the terminal is narrow."""
    line = clean(state.verdict_line)
    while columns(line) > width and "; " in line:
        line = line.rpartition("; ")[0]
    return cut(line, width)


def _tight(state: MissionState, plain: list[str], *, width: int, room: int) -> list[str]:
    """The judgements without blank lines and details; `room` below zero says how many lines they have to lose."""
    return plain if room >= 0 else _squeezed(state.judgements, width=width, room=max(len(plain) + room, 3))


def _with_details(judgements: Sequence[JudgementState], *, width: int, room: int) -> list[str]:
    """One line a judgement; the `room` lines that are left go to details, worst first and in turns, so that no single
    judgement takes them all."""
    groups = [detail_groups(judged, width) for judged in judgements]
    shown: list[list[str]] = [[] for _ in judgements]
    for turn in range(max((len(g) for g in groups), default=0)):
        for index, mine in enumerate(groups):
            if turn < len(mine) and len(mine[turn]) <= room:
                shown[index] += mine[turn]
                room -= len(mine[turn])
    out: list[str] = []
    for judged, details in zip(judgements, shown, strict=True):
        out += judgement_line(judged, width) + details
    return out


def _waits(waiting: Sequence[Ask], *, width: int, room: int) -> list[str]:
    """What is waited for: at least every command; then the words to choose from, first cut to a line, then in full,
    while there is room."""
    forms = [ask_command(n, ask, width) for n, ask in enumerate(waiting, 1)]
    used = sum(len(form) for form in forms)
    for longer in (ask_line, ask_short):
        for index, ask in enumerate(waiting):
            form = longer(index + 1, ask, width)
            if used - len(forms[index]) + len(form) <= room:
                used += len(form) - len(forms[index])
                forms[index] = form
    return [line for form in forms for line in form]


def _squeezed(judgements: Sequence[JudgementState], *, width: int, room: int) -> list[str]:
    """Very many judgements: titles cut to one line, what passes counted, the mildest left to the report."""
    loud = [j for j in judgements if j.verdict != "pass"]
    passed = len(judgements) - len(loud)
    rows = [cut(" ".join(judgement_line(j, 10**6)), width) for j in loud]
    extra = [f"{VERDICT_GLYPH['pass']} pass     {passed} more pass (recon report)"] if passed else []
    if len(rows) + len(extra) > room:
        kept = max(room - len(extra) - 1, 1)
        rows = [*rows[:kept], f"… {len(rows) - kept} more that do not pass (recon report)"]
    return rows + extra


def _last(code: int) -> str:
    return f"exit {code}: {EXIT_WORD.get(code, 'see above')}"
