"""Judges about a checkpoint: each verdict from synthetic findings, and never a crash on odd values."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.views import absent, fact, intent_of, stale, unknown, view_of

from recon.agent.api import Judgement, JudgeTask, Layout, View, Wish
from recon.tasks.judge.card import CARDS, ENGINES_NAMED
from recon.tasks.judge.checkpoint import CHECKPOINT_JUDGES
from recon.tasks.judge.claims import CLAIMS
from recon.tasks.judge.memory import MEMORY
from recon.tasks.judge.quantization import QUANTIZATION
from recon.tasks.judge.size import SIZE

INT4 = {
    "presence": "present",
    "format": "w4a16-int4",
    "group_size": 128,
    "tensors": 99_072,
    "signature": "R3: weight_packed I32",
}
NVFP4 = {
    "presence": "present",
    "format": "nvfp4",
    "group_size": 16,
    "tensors": 9,
    "signature": "R10: weight_packed U8",
}
SPLIT = {"sharded_bytes": 160 << 30, "replicated_bytes": 1 << 30}
GPUS = {"count": 8, "sm": "sm_120", "memory_total_mib": 97_887}
CHECKPOINT = {
    "routed_experts": INT4, "attention": {"presence": "present", "format": "fp8-block128"},
    "mtp": {"presence": "present", "format": "bf16", "tensors": 799}, "split": SPLIT, "weights_bytes": 168_276_817_736,
    "architecture": {"architectures": ["DeepseekV4ForCausalLM"], "mtp_layers": 1, "summary": "284B total", "layers": 43},
    "scale_names": {"weight_scale": 33_239}, "card.engines": {"named": ["vllm"], "sglang": False},
    "declared": {"quant_method": "compressed-tensors", "components": {"routed_experts": {"format": "w4a16-int4"}}},
}  # fmt: skip
SIBLING = "hf:org/model-NVFP4@0123456789abcdef0123456789abcdef01234567"


def facts(**changes: Any) -> dict[str, dict[str, Any]]:
    """The usual checkpoint and GPUs with other values; None takes one out."""
    checkpoint: dict[str, Any] = {**CHECKPOINT, **changes}
    return {"checkpoint": {k: v for k, v in checkpoint.items() if v is not None}, "host": {"gpus": GPUS}}


def lines(task: JudgeTask, view: View) -> dict[str, Judgement]:
    """A judge's judgements by key; keys must be unique and titles short."""
    judgements = task.judge(view).judgements
    assert len({j.key for j in judgements}) == len(judgements)
    assert all(len(j.title) <= 80 for j in judgements)
    return {j.key: j for j in judgements}


def with_sibling(view: View, **extra: Any) -> View:
    """The same view with one NVFP4 sibling read."""
    rows = [{"repo": "org/model-NVFP4", "sha": None, "formats": ["nvfp4"]}]
    components = {"routed_experts": {"format": "nvfp4"}, "attention": {"format": "fp8-block128"}}
    declared = {"quant_method": "fp8", "moe_quant_algo": "NVFP4", "components": components}
    pointer = view_of({"docs": {"same_as": SIBLING}}, bindings={"docs": "hf:org/model-NVFP4@main"})
    named: dict[str, Any] = {"declared": declared, "download_bytes": 181_300_000_000, **extra}
    other = view_of({"docs": named}, bindings={"docs": SIBLING})
    own = view_of({"checkpoint": {"siblings": fact(rows, level="claimed")}})
    found = [*view.all_findings(), *pointer.all_findings(), *other.all_findings(), *own.all_findings()]
    return View.of(found, bindings=view.bindings, intent=view.intent, now=view.now)


