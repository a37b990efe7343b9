"""The report as markdown, for a ticket or a wiki. Outside text is escaped: no link, image or HTML of others gets in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from recon.agent.model.findings import Judgement
from recon.agent.model.state import MissionState
from recon.agent.report import todo
from recon.agent.report.asks import asks
from recon.agent.report.clean import clean
from recon.agent.report.sections import banner, finding_text
from recon.agent.report.words import (
    MISSION_WORD,
    VERDICT_GLYPH,
    added_text,
    status_word,
    time_text,
    value_text,
)

# Escaped wherever it stands. In addresses a backslash stands inside `://`, `www.` and before `@`, so that no renderer
# makes a link of them by itself; it shows nothing and copies nothing for it.
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
_HUGE: Final = 10**6  # banner lines are not wrapped here


def report(state: MissionState) -> str:
    """The whole report as markdown text, ending with a newline."""
    parts = [
        f"# recon: {MISSION_WORD[state.verdict]}",
        *(f"> {escape(line)}" for line in banner(state, width=_HUGE)),
        escape(state.sentence),
        f"**{escape(state.verdict_line)}**",
        *_table(
            "Judgements", ("", "verdict", "what", "seen", "held against", "proof"), _judgement_rows(state)
        ),
        *_why_not(state),
        *_waiting(state),
        *_table("Unknowns", ("key", "status", "question", "answer", "blocks"), _unknown_rows(state)),
        *_table("Decisions", ("about", "option", "because", "by", "at"), _decision_rows(state)),
        *_table("Todo", ("status", "item", "title", "waits for"), _task_rows(state)),
        *_table("Findings", ("id", "subject", "name", "value", "level"), _finding_rows(state)),
        f"Mission `{state.mission.id}`, revision {state.revision.n}, {state.mission.origin}, as of {time_text(state.now)}.",
    ]
    return "\n\n".join(parts) + "\n"


def escape(text: object) -> str:
    """Outside text as markdown that shows exactly its characters."""
    return (
        _SPECIAL.sub(r"\\\1", clean(text))
        .replace("://", ":\\//")
        .replace("www.", "www\\.")
        .replace("@", "\\@")
    )


def code(text: object) -> str:
    """Text as inline code, whatever backquotes it holds."""
    plain = clean(text).replace("|", "\\|")
    fence = "`" * (max((len(m) for m in re.findall(r"`+", plain)), default=0) + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    if not lines:
        return []
    return [f"## {title}", "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *lines])]


def _judgement_rows(state: MissionState) -> Iterable[Sequence[str]]:
    for judged in state.judgements:
        j = judged.judgement
        proof = " ".join(code(i) for i in dict.fromkeys(s.finding_id for s in j.sides))
        yield (
            VERDICT_GLYPH[judged.verdict], judged.verdict, escape(j.title), escape(value_text(j.observed)),
            escape(value_text(j.expected)), proof,
        )  # fmt: skip


def _why_not(state: MissionState) -> list[str]:
    out = []
    for judged in state.judgements:
        lines = _detail(judged.judgement) if judged.verdict != "pass" else []
        if lines:
            out.append(
                f"**{judged.verdict}: {escape(judged.judgement.title)}**\n"
                + "\n".join(f"- {x}" for x in lines)
            )
    return ["## Why", *out] if out else []


def _detail(judgement: Judgement) -> list[str]:
    lines = [escape(line) for line in judgement.detail]
    return [*lines, f"so: {escape(judgement.consequence)}"] if judgement.consequence else lines


def _waiting(state: MissionState) -> list[str]:
    rows = []
    for number, ask in enumerate(asks(state), 1):
        lines = [f"{number}. **{escape(ask.kind)} {escape(ask.ref)}**: {escape(ask.text)}"]
        for (_word, title, consequence, effort), word in zip(ask.options, ask.names, strict=True):
            said = ": ".join(escape(x) for x in (title, consequence) if x)
            lines.append(f"   - {code(word)} {said}{f' ({effort})' if effort else ''}")
        rows.append("\n".join([*lines, f"   - answer with {code(ask.command)}"] if ask.command else lines))
    return ["## Waiting for you", "\n".join(rows)] if rows else []


def _unknown_rows(state: MissionState) -> Iterable[Sequence[str]]:
    for u in state.unknowns:
        said = u.answer_text or u.reason
        yield (
            code(u.planned.key),
            u.status,
            escape(u.planned.question),
            escape(said),
            escape(", ".join(u.blocks)),
        )


def _decision_rows(state: MissionState) -> Iterable[Sequence[str]]:
    undone = {d.undoes for d in state.decisions}
    for d in state.decisions:
        chosen = d.option + (f"={d.value}" if d.value else "")
        if d.undoes is not None or d.id in undone:
            chosen += " (undone)" if d.undoes is None else " (takes it back)"
        yield code(d.about_key), code(chosen), escape(d.because), escape(d.by), time_text(d.at)


def _task_rows(state: MissionState) -> Iterable[Sequence[str]]:
    for item in state.tasks:
        planned = item.task.planned
        title = escape(planned.title) + (
            f" ({escape(added_text(planned.because))})" if planned.because else ""
        )
        waits = "; ".join(
            escape(words) + (f": {code(command)}" if command else "")
            for words, command in todo.reasons(state, item)
        )
        yield status_word(item), code(planned.key), title, waits


def _finding_rows(state: MissionState) -> Iterable[Sequence[str]]:
    for f in sorted(state.findings, key=lambda f: (f.subject, f.name)):
        yield code(f.id), escape(f.subject), code(f.name), escape(finding_text(f)), f.level_text
