"""The twelve traps in which a checkpoint is taken for what it is not, each on a repository that is read to its end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.corpus_hub import read_made, read_recorded

from recon.agent.api import Wish

BASE = {
    "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "hidden_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 256, "torch_dtype": "bfloat16",
}  # fmt: skip
DENSE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 512, "torch_dtype": "bfloat16"}  # fmt: skip
SHARD = "model-00001-of-00001.safetensors"
INDEX = "model.safetensors.index.json"
Tensors = dict[str, tuple[str, list[int]]]

NVFP4: Tensors = {
    "weight": ("U8", [256, 128]),
    "weight_scale": ("F8_E4M3", [256, 16]),
    "weight_scale_2": ("F32", []),
    "input_scale": ("F32", []),
}
NVFP4_ONLY: Tensors = {name: value for name, value in NVFP4.items() if name != "input_scale"}
MXFP4: Tensors = {"weight": ("I8", [256, 128]), "scale": ("F8_E8M0", [256, 8])}
BLOCK: Tensors = {"weight": ("F8_E4M3", [256, 256]), "weight_scale_inv": ("F32", [2, 2])}
PLAIN: Tensors = {"weight": ("BF16", [256, 256])}
CT_INT4: Tensors = {
    "weight_packed": ("I32", [256, 32]),
    "weight_scale": ("BF16", [256, 2]),
    "weight_shape": ("I64", [2]),
}


def module(name: str, tensors: Tensors) -> Tensors:
    """The tensors of one module."""
    return {f"{name}.{suffix}": value for suffix, value in tensors.items()}


def moe(experts: Tensors, attention: Tensors = PLAIN, mtp: Tensors | None = None) -> Tensors:
    """A mixture of experts, its draft block where there is one."""
    found = {
        **module("layers.0.ffn.experts.0.w1", experts),
        **module("layers.0.attn.wo_b", attention),
        **module("head", PLAIN),
        **module("embed", PLAIN),
    }
    return {**found, **(module("mtp.0.ffn.experts.0.w1", mtp) if mtp else {})}


def dense(mlp: Tensors, attention: Tensors = PLAIN) -> Tensors:
    """A dense model."""
    return {
        **module("model.layers.0.mlp.down_proj", mlp), **module("model.layers.0.self_attn.o_proj", attention),
        **module("lm_head", PLAIN), **module("model.embed_tokens", PLAIN),
    }  # fmt: skip


def config(base: dict[str, Any], quantization: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A config.json."""
    return {
        "config.json": {**base, **more, **({"quantization_config": quantization} if quantization else {})}
    }


def test_1_the_users_word_against_the_repository() -> None:
    _, lines = read_recorded(
        "canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP", wanted_format=Wish(value="nvfp4")
    )
    held = lines["checkpoint.format"]
    assert (held.verdict, held.title) == ("conflict", "wanted NVFP4; routed experts INT4 W4A16 g128")
    named = {o.effects.intent.get("model") for o in held.options} - {None}
    assert {"nvidia/DeepSeek-V4-Flash-NVFP4", "RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8"} < named
    assert "kernels would be of no use" in held.consequence


def test_2_w4a16_that_is_nvfp4() -> None:
    quantization = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "model.layers.0.mlp.down_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16}, "model.layers.0.self_attn.o_proj": {"quant_algo": "FP8"},
    }}  # fmt: skip
    fp8 = {"weight": ("F8_E4M3", [256, 256]), "weight_scale": ("F32", []), "input_scale": ("F32", [])}
    view, lines = read_made(
        config(DENSE, quantization), headers={SHARD: dense(NVFP4_ONLY, fp8)}, repo="org/Qwen-W4A16"
    )
    assert view.value("checkpoint.dense_mlp.format") == "nvfp4-w4a16"
    assert "not INT4" in lines["checkpoint.w4a16"].title
    name = lines["checkpoint.name"]
    assert (name.verdict, name.title) == (
        "conflict",
        "W4A16 in the name, but MLP layers NVFP4 weight-only, attention FP8 per tensor",
    )
    assert {side.side for side in name.sides} == {"observed", "expected"}