def test_a_wish_that_the_tensors_contradict_is_a_conflict_with_ways_out() -> None:
    line = lines(QUANTIZATION, with_sibling(view_of(facts())))["checkpoint.format"]
    assert (line.verdict, line.about) == ("conflict", "checkpoint.format")
    assert line.title == "wanted NVFP4; routed experts INT4 W4A16 g128"
    assert (line.observed, line.expected) == ("w4a16-int4", "nvfp4")
    assert [o.id for o in line.options] == ["keep", "model-NVFP4", "stop"]
    keep, take, stop = line.options
    assert keep.consequence.startswith("on sm_120: Marlin") and keep.effort == "days"
    assert take.effects.intent == {"model": "org/model-NVFP4", "revision": "main"}
    assert (
        "181.3 GB" in take.consequence
        and "SM100-only" in take.consequence
        and "not proved" in take.consequence
    )
    assert stop.effects.stop
    assert len(line.sides) >= 2


def test_a_wish_that_must_hold_blocks() -> None:
    intent = intent_of(wanted_format=Wish(value="nvfp4", strength="must"))
    assert lines(QUANTIZATION, view_of(facts(), intent=intent))["checkpoint.format"].verdict == "block"


def test_the_wanted_format_passes_and_no_wish_passes() -> None:
    line = lines(QUANTIZATION, view_of(facts(routed_experts=NVFP4)))["checkpoint.format"]
    assert (line.verdict, line.title) == ("pass", "routed experts NVFP4 g16, as wanted (by headers)")
    plain = lines(QUANTIZATION, view_of(facts(), intent=intent_of(wanted_format=None)))["checkpoint.format"]
    assert plain.verdict == "pass"


def test_only_a_declaration_is_a_warning_not_a_pass() -> None:
    declared = fact({"components": {"routed_experts": {"format": "nvfp4"}}}, level="declared")
    line = lines(QUANTIZATION, view_of(facts(routed_experts=None, declared=declared)))["checkpoint.format"]
    assert (line.verdict, line.title) == ("warn", "routed experts NVFP4, as wanted (declared only)")


def test_a_dense_model_is_judged_by_its_mlp() -> None:
    dense = {"presence": "present", "format": "bf16", "tensors": 3, "signature": "R20: weight BF16"}
    line = lines(QUANTIZATION, view_of(facts(routed_experts={"presence": "absent"}, dense_mlp=dense)))[
        "checkpoint.format"
    ]
    assert (line.verdict, line.observed) == ("conflict", "bf16")


@pytest.mark.parametrize("value", [None, unknown("2 headers not read"), stale(INT4), absent()])
def test_a_format_that_is_not_known_is_unknown_with_the_reason(value: Any) -> None:
    found = facts(routed_experts=value, attention=None, declared=None)
    line = lines(QUANTIZATION, view_of(found))["checkpoint.format"]
    assert line.verdict == "unknown" and line.detail


def test_a_promised_draft_block_without_tensors_is_a_conflict() -> None:
    line = lines(QUANTIZATION, view_of(facts(mtp={"presence": "absent"})))["checkpoint.mtp"]
    assert (line.verdict, line.title) == ("conflict", "config.json promises 1 MTP layer, no tensor is there")
    assert line.options[0].effects.waive


def test_tensors_that_contradict_the_declaration_are_a_conflict() -> None:
    declared = {"quant_method": "fp8", "components": {"routed_experts": {"format": "fp8-block128"}}}
    line = lines(QUANTIZATION, view_of(facts(declared=declared)))["checkpoint.declared.routed_experts"]
    assert (line.verdict, line.observed, line.expected) == ("conflict", "w4a16-int4", "fp8-block128")


@pytest.mark.parametrize(
    ("memory", "tp", "verdict", "words"),
    [
        (97_887, 4, "pass", "41.0 GiB of 95.6 GiB per GPU at TP4: fits, twice for PD"),
        (50_000, 4, "warn", "little is left"),
        (40_000, 4, "block", "does not fit"),
    ],
)
def test_weights_per_gpu_against_the_smallest_gpu(memory: int, tp: int, verdict: str, words: str) -> None:
    found = facts()
    found["host"] = {"gpus": {**GPUS, "memory_total_mib": memory}}
    line = lines(MEMORY, view_of(found))["checkpoint.fits_memory"]
    assert line.verdict == verdict and words in line.title
    assert line.observed["weights_per_gpu_bytes"] == 41 << 30
    assert any("not counted" in text for text in line.detail)


