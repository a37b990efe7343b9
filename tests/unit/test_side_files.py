"""Files beside config.json, read where the commit lists them: adapters, ModelSlim, formats of somebody's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.corpus_hub import read_made

from recon.agent.api import Raw
from recon.tasks.facts.side_files import HF_QUANT, LISTED, QUANTIZE

DENSE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
         "torch_dtype": "bfloat16"}  # fmt: skip


def value(path: str, content: Any) -> Any:
    fact = {"hf_quant_config.json": HF_QUANT, "quantize_config.json": QUANTIZE, **LISTED}[path]
    (draft,) = fact.parse(Raw(state="ok", stdout=json.dumps(content).encode()))
    return draft.value


def test_an_adapter_names_its_base_and_is_no_checkpoint() -> None:
    file = {
        "peft_type": "LORA",
        "base_model_name_or_path": "org/base",
        "r": 16,
        "target_modules": ["q_proj", "v_proj"],
        "loftq_config": {},
    }
    view, lines = read_made({"adapter_config.json": file}, sizes={"adapter_model.safetensors": 9})
    found = view.read("checkpoint.adapter")
    assert (found.level, found.value["base_model"], found.value["r"]) == ("declared", "org/base", 16)
    assert view.read("checkpoint.declared").state == "missing"
    assert "over org/base" in lines["checkpoint.servable"].title


def test_a_format_of_ones_own_keeps_its_scalars() -> None:
    found = value(
        "quant_metadata.json",
        {"format": "int4_v1", "tp_world_size": 4, "layers": {"a": 1}, "x\u001b[31m": "y\nz"},
    )
    assert (found["format"], found["tp_world_size"]) == ("int4_v1", 4)
    assert "layers" not in found and all(k.isprintable() and str(v).isprintable() for k, v in found.items())


def test_hf_quant_config_keeps_what_judges_read() -> None:
    file = {
        "producer": {"name": "modelopt"},
        "quantization": {
            "quant_algo": "NVFP4",
            "group_size": 16,
            "kv_cache_quant_algo": "FP8",
            "exclude_modules": ["lm_head"],
        },
    }
    found = value("hf_quant_config.json", file)
    assert (
        found["quant_algo"],
        found["group_size"],
        found["kv_cache_quant_algo"],
        found["ignore_count"],
    ) == ("NVFP4", 16, "FP8", 1)
    assert (found["default_format"], found["exclude_modules"]) == ("nvfp4", ["lm_head"])


def test_quantize_config_is_gptq_or_awq() -> None:
    assert value("quantize_config.json", {"bits": 4, "group_size": 64})["quant_method"] == "gptq"
    assert (
        value("quant_config.json", {"w_bit": 4, "q_group_size": 128, "zero_point": True})["quant_method"]
        == "awq"
    )
    assert value("quantize_config.json", {"bits": "four"}) is None


def test_modelslim_counts_modules_by_format() -> None:
    file = {
        "model_quant_type": "W8A8",
        "a.weight": "W8A8",
        "b.weight": "FLOAT",
        "b.bias": "FLOAT",
        "c.weight": "W4A8_DYNAMIC",
    }
    assert value("quant_model_description.json", file)["by_module"] == {
        "plain": 1,
        "unknown": 1,
        "w8a8-int8": 1,
    }


def test_only_files_that_the_commit_lists_are_asked() -> None:
    _, with_one = read_made(
        {"config.json": DENSE, "params.json": {"dim": 256, "n_layers": 2}}, sizes={"model.safetensors": 9}
    )
    assert with_one
    view, _ = read_made({"config.json": DENSE}, sizes={"model.safetensors": 9})
    asked = {name for name in view.findings(view.resolve(view.subject("checkpoint")))}
    assert not {"params.declared", "adapter", "quant_metadata.declared", "modelslim.declared"} & asked


@pytest.mark.parametrize("path", ["hf_quant_config.json", "quantize_config.json", *LISTED])
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"nul", b"\xff", b"1e999", b'{"a": NaN}', b"[" * 100_000]
)
def test_bytes_that_say_nothing_are_unknown_with_a_reason(path: str, body: bytes) -> None:
    fact = {"hf_quant_config.json": HF_QUANT, "quantize_config.json": QUANTIZE, **LISTED}[path]
    (draft,) = fact.parse(Raw(state="ok", stdout=body))
    assert (draft.outcome == "unknown" and draft.reason) or draft.value == {"a": None}
    (gone,) = fact.parse(Raw(state="missing"))
    assert gone.outcome == "absent"
