"""Model cards as claims: sizes, engines, advice per GPU with dates, reports of trouble."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.api import Raw
from recon.tasks.facts.card import front_matter, parse_card


def claims(text: str) -> dict[str, Any]:
    """The values of a card's claims by name; every one of them must be at level claimed."""
    drafts = parse_card(Raw(state="ok", stdout=text.encode()))
    assert {d.level for d in drafts} == {"claimed"}
    return {d.name: d.value for d in drafts}


def test_front_matter_gives_scalars_and_lists_and_nothing_deeper() -> None:
    fields = front_matter("license: mit\ntags:\n- a\n- 'b'\nbase_model: [x/y]\nextra:\n  deep: 1")
    assert fields == {"license": "mit", "tags": ["a", "b"], "base_model": ["x/y"], "extra": []}


def test_a_size_is_kept_in_both_readings_of_its_unit() -> None:
    (size,) = claims("The checkpoint is 159 GB on disk. Needs 96 GB of VRAM for the weights.")["card.sizes"]
    assert (size["text"], size["bytes_if_gb"], size["bytes_if_gib"]) == ("159 GB", 159 * 10**9, 159 * 2**30)


@pytest.mark.parametrize(
    ("line", "advice", "sms", "target"),
    [
        ("Made for B200 and B300 only.", "only", ["sm_100", "sm_103"], ""),
        ("RTX PRO 6000 validated at TP=4.", "validated", ["sm_120"], ""),
        ("On SM 12.0 use the NVFP4-FP8-MTP sibling.", "use_other", ["sm_120"], "NVFP4-FP8-MTP"),
        ("Do not use on H200.", "avoid", ["sm_90"], ""),
    ],
)  # fmt: skip
def test_advice_names_the_gpu_and_what_to_do(line: str, advice: str, sms: list[str], target: str) -> None:
    (row,) = claims(f"# Hardware, 2026-05-01\n\n{line}\n")["card.hardware"]
    assert (row["advice"], row["sms"], row["target"], row["date"]) == (advice, sms, target, "2026-05-01")


def test_a_date_in_the_sentence_wins_over_the_headings() -> None:
    (row,) = claims("# Notes, 2026-05-01\n2026-06-02: tested on B200.")["card.hardware"]
    assert row["date"] == "2026-06-02"


def test_a_report_of_trouble_says_when_it_shows_and_what_would_settle_it() -> None:
    (row,) = claims("2026-05-25: on SM 12.0 the kernel corrupts tokens at concurrency 4.")["card.leads"]
    assert (row["sms"], row["under_load"], row["date"]) == (["sm_120"], True, "2026-05-25")
    assert "concurrency" in row["settle"]


def test_engines_are_those_named_and_a_patched_one_is_said() -> None:
    value = claims("Runs on a patched vLLM.")["card.engines"]
    assert (value["named"], value["sglang"], value["patched"]) == (["vllm"], False, "Runs on a patched vLLM.")
    assert claims("---\nlibrary_name: vllm\n---\nhello")["card.engines"]["named"] == ["vllm"]


@pytest.mark.parametrize(("text", "says"), [("The MTP block is kept.", "kept"), ("MTP was dropped .", "dropped"), ("hello", "nothing")])  # fmt: skip
def test_what_a_card_says_about_the_draft_block(text: str, says: str) -> None:
    assert claims(text)["card.mtp"]["says"] == says


def test_outside_text_loses_its_control_characters() -> None:
    (row,) = claims("\x1b[31mtested\x07 on \u202eB200\x1b[0m")["card.hardware"]
    assert row["text"].isprintable()


def test_no_card_is_absent_and_an_unread_one_unknown() -> None:
    assert parse_card(Raw(state="missing"))[0].outcome == "absent"
    assert parse_card(Raw(state="timeout", reason="20 s"))[0].reason == "20 s"


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400) | st.lists(st.sampled_from(["use ", "B200 ", "2026-05-01 ", "| ", "---\n", "159 GB", "shards ", ". ", "MTP "]), max_size=40).map("".join))  # fmt: skip
def test_any_text_is_read(text: str) -> None:
    assert claims(text)["card"]["characters"] >= 0


def test_a_hostile_card_takes_linear_time() -> None:
    claims("use " * 60_000 + "\n" + "(" * 100_000 + "\nB200 only " * 3000)
