"""Every published quantization method in a config -> formats per component, and the keys beside a block."""

from __future__ import annotations

from typing import Any

import pytest

from recon.tasks.facts.config import architecture
from recon.tasks.facts.declared import declare

DENSE = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 512,
    "num_attention_heads": 4,
    "torch_dtype": "bfloat16",
}
MOE = {**DENSE, "num_experts": 8, "num_experts_per_tok": 2, "model_type": "qwen3_moe"}
INT4 = {"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"}
FP8_ACTS = {"num_bits": 8, "type": "float", "dynamic": True}


def said(config: dict[str, Any], *, plain: str = "bf16", **files: Any) -> dict[str, Any]:
    """The components that config.json and other files (by name without .json) declare."""
    value = declare(
        {"config.json": config, **{f"{n}.json": f for n, f in files.items()}},
        architecture(config),
        plain=plain,
    )
    assert value is not None
    return dict(value["components"])


def ct(weights: dict[str, Any], acts: Any = None, **more: Any) -> dict[str, Any]:
    """A compressed-tensors block with one group of all linear layers."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": acts}
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": group},
        "ignore": ["lm_head"],
        **more,
    }


def float_(bits: int, strategy: str, group: int | None = None) -> dict[str, Any]:
    return {"num_bits": bits, "type": "float", "strategy": strategy, "group_size": group}


def quark(weight: Any, acts: Any = None) -> dict[str, Any]:
    return {
        "quant_method": "quark",
        "global_quant_config": {"weight": weight, "input_tensors": acts},
        "exclude": ["lm_head"],
    }


# name -> (quantization_config, format of attention, group size)
METHODS: dict[str, tuple[dict[str, Any], str, int | None]] = {
    "ct W4A16": (ct(INT4), "w4a16-int4", 128),
    "ct W8A16": (ct({**INT4, "num_bits": 8}), "w8a16-int8", 128),
    "ct W8A8": (ct({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8, "type": "int"}), "w8a8-int8", None),
    "ct W4AFP8": (ct(INT4, FP8_ACTS), "w4afp8", 128),
    "ct W4A8 integer has no word": (ct(INT4, {"num_bits": 8, "type": "int"}), "unknown", None),
    "ct FP8 tensor": (ct(float_(8, "tensor"), FP8_ACTS), "fp8-tensor", None),
    "ct FP8 dynamic": (ct(float_(8, "channel"), FP8_ACTS), "fp8-channel", None),
    "ct FP8 block": (ct({**float_(8, "block"), "block_structure": [128, 128]}, FP8_ACTS), "fp8-block128", None),
    "ct FP8 in other blocks": (ct({**float_(8, "block"), "block_structure": [64, 64]}), "unknown", None),
    "ct MXFP8": (ct(float_(8, "group", 32), FP8_ACTS), "mxfp8", 32),
    "ct NVFP4": (ct(float_(4, "tensor_group", 16), {"num_bits": 4, "type": "float"}), "nvfp4", 16),
    "ct NVFP4A16": (ct(float_(4, "tensor_group", 16)), "nvfp4-w4a16", 16),
    "ct MXFP4": (ct(float_(4, "group", 32)), "mxfp4", 32),
    "ct without its method": ({k: v for k, v in ct(INT4).items() if k != "quant_method"}, "w4a16-int4", 128),
    "modelopt FP8": ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8-tensor", None),
    "modelopt without its method": ({"quant_algo": "NVFP4", "producer": {"name": "modelopt"}}, "nvfp4", 16),
    "modelopt per channel": ({"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, "fp8-channel", None),
    "modelopt blocks": ({"quant_algo": "fp8_pb_wo"}, "fp8-block128", 128),
    "modelopt W4A16_NVFP4": ({"quant_algo": "W4A16_NVFP4"}, "nvfp4-w4a16", 16),
    "modelopt NVFP4_AWQ": ({"quant_algo": "NVFP4_AWQ"}, "nvfp4", 16),
    "modelopt NVFP4_SVD": ({"quant_algo": "NVFP4_SVD"}, "nvfp4", 16),
    "modelopt W4A8_NVFP4_FP8": ({"quant_algo": "W4A8_NVFP4_FP8"}, "nvfp4", 16),
    "modelopt W4A8_MXFP4_FP8": ({"quant_algo": "W4A8_MXFP4_FP8"}, "mxfp4", 32),
    "modelopt MXFP8": ({"quant_algo": "MXFP8"}, "mxfp8", 32),
    "modelopt W4A16_AWQ": ({"quant_algo": "W4A16_AWQ"}, "w4a16-int4", 128),
    "modelopt W4A8_AWQ": ({"quant_algo": "W4A8_AWQ"}, "w4afp8", 128),
    "modelopt W8A16": ({"quant_algo": "W8A16"}, "w8a16-int8", None),
    "modelopt SmoothQuant": ({"quant_algo": "W8A8_SQ_PER_CHANNEL"}, "w8a8-int8", None),
    "fp8 block": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block128", None),
    "fp8 tensor": ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8-tensor", None),
    "fp8 in blocks without a word": ({"quant_method": "fp8", "weight_block_size": [32, 32]}, "unknown", None),
    "mxfp8": ({"quant_method": "mxfp8", "weight_block_size": [1, 32]}, "mxfp8", 32),
    "fbgemm": ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, "fp8-channel", None),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, "w4a16-int4", 128),
    "llm-awq keys": ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, "w4a16-int4", 64),
    "gptq 3 bit": ({"quant_method": "gptq", "bits": 3, "group_size": -1}, "w3a16-int3", None),
    "gptq 8 bit": ({"quant_method": "gptq", "bits": 8, "group_size": 32}, "w8a16-int8", 32),
    "gptq 2 bit has no word": ({"quant_method": "gptq", "bits": 2, "group_size": 64}, "unknown", None),
    "gptq under vLLM's name": ({"quant_method": "gptq_marlin", "bits": 4, "group_size": 64}, "w4a16-int4", 64),
    "auto-round": ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_gptq"}, "w4a16-int4", 128),
    "auto-round, the older name": ({"quant_method": "intel/auto-round", "bits": 4, "group_size": 64}, "w4a16-int4", 64),
    "auto-round MXFP4": ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp", "packing_format": "auto_round:llm_compressor"}, "mxfp4", 32),
    "auto-round NVFP4": ({"quant_method": "auto-round", "bits": 4, "data_type": "nv_fp", "act_bits": 4}, "nvfp4", 16),
    "bnb nf4": ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "nf4", None),
    "bnb by its private key": ({"_load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "nf4", None),
    "bnb fp4 has no word": ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, "unknown", None),
    "bnb int8": ({"quant_method": "bitsandbytes", "_load_in_8bit": True}, "w8a8-int8", None),
    "quark MXFP4": (quark({"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}), "mxfp4", 32),
    "quark FP8": (quark({"dtype": "fp8_e4m3", "qscheme": "per_tensor"}, {"dtype": "fp8_e4m3"}), "fp8-tensor", None),
    "quark PTPC": (quark({"dtype": "fp8_e4m3", "qscheme": "per_channel"}, {"dtype": "fp8_e4m3"}), "fp8-channel", None),
    "quark INT8": (quark({"dtype": "int8", "qscheme": "per_channel"}, {"dtype": "int8"}), "w8a8-int8", None),
    "quark INT4-FP8": (quark([{"dtype": "fp8_e4m3"}, {"dtype": "int4"}], {"dtype": "fp8_e4m3"}), "w4afp8", None),
    "mlx": ({"group_size": 64, "bits": 4, "mode": "affine"}, "mlx", None),
    "block INT8": ({"quant_method": "blockwise_int8", "weight_block_size": [128, 128]}, "int8-block128", 128),
    "a method nobody knows": ({"quant_method": "hqq", "bits": 4}, "unknown", None),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_published_method_has_its_format(name: str) -> None:
    block, fmt, group = METHODS[name]
    found = said({**DENSE, "quantization_config": block})["attention"]
    assert (found["format"], found.get("group_size")) == (fmt, group)


@pytest.mark.parametrize("key", ["quantization_config", "compression_config"])
def test_the_block_is_found_under_both_names_and_in_a_text_config(key: str) -> None:
    assert said({**DENSE, key: ct(INT4)})["attention"]["format"] == "w4a16-int4"
    nested = {"model_type": "x", "vision_config": {}, "text_config": {**DENSE, key: ct(INT4)}}
    found = said(nested)
    assert found["attention"]["format"] == "w4a16-int4"
    assert found["vision"]["format"] == "bf16"  # the block stands in the language model's config


@pytest.mark.parametrize(
    ("side", "method", "experts"),
    [
        ({"expert_dtype": "fp4"}, "fp8", "mxfp4"),
        ({"store_dtype": "mxfp4"}, "fp8", "mxfp4"),
        ({"moe_quant_algo": "NVFP4"}, "fp8", "nvfp4"),
        ({"moe_quant_algo": "NVFP4", "expert_dtype": "fp4"}, "fp8", "nvfp4"),
        ({"routed_experts_quant_method": "mxfp4"}, "fp8", "mxfp4"),
        ({"expert_dtype": "fp8"}, "fp8", "fp8-block128"),
        ({"expert_dtype": "fp4"}, "compressed-tensors", "w4a16-int4"),  # a key of the base, kept by an export
    ],
)
def test_keys_beside_the_block_speak_of_the_experts(side: dict[str, Any], method: str, experts: str) -> None:
    block = ct(INT4) if method != "fp8" else {"quant_method": "fp8", "weight_block_size": [128, 128]}
    for config in ({**MOE, **side}, {"model_type": "x", "text_config": {**MOE, **side}}):
        assert said({**config, "quantization_config": block})["routed_experts"]["format"] == experts


def test_gpt_oss_mxfp4_speaks_of_its_experts_alone() -> None:
    found = said({**MOE, "quantization_config": {"quant_method": "mxfp4"}})
    assert (found["routed_experts"]["format"], found["attention"]["format"]) == ("mxfp4", "bf16")


def test_w4afp8_experts_are_told_and_the_rest_is_left_open() -> None:
    found = said({**MOE, "quantization_config": {"quant_method": "w4afp8"}})
    assert (found["routed_experts"]["format"], found["attention"]["format"]) == ("w4afp8", "unknown")


def test_a_layer_by_layer_list_leaves_out_what_it_does_not_name() -> None:
    layers = {
        f"model.layers.{n}.mlp.{leaf}": {"quant_algo": "NVFP4"}
        for n in range(4)
        for leaf in ("gate_proj", "up_proj", "down_proj")
    }
    block = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    found = said({**DENSE, "quantization_config": block})
    assert (found["dense_mlp"]["format"], found["attention"]["format"]) == ("nvfp4", "bf16")


def test_leaves_of_one_component_in_two_formats_are_both_named() -> None:
    kept = [f"model.layers.{n}.self_attn.{leaf}" for n in range(4) for leaf in ("q_proj", "k_proj", "v_proj")]
    found = said({**DENSE, "quantization_config": {"quant_algo": "NVFP4", "exclude_modules": kept}})[
        "attention"
    ]
    assert found["format"] == "unknown"
    assert found["mixed"] == [{"format": "bf16", "modules": 12}, {"format": "nvfp4", "modules": 4}]


def test_a_first_and_a_last_layer_left_out_do_not_change_the_word() -> None:
    config = {
        **DENSE,
        "num_hidden_layers": 40,
        "quantization_config": {"quant_algo": "NVFP4", "ignore": ["model.layers.0.*", "model.layers.39.*"]},
    }
    assert said(config)["attention"]["format"] == "nvfp4"


def test_layers_of_a_hybrid_are_asked_by_their_own_kind() -> None:
    """Every attention layer is left out; a state-space layer is not."""
    kept = [
        f"backbone.layers.{n}.mixer.{leaf}"
        for n in (2, 5)
        for leaf in ("q_proj", "k_proj", "v_proj", "o_proj")
    ]
    config = {
        "model_type": "nemotron_h",
        "num_hidden_layers": 6,
        "hybrid_override_pattern": "ME*ME*",
        "n_routed_experts": 8,
        "torch_dtype": "bfloat16",
    }
    found = said(
        config,
        hf_quant_config={
            "producer": {"name": "modelopt"},
            "quantization": {"quant_algo": "NVFP4", "exclude_modules": kept},
        },
    )
    assert {n: found[n]["format"] for n in ("attention", "linear_attention", "routed_experts")} == {
        "attention": "bf16", "linear_attention": "nvfp4", "routed_experts": "nvfp4",
    }  # fmt: skip


def test_a_shortened_hf_quant_config_speaks_of_the_experts_alone() -> None:
    found = said(MOE, hf_quant_config={"quantization": {"quant_algo": "NVFP4"}})
    assert (found["routed_experts"]["format"], found["attention"]["format"]) == ("nvfp4", "unknown")


def test_gptqmodel_rules_give_modules_bits_of_their_own() -> None:
    dynamic = {"-:.*self_attn.*": {}, "+:.*down_proj": {"bits": 8, "group_size": 64}}
    block = {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": dynamic}
    found = said({**DENSE, "torch_dtype": "float16", "quantization_config": block}, plain="fp16")
    assert found["attention"]["format"] == "fp16"
    assert {row["format"] for row in found["dense_mlp"]["mixed"]} == {"w4a16-int4", "w8a16-int8"}


def test_auto_round_layers_with_sixteen_bits_are_plain() -> None:
    extra = {
        f"model.layers.{n}.self_attn.{leaf}": {"bits": 16}
        for n in range(4)
        for leaf in ("q_proj", "k_proj", "v_proj", "o_proj")
    }
    block = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": extra}
    found = said({**DENSE, "quantization_config": block}, plain="fp16")
    assert (found["attention"]["format"], found["dense_mlp"]["format"]) == ("fp16", "w4a16-int4")


def test_a_quark_layer_rule_comes_before_the_global_one() -> None:
    block = quark({"dtype": "fp4", "qscheme": "per_group", "group_size": 32})
    block["layer_quant_config"] = {"*self_attn*": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}}
    found = said({**DENSE, "quantization_config": block})
    assert (found["attention"]["format"], found["dense_mlp"]["format"], found["lm_head"]["format"]) == (
        "fp8-tensor",
        "mxfp4",
        "bf16",
    )


def test_modelslim_says_it_tensor_by_tensor() -> None:
    file = {
        "model_quant_type": "W8A8_DYNAMIC",
        "model.embed_tokens.weight": "FLOAT",
        "lm_head.weight": "FLOAT",
    }
    for n in range(4):
        file |= {
            f"model.layers.{n}.self_attn.{leaf}.weight": "W8A8_DYNAMIC"
            for leaf in ("q_proj", "k_proj", "v_proj", "o_proj")
        }
        file |= {
            f"model.layers.{n}.mlp.{leaf}.weight": "FLOAT" for leaf in ("gate_proj", "up_proj", "down_proj")
        }
    found = said(DENSE, quant_model_description=file)
    assert {n: found[n]["format"] for n in ("attention", "dense_mlp", "lm_head")} == {
        "attention": "w8a8-int8", "dense_mlp": "bf16", "lm_head": "bf16",
    }  # fmt: skip


def test_mistrals_own_file_declares_where_config_json_is_silent() -> None:
    found = said(
        DENSE, params={"dim": 512, "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}}
    )
    assert found["attention"]["format"] == "fp8-tensor"


def test_what_a_pattern_that_cannot_be_read_may_leave_out_is_not_known() -> None:
    block = ct(INT4, ignore=["re:^(?!.*experts).*"])
    assert said({**MOE, "quantization_config": block})["attention"]["format"] == "unknown"


def test_a_gptq_of_a_bfloat16_model_does_not_say_what_it_left_out() -> None:
    block = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    assert said({**DENSE, "quantization_config": block}, plain="bf16")["lm_head"]["format"] == "unknown"
    assert said({**DENSE, "quantization_config": block}, plain="fp16")["lm_head"]["format"] == "fp16"


def test_a_draft_block_is_absent_only_where_a_whole_config_names_none() -> None:
    assert said(DENSE)["mtp"] == {"presence": "absent"}
    assert said({**DENSE, "num_nextn_predict_layers": 1})["mtp"]["presence"] == "unknown"
    assert "mtp" not in said({"quantization_config": ct(INT4)})