def test_3_declared_fp8_with_fp4_experts() -> None:
    quantization = {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}
    native = {"weight": ("F8_E4M3", [256, 256]), "scale": ("F8_E8M0", [2, 2])}
    view, lines = read_made(
        config(BASE, quantization, expert_dtype="fp4"), headers={SHARD: moe(MXFP4, native)}
    )
    assert view.value("checkpoint.routed_experts.format") == "mxfp4"
    held = lines["checkpoint.declared.method"]
    assert (held.verdict, held.title) == ("warn", "quant_method is fp8, the routed experts are MXFP4")
    assert "expert_dtype fp4" in held.detail[0]
    assert "checkpoint.declared.routed_experts" not in lines


def test_4_a_draft_block_in_a_format_of_its_own() -> None:
    _, lines = read_recorded("nvidia/DeepSeek-V4-Flash-NVFP4")
    held = lines["checkpoint.mtp"]
    assert (held.verdict, held.title) == ("warn", "MTP present: 1,575 tensors, MXFP4; routed experts NVFP4")
    assert "acceptance rate" in held.consequence and "renames" in held.detail[0]
    assert lines["checkpoint.name"].detail == (
        "shared experts, attention, indexer FP8 128x128, which the name does not say",
        "MTP MXFP4, which the name does not say",
    )


def test_5_a_size_without_a_unit_one_can_trust() -> None:
    _, lines = read_recorded("canada-quant/DeepSeek-V4-Flash-NVFP4-FP8-MTP")
    held = lines["checkpoint.size_claims"]
    assert (held.verdict, held.title) == ("warn", "181.3 GB (168.8 GiB) of tensors; the card says 172 GB")


@pytest.mark.parametrize("indexed", [True, False], ids=["dropped", "not in the index"])
def test_6_mtp_that_is_promised_and_not_loaded(indexed: bool) -> None:
    headers = {SHARD: moe(CT_INT4)}
    files: dict[str, Any] = config(BASE, num_nextn_predict_layers=1)
    if not indexed:
        headers["mtp.safetensors"] = module("mtp.0.ffn.experts.0.w1", PLAIN)
        files[INDEX] = {"weight_map": dict.fromkeys(moe(CT_INT4), SHARD)}
    view, lines = read_made(files, headers=headers)
    held = lines["checkpoint.mtp"]
    assert held.verdict == "conflict" and held.options[0].effects.waive
    assert view.value("checkpoint.mtp.presence") == "absent"
    title = "config.json promises 1 MTP layer, no tensor is there"
    assert held.title == (
        title if indexed else "mtp.safetensors holds MTP layers, the index does not name it: not loaded"
    )


def test_7_two_copies_are_counted_once_and_the_ones_that_count_are_named() -> None:
    shards = {
        f"model-0000{n}-of-00010.safetensors" if n < 10 else "model-00010-of-00010.safetensors": 4_714_000_000
        for n in range(1, 11)
    }
    files = {**config(DENSE), INDEX: {"weight_map": {str(n): path for n, path in enumerate(shards)}}}
    beside = {
        "consolidated.safetensors": 47_140_000_000,
        "original/consolidated.00.pth": 47_140_000_000,
        "metal/model.bin": 9,
    }
    view, lines = read_made(files, sizes={**shards, **beside})
    held = lines["checkpoint.layout"]
    assert held.verdict == "warn"
    assert held.title == "consolidated.safetensors (47.1 GB) beside the ten files that count, and 2 more"
    assert held.observed["loaded_bytes"] == 47_140_000_000
    assert view.value("checkpoint.download_bytes") < 48e9 < view.value("checkpoint.repo_bytes")
    assert any("--load-format mistral" in text for text in held.detail)


def test_7_a_stray_single_file_does_not_hide_the_shards() -> None:
    headers = {SHARD: moe(PLAIN), "model.safetensors": moe(CT_INT4)}
    files = {**config(BASE), INDEX: {"weight_map": dict.fromkeys(moe(PLAIN), SHARD)}}
    view, lines = read_made(files, headers=headers)
    assert view.value("checkpoint.routed_experts.format") == "bf16"
    assert "model.safetensors" in lines["checkpoint.layout"].title
    assert any(f"{INDEX} does not name it" in text for text in lines["checkpoint.layout"].detail)


@pytest.mark.parametrize("beside", [True, False], ids=["said in hf_quant_config.json", "said nowhere"])
def test_8_a_silent_config_is_not_bf16(beside: bool) -> None:
    files = config(DENSE)
    if beside:
        files["hf_quant_config.json"] = {
            "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}
        }
    _, lines = read_made(files, repo="org/Llama-FP8", sizes={SHARD: 9})
    held = lines["checkpoint.format"]
    if beside:
        assert (held.verdict, held.title) == ("warn", "MLP layers FP8 per tensor (declared only)")
    else:
        assert (held.verdict, held.title) == (
            "unknown",
            "no file declares a quantization, name or tags say FP8",
        )
        assert lines["checkpoint.declared.silent"].verdict == "unknown"


