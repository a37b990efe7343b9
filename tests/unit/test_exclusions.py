"""Exclusion lists: what each writer's entries mean, patterns that would run for years, and lists against real names."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.corpus_hub import read_made

from recon.agent.api import Draft
from recon.tasks.facts.exclusion_report import Module, exclusion_draft
from recon.tasks.facts.exclusions import MAX_ENTRIES, Patterns, Style, covered, fused
from recon.tasks.facts.statements import of_block


@pytest.mark.parametrize(
    ("pattern", "style", "module", "expected"),
    [
        ("model.layers.6", "part", "model.layers.60.mlp", False),
        ("model.layers.6", "part", "model.layers.6.mlp", True),
        ("mlp.gate.", "part", "model.layers.0.mlp.gate", True),
        ("gate", "part", "model.layers.0.mlp.gate_proj", False),
        ("model.layers.*.self_attn", "part", "model.layers.3.self_attn.q_proj", True),
        ("*.attn.*", "glob", "layers.3.attn.wo_b", True),
        ("mtp.*", "glob", "model.layers.43.mlp", False),
        ("lm_head", "glob", "language_model.lm_head", True),
        ("model.layers.1.self_attn*", "glob", "model.layers.1.self_attn.q_a_proj", True),
        ("model.layers.1.self_attn*", "glob", "model.layers.11.self_attn.q_a_proj", False),
        ("re:.*self_attn.*", "compressed-tensors", "model.layers.0.self_attn.o_proj", True),
        ("re:self_attn", "compressed-tensors", "model.layers.0.self_attn.o_proj", False),  # anchored at its start
        ("model.layers.0.self_attn", "compressed-tensors", "model.layers.0.self_attn.o_proj", False),
        ("re:.*mlp\\.(gate|up|down)_proj.*", "compressed-tensors", "model.layers.0.mlp.experts.1.down_proj", False),
        ("*.mlp.gate", "quark", "model.layers.0.mlp.gate", True),
        ("model.layers.0", "quark", "model.layers.0.mlp.gate", False),
        ("re:[", "compressed-tensors", "x", False),
    ],
)  # fmt: skip
def test_each_writers_entries_mean_what_that_writer_means(
    pattern: str, style: Style, module: str, expected: bool
) -> None:
    assert covered(module, [pattern], style=style) is expected


@pytest.mark.parametrize(
    "pattern", ["re:(a+)+$", "re:(a|aa)+$", "re:(.*a){20}$", "re:" + "a?" * 150 + "a" * 150, "re:" + ".*a" * 100 + "b", "*a" * 150 + "b"]
)  # fmt: skip
def test_a_pattern_made_to_run_for_years_takes_no_time(pattern: str) -> None:
    start = time.process_time()
    for style in ("compressed-tensors", "glob", "quark", "part"):
        covered("a" * 400, [pattern] * 50, style=style)  # type: ignore[arg-type]
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("pattern", ["re:^(?!.*x).*", r"re:(a)\1", "re:(.{0,900}){0,900}x"])
def test_an_entry_that_cannot_be_asked_is_said_to_be_unread(pattern: str) -> None:
    patterns = Patterns([pattern, "lm_head"], style="compressed-tensors")
    assert patterns.unread == (pattern,)
    assert patterns.covers("lm_head") and not patterns.covers("y")


def test_a_list_without_end_is_cut() -> None:
    assert len(Patterns((f"m{n}" for n in range(10**6)), style="part").entries) == MAX_ENTRIES


def test_fused_layers_have_the_engines_names() -> None:
    assert fused("model.layers.0.self_attn.k_proj") == (
        "model.layers.0.self_attn.qkv_proj", tuple(f"model.layers.0.self_attn.{p}_proj" for p in "qkv"),
    )  # fmt: skip
    assert fused("layers.0.attn.wkv") == ("layers.0.attn.wqkv_a", ("layers.0.attn.wq_a", "layers.0.attn.wkv"))
    assert fused("layers.0.attn.wo_a") is None


INT4 = {"num_bits": 4, "type": "int", "group_size": 128}
COMPONENTS = {
    "experts": "routed_experts",
    "shared_experts": "shared_experts",
    "self_attn": "attention",
    "gate": "router",
}


def model(formats: dict[str, str], layers: int = 2) -> list[Module]:
    """Modules of a small mixture of experts; formats by leaf, else bf16."""
    leaves = [
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "mlp.gate",
        "mlp.shared_experts.down_proj",
    ]
    leaves += [f"mlp.experts.{e}.down_proj" for e in range(8)]
    made = []
    for n in range(layers):
        for leaf in leaves:
            component = next(c for word, c in COMPONENTS.items() if word in leaf.split("."))
            made.append(
                Module(
                    f"model.layers.{n}.{leaf}",
                    component,
                    formats.get(leaf.rpartition(".")[2], formats.get(component, "bf16")),
                )
            )
    return [*made, Module("lm_head", "lm_head", "bf16"), Module("model.norm", "other", "")]


def report(ignore: list[str], modules: list[Module], **more: Any) -> Draft:
    group = {"targets": ["Linear"], "weights": INT4}
    block = {"quant_method": "compressed-tensors", "config_groups": {"g": group}, "ignore": ignore, **more}
    return exclusion_draft(of_block(block, source="config.json", side={}), modules, layers=2, level="proved")


ALL_INT4 = {"routed_experts": "w4a16-int4", "shared_experts": "w4a16-int4", "attention": "w4a16-int4"}


def test_covers_counts_modules_and_dead_entries_are_those_that_match_nothing() -> None:
    draft = report(
        ["lm_head", "re:.*mlp\\.gate$", "re:.*self_attn.indexers_proj", "model.layers.7.mlp.gate", "model.norm.weight", "Linear",
         "model.layers.1.mlp.experts.5.down_proj", "model.layers.1.mlp.experts.9.down_proj"],
        model(ALL_INT4),
    )  # fmt: skip
    value = draft.value
    assert draft.level == "proved"
    assert (value["entries"], value["covers"]) == (8, {"lm_head": 1, "router": 2})
    assert value["dead"] == ["re:.*self_attn.indexers_proj", "model.layers.1.mlp.experts.9.down_proj"]
    assert value["beyond"] == 1  # a layer that the model does not have
    assert value["excluded_but_quantized"] == value["plain_but_covered"] == {}


def test_modules_that_are_the_other_way_round_are_named_by_template() -> None:
    value = report(["lm_head", "re:.*self_attn.*"], model({**ALL_INT4, "shared_experts": "bf16"})).value
    assert value["excluded_but_quantized"] == {f"model.layers.N.self_attn.{p}_proj": 2 for p in "koqv"}
    assert value["plain_but_covered"] == {"model.layers.N.mlp.shared_experts.down_proj": 2}


def test_experts_count_each_though_one_is_asked() -> None:
    value = report(["re:.*experts\\.\\d+\\.down_proj"], model(ALL_INT4)).value
    assert value["covers"] == {"routed_experts": 16}
    assert value["excluded_but_quantized"] == {"model.layers.N.mlp.experts.N.down_proj": 16}


def test_a_list_that_fits_the_file_and_misses_the_fused_layer_is_told() -> None:
    ignore = [f"model.layers.{n}.self_attn.{p}_proj" for n in range(2) for p in "qkv"]
    value = report(ignore, model({**ALL_INT4, "q_proj": "bf16", "k_proj": "bf16", "v_proj": "bf16"})).value
    assert value["fused"] == {
        "model.layers.N.self_attn.qkv_proj": {"parts": "plain", "asked": "w4a16-int4", "layers": 2}
    }
    some = report(["re:.*q_proj"], model({**ALL_INT4, "q_proj": "bf16"})).value
    assert some["fused"]["model.layers.N.self_attn.qkv_proj"]["parts"] == "plain and w4a16-int4"
    whole = report(["re:.*self_attn.*"], model({**ALL_INT4, "attention": "bf16"})).value
    assert whole["fused"] == {}


def test_what_an_export_left_in_its_native_format_is_no_contradiction() -> None:
    block = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "quant_algo": "MIXED_PRECISION",
        "moe_quant_algo": "NVFP4",
        "ignore": ["*.self_attn.*"],
    }
    modules = model(
        {"routed_experts": "nvfp4", "shared_experts": "fp8-block128", "attention": "fp8-block128"}
    )
    value = exclusion_draft(
        of_block(block, source="config.json", side={}), modules, layers=2, level="proved"
    ).value
    assert value["excluded_but_quantized"] == {}


def test_unread_entries_are_listed_and_are_not_dead() -> None:
    value = report(["re:(?=x)"], model(ALL_INT4)).value
    assert (value["unread"], value["dead"]) == (["re:(?=x)"], [])


def test_headers_and_the_list_of_a_repository_meet_in_one_finding_and_one_line() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 256, "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"], "weights": INT4}},
                                "ignore": ["lm_head", "re:.*mlp.*", "re:.*indexers_proj"]},
    }  # fmt: skip
    packed: dict[str, tuple[str, list[int]]] = {
        "weight_packed": ("I32", [256, 32]),
        "weight_scale": ("BF16", [256, 2]),
    }
    tensors: dict[str, tuple[str, list[int]]] = {"lm_head.weight": ("BF16", [320, 256])}
    for n in range(2):
        tensors |= {f"model.layers.{n}.mlp.down_proj.{s}": t for s, t in packed.items()}
        tensors[f"model.layers.{n}.self_attn.o_proj.weight"] = ("BF16", [256, 256])
    view, lines = read_made({"config.json": config}, headers={"model.safetensors": tensors})
    found = view.read("checkpoint.exclusions")
    assert found.level == "declared"  # it rests on a declaration, however well the tensors are known
    assert (found.value["dead"], found.value["covers"]) == (
        ["re:.*indexers_proj"],
        {"dense_mlp": 2, "lm_head": 1},
    )
    assert found.value["excluded_but_quantized"] == {"model.layers.N.mlp.down_proj": 2}
    assert found.value["plain_but_covered"] == {"model.layers.N.self_attn.o_proj": 2}
    line = lines["checkpoint.exclusions"]
    assert line.verdict == "warn" and line.title.startswith(
        "excluded, but quantized all the same: model.layers.N.mlp.down"
    )
    assert any("not excluded, but plain" in text for text in line.detail)
