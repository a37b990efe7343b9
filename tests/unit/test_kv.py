"""KV cache bytes: every published number of the formulas, from real configurations where there is one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.api import GIB
from recon.tasks.facts.config import architecture
from recon.tasks.facts.kv import BF16, FP8, bytes_at, element_of, kv_per_token, pool_bytes, tokens_in, why_not

CORPUS = Path(os.environ.get("RECON_CORPUS", "")) / "models" if os.environ.get("RECON_CORPUS") else None
needs_corpus = pytest.mark.skipif(CORPUS is None, reason="RECON_CORPUS does not name a corpus of checkpoints")

GDN = {
    "linear_num_value_heads": 48, "linear_value_head_dim": 128, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
PLAIN = {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64}


def from_corpus(folder: str) -> dict[str, Any]:
    """The architecture that a real config.json declares."""
    assert CORPUS is not None
    return architecture(json.loads((CORPUS / folder / "config.json").read_bytes()))


def cost(config: dict[str, Any], *, tp: int = 1, element: int = BF16) -> dict[str, Any]:
    """What a config costs, where a formula applies."""
    value = kv_per_token(architecture(config), tp=tp, element_bytes=element)
    assert value is not None, why_not(architecture(config))
    return value


@needs_corpus
@pytest.mark.parametrize(
    ("folder", "element", "per_token", "per_request"),
    [
        ("meta-llama__Meta-Llama-3.1-8B", BF16, 131_072, 0),
        ("Qwen__Qwen3-32B", BF16, 262_144, 0),  # hidden / heads would give 163,840
        ("deepseek-ai__DeepSeek-R1", BF16, 70_272, 0),
        ("deepseek-ai__DeepSeek-R1", FP8, 35_136, 0),
        ("moonshotai__Kimi-K2.5", BF16, 70_272, 0),
        ("moonshotai__Kimi-K2.5", FP8, 35_136, 0),
        ("zai-org__GLM-5-FP8", FP8, 61_464, 0),
        ("zai-org__GLM-5-FP8", BF16, 100_152, 0),
        ("openai__gpt-oss-120b", BF16, 36_864, 0),
        ("XiaomiMiMo__MiMo-V2-Flash", BF16, 23_040, 0),
        ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", BF16, 6_144, 49_082_368),
        ("nvidia__Qwen3.6-27B-NVFP4", FP8, 32_768, 153_944_064),
        ("deepseek-ai__DeepSeek-V4-Flash", BF16, 3_850, 10_485_760),
        ("deepseek-ai__DeepSeek-V4-Flash", FP8, 3_850, 10_485_760),  # its slots are FP8 whatever is asked for
    ],
)
def test_real_configurations_cost_the_published_bytes(
    folder: str, element: int, per_token: int, per_request: int
) -> None:
    value = kv_per_token(from_corpus(folder), tp=1, element_bytes=element)
    assert value is not None
    assert (value["bytes_per_token_per_rank"], value.get("per_request_bytes", 0)) == (per_token, per_request)


HYBRID = ["linear_attention"] * 3 + ["full_attention"]
NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
PUBLISHED: dict[str, tuple[dict[str, Any], int, int, int, int]] = {
    "GLM-5 FP8": (
        {"num_hidden_layers": 78, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128}, FP8, 61_464, 0, 0,
    ),
    "gpt-oss-120b": (
        {"num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
         "layer_types": ["sliding_attention", "full_attention"] * 18, "architectures": ["GptOssForCausalLM"]},
        BF16, 36_864, 36_864, 0,
    ),
    "MiMo-V2-Flash": (
        {"num_hidden_layers": 48, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128,
         "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128, "sliding_window": 128,
         "hybrid_layer_pattern": [0, 1, 1, 1, 1] + [0, 1, 1, 1, 1, 1] * 7 + [0], "architectures": ["MiMoV2FlashForCausalLM"]},
        BF16, 23_040, 199_680, 0,
    ),
    "Nemotron-3-Nano": (
        {"num_hidden_layers": 52, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 64,
         "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "hybrid_override_pattern": NANO},
        BF16, 6_144, 0, 49_082_368,
    ),
    "Qwen3.6-27B FP8": (
        {"text_config": {"num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
                         "layer_types": HYBRID * 16, **GDN}}, FP8, 32_768, 0, 153_944_064,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_dimensions_cost_the_published_bytes(name: str) -> None:
    config, element, per_token, window, per_request = PUBLISHED[name]
    value = cost(config, element=element)
    found = (value.get("window", {}).get("bytes_per_token", 0), value.get("per_request_bytes", 0))
    assert (value["bytes_per_token_per_rank"], *found) == (per_token, window, per_request)


@needs_corpus
def test_every_configuration_of_the_corpus_has_a_formula_or_a_reason() -> None:
    assert CORPUS is not None
    found = {
        path.parent.name: architecture(json.loads(path.read_bytes()))
        for path in CORPUS.glob("*/config*.json")
    }
    silent = {name for name, value in found.items() if kv_per_token(value, tp=1) is None}
    assert silent == {name for name, value in found.items() if why_not(value)}
    assert silent <= {
        "Qwen__Qwen2-VL-2B-Instruct-AWQ",
        "canada-quant__DeepSeek-V4-Flash-W4A16-FP8-MTP",
    }  # partial copies
    assert len(found) >= 20


@needs_corpus
@pytest.mark.parametrize(
    ("folder", "full", "window"),
    [
        ("openai__gpt-oss-120b", 36_864, 36_864),
        (
            "XiaomiMiMo__MiMo-V2-Flash",
            23_040,
            199_680,
        ),  # keys of 192, values of 128, eight heads in a windowed layer
    ],
)
def test_windowed_layers_stop_growing_at_their_window(folder: str, full: int, window: int) -> None:
    value = kv_per_token(from_corpus(folder), tp=1, element_bytes=BF16)
    assert (
        value is not None
        and value["window"]["bytes_per_token"] == window
        and value["window"]["tokens"] == 128
    )
    for context in (1, 100, 128, 129, 100_000):
        assert bytes_at(value, context) == full * context + window * min(context, 128)


@needs_corpus
def test_a_million_tokens_of_deepseek_v4() -> None:
    value = kv_per_token(from_corpus("deepseek-ai__DeepSeek-V4-Flash"), tp=4)
    assert value is not None
    assert value["bytes_per_token_per_rank"] * 2**20 / GIB == pytest.approx(3.76, abs=0.005)
    window = value["window"]
    assert (window["bytes_per_token"], window["pool_share"], window["tokens"]) == (25_112, 0.1, 128)
    assert window["bytes_per_token"] * window["pool_share"] * 2**20 / GIB == pytest.approx(2.45, abs=0.005)
    assert value["draft"]["bytes_per_token_per_rank"] == round(3_850.25 * 44 / 43) == 3_940
    per_slot = 25_112 + window["state_bytes_per_token"]
    assert pool_bytes(value, 1_000_000) == pytest.approx(1_000_000 * (3_850 + 0.1 * per_slot), rel=1e-6)
    assert tokens_in(value, pool_bytes(value, 1_000_000)) == pytest.approx(1_000_000, abs=1)


@needs_corpus
@pytest.mark.parametrize(
    "folder", ["deepseek-ai__DeepSeek-R1", "zai-org__GLM-5-FP8", "deepseek-ai__DeepSeek-V4-Flash"]
)
def test_a_latent_is_whole_on_every_rank(folder: str) -> None:
    one, eight = (kv_per_token(from_corpus(folder), tp=tp) for tp in (1, 8))
    assert one == eight and one is not None and one["on_every_rank"] is True


@needs_corpus
def test_heads_are_divided_and_copied_where_there_are_fewer_than_ranks() -> None:
    qwen = from_corpus("nvidia__Qwen3.6-27B-NVFP4")  # four KV heads, 48 state heads
    values = [kv_per_token(qwen, tp=tp) for tp in (1, 2, 4, 8)]
    assert [v and v["bytes_per_token_per_rank"] for v in values] == [65_536, 32_768, 16_384, 16_384]
    assert [v and v["per_request_bytes"] for v in values] == [153_944_064, 76_972_032, 38_486_016, 19_243_008]
    assert all(v is not None and v["on_every_rank"] is False for v in values)


@needs_corpus
def test_linear_attention_of_kimi_keeps_a_state_beside_the_latent() -> None:
    value = kv_per_token(from_corpus("moonshotai__Kimi-K3"), tp=8)
    assert value is not None and value["bytes_per_token_per_rank"] == 24 * (512 + 64) * 2
    channels, state = 3 * 96 * 128 // 8, 96 // 8 * 128 * 128
    assert value["per_request_bytes"] == 69 * (channels * 3 * 2 + state * 4)


@needs_corpus
def test_three_of_four_llama_4_layers_keep_a_chunk() -> None:
    value = kv_per_token(from_corpus("RedHatAI__Llama-4-Scout-17B-16E-Instruct-FP8-dynamic"), tp=8)
    assert value is not None and value["bytes_per_token_per_rank"] == 12 * 1 * 256 * 2
    assert value["window"] == {"bytes_per_token": 36 * 1 * 256 * 2, "tokens": 8_192, "pool_share": 0.8}


def test_a_window_saves_nothing_where_the_engine_has_no_pool_for_it() -> None:
    layers = {"layer_types": ["sliding_attention"] * 3 + ["full_attention"], "sliding_window": 1024}
    gemma3 = cost({**PLAIN, **layers, "architectures": ["Gemma3ForCausalLM"]})
    assert gemma3["bytes_per_token_per_rank"] == 4 * 2 * 128 * 2 and "window" not in gemma3
    assert "saves nothing" in gemma3["basis"]
    gemma4 = cost({**PLAIN, **layers, "architectures": ["Gemma4ForCausalLM"]})
    assert (gemma4["bytes_per_token_per_rank"], gemma4["window"]["bytes_per_token"]) == (512, 1536)


def test_layers_are_told_from_an_interval_where_they_are_not_listed() -> None:
    listed = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
    by_interval = cost({**PLAIN, **GDN, "full_attention_interval": 4})
    assert by_interval == cost({**PLAIN, **GDN, "layer_types": listed})
    assert by_interval["bytes_per_token_per_rank"] == 1 * 2 * 128 * 2


def test_state_in_half_precision_is_half_and_layers_beside_attention_count_twice() -> None:
    falcon = {
        **PLAIN, "model_type": "falcon_h1", "mamba_n_heads": 8, "mamba_d_head": 64, "mamba_d_state": 16, "mamba_n_groups": 1,
        "mamba_d_conv": 4,
    }  # fmt: skip
    conv, state = (8 * 64 + 2 * 16) * 3 * 2, 8 * 64 * 16
    assert cost(falcon)["per_request_bytes"] == 4 * (conv + state * 4)
    assert cost({**falcon, "mamba_ssm_dtype": "bfloat16"})["per_request_bytes"] == 4 * (conv + state * 2)
    assert cost(falcon)["bytes_per_token_per_rank"] == 4 * 2 * 128 * 2
    halves = cost(falcon, tp=2)["per_request_bytes"]  # its one group is copied to both ranks
    assert halves == 4 * ((8 * 64 + 2 * 2 * 16) // 2 * 3 * 2 + state // 2 * 4)


def test_an_index_that_layers_share_is_counted_once() -> None:
    dsa = {
        "num_hidden_layers": 8, "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128,
        "index_topk": 2048,
    }  # fmt: skip
    every = cost(dsa, element=FP8)["bytes_per_token_per_rank"]
    shared = cost({**dsa, "index_topk_freq": 4}, element=FP8)["bytes_per_token_per_rank"]
    assert every - shared == 132 * (8 - 3)  # layers 0, 1 and 5 look themselves
    assert (
        cost({**dsa, "indexer_types": ["full", "shared"] * 4}, element=FP8)["bytes_per_token_per_rank"]
        == every - 4 * 132
    )


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"num_attention_heads": 8, "head_dim": 64}, "how many layers"),
        ({"num_hidden_layers": 4}, "no attention heads"),
        ({**PLAIN, "layer_types": ["linear_attention"] * 4}, "state is not in the config"),
        ({**PLAIN, "layer_types": ["conv", "full_attention"] * 2}, "state is not in the config"),
        ({"num_hidden_layers": 2, "compress_ratios": [1, 2, 0]}, "compression ratio 1, 2"),
        ({"num_hidden_layers": 2, "kv_lora_rank": 512}, "without qk_rope_head_dim"),
        ({**PLAIN, "hybrid_layer_pattern": [0, 1, 1, 1], "architectures": ["MiMoV2ForCausalLM"]}, "size of their window"),
    ],
)  # fmt: skip
def test_where_no_formula_applies_the_reason_is_said(config: dict[str, Any], reason: str) -> None:
    value = architecture(config)
    assert kv_per_token(value, tp=1) is None and reason in why_not(value)


@pytest.mark.parametrize(
    ("said", "element"),
    [("FP8", FP8), ("8-bit float", FP8), ("NVFP4", BF16), ("INT8", BF16), (None, BF16), (8, BF16)],
)
def test_the_cache_is_fp8_where_the_checkpoint_declares_it(said: object, element: int) -> None:
    assert element_of({"format": "unknown", "said": said}) == element
    assert element_of(None) == BF16


_VALUES = (
    st.none() | st.booleans() | st.integers(-2, 300) | st.integers(10**300, 10**301) | st.sampled_from(["M*E-", "float32", "x"])
    | st.lists(st.sampled_from(["linear_attention", "full_attention", "sliding_attention", 0, 1, 4, 128, None]), max_size=6)
    | st.dictionaries(st.sampled_from(["kda_layers", "num_heads", "head_dim", "short_conv_kernel_size"]), st.integers(-1, 9) | st.lists(st.integers(0, 4), max_size=3))
)  # fmt: skip
_KEYS = [
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim", "hidden_size", "sliding_window",
    "layer_types", "hybrid_layer_pattern", "hybrid_override_pattern", "full_attention_interval", "linear_attn_config",
    "compress_ratios", "kv_lora_rank", "qk_rope_head_dim", "index_head_dim", "index_topk_freq", "swa_head_dim", "mamba_ssm_dtype",
    "num_nextn_predict_layers", "architectures", *GDN,
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=12), st.integers(0, 20), st.booleans())
def test_any_config_gives_bytes_or_a_reason(config: dict[str, Any], tp: int, mimo: bool) -> None:
    value = architecture({**config, "architectures": ["MiMoV2ForCausalLM"]} if mimo else config)
    found = kv_per_token(value, tp=tp)
    assert (found is None) == bool(why_not(value) or tp < 1)
    if found is not None:
        assert bytes_at(found, 1000) >= bytes_at(found, 10) >= 0 and tokens_in(found, 1 << 30) >= 0