def test_8_a_stripped_config_is_told_by_the_tensors() -> None:
    _, lines = read_made(config(DENSE), headers={SHARD: dense(BLOCK)}, repo="org/Llama-FP8")
    held = lines["checkpoint.declared.silent"]
    assert (held.verdict, held.title) == (
        "conflict",
        "no file declares a quantization; MLP layers FP8 128x128",
    )


def test_9_the_algorithm_in_a_name_is_not_the_container() -> None:
    group = {
        "format": "pack-quantized",
        "targets": ["Linear"],
        "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128},
    }
    quantization = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }
    _, lines = read_made(
        config(DENSE, quantization), headers={SHARD: dense(CT_INT4, CT_INT4)}, repo="org/Qwen3.8-27B-AWQ"
    )
    held = lines["checkpoint.name"]
    assert held.verdict == "warn"
    assert held.detail == (
        "AWQ names the algorithm, the files are compressed-tensors: --quantization awq fails",
    )


def test_10_entries_that_match_nothing_are_told() -> None:
    view, lines = read_recorded("canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP")
    assert view.value("checkpoint.declared.ignore_beyond_layers")[-1] == 60
    assert (
        lines["checkpoint.claims"].title
        == "name, files and tensors agree; exclusions name layers 44-60 of 43"
    )


