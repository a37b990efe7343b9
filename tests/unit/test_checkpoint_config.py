"""config.json and its neighbours: the architecture and what is declared per component."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.api import Raw, canonical_json
from recon.tasks.facts.config import parse_config
from recon.tasks.facts.declared import declare, declared_drafts
from recon.tasks.facts.exclusions import covered
from recon.tasks.facts.kv import kv_per_token

MOE = {
    "num_hidden_layers": 40,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "hidden_size": 2048,
    "model_type": "m",
}


def declared(config: dict[str, Any], hf_quant: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """What the files declare together; others by their name without `.json`."""
    found = {d.name: d for d in parse_config(Raw(state="ok", stdout=json.dumps(config).encode()))}
    files = {"config.json": config, **{f"{name}.json": file for name, file in others.items()}}
    if hf_quant is not None:
        files["hf_quant_config.json"] = hf_quant
    value = declare(files, found["architecture"].value, plain=str(found["plain_dtype"].value))
    assert value is not None
    return value


def formats(value: dict[str, Any]) -> dict[str, str]:
    """Component -> declared format."""
    return {name: row["format"] for name, row in value["components"].items() if "format" in row}


def test_a_group_decides_the_format_of_what_it_targets_and_the_rest_stays_plain() -> None:
    group = {"targets": ["re:.*experts\\.\\d+\\.(gate|up|down)_proj$"], "format": "pack-quantized",
             "weights": {"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"}}  # fmt: skip
    block = {"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {"g": group}}
    value = declared({**MOE, "quantization_config": block})
    assert value["components"]["routed_experts"] == {
        "presence": "present",
        "format": "w4a16-int4",
        "group_size": 128,
    }
    assert formats(value)["attention"] == "bf16"
    assert value["format"] == "mixed-precision"


def test_a_block_nested_in_a_text_config_is_found() -> None:
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    value = declared({"model_type": "x", "text_config": {**MOE, "quantization_config": block}})
    assert value["source"] == "config.json/text_config/quantization_config"
    assert formats(value)["attention"] == "fp8-block128"


def test_expert_dtype_beside_the_block_gives_experts_their_own_format() -> None:
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    value = declared({**MOE, "expert_dtype": "fp4", "quantization_config": block})
    assert (formats(value)["routed_experts"], formats(value)["attention"]) == ("mxfp4", "fp8-block128")


BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def test_hf_quant_config_speaks_where_config_json_is_silent() -> None:
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}
    value = declared(MOE, beside)
    assert (formats(value)["routed_experts"], value["source"]) == ("nvfp4", "hf_quant_config.json")


def test_two_files_that_disagree_leave_it_unknown_and_are_both_named() -> None:
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}
    value = declared({**MOE, "quantization_config": BLOCK}, beside)
    assert formats(value)["routed_experts"] == "unknown"
    (row,) = [r for r in value["disagreement"] if r["component"] == "routed_experts"]
    assert row["sources"] == ["config.json/quantization_config", "hf_quant_config.json"]
    assert row["formats"] == ["fp8-block128", "nvfp4 in groups of 16"]
    (said,) = [d for d in declared_drafts(value) if d.name == "declared.disagreement"]
    assert "nvfp4 in groups of 16 in hf_quant_config.json" in said.value[1]


def test_bits_that_differ_between_config_and_quantize_config_are_a_disagreement() -> None:
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 64}
    value = declared({**MOE, "quantization_config": gptq}, quantize_config={"bits": 8, "group_size": 64})
    assert formats(value)["attention"] == "unknown"
    assert {row["component"] for row in value["disagreement"]} == {"routed_experts", "attention"}
    same = declared({**MOE, "quantization_config": gptq}, quantize_config={"bits": 4, "group_size": 64})
    assert formats(same)["attention"] == "w4a16-int4" and "disagreement" not in same


def test_no_declaration_is_the_plain_dtype_at_level_declared() -> None:
    value = declared({**MOE, "torch_dtype": "bfloat16"})
    assert value["quant_method"] == "none"
    assert set(formats(value).values()) == {"bf16", "unknown"}  # the KV cache is never said by silence


def test_a_draft_block_is_never_present_because_a_config_says_so() -> None:
    value = declared({**MOE, "num_nextn_predict_layers": 1, "torch_dtype": "bfloat16"})
    assert value["components"]["mtp"] == {"presence": "unknown", "format": "bf16"}


def test_exclusions_that_name_layers_the_model_lacks_are_reported() -> None:
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {},
        "ignore": ["layers.44.ffn.gate", "layers.3.x"],
    }
    assert declared({**MOE, "quantization_config": block})["ignore_beyond_layers"] == [44]


@pytest.mark.parametrize(
    ("pattern", "style", "module", "expected"),
    [
        ("model.layers.6", "part", "model.layers.60.mlp", False),
        ("model.layers.6", "part", "model.layers.6.mlp", True),
        ("gate", "part", "model.layers.0.mlp.gate_proj", False),
        ("*.attn.*", "glob", "layers.3.attn.wo_b", True),
        ("mtp.*", "glob", "model.layers.43.mlp", False),
        ("re:.*self_attn.*", "compressed-tensors", "model.layers.0.self_attn.o_proj", True),
        (
            "re:.*mlp\\.(gate|up|down)_proj.*",
            "compressed-tensors",
            "model.layers.0.mlp.experts.1.down_proj",
            False,
        ),
        ("re:(a+)+$", "compressed-tensors", "a" * 200 + "!", False),
        ("re:[", "compressed-tensors", "x", False),
    ],
)
def test_each_writers_patterns_mean_what_that_writer_means(
    pattern: str, style: Any, module: str, expected: bool
) -> None:
    assert covered(module, [pattern], style=style) is expected


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"nul", b"\xff\xfe", b'{"quantization_config": 7, "architectures": 3}']
)
def test_odd_bytes_are_an_unknown_or_an_empty_architecture_never_a_crash(body: bytes) -> None:
    drafts = {d.name: d for d in parse_config(Raw(state="ok", stdout=body))}
    assert drafts["config.declared"].outcome in ("unknown", "absent")
    assert all(d.reason for d in drafts.values() if d.outcome != "known")


@pytest.mark.parametrize(
    ("architecture", "tp", "width", "expected"),
    [
        ({"layers": 32, "attention_heads": 32, "kv_heads": 8, "hidden_size": 4096}, 1, 2, 131_072),
        ({"layers": 64, "attention_heads": 64, "kv_heads": 8, "hidden_size": 5120, "head_dim": 128}, 1, 2, 262_144),
        ({"layers": 61, "attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, 8, 1, 35_136),
        ({"layers": 43, "compress_ratios": [0, 0, *([4, 128] * 20), 4, 0]}, 4, 1, 3_850),
    ],
)  # fmt: skip
def test_cache_bytes_per_token_match_the_published_numbers(
    architecture: dict[str, Any], tp: int, width: int, expected: int
) -> None:
    found = kv_per_token(architecture, tp=tp, element_bytes=width)
    assert found is not None and found["bytes_per_token_per_rank"] == expected


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.sampled_from(["fp8", "NVFP4", "Linear", "re:(", "int", "*"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["quantization_config", "config_groups", "weights", "targets", "quant_method", "ignore", "num_bits", "bits",
             "group_size", "text_config", "quantized_layers", "num_hidden_layers", "n_routed_experts", "layer_types",
             "kv_cache_scheme", "quant_algo", "input_activations", "compress_ratios", "quantization", "exclude_modules"]
        ),
        inner,
        max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["quantization_config", "text_config", "num_hidden_layers", "quantization"]), _ODD), _ODD)  # fmt: skip
def test_any_json_in_the_known_keys_is_read_without_a_crash(config: dict[str, Any], beside: object) -> None:
    value = declared(config, {"quantization": beside})
    assert isinstance(value["components"], dict)


def test_half_a_character_is_no_reason_to_lose_a_config() -> None:
    data = b'{"architectures": ["\\ud800Model"], "num_hidden_layers": 3}'
    drafts = parse_config(Raw(state="ok", stdout=data))
    value = next(d.value for d in drafts if d.name == "architecture")
    assert json.loads(canonical_json(value))["architectures"] == ["?Model"]
