"""The definition `file.gates`: whether the gates that a mission file puts in front of tasks hold on what was read.

Gates that hang on an answer (`decided`, `answered`, `done`) are not judged: their question is asked anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from recon.agent.api import Json, Judged, Judgement, JudgementVerdict, JudgeTask, View, gate_result

_ASKS: Final = re.compile(r"\b(?:decided|answered|done)\s*\(")
_VERDICTS: Final[Mapping[str, JudgementVerdict]] = {"true": "pass", "false": "block"}


def judge_gates(view: View) -> Judged:
    """One judgement a task: pass where all its gates hold (or it is done), block where one is false, else unknown."""
    own = view.intent.extra.get("additions") or {}
    return Judged(
        judgements=tuple(
            _judgement(view, key, [g for g in gates if not _ASKS.search(g["text"])])
            for key, gates in sorted(own.get("gates", {}).items())
            if any(not _ASKS.search(g["text"]) for g in gates)
        )
    )


def _judgement(view: View, key: str, gates: list[dict[str, Json]]) -> Judgement:
    if gate_result(f'done("{key}")', view)[0] == "true":
        return Judgement(key=f"own.{key}", about=f"own.{key}", verdict="pass", title=f"{key} is done")
    results = [
        (*gate_result(str(gate["text"]), view), str(gate.get("words") or gate["text"])) for gate in gates
    ]
    closed = [r for r in results if r[0] != "true"]
    worst = next((r for r in closed if r[0] == "false"), closed[0] if closed else results[0])
    reasons = tuple(dict.fromkeys(reason for _, why, _ in closed for reason in why))
    said = worst[2] if closed else "; ".join(words for *_, words in results)
    title = f"{key}: not so: {said}" if worst[0] == "false" else f"{key}: {said}"
    return Judgement(
        key=f"own.{key}", about=f"own.{key}", verdict=_VERDICTS.get(worst[0], "unknown"), title=title[:70], detail=reasons,
    )  # fmt: skip


OWN_JUDGES: Final = (JudgeTask("file.gates", judge=judge_gates),)