LORA = {"base_model_name_or_path": "org/base", "peft_type": "LORA"}
NOT_SERVABLE: dict[str, tuple[dict[str, Any], dict[str, int], str]] = {
    "only GGUF": ({}, {"model-Q4_K.gguf": 9, "model-Q2_K.gguf": 9}, "only GGUF"),
    "an adapter": ({"adapter_config.json": LORA, "README.md": "---\nbase_model: org/base\n---\n"}, {"adapter_model.safetensors": 9}, "an adapter alone over org/base"),
    "a tokenizer alone": ({"tokenizer.json": {}}, {}, "no weight file at this commit (no config.json either)"),
    "a config and a tokenizer": (config(DENSE), {"tokenizer.json": 9}, "no weight file at this commit (config and tokenizer alone)"),
    "MLX": (config(DENSE, {"group_size": 64, "bits": 4, "mode": "affine"}), {"model.safetensors": 9}, "MLX packing"),
    "cut for four ranks": (config(DENSE), {f"model_tp{n}.safetensors": 9 for n in range(4)}, "cut into 4 ranks"),
    "a loader of its own": (
        {**config(DENSE), "quant_metadata.json": {"format": "int4_standalone_v1", "tp_world_size": 4}}, {"rank0.safetensors": 9}, "a loader of its own",
    ),
    "fbgemm": (config(DENSE, {"quant_method": "fbgemm_fp8"}), {"model.safetensors": 9}, "no loader named fbgemm_fp8"),
    "three bits": (config(DENSE, {"quant_method": "gptq", "bits": 3, "group_size": 128}), {"model.safetensors": 9}, "3-bit gptq"),
    "a method nobody knows": (config(DENSE, {"quant_method": "vptq"}), {"model.safetensors": 9}, "quant_method vptq"),
    "a missing shard": (config(DENSE), {"model-00001-of-00002.safetensors": 9}, "1 weight file(s) missing"),
    "no config": ({}, {"model.safetensors": 9}, "no config.json"),
    "only in a subfolder": (config(DENSE), {"fp8/model.safetensors": 9}, "safetensors only in fp8/"),
    "only a .pth": (config(DENSE), {"weights.pth": 9}, "weights only as pth"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_SERVABLE)
def test_11_what_cannot_be_served_alone_says_why(name: str) -> None:
    files, sizes, words = NOT_SERVABLE[name]
    _, lines = read_made(files, sizes=sizes)
    held = lines["checkpoint.servable"]
    assert (held.verdict, held.about, held.observed["answer"]) == ("block", "checkpoint.format", "no"), held
    assert words in " ".join(held.observed["reasons"])
    assert "stop" in {o.id for o in held.options}


def test_11_an_adapter_over_somebodys_disk_says_so() -> None:
    adapter = {**LORA, "base_model_name_or_path": "/home/me/base"}
    files = {"adapter_config.json": adapter, "README.md": "---\nbase_model: /home/me/base\n---\n"}
    _, lines = read_made(files, sizes={"adapter_model.safetensors": 9})
    assert "a path on its author's machine (/home/me/base)" in " ".join(lines["checkpoint.servable"].detail)
    assert [o.id for o in lines["checkpoint.servable"].options] == ["stop"]


@pytest.mark.parametrize(
    ("architecture", "verdict"), [("LlamaForCausalLM", "pass"), ("NobodysForCausalLM", "warn")]
)
def test_11_custom_code_matters_where_the_engine_has_no_class_of_its_own(
    architecture: str, verdict: str
) -> None:
    files = config({**DENSE, "architectures": [architecture]}, auto_map={"AutoModel": "modeling_x.X"})
    _, lines = read_made(files, headers={"model.safetensors": dense(PLAIN)})
    held = lines["checkpoint.servable"]
    assert (held.verdict, held.observed["answer"]) == (verdict, "yes")
    assert any("auto_map" in reason for reason in held.observed["reasons"])


def test_11_a_format_without_kernels_on_this_gpu() -> None:
    files = config(DENSE, {"quant_method": "fp8", "weight_block_size": [128, 128]})
    gpus = {"gpus": {"count": 8, "sm": "sm_80", "memory_total_mib": 81_920}}
    _, lines = read_made(files, headers={"model.safetensors": dense(BLOCK)}, host=gpus)
    assert (
        lines["checkpoint.servable"].title
        == "not servable as it is: MLP layers FP8 128x128 on sm_80: no FP8 tensor cores..."
    )


def test_12_two_files_of_one_commit_that_disagree() -> None:
    files = config(DENSE, {"quant_method": "gptq", "bits": 4, "group_size": 64})
    files["quantize_config.json"] = {"bits": 8, "group_size": 64}
    _, lines = read_made(files, sizes={"model.safetensors": 9})
    held = lines["checkpoint.declared.disagreement"]
    assert (held.verdict, held.detail) == ("conflict", ("bits 4 in config.json, 8 in quantize_config.json",))
    assert len(held.sides) == 2


@pytest.mark.parametrize(
    ("method", "suffix", "warned"),
    [
        ("fp8", "weight_scale", True),
        ("fp8", "weight_scale_inv", False),
        ("compressed-tensors", "weight_scale_inv", True),
    ],
)
def test_12_scales_under_the_other_loaders_name(method: str, suffix: str, warned: bool) -> None:
    files = config(DENSE, {"quant_method": method, "weight_block_size": [128, 128]})
    block = {"weight": ("F8_E4M3", [256, 256]), suffix: ("F32", [2, 2])}
    _, lines = read_made(files, headers={"model.safetensors": dense(block, block)})
    assert ("checkpoint.scales" in lines) is warned


def test_torch_dtype_is_said_to_say_nothing() -> None:
    files = config(DENSE, {"quant_method": "fp8", "weight_block_size": [128, 128]})
    _, lines = read_made(files, headers={"model.safetensors": {**dense(BLOCK, BLOCK)}})
    assert "torch_dtype BF16 is what it computes in, not what is stored" in lines["checkpoint.claims"].detail


def test_a_declared_fp8_cache_without_scales_is_told() -> None:
    files = config(DENSE)
    files["hf_quant_config.json"] = {
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    }
    fp8 = {"weight": ("F8_E4M3", [256, 256]), "weight_scale": ("F32", []), "input_scale": ("F32", [])}
    _, lines = read_made(files, headers={"model.safetensors": dense(fp8, fp8)})
    held = lines["checkpoint.kv_cache"]
    assert held.verdict == "warn" and "no k_scale or v_scale" in held.detail[0]


def test_a_plain_whole_repository_is_servable_and_agrees_with_itself() -> None:
    _, lines = read_made(config(DENSE), headers={"model.safetensors": dense(PLAIN)})
    assert {key: lines[key].verdict for key in ("checkpoint.servable", "checkpoint.claims")} == {
        "checkpoint.servable": "pass",
        "checkpoint.claims": "pass",
    }
    assert lines["checkpoint.servable"].title == "complete and servable: one weight file, not quantized"
    assert json.dumps(lines["checkpoint.servable"].observed)