def test_what_does_not_fit_offers_more_gpus_where_the_host_has_them() -> None:
    found = facts()
    found["host"] = {"gpus": {**GPUS, "memory_total_mib": 30_000}}
    intent = intent_of(layout=Layout(mode="single", tp=4))
    (option,) = lines(MEMORY, view_of(found, intent=intent))["checkpoint.fits_memory"].options
    assert (option.id, option.effects.intent) == ("tp8", {"layout.tp": 8})


def test_experts_that_cannot_be_cut_block() -> None:
    architecture = {"experts": 8, "moe_intermediate_size": 1408, "attention_heads": 64}
    line = lines(MEMORY, view_of(facts(architecture=architecture)))["checkpoint.fits_memory"]
    assert (line.verdict, line.title) == ("block", "experts of 1408 in groups of 128 do not divide by 4")


def test_fit_is_unknown_without_gpus_sizes_or_a_layout() -> None:
    assert lines(MEMORY, view_of({"checkpoint": CHECKPOINT}))["checkpoint.fits_memory"].verdict == "unknown"
    assert lines(MEMORY, view_of(facts(split=unknown("x"))))["checkpoint.fits_memory"].verdict == "unknown"
    line = lines(MEMORY, view_of(facts(), intent=intent_of(layout=Layout())))["checkpoint.fits_memory"]
    assert (line.verdict, line.detail) == ("unknown", ("say it with --tp N or --pd P+D",))


def size(text: str, number: int) -> dict[str, Any]:
    """A card's size claim."""
    return {"text": text, "bytes_if_gb": number * 10**9, "bytes_if_gib": number * 2**30}


def test_an_ambiguous_size_is_a_warning_with_what_it_can_mean() -> None:
    sizes = [size("159 GB", 159), size("159 GiB", 159)]
    line = lines(SIZE, view_of(facts(**{"card.sizes": sizes})))["checkpoint.size_claims"]
    assert (line.verdict, line.title) == (
        "warn",
        "168.3 GB (156.7 GiB) of tensors; the card says 159 GB and 159 GiB",
    )
    assert line.detail == ('"159 GB" is right within 2 % only as GiB',)


def test_a_right_size_passes_and_no_size_passes() -> None:
    assert (
        lines(SIZE, view_of(facts(**{"card.sizes": [size("168 GB", 168)]})))["checkpoint.size_claims"].verdict
        == "pass"
    )
    assert lines(SIZE, view_of(facts(**{"card.sizes": []})))["checkpoint.size_claims"].verdict == "pass"
    assert (
        lines(SIZE, view_of(facts(card=absent("no README.md"))))["checkpoint.size_claims"].verdict == "pass"
    )
    assert lines(SIZE, view_of(facts(weights_bytes=None)))["checkpoint.size_claims"].verdict == "unknown"


def statement(
    advice: str, *, date: str, target: str = "", sms: tuple[str, ...] = ("sm_120",)
) -> dict[str, Any]:
    """One sentence of a card about hardware."""
    return {"text": f"{advice} {target}", "sms": list(sms), "advice": advice, "target": target, "date": date}


def test_cards_of_one_publisher_that_disagree_are_a_conflict_with_both_dates() -> None:
    own = [statement("use_other", date="2026-05-29", target="model-NVFP4")]
    other = [
        statement("use_other", date="2026-05-27", target="model"),
        statement("only", date="2026-05-21", sms=("sm_100",)),
    ]
    view = with_sibling(view_of(facts(**{"card.hardware": own})), **{"card.hardware": other})
    line = lines(CARDS, view)["siblings.advice"]
    assert line.verdict == "conflict"
    assert "2026-05-27" in " ".join(line.detail) and "2026-05-29" in " ".join(line.detail)
    assert len({side.finding_id for side in line.sides}) == 2


