"""A judgement and a thing waited for as lines: the pieces that the summary and the report are made of."""

from __future__ import annotations

from typing import Final

from recon.agent.model.findings import Judgement
from recon.agent.model.state import JudgementState
from recon.agent.report.asks import Ask
from recon.agent.report.clean import clean, columns, cut, wrap
from recon.agent.report.words import VERDICT_GLYPH, value_text

_INDENT: Final = 11  # glyph, space, word padded to eight, space


def judgement_line(judged: JudgementState, width: int) -> list[str]:
    """Glyph, word, title, and what was decided about it."""
    judgement = judged.judgement
    first = f"{VERDICT_GLYPH[judged.verdict]} {judged.verdict:<8} "
    title = clean(judgement.title)
    if judged.decided is not None and judged.verdict != "pass":
        title += f" (decided: {clean(judged.decided.option)})"
    return wrap(title, width, first=first)


def judgement_block(judged: JudgementState, width: int) -> list[str]:
    """A judgement in full: its line; what was seen against what, why and what follows, where it is not pass; the proof."""
    judgement = judged.judgement
    details = [] if judged.verdict == "pass" else [*_seen(judgement, width), *_why(judgement, width)]
    said = [line for group in details for line in group]
    return [*judgement_line(judged, width), *said, *_proof(judgement, width)]


def detail_groups(judged: JudgementState, width: int) -> list[list[str]]:
    """What may stand under a judgement that is neither passed nor decided, each group whole or not at all: what its
    judge says first, then what was seen against what."""
    if judged.verdict == "pass" or judged.decided is not None:
        return []
    return [*_why(judged.judgement, width), *_seen(judged.judgement, width)]


def _seen(judgement: Judgement, width: int) -> list[list[str]]:
    if judgement.observed is None and judgement.expected is None:
        return []
    text = f"seen: {value_text(judgement.observed)} · held against: {value_text(judgement.expected)}"
    return [wrap(text, width, first=" " * _INDENT)]


def _why(judgement: Judgement, width: int) -> list[list[str]]:
    said = [*judgement.detail, *([f"so: {judgement.consequence}"] if judgement.consequence else [])]
    return [wrap(clean(line), width, first=" " * _INDENT) for line in said]


def _proof(judgement: Judgement, width: int) -> list[str]:
    ids = " ".join(dict.fromkeys(side.finding_id for side in judgement.sides))
    return wrap(f"proof: {ids}", width, first=" " * _INDENT) if ids else []


def ask_full(number: int, ask: Ask, width: int) -> list[str]:
    """Question, options with their title, command."""
    out = wrap(f"{ask.kind} {ask.ref}: {ask.text}", width, first=f"{number}. ", rest="   ")
    for word, title, _consequence, effort in ask.options:
        out.append(cut(f"   - {word}: {title}{f' ({effort})' if effort else ''}", width))
    return [*out, *_command(ask.command, width)]


def ask_short(number: int, ask: Ask, width: int) -> list[str]:
    """What it is about with the words to choose from, command."""
    words = " | ".join(word for word, *_rest in ask.options)
    shown = f"{ask.ref}: {words}" if words else f"{ask.ref}: {ask.text}"
    return [*wrap(shown, width, first=f"{number}. ", rest="   "), *_command(ask.command, width)]


def ask_line(number: int, ask: Ask, width: int) -> list[str]:
    """The same with the words cut to one line."""
    about = " ".join(ask_short(number, ask, 10**6)[:1])
    return [cut(about, width), *_command(ask.command, width)]


def ask_command(number: int, ask: Ask, width: int) -> list[str]:
    """The command alone, on one line however long: a paste must stay whole."""
    return (
        [f"{number}. {ask.command}"]
        if ask.command
        else wrap(f"{ask.kind} {ask.ref}", width, first=f"{number}. ")
    )


def ask_report(number: int, ask: Ask, width: int) -> list[str]:
    """Question, options with title and consequence, command."""
    out = wrap(f"{ask.kind} {ask.ref}: {ask.text}", width, first=f"{number}. ", rest="   ")
    for (_word, title, consequence, effort), word in zip(ask.options, ask.names, strict=True):
        tail = f" [{effort}]" if effort else ""
        said = f"{title}: {consequence}" if consequence else title
        out += wrap(f"{word} · {said}{tail}", width, first="   - ", rest="       ")
    return [*out, *_command(ask.command, width)]


def _command(command: str, width: int) -> list[str]:
    """A command on lines of its own. One that is too long is left on one line: a paste must stay whole."""
    if not command:
        return []
    return [f"   {command}"] if columns(command) + 3 <= width else [command]
