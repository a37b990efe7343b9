"""What directives become. Each folder under tests/cases/triage is a directive and everything that is read from it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recon.agent.api import Vocabulary
from recon.agent.mission import directive_drafts, directive_subject, mission_key, sentence, triage
from recon.agent.mission.directive import read_directive
from recon.agent.mission.flags import Overrides
from recon.agent.model.errors import MissionError, UsageError
from recon.agent.model.missions import Intent, Layout, Triage, Wish
from recon.tasks.knowledge.vocabulary import VOCABULARY

CASES = Path(__file__).parents[1] / "cases" / "triage"
FLAGSHIP = (CASES / "pd-nvfp4-wish-int4-checkpoint" / "directive.txt").read_text(encoding="utf-8")


def read(text: str, **overrides: Any) -> Triage:
    return triage(text, VOCABULARY, overrides=overrides)


@pytest.mark.parametrize("case", sorted(p.name for p in CASES.iterdir()))
def test_a_directive_becomes_what_its_case_says(case: str) -> None:
    text = (CASES / case / "directive.txt").read_text(encoding="utf-8")
    expected = json.loads((CASES / case / "expected.json").read_text(encoding="utf-8"))
    if "error" in expected:
        with pytest.raises(MissionError) as caught:
            read(text)
        assert {"error": caught.value.message, "hint": caught.value.hint} == expected
        return
    found = read(text)
    claims = {draft.name: draft.value for draft in directive_drafts(found) if draft.name != "unplaced"}
    assert {
        "sentence": sentence(found.intent),
        "intent": found.intent.model_dump(mode="json", exclude_defaults=True),
        "claims": claims,
        "unplaced": list(found.unplaced),
        "playbook": found.playbook,
    } == expected


def test_there_are_enough_cases_to_mean_something() -> None:
    assert sum(1 for _ in CASES.iterdir()) >= 40


def test_the_flagship_directive_is_placed_word_for_word() -> None:
    found = read(FLAGSHIP)
    assert found.intent == Intent(
        model="canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP",
        wanted_format=Wish(value="nvfp4", strength="prefer", words="focusing on nvfp4"),
        layout=Layout(mode="pd", prefill_tp=4, decode_tp=4, one_node_per_instance=True),
        verbs=("stop", "download", "install", "port", "kernels", "launch", "benchmark"),
        docs=("https://docs.sglang.io/docs/advanced_features/pd_disaggregation",),
    )
    assert found.unplaced == ()
    assert sentence(read(FLAGSHIP, host="ct200").intent) == (
        "Serve canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP with SGLang on ct200: "
        "prefill TP4 + decode TP4 on one NUMA node each, then benchmark; NVFP4 wanted."
    )


def test_a_quoted_directive_reads_like_the_plain_one() -> None:
    quoted = "\n".join(f"> {line}" for line in f'"{FLAGSHIP.strip()}"'.splitlines())
    assert read(quoted).intent == read(FLAGSHIP).intent


def test_every_claim_quotes_its_words_and_says_where_they_stand() -> None:
    drafts = {d.name: d for d in directive_drafts(read("deploy openai/gpt-oss-20b, nvfp4 only"))}
    assert drafts["wanted_format"].locator == 'characters 28-32: "nvfp4"'
    assert {d.level for d in drafts.values()} == {"claimed"}


def test_flags_win_over_words_and_say_so() -> None:
    found = read(
        "deploy a-b/c-1 TP4 on ct200, nvfp4 only", host="root@gpu01", tp=8, quant="fp8", engine="vllm"
    )
    assert (found.intent.host, found.intent.layout.tp, found.intent.engine) == ("root@gpu01", 8, "vllm")
    assert found.intent.wanted_format == Wish(value="fp8-block128", strength="must", words="fp8")
    overruled = {
        c.value["field"]: (c.value["words"], c.value["flag"]) for c in found.claims if c.name == "overruled"
    }
    assert overruled["host"] == ("ct200", "root@gpu01")
    assert overruled["wanted_format"] == ("nvfp4", "fp8-block128")
    assert set(overruled) == {"host", "wanted_format", "layout"}


def test_a_flag_settles_which_of_two_models_and_hosts_is_meant() -> None:
    text = "Qwen/Qwen3-32B or Qwen/Qwen3-30B-A3B-FP8 on ct200 and gpu01"
    found = read(text, model="Qwen/Qwen3-32B", host="gpu01")
    assert (found.intent.model, found.intent.host) == ("Qwen/Qwen3-32B", "gpu01")


def test_the_same_host_with_a_user_is_not_overruled() -> None:
    assert not [
        c for c in read("deploy a-b/c-1 on ct200", host="root@ct200:22").claims if c.name == "overruled"
    ]


def test_another_model_by_flag_does_not_keep_the_revision_of_the_words() -> None:
    found = read("deploy https://huggingface.co/a-b/c-1/tree/abc1234", model="x-y/z-2")
    assert (found.intent.model, found.intent.revision) == ("x-y/z-2", "main")


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        ({"modle": "a/b"}, "unknown field of a mission: modle", "did you mean model?"),
        ({"quant": "nvpf4"}, "unknown format of weights: 'nvpf4'", "did you mean nvfp4?"),
        ({"pd": "4x4"}, "not a prefill/decode layout: '4x4'", "write the GPUs of prefill and decode: --pd 4+4"),
        ({"tp": 0}, "--tp: not a number of GPUs: '0'", "a whole number, 1 to 1024"),
        ({"tp": 4, "pd": "4+4"}, "--tp and --pd exclude each other", "--tp N is one instance, --pd P+D is prefill and decode"),
        ({"host": "a b"}, "not a host: 'a b'", "write [user@]name[:port], or localhost"),
        ({"engine": "sglnag"}, "unknown engine: 'sglnag'", "did you mean sglang?"),
    ],
)  # fmt: skip
def test_a_flag_that_makes_no_sense_is_refused(overrides: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read("deploy a-b/c-1", **overrides)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_pd_by_flag_replaces_a_single_layout() -> None:
    layout = read("deploy a-b/c-1 TP8", pd="4+2").intent.layout
    assert layout == Layout(mode="pd", prefill_tp=4, decode_tp=2)


def test_the_mission_key_ignores_case_space_and_the_final_stop() -> None:
    one, other = read("Deploy Qwen/Qwen3-32B  on ct200."), read("deploy Qwen/Qwen3-32B\non ct200")
    assert mission_key(one) == mission_key(other)
    assert directive_subject(one) == f"directive:{mission_key(one)[:12]}"
    assert mission_key(one) != mission_key(read("deploy Qwen/Qwen3-32B on ct201"))
    assert mission_key(one) != mission_key(read("deploy Qwen/Qwen3-32B on ct200", quant="fp8"))


def test_only_a_no_leaves_everything_else_asked_for() -> None:
    found = read("Qwen/Qwen3-32B on ct200, no benchmark please")
    assert found.intent.verbs == ("download", "install", "kernels", "launch")
    assert found.intent.extra == {"excluded": ["benchmark"]}


def test_without_a_vocabulary_nothing_is_guessed() -> None:
    found = triage("deploy Qwen/Qwen3-32B in nvfp4 on ct200", Vocabulary())
    assert (found.intent.model, found.intent.host, found.intent.wanted_format) == (
        "Qwen/Qwen3-32B",
        "ct200",
        None,
    )
    assert found.unplaced == ("deploy", "nvfp4")


def test_control_characters_and_invisible_letters_do_not_reach_claims() -> None:
    found = read(
        "deploy \x1b]0;owned\x07\x1b[31mopenai/gpt-oss-20b\x1b[0m\u202e\x00 on ct\u200b200 with zeb\x07ra"
    )
    assert found.intent.host == "ct200"
    assert found.unplaced == ("zebra",)
    assert all(c.isprintable() or c == "\n" for c in found.text)


_PIECES = st.sampled_from(
    [
        "deploy", "Stop", "don't", "nvfp4", "must be", "prefer", "on ct200", "Qwen/Qwen3-32B", "prefill TP4", "decode", "TP8", "4+4", "PD",
        "each", "gpus", "0-3", "gpu", "1 cpu", "numa", "https://docs.sglang.io/x", "https://huggingface.co/", "hf.co/a/b", "root@gpu01:22", ",", ".",
        "(", ")", "\n", "- ", "if needed", "not", "or", "sglang", "0.5.13", "zebra", "--tp", "--host=", "/data/models", "nicht", "#23724", "8x", "H100",
        "mooncake", "kv cache", "'", "\x1b[", "\u202e", "ß", "４", "²", "٣ gpus", "e.g.", "instead of", "[[", "sglang-k26.service", "@", "://", "=",
    ]
)  # fmt: skip
_TEXTS = st.one_of(
    st.lists(_PIECES, max_size=30).map(" ".join),
    st.lists(_PIECES, max_size=30).map("".join),
    st.text(max_size=200),
)


@given(_TEXTS)
@settings(max_examples=150, deadline=None)
@example("https://[bad/")
@example("https://a.b:99999/x")
@example("gpus 9-1")
@example("TP² prefill ٣ gpus")
def test_any_text_is_read_or_refused_and_no_word_is_lost(text: str) -> None:
    try:
        reading, intent = read_directive(text, VOCABULARY, Overrides())
    except MissionError as error:
        assert error.hint
        return
    unplaced = reading.unplaced()
    for index, token in enumerate(reading.tokens):
        if token.kind != "break" and not reading.placed[index] and not reading.is_light(index):
            assert any(token.text in phrase for phrase in unplaced), token
    found = triage(text, VOCABULARY)
    assert found == triage(text, VOCABULARY)
    assert found.intent == intent
    assert Triage.model_validate_json(found.model_dump_json()) == found
    assert len({d.name for d in directive_drafts(found)}) == len(directive_drafts(found))


@pytest.mark.parametrize(
    "piece",
    [FLAGSHIP + "\n\n", "a/", "host ", "prefill TP4 decode ", "1,", "https://a.b/c ", "don't stop or ", "one numa 1 ", "sglang-", "(", "on the ", "nvfp4 "],
)  # fmt: skip
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        begin = time.process_time()
        try:
            read(text, model="a-b/c-1", host="ct200")
        finally:
            elapsed = time.process_time() - begin
        return elapsed

    seconds(1_000)
    small, large = seconds(12_500), seconds(100_000)
    assert large < 24 * small + 0.5  # 8 x the text; a quadratic reader takes 64 x


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("NVFP4 not needed", None), ("nvfp4 is not wanted", None), ("NVFP4 isn't required", None), ("NVFP4 unnecessary", None),
        ("NVFP4 nicht nötig", None), ("NVFP4 needed", "nvfp4"), ("NVFP4, tuning not needed", "nvfp4"),
    ],
)  # fmt: skip
def test_a_refusal_may_stand_behind_the_format(words: str, wanted: str | None) -> None:
    wish = read(f"deploy org/model on gpu1, {words}").intent.wanted_format
    assert (wish.value if wish else None) == wanted