def test_cards_that_agree_or_say_nothing_are_no_conflict() -> None:
    own = {"card.hardware": [statement("validated", date="2026-05-28")], "card.leads": []}
    line = lines(CARDS, view_of(facts(**own)))["siblings.advice"]
    assert (line.verdict, line.title) == (
        "pass",
        "its card does not contradict itself about sm_120; siblings were not looked for",
    )
    both = with_sibling(view_of(facts(**own)), **{"card.hardware": []})
    assert lines(CARDS, both)["siblings.advice"].title == "two cards agree about sm_120"
    assert lines(CARDS, view_of(facts(**{"card.hardware": [], "card.leads": []}))) == {}
    assert lines(CARDS, view_of(facts(card=absent("no README.md")))) == {}
    assert lines(CARDS, view_of({"checkpoint": CHECKPOINT}))["siblings.advice"].verdict == "unknown"


@pytest.mark.parametrize("failed", ["siblings", "card.hardware", "card.leads", "card", "card of a sibling"])
def test_cards_that_were_not_read_agree_with_nobody(failed: str) -> None:
    said = {"card.hardware": [statement("validated", date="2026-05-28")], "card.leads": [], "siblings": []}
    if failed == "card of a sibling":
        view = with_sibling(view_of(facts(**said)), card=unknown("503"))
    elif failed == "card":
        view = view_of(facts(card=unknown("503"), siblings=[]))
    else:
        view = view_of(facts(**{**said, failed: unknown("503")}))
    line = lines(CARDS, view)["siblings.advice"]
    assert (line.verdict, "503" in " ".join(line.detail)) == ("unknown", True)


def test_a_size_is_not_as_the_card_says_where_the_card_was_not_read() -> None:
    for claims in ({"card": unknown("503")}, {"card.sizes": unknown("503")}, {}):
        line = lines(SIZE, view_of(facts(**claims)))["checkpoint.size_claims"]
        assert (line.verdict, line.about) == ("unknown", "")


def test_layers_that_may_not_divide_are_not_said_to_fit() -> None:
    for name in ("architecture", "routed_experts"):
        line = lines(MEMORY, view_of(facts(**{name: unknown("timed out")})))["checkpoint.fits_memory"]
        assert (line.verdict, "divide by 4" in line.title) == ("unknown", True)


def test_the_first_dense_layers_of_a_mixture_do_not_stand_for_experts_that_were_not_read() -> None:
    dense = {"presence": "present", "format": "nvfp4", "tensors": 3}
    found = facts(routed_experts=unknown("2 headers not read"), declared=None, dense_mlp=dense)
    line = lines(QUANTIZATION, view_of(found))["checkpoint.format"]
    assert (line.verdict, line.detail[0]) == ("unknown", "checkpoint.routed_experts: 2 headers not read")


def test_no_draft_layers_and_no_config_is_not_known() -> None:
    found = facts(mtp={"presence": "absent"}, architecture=unknown("timed out"))
    assert lines(QUANTIZATION, view_of(found))["checkpoint.mtp"].verdict == "unknown"


def test_a_published_corruption_is_a_lead_for_this_gpu_only() -> None:
    lead = {
        "text": "corrupts",
        "sms": ["sm_120"],
        "under_load": True,
        "date": "2026-05-25",
        "settle": "known answers",
    }
    found = facts(**{"card.leads": [lead, {**lead, "sms": ["sm_90"]}]})
    found["checkpoint"]["card.hardware"] = []
    line = lines(CARDS, view_of(found))["checkpoint.lead.corruption"]
    assert (line.verdict, line.title) == (
        "warn",
        "a lead: corrupted output on sm_120 under concurrency (2026-05-25)",
    )
    found["host"] = {"gpus": {**GPUS, "sm": "sm_100"}}
    assert "checkpoint.lead.corruption" not in lines(CARDS, view_of(found))


