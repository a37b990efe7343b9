"""What `recon run` prints at its end, and the full report."""

from __future__ import annotations

import pytest
from support.states import FORMAT_OPTIONS, NOW, finding_of, judged, judgements, mission_state

from recon.agent.model.findings import Option
from recon.agent.model.missions import Mission
from recon.agent.model.records import Decision
from recon.agent.model.state import MissionState, UnknownState, Waiting
from recon.agent.model.tasks import PlannedUnknown
from recon.agent.report import text
from recon.agent.report.clean import columns


def crowded(questions: int, *, verdicts: int, options: int = 3) -> MissionState:
    """A state with many questions and judgements, each with details."""
    words = tuple(Option(id=f"sibling:acme/A-Rather-Long-Name-{n}", title="take it") for n in range(options))
    unknowns = tuple(
        UnknownState(
            planned=PlannedUnknown(key=f"q.{n}", question=f"Question {n}?"),
            status="contradicted",
            options=words,
        )
        for n in range(questions)
    )
    lines = tuple(
        judged(f"j.{n}", ("block", "warn", "pass")[n % 3], f"judgement {n}", detail=("one", "two", "three"))
        for n in range(verdicts)
    )
    waiting = tuple(
        Waiting(kind="decision", ref=f"q.{n}", text=f"Question {n}?", command="-") for n in range(questions)
    )
    return mission_state(unknowns=unknowns, judgements=lines, waiting=waiting)


def test_the_summary_says_everything_in_order() -> None:
    lines = text.run_summary(mission_state(), code=3)
    assert lines[0] == "DEMO: a recorded host, nothing is contacted (as of 2026-05-28 20:26:40 UTC)"
    assert lines[1].startswith("Serve acme/Big-W4A16 with SGLang on gpu01")
    assert lines[-1] == "exit 3: waiting for you; nothing is changed until you answer"
    assert lines[-2] == "NEEDS DECISION: 1 conflict, 1 block, 1 unknown, 1 warn, 1 pass"
    body = "\n".join(lines)
    order = [
        "≠ conflict",
        "✗ block",
        "? unknown",
        "! warn",
        "✓ pass",
        "1. decision",
        "3. approval",
        "todo: 6 items,",
    ]
    assert sorted(order, key=body.index) == order


def test_every_command_is_on_a_line_of_its_own() -> None:
    lines = [line.strip() for line in text.run_summary(mission_state())]
    assert 'recon decide checkpoint.format OPTION --because "..."' in lines
    assert "recon approve service.stop" in lines


def test_details_stand_only_under_what_is_not_pass() -> None:
    state = mission_state(judgements=(judged("a", "pass", "fine", detail=("never shown",), observed=1),))
    assert "never shown" not in "\n".join(text.run_summary(state))
    assert "33024 x weight_packed" in "\n".join(text.run_summary(mission_state()))


@pytest.mark.parametrize(("questions", "verdicts"), [(0, 3), (3, 12), (6, 16), (6, 18), (7, 24), (12, 40)])
def test_the_summary_fits_a_small_terminal(questions: int, verdicts: int) -> None:
    state = crowded(questions, verdicts=verdicts)
    lines = text.run_summary(state)
    assert len(lines) <= 40
    assert all(columns(line) <= 80 for line in lines)
    commands = [line for line in lines if "recon decide q." in line]
    assert len(commands) == questions


def test_every_judgement_keeps_its_line_while_they_fit() -> None:
    body = "\n".join(text.run_summary(crowded(6, verdicts=18)))
    assert all(f"judgement {n}" in body for n in range(18))


def test_what_is_left_out_is_counted() -> None:
    lines = text.run_summary(crowded(3, verdicts=90))
    assert any("more that do not pass (recon report)" in line for line in lines)
    assert any("30 more pass" in line for line in lines)


def test_options_are_named_before_details_take_the_room() -> None:
    body = "\n".join(text.run_summary(crowded(5, verdicts=16, options=2)))
    assert "sibling:acme/A-Rather-Long-Name-1" in body


def test_markup_and_escapes_of_outside_text_do_not_get_through() -> None:
    evil = judged("x", "warn", "\x1b[2J[red]card says[/red]\u202e", detail=("a\nb",), observed="\x07")
    body = "\n".join(text.report(mission_state(judgements=(evil,))))
    assert "\x1b" not in body and "\u202e" not in body and "\x07" not in body
    assert "[red]card says[/red]" in body
    assert "a b" in body


def test_live_missions_have_no_banner_and_plain_replays_say_replay() -> None:
    live = Mission(id="m-1", key="k", text="t", origin="live")
    assert text.run_summary(mission_state(mission=live))[0].startswith("Serve")
    captured = finding_of("wanted_format", "nvfp4").model_copy(update={"origin": "captured"})
    assert text.run_summary(mission_state(findings=(captured,)))[0].startswith("REPLAY: recorded evidence")


def test_the_report_shows_levels_proof_and_decisions() -> None:
    decision = Decision(
        id=1, mission_id="m-1", about_key="checkpoint.format", option="keep", value="", because="speed first", by="ada",
        via="cli", at=NOW, shown_sha="", from_n=1, to_n=1,
    )  # fmt: skip
    lines = judgements()
    settled = lines[0].model_copy(update={"decided": decision})
    body = "\n".join(text.report(mission_state(decisions=(decision,), judgements=(settled, *lines[1:]))))
    assert "(decided: keep)" in body
    assert "because speed first" in body
    assert "[proved (composed)]" in body and "[claimed]" in body
    assert "proof: f-" in body
    assert f"- {FORMAT_OPTIONS[1].id} · take acme/Big-NVFP4: another download of 170 GB [hours]" in body
