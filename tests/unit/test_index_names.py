"""Tensor names without dtypes: which components are there, which formats fit, and what that does to a declaration."""

from __future__ import annotations

from typing import Any

import pytest
from support.corpus_hub import read_made

from recon.tasks.facts.index_names import family, index_names, modules_of, stored

DENSE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
         "torch_dtype": "float16"}  # fmt: skip
INDEX = "model.safetensors.index.json"
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}


@pytest.mark.parametrize(
    ("suffixes", "one"),
    [
        ({"qweight", "qzeros", "scales"}, "w4a16-int4"), ({"weight_packed", "weight_scale", "weight_global_scale"}, "nvfp4"),
        ({"weight_packed", "weight_scale"}, "mxfp4"), ({"blocks", "scales"}, "mxfp4"), ({"weight", "weight_scale_inv"}, "fp8-block128"),
        ({"weight", "scale"}, "mxfp4"), ({"weight", "weight_scale", "weight_scale_2"}, "nvfp4-w4a16"), ({"weight", "SCB"}, "w8a8-int8"),
        ({"weight", "weight.absmax", "weight.quant_state.bitsandbytes__nf4"}, "nf4"), ({"weight", "scales", "biases"}, "mlx"),
        ({"weight", "bias"}, "plain"),
    ],
)  # fmt: skip
def test_suffixes_name_a_family(suffixes: set[str], one: str) -> None:
    assert one in family(frozenset(suffixes))


def test_parameters_that_are_no_matrix_name_none() -> None:
    assert family(frozenset({"bias"})) == family(frozenset({"parameter"})) == ()


def names(
    suffixes: tuple[str, ...] = ("qweight", "qzeros", "scales"), *, mtp: bool = False, layers: int = 2
) -> list[str]:
    """Tensor names of a small dense model."""
    leaves = ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj")
    found = [f"model.layers.{n}.{leaf}.{s}" for n in range(layers) for leaf in leaves for s in suffixes]
    found += [f"model.layers.{n}.input_layernorm.weight" for n in range(layers)]
    draft = ["mtp.0.mlp.up_proj.weight"] if mtp else []
    return [*found, "lm_head.weight", "model.embed_tokens.weight", *draft]


def learned(config: dict[str, Any], weight_map: list[str]) -> Any:
    """The view after all reads of a repository whose weights cannot be read."""
    files = {
        "config.json": config,
        INDEX: {"weight_map": dict.fromkeys(weight_map, "model-00001-of-00002.safetensors")},
    }
    view, _ = read_made(files)
    return view


def test_components_come_with_their_tensors_and_the_formats_that_fit() -> None:
    found = stored(modules_of(names()), layers=2)
    assert found["attention"] == {
        "tensors": 12,
        "modules": 4,
        "formats": ["w4a16-int4", "w3a16-int3", "w8a16-int8"],
    }
    assert found["lm_head"]["formats"] == ["plain"] and "mtp" not in found


def test_a_declaration_that_fits_the_names_keeps_its_word_at_level_declared() -> None:
    view = learned({**DENSE, "quantization_config": GPTQ}, names())
    row = view.value("checkpoint.declared.components.attention")
    assert (row["format"], row["group_size"], row["presence"], row["in_index"]) == (
        "w4a16-int4",
        128,
        "present",
        12,
    )
    assert view.read("checkpoint.declared").level == "declared"
    assert view.read("checkpoint.attention").state != "known"  # that name is for what was proved
    assert view.value("checkpoint.declared.components.lm_head.format") == "fp16"
    assert view.value("checkpoint.declared.components.vision") is None


def test_a_declaration_that_does_not_fit_the_names_is_a_disagreement() -> None:
    view = learned({**DENSE, "quantization_config": GPTQ}, names(("weight",)))
    assert view.value("checkpoint.declared.components.attention.format") == "unknown"
    assert any(
        "attention: w4a16-int4 in groups" in line or "attention: w4a16-int4" in line
        for line in view.value("checkpoint.declared.disagreement")
    )


def test_names_of_a_quantization_that_no_file_declares_are_not_called_plain() -> None:
    view = learned(DENSE, names(("weight", "weight_scale", "weight_scale_2", "input_scale")))
    assert view.value("checkpoint.declared.components.attention.format") == "unknown"
    assert view.value("checkpoint.declared.disagreement")


def test_a_draft_block_is_promised_and_dropped_or_named_and_still_not_proved() -> None:
    promised = {**DENSE, "num_nextn_predict_layers": 1}
    assert learned(promised, names(("weight",))).value("checkpoint.declared.components.mtp") == {
        "presence": "absent"
    }
    kept = learned(promised, names(("weight",), mtp=True)).value("checkpoint.declared.components.mtp")
    assert (kept["presence"], kept["in_index"]) == ("unknown", 1)


def test_the_exclusion_list_is_asked_of_the_names_of_the_index() -> None:
    group = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128}}
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": group},
        "ignore": ["lm_head", "model.visual"],
    }
    view = learned(
        {**DENSE, "quantization_config": block}, names(("weight_packed", "weight_scale", "weight_shape"))
    )
    found = view.read("checkpoint.exclusions")
    assert (found.level, found.value["dead"], found.value["covers"]) == (
        "declared",
        ["model.visual"],
        {"lm_head": 1},
    )


def test_an_index_of_anything_gives_names_or_none() -> None:
    assert index_names({"weight_map": ["a"]}) == index_names({}) == []
    assert index_names({"weight_map": {"a": 3, "b" * 5000: "x"}}) == ["a"]