@pytest.mark.parametrize(
    ("engines", "verdict", "title"),
    [
        ({"named": ["vllm"], "patched": "a fork"}, "warn", "the card names a patched vLLM and never SGLang"),
        ({"named": ["vllm", "sglang"]}, "pass", "the card names SGLang"),
        ({"named": []}, "warn", "the card names no engine"),
        (unknown(), "unknown", "which engines the card names is not known"),
    ],
)
def test_engines_a_card_names(engines: Any, verdict: str, title: str) -> None:
    line = lines(ENGINES_NAMED, view_of(facts(**{"card.engines": engines})))["checkpoint.engines_named"]
    assert (line.verdict, line.title) == (verdict, title)


OTHERS = (
    "siblings", "card.sizes", "card.hardware", "card.leads", "card.mtp", "card.tags", "card.front_matter", "card.base_model", "files",
    "index_files", "not_loaded", "exclusions", "tags", "repo", "hf_quant.declared", "config.declared", "quantize.declared", "adapter",
    "quant_metadata", "declared.disagreement", "plain_dtype", "engine_download_extra", "kv_cache", "base_model",
)  # fmt: skip
ODD = (
    None,
    7,
    "x",
    [],
    [7, None],
    {},
    {"format": 7},
    {"components": 3},
    {"named": 5},
    [{"text": None}],
    {"architectures": 4},
    [{"path": "x" * 300 + ".safetensors"}, {"path": 3}],
    {"dead": [None], "entries": "x", "excluded_but_quantized": [{"a": 1}]},
    {
        "quant_method": "fp8",
        "components": {"routed_experts": {"format": "mxfp4"}, "kv_cache": {"said": 8}},
        "ignore_beyond_layers": ["x", 2],
    },
    {"quant_method": "compressed-tensors", "bits": "4", "components": [1]},
)


@pytest.mark.parametrize(("task", "name"), list(itertools.product(CHECKPOINT_JUDGES, [*CHECKPOINT, *OTHERS])))  # fmt: skip
def test_odd_values_never_crash_a_judge(task: JudgeTask, name: str) -> None:
    for value in ODD:
        found = facts(
            files=[
                {"path": "model.safetensors", "size_bytes": 9},
                {"path": "consolidated.safetensors"},
                {"path": "a.gguf"},
            ]
        )
        found["checkpoint"][name] = value
        lines(task, view_of(found))


@pytest.mark.parametrize("task", CHECKPOINT_JUDGES)
def test_nothing_known_is_unknown_and_nothing_passes(task: JudgeTask) -> None:
    judgements = lines(task, view_of({}))
    assert judgements and {j.verdict for j in judgements.values()} == {"unknown"}


# ---- siblings and cards


def two_cards(view: View, own: list[dict[str, Any]], other: list[dict[str, Any]], publisher: str) -> View:
    """The view with a sibling of some publisher whose card says something of hardware."""
    repo = f"{publisher}/model-NVFP4"
    rows = [{"repo": repo, "sha": None, "formats": ["nvfp4"]}]
    found = view_of(
        {"docs": {"card.hardware": fact(other, level="claimed")}}, bindings={"docs": f"hf:{repo}@{'2' * 40}"}
    )
    mine = view_of(
        {"checkpoint": {"siblings": fact(rows, level="claimed"), "card.hardware": fact(own, level="claimed")}}
    )
    everything = [*view.all_findings(), *found.all_findings(), *mine.all_findings()]
    return View.of(everything, bindings=view.bindings, intent=view.intent, now=view.now)


@pytest.mark.parametrize(
    ("publisher", "whose"), [("org", "the publisher's own cards"), ("elsewhere", "cards of two publishers")]
)
def test_cards_of_siblings_are_compared_whoever_published_them(publisher: str, whose: str) -> None:
    own = [statement("use_other", date="2026-05-29", target="model-NVFP4")]
    other = [statement("use_other", date="2026-05-27", target="model")]
    line = lines(CARDS, two_cards(view_of(facts()), own, other, publisher))["siblings.advice"]
    assert (line.verdict, line.title) == ("conflict", f"{whose} disagree about sm_120")


