"""Model cards as claims: sizes, engines, advice per GPU with dates, reports of trouble."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.api import ParseError, Raw
from recon.tasks.facts.card import parse_card
from recon.tasks.facts.card_front import front_matter


def claims(text: str) -> dict[str, Any]:
    """The values of a card's claims by name; every one of them must be at level claimed."""
    drafts = parse_card(Raw(state="ok", stdout=text.encode()))
    assert {d.level for d in drafts} == {"claimed"}
    return {d.name: d.value for d in drafts}


def test_front_matter_is_yaml_1_2_and_a_country_is_not_a_boolean() -> None:
    fields = front_matter(
        "license: mit\ntags:\n- a\n- 'b'\nbase_model: [x/y]\nextra:\n  deep: 1\nlanguage: no\ninference: false"
    )
    assert fields == {
        "license": "mit", "tags": ["a", "b"], "base_model": ["x/y"], "extra": {"deep": 1}, "language": "no", "inference": False,
    }  # fmt: skip


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


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("license: mit\nlicense: apache-2.0", "line 3: 'license' twice"),
        ("tags: &x [a]\nmore: *x", "anchors"),
        ("a: b: c", "line 2"),
        ("- a", "not a YAML mapping"),
        ("a: " + "[" * 12 + "]" * 12, "nested too deeply"),
    ],
)
def test_a_head_that_is_not_strict_yaml_is_unknown_with_its_place(head: str, words: str) -> None:
    drafts = {
        d.name: d for d in parse_card(Raw(state="ok", stdout=f"---\n{head}\n---\nRuns on vLLM.".encode()))
    }
    front = drafts["card.front_matter"]
    assert (front.outcome, words in front.reason) == ("unknown", True), front.reason
    assert "card.base_model" not in drafts and drafts["card.engines"].value["named"] == ["vllm"]


def test_a_base_model_given_as_an_address_is_its_name_and_a_path_stays_a_path() -> None:
    said = claims("---\nbase_model: https://huggingface.co/org/genz-70b\nlicense: llama2\n---\n")
    assert (said["card.base_model"], said["card.front_matter"]["license"]) == ("org/genz-70b", ["llama2"])
    assert claims("---\nbase_model: /home/me/x\n---\n")["card.base_model"] == "/home/me/x"


def test_engines_are_named_with_their_versions() -> None:
    value = claims("Tested with vLLM 0.11.2 and SGLang >= 0.5.4, `transformers` v4.57.")["card.engines"]
    assert [(v["engine"], v["version"]) for v in value["versions"]] == [
        ("vllm", "0.11.2"),
        ("sglang", "0.5.4"),
        ("transformers", "4.57"),
    ]


def test_patches_carry_the_pull_requests_they_name() -> None:
    text = "Apply [this](https://github.com/vllm-project/vllm/pull/43892) and PR #43564.\n\nUses a fork.\n\nNothing here."
    rows = claims(text)["card.patches"]
    assert [(r["refs"], r["line"]) for r in rows] == [(["vllm-project/vllm#43892", "#43564"], 1), ([], 3)]


def test_benchmarks_come_from_tables_sentences_and_the_model_index() -> None:
    index = "model-index:\n- name: m\n  results:\n  - dataset:\n      name: gsm8k\n    metrics:\n    - type: acc\n      value: 0.91\n"
    text = f"---\n{index}---\n# Measured, 2026-05-01\n\n| Benchmark | BF16 | NVFP4 |\n|---|---|---|\n| MMLU | 88.1 | 87.4 |\n| note | x | y |\n\nDecodes at 95.5 tok/s.\n"
    rows = [(r["name"], r["of"], r["value"], r["unit"]) for r in claims(text)["card.benchmarks"]]
    assert rows == [
        ("gsm8k acc", "model-index", 0.91, ""),
        ("MMLU", "BF16", 88.1, ""),
        ("MMLU", "NVFP4", 87.4, ""),
        ("tok/s", "", 95.5, "tok/s"),
    ]
    dates = [r.get("date") for r in claims(text)["card.benchmarks"]]
    assert dates == [None, "2026-05-01", "2026-05-01", "2026-05-01"]


def test_recommended_flags_come_from_advice_and_from_command_lines() -> None:
    text = "Use `--tp 4 --trust-remote-code` on B200.\n\nIt is --fast.\n\n```sh\nvllm serve org/m --max-model-len 8192\necho done\n```\n"
    rows = [(r["flags"], r["line"]) for r in claims(text)["card.recommendations"]]
    assert rows == [(["--tp 4", "--trust-remote-code"], 1), (["--max-model-len 8192"], 6)]


def test_what_a_reader_does_not_see_is_no_claim() -> None:
    said = claims(
        "<!-- Runs on SGLang.\nB200 only. -->\nThe <b>checkpoint</b> is 12 GB.\n\n<p>Tested on B200.</p>"
    )
    assert said["card.engines"]["named"] == []
    assert [row["line"] for row in said["card.hardware"]] == [5]
    assert [size["text"] for size in said["card.sizes"]] == ["12 GB"]


def test_a_sentence_may_run_over_the_end_of_a_line() -> None:
    (row,) = claims("This build was\nvalidated on B200.")["card.hardware"]
    assert (row["text"], row["line"]) == ("This build was validated on B200.", 1)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400) | st.lists(st.sampled_from(["use ", "B200 ", "2026-05-01 ", "| ", "---\n", "159 GB", "shards ", ". ", "MTP "]), max_size=40).map("".join))  # fmt: skip
def test_any_text_is_read(text: str) -> None:
    assert claims(text)["card"]["characters"] >= 0


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from(["a: ", "- ", "\n", "  ", "[", "]", "{", "}", "&x ", "*x", "'", '"', "|", ">", "%", "!t ", "?", "no", "\t"]), max_size=40).map("".join))  # fmt: skip
def test_any_head_is_read_or_refused_in_words(text: str) -> None:
    try:
        assert isinstance(front_matter(text), dict)
    except ParseError as error:
        assert error.message


def test_a_hostile_card_takes_linear_time() -> None:
    for text in (
        "use " * 60_000 + "\n" + "(" * 100_000 + "\nB200 only " * 3000,
        "<!--" * 50_000,
        "![[(" * 50_000,
        "|a" * 20_000 + "\n" + "|-" * 20_000,
    ):
        started = time.perf_counter()
        claims(text)
        assert time.perf_counter() - started < 10
