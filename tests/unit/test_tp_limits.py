"""Sizes that cannot be cut: each check that ends a load, on real and on published dimensions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.views import fact, intent_of, unknown, view_of

from recon.agent.api import Judgement, Layout
from recon.tasks.facts.config import architecture
from recon.tasks.facts.tp_limits import tp_limits
from recon.tasks.judge.memory import MEMORY

CORPUS = Path(os.environ.get("RECON_CORPUS", "")) / "models" if os.environ.get("RECON_CORPUS") else None
FP8 = {"format": "fp8-block128", "presence": "present"}
INT4 = {
    "format": "w4a16-int4",
    "group_size": 128,
    "signature": "R3: weight_packed I32",
    "presence": "present",
}
FLASH = {
    "architectures": ["DeepseekV4ForCausalLM"], "attention_heads": 64, "kv_heads": 1, "experts": 256, "moe_intermediate_size": 2048,
    "compress_ratios": [4], "layers": 43,
}  # fmt: skip
GPT_OSS = {"attention_heads": 64, "kv_heads": 8, "head_dim": 64, "experts": 128, "intermediate_size": 2880}
LINES = {
    "groups of experts": (FLASH, {"routed_experts": INT4}, 32, "experts of 2048 in groups of 128 do not divide by 32", "2048 / 32 = 64, not a multiple of 128"),
    "blocks of experts": (
        {"attention_heads": 32, "kv_heads": 4, "experts": 128, "moe_intermediate_size": 768}, {"routed_experts": FP8}, 4,
        "experts of 768 in blocks of 128 do not divide by 4", "768 / 4 = 192, not a multiple of 128",
    ),
    "native FP4 experts pass the FP8 check": (
        FLASH, {"routed_experts": {"format": "mxfp4", "group_size": 32, "signature": "R13: weight I8"}}, 32,
        "experts of 2048 in blocks of 128 do not divide by 32", "2048 / 32 = 64, not a multiple of 128",
    ),
    "shared experts": (
        {"attention_heads": 64, "experts": 8, "moe_intermediate_size": 2048, "shared_intermediate_size": 512},
        {"routed_experts": {"format": "bf16"}, "shared_experts": FP8}, 8,
        "shared experts of 512 in blocks of 128 do not divide by 8", "512 / 8 = 64, not a multiple of 128",
    ),
    "first dense layers": (
        {"attention_heads": 64, "experts": 8, "moe_intermediate_size": 2048, "intermediate_size": 18_432},
        {"routed_experts": {"format": "bf16"}, "dense_mlp": FP8}, 64,
        "MLP layers of 18432 in blocks of 128 do not divide by 64", "18432 / 64 = 288, not a multiple of 128",
    ),
    "heads": ({"attention_heads": 40, "kv_heads": 8}, {}, 16, "40 attention heads do not divide by 16", "40 / 16 is not a whole number"),
    "KV heads that are neither divided nor copied": (
        {"attention_heads": 48, "kv_heads": 6}, {}, 4, "6 KV heads do not divide by 4", "neither of 6 and 4 divides by the other",
    ),
    "KV heads of windowed layers": (
        {"attention_heads": 48, "kv_heads": 4, "cache": {"window": {"kv_heads": 6}}}, {}, 4,
        "6 KV heads of the windowed layers do not divide by 4", "neither of 6 and 4 divides by the other",
    ),
    "attention output": (
        {"attention_heads": 14, "kv_heads": 2, "head_dim": 64}, {"attention": INT4}, 2,
        "attention output of 896 in groups of 128 do not divide by 2", "896 / 2 = 448, not a multiple of 128",
    ),
    "Mamba groups": (
        {"attention_heads": 32, "cache": {"state": {"kind": "Mamba-2", "heads": 64, "groups": 8}}}, {}, 16,
        "8 Mamba-2 groups do not divide by 16", "8 / 16 is not a whole number",
    ),
    "key heads of linear attention": (
        {"attention_heads": 64, "cache": {"state": {"kind": "GDN", "heads": 64, "groups": 16}}}, {}, 32,
        "16 GDN key heads do not divide by 32", "16 / 32 is not a whole number",
    ),
    "a width without a block": ({"attention_heads": 64, "intermediate_size": 8190}, {}, 4, "layers of 8190 do not divide by 4", "8190 / 4 is not a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_what_does_not_divide_is_named_with_its_arithmetic(name: str) -> None:
    value, components, tp, title, detail = LINES[name]
    (limit,) = tp_limits(value, components, tp=tp)
    assert (limit.title, limit.detail) == (title, detail)
    assert tp_limits(value, components, tp=1) == []


@pytest.mark.parametrize(
    ("value", "components", "tp"),
    [
        (FLASH, {"routed_experts": INT4}, 16),  # 128 columns each: one group
        (FLASH, {"routed_experts": {"format": "nvfp4", "group_size": 16}}, 32),
        # gpt-oss is cut between blocks of 32 and padded: 2880 / 4 = 720 is no multiple of 32, and it is served so
        (GPT_OSS, {"routed_experts": {"format": "mxfp4", "group_size": 32, "signature": "R12: down_proj_blocks U8"}}, 4),
        # GPTQ experts halve their groups down to 32: 768 / 4 = 192
        ({"experts": 128, "moe_intermediate_size": 768}, {"routed_experts": {**INT4, "signature": "R1: qweight I32"}}, 4),
        # one Mamba group is copied to every rank
        ({"cache": {"state": {"kind": "Mamba-2", "heads": 64, "groups": 1}}}, {}, 4),
        # a latent has no KV heads to cut
        ({"attention_heads": 64, "kv_heads": 6, "kv_lora_rank": 512}, {}, 4),
        ({"attention_heads": True, "kv_heads": "8", "cache": 7, "experts": -1}, {}, 4),
    ],
)  # fmt: skip
def test_what_divides_or_is_padded_is_no_limit(
    value: dict[str, Any], components: dict[str, Any], tp: int
) -> None:
    assert tp_limits(value, components, tp=tp) == []


def test_expert_parallel_groups_cut_experts_less_and_need_whole_ones() -> None:
    qwen = {"experts": 128, "moe_intermediate_size": 768}
    assert len(tp_limits(qwen, {"routed_experts": FP8}, tp=4)) == 1
    assert tp_limits(qwen, {"routed_experts": FP8}, tp=4, ep=4) == []
    assert tp_limits(qwen, {"routed_experts": FP8}, tp=4, ep=2) == []  # 768 / 2 = 384
    assert [limit.title for limit in tp_limits({"experts": 6}, {}, tp=4, ep=4)] == [
        "6 experts do not divide by 4"
    ]
    assert [limit.title for limit in tp_limits({"experts": 6}, {}, tp=4, ep=3)] == [
        "4 ranks do not divide by 3"
    ]


@pytest.mark.skipif(CORPUS is None, reason="RECON_CORPUS does not name a corpus of checkpoints")
@pytest.mark.parametrize(
    ("folder", "components", "works", "fails"),
    [
        ("Qwen__Qwen3-30B-A3B-FP8", {"routed_experts": FP8, "attention": FP8}, (1, 2), (4, 8)),
        ("deepseek-ai__DeepSeek-R1", {"routed_experts": FP8, "dense_mlp": FP8, "attention": FP8}, (1, 2, 4, 8, 16), (32,)),
        ("Qwen__Qwen3-32B", {}, (1, 2, 4, 8, 16), ()),
        ("nvidia__Qwen3.6-27B-NVFP4", {"dense_mlp": {"format": "nvfp4-w4a16", "group_size": 16}}, (1, 2, 4, 8), (16,)),
        ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", {"routed_experts": {"format": "nvfp4", "group_size": 16}}, (1, 2, 4), (8,)),
        ("RedHatAI__Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", {"routed_experts": {"format": "fp8-channel"}}, (1, 2, 4, 8), (16,)),
        ("XiaomiMiMo__MiMo-V2-Flash", {"routed_experts": FP8}, (1, 2, 4, 8, 16), (32,)),
    ],
)  # fmt: skip
def test_real_models_at_real_sizes(folder: str, components: dict[str, Any], works: tuple[int, ...], fails: tuple[int, ...]) -> None:  # fmt: skip
    assert CORPUS is not None
    value = architecture(json.loads((CORPUS / folder / "config.json").read_bytes()))
    assert {tp: tp_limits(value, components, tp=tp) for tp in works} == {tp: [] for tp in works}
    assert all(tp_limits(value, components, tp=tp) for tp in fails)


# ---- what the judge makes of it

GPUS = {"count": 8, "sm": "sm_120", "memory_total_mib": 97_887}
PARTS = {
    "routed_experts": {"presence": "absent"}, "attention": {"presence": "present", "format": "bf16"},
    "split": {"sharded_bytes": 160 << 30, "replicated_bytes": 1 << 30},
}  # fmt: skip
QWEN_NEXT = {
    "architectures": ["Qwen3_5ForConditionalGeneration"], "layers": 64, "attention_heads": 24, "kv_heads": 4, "head_dim": 256, "context": 262_144,
    "cache": {
        "full_layers": 16, "state_layers": 48,
        "state": {"kind": "GDN", "heads": 48, "head_dim": 128, "state_size": 128, "groups": 16, "conv_kernel": 4, "element_bytes": 4},
    },
}  # fmt: skip


def fits(tp: int, **checkpoint: Any) -> Judgement:
    """What judge.memory says at a tensor parallelism."""
    view = view_of({"checkpoint": {**PARTS, **checkpoint}, "host": {"gpus": GPUS}},
                   intent=intent_of(layout=Layout(mode="single", tp=tp)))  # fmt: skip
    (line,) = MEMORY.judge(view).judgements
    assert len(line.title) <= 80 and line.key == "checkpoint.fits_memory"
    return line


def test_the_memory_of_a_hybrid_is_told_with_its_state() -> None:
    cache = fact({"format": "unknown", "said": "FP8"}, level="declared")
    line = fits(4, architecture=QWEN_NEXT, kv_cache=cache)
    assert line.verdict == "pass"
    kv = line.observed["kv_per_token"]
    assert (kv["bytes_per_token_per_rank"], kv["per_request_bytes"]) == (8_192, 153_944_064 // 4)
    assert line.observed["kv_tokens"] == line.observed["left_for_kv_bytes"] // 8_192
    assert line.observed["kv_bytes_at_full_context"] == 262_144 * 8_192 + 153_944_064 // 4
    assert any("38,486,016 bytes more on each GPU" in text for text in line.detail)


def test_every_size_that_does_not_divide_is_listed() -> None:
    value = {**QWEN_NEXT, "intermediate_size": 17_408, "attention_heads": 24}
    line = fits(16, architecture=value, dense_mlp={**INT4}, attention=FP8)
    assert (line.verdict, line.title) == ("block", "24 attention heads do not divide by 16")
    assert line.observed == [line.title, "MLP layers of 17408 in groups of 128 do not divide by 16"]
    assert any("17408 / 16 = 1088, not a multiple of 128" in text for text in line.detail)


def test_a_family_without_a_formula_says_why_there_is_no_number() -> None:
    value = {
        "architectures": ["NewForCausalLM"],
        "layers": 8,
        "attention_heads": 8,
        "head_dim": 64,
        "linear_attention": True,
    }
    line = fits(4, architecture=value)
    assert line.verdict == "pass" and "kv_per_token" not in line.observed
    assert any(text.startswith("the size of the KV cache is not known") for text in line.detail)


@pytest.mark.parametrize("name", ["shared_experts", "dense_mlp", "attention"])
def test_a_component_that_was_not_read_leaves_the_cut_unknown(name: str) -> None:
    line = fits(
        4,
        architecture={**FLASH, "head_dim": 512},
        routed_experts=INT4,
        **{name: unknown("2 headers not read")},
    )
    assert (line.verdict, "divide by 4" in line.title) == ("unknown", True)