def test_without_a_host_cards_that_disagree_about_any_gpu_are_told() -> None:
    own = [statement("use_other", date="2026-05-29", target="model-NVFP4", sms=("sm_90",))]
    other = [statement("use_other", date="2026-05-27", target="model", sms=("sm_90",))]
    bound = {"checkpoint": "hf:org/model@main"}
    view = view_of({"checkpoint": CHECKPOINT}, bindings=bound)
    line = lines(CARDS, two_cards(view, own, other, "org"))["siblings.advice"]
    assert (line.verdict, line.title) == ("conflict", "the publisher's own cards disagree about sm_90")
    agreed = lines(CARDS, two_cards(view, own, [], "org"))["siblings.advice"]
    assert agreed.verdict == "unknown"


def compared(view: View) -> list[dict[str, Any]]:
    """What the judge derives of the siblings."""
    rows = [draft.value for _, draft in QUANTIZATION.judge(view).derived if draft.name == "siblings_compared"]
    return rows[0] if rows else []


def test_siblings_are_compared_with_format_size_and_fit_with_or_without_a_wish() -> None:
    for wish in (Wish(value="nvfp4"), None):
        (row,) = compared(with_sibling(view_of(facts(), intent=intent_of(wanted_format=wish))))
        assert (row["repo"], row["format"], row["level"], row["bytes"]) == (
            "org/model-NVFP4",
            "nvfp4",
            "declared",
            181_300_000_000,
        )
        assert row["fits"] == "fits: about 42.2 GiB of 95.6 GiB per GPU at TP4"
    assert compared(view_of(facts())) == []


def test_a_sibling_that_does_not_fit_says_so_in_its_option() -> None:
    found = facts()
    found["host"] = {"gpus": {**GPUS, "memory_total_mib": 40_960}}
    line = lines(QUANTIZATION, with_sibling(view_of(found)))["checkpoint.format"]
    option = next(o for o in line.options if o.id == "model-NVFP4")
    assert "does not fit: about 42.2 GiB of 40.0 GiB per GPU at TP4" in option.consequence


def test_a_sibling_that_was_only_listed_is_named_with_its_words() -> None:
    rows = fact([{"repo": "org/model-GGUF", "sha": None, "formats": ["gguf"]}], level="claimed")
    (row,) = compared(view_of(facts(siblings=rows)))
    assert (row["repo"], row["claimed"], row["level"], "format" in row) == (
        "org/model-GGUF",
        ["gguf"],
        "claimed",
        False,
    )


def test_the_names_claim_is_shown_where_nothing_else_is_known() -> None:
    found = facts(routed_experts=None, attention=None, declared=None, repo="org/Model-Block-INT8")
    line = lines(QUANTIZATION, view_of(found))["checkpoint.format"]
    assert (line.verdict, line.title) == ("unknown", "wanted NVFP4; the name says INT8, no tensor was read")


def test_exclusions_that_match_nothing_or_are_quantized_all_the_same_are_a_warning() -> None:
    dead = {"entries": 712, "dead": ["model.layers.3.self_attn.indexers_proj"]}
    line = lines(CLAIMS, view_of(facts(exclusions=dead)))["checkpoint.exclusions"]
    assert (line.verdict, line.title) == (
        "warn",
        "1 exclusion entry matches no module: model.layers.3.self_attn.indexers_proj",
    )
    beyond = {"quant_method": "compressed-tensors", "ignore_beyond_layers": [44], "components": {}}
    only = facts(declared=beyond, exclusions={"entries": 2, "dead": ["layers.44.ffn.gate"]})
    assert "checkpoint.exclusions" not in lines(CLAIMS, view_of(only))
