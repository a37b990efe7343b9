"""The JSON report follows its schema, is sorted, and says nothing of the run when canonical."""

from __future__ import annotations

import json

import jsonschema
import pytest
from support.states import NOW, finding_of, mission_state, tasks

from recon.agent.model.records import Approval, Decision
from recon.agent.report import json_report, markdown

DECISION = Decision(
    id=4, mission_id="m-1", about_key="disk.room", option="other-mount", value="/data", because="room", by="ada",
    via="cli", at=NOW, shown_sha="", from_n=1, to_n=2,
)  # fmt: skip
APPROVAL = Approval(
    id=2, task_id=5, change_hash="c" * 64, exact_hash="e" * 64, shown_sha="", verdict="approve", message="", by="ada",
    via="cli", at=NOW,
)  # fmt: skip


@pytest.mark.parametrize("canonical", [False, True])
def test_the_report_follows_the_schema(canonical: bool) -> None:
    report = json_report.report(
        mission_state(decisions=(DECISION,), approvals=(APPROVAL,)), canonical=canonical
    )
    jsonschema.Draft202012Validator.check_schema(json_report.schema())
    jsonschema.validate(json.loads(json.dumps(report)), json_report.schema())


def test_the_schema_refuses_a_word_that_is_not_ours() -> None:
    report = json_report.report(mission_state()) | {"verdict": "maybe"}
    with pytest.raises(jsonschema.ValidationError, match="maybe"):
        jsonschema.validate(report, json_report.schema())


def test_lists_are_sorted_by_id() -> None:
    state = mission_state()
    report = json_report.report(
        state.model_copy(update={"tasks": state.tasks[::-1], "findings": state.findings[::-1]})
    )
    for part in ("unknowns", "discrepancies", "judgements", "tasks", "findings"):
        ids = [row["id"] for row in report[part]]
        assert ids == sorted(ids), part
    assert json_report.report(state) == report


def test_the_canonical_form_does_not_change_with_run_clock_or_row_numbers() -> None:
    first = mission_state(decisions=(DECISION,))
    later = mission_state(
        decisions=(DECISION.model_copy(update={"id": 9, "at": NOW + 5, "by": "bob"}),), runs=(), events=99,
        mission=first.mission.model_copy(update={"id": "m-2", "as_of": None, "origin": "live"}), now=NOW + 5,
    )  # fmt: skip
    assert json_report.report(first, canonical=True) == json_report.report(later, canonical=True)
    assert json_report.report(first) != json_report.report(later)


def test_options_carry_the_exact_command() -> None:
    report = json_report.report(mission_state())
    options = next(d for d in report["discrepancies"] if d["id"] == "disk.room")["options"]
    assert [o["command"] for o in options] == [
        'recon decide disk.room free:/models/old --because "..."',
        "recon decide disk.room 'other-mount=<path>' --because \"...\"",
    ]


def test_a_task_says_what_blocks_it_and_what_helps() -> None:
    download = next(t for t in json_report.report(mission_state())["tasks"] if t["id"] == "download")
    assert [(b["kind"], b["ref"]) for b in download["blocked_by"]] == [
        ("decision", "disk.room"), ("dependency", "service.stop"),
    ]  # fmt: skip
    assert download["depends_on"] == ["service.stop"]
    assert download["missing"] == ["disk.room"]


def test_markdown_of_others_stays_text() -> None:
    evil = finding_of("card.engines", "![x](https://evil.example/a.png) <script>|`rm`|\n# head")
    page = markdown.report(mission_state(findings=(evil,)))
    assert "![x]" not in page and "<script>" not in page and "https://" not in page
    assert "\n# head" not in page
    row = next(line for line in page.splitlines() if evil.id in line and "evil" in line)
    assert row.replace("\\|", "").count("|") == 6


def test_markdown_tells_what_waits() -> None:
    page = markdown.report(mission_state(tasks=tasks()))
    assert page.startswith("# recon: NEEDS DECISION\n\n> DEMO")
    assert '`recon decide checkpoint.format OPTION --because "..."`' in page
