"""Any bytes and any JSON into the readers of a checkpoint: findings or a ParseError come out, and soon."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.api import Draft, Fact, ParseError, Raw
from recon.agent.model.findings import make_finding
from recon.tasks.facts.config import CONFIG, architecture
from recon.tasks.facts.declared import declare, declared_drafts, statements_of
from recon.tasks.facts.exclusion_report import Module, exclusion_draft, list_fact, named_modules
from recon.tasks.facts.headers import Merge, parse_shard, read_header
from recon.tasks.facts.hub import INDEX
from recon.tasks.facts.index_names import index_names, modules_of, stored
from recon.tasks.facts.module_names import component_at, real_names
from recon.tasks.facts.side_files import HF_QUANT, LISTED, QUANTIZE
from recon.tasks.knowledge.signatures import BITS, classify

FACTS: list[Fact] = [CONFIG, HF_QUANT, QUANTIZE, INDEX, *LISTED.values(), list_fact("config.json")]
FILES = [
    "config.json",
    "hf_quant_config.json",
    "quantize_config.json",
    "quant_config.json",
    "quant_model_description.json",
    "params.json",
]
SUFFIXES = ["weight", "qweight", "qzeros", "scales", "g_idx", "weight_packed", "weight_scale", "weight_scale_2", "weight_scale_inv", "scale", "SCB",
            "weight_zero_point", "weight_global_scale", "weight_g_idx", "input_scale", "biases", "blocks", "trellis", "weight.absmax",
            "weight.quant_state.bitsandbytes__nf4", "pre_quant_scale"]  # fmt: skip
KEYS = ["quantization_config", "compression_config", "quantization", "text_config", "config_groups", "weights", "targets", "quant_method", "ignore",
        "num_bits", "bits", "type", "strategy", "group_size", "block_structure", "quantized_layers", "quant_algo", "moe_quant_algo", "expert_dtype",
        "store_dtype", "routed_experts_quant_method", "input_activations", "exclude_modules", "modules_to_not_convert", "kv_cache_scheme",
        "kv_cache_quant_algo", "global_quant_config", "layer_quant_config", "exclude", "weight", "dtype", "qscheme", "dynamic", "extra_config",
        "weight_block_size", "num_hidden_layers", "n_routed_experts", "num_experts_per_tok", "layer_types", "hybrid_override_pattern", "model_type",
        "moe_layer_freq", "first_k_dense_replace", "mlp_only_layers", "interleave_moe_layer_step", "num_nextn_predict_layers", "vision_config",
        "n_shared_experts", "kv_lora_rank", "head_dim", "hidden_size", "num_attention_heads", "num_key_value_heads", "torch_dtype", "producer",
        "model.layers.0.mlp.up_proj.weight", "weight_map", "metadata", "peft_type", "architectures", "lm_head", "data_type", "act_bits"]  # fmt: skip
WORDS = ["fp8", "modelopt", "compressed-tensors", "gptq", "awq", "auto-round", "quark", "bitsandbytes", "mxfp4", "w4afp8", "mlx", "NVFP4", "MIXED_PRECISION",
         "Linear", "re:(", "re:.*experts.*", "*", "*.attn.*", "int", "float", "block", "fp4", "lm_head", "model.layers.0.self_attn.q_proj", "deepseek_v4",
         "nemotron_h", "ME*", "linear_attention", "\ud800", "\x1b[31m", "-:x", ""]  # fmt: skip
LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=6)
)
ODD = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=7), max_leaves=30
)  # fmt: skip
OBJECT = st.dictionaries(st.sampled_from(KEYS), ODD, max_size=8)
MODULES = [
    Module("model.layers.0.self_attn.q_proj", "attention", "bf16"),
    Module("model.layers.0.mlp.experts.3.up_proj", "routed_experts", "nvfp4"),
]


def kept(drafts: list[Draft]) -> None:
    """Every draft can be stored: it has a value or a reason, and canonical JSON."""
    for draft in drafts:
        assert draft.outcome == "known" or draft.reason
        make_finding(
            draft, subject="hf:a/b@c", producer="t", producer_version="1", observation_id="o", inputs=(), observed_at=0.0, origin="captured"
        )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_by_every_reader(data: bytes) -> None:
    for fact in FACTS:
        try:
            kept(list(fact.parse(Raw(state="ok", stdout=data))))
        except ParseError as error:
            assert error.message
    try:
        kept(parse_shard(Raw(state="ok", stdout=data), path="a.safetensors"))
    except ParseError as error:
        assert error.message


@settings(max_examples=300, deadline=None)
@given(OBJECT)
def test_any_json_object_is_read_or_refused_by_every_reader(value: dict[str, Any]) -> None:
    data = json.dumps(value).encode()
    for fact in FACTS:
        try:
            kept(list(fact.parse(Raw(state="ok", stdout=data))))
        except ParseError as error:
            assert error.message


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(FILES), OBJECT, max_size=4),
    st.lists(st.text(max_size=30) | st.sampled_from(WORDS), max_size=5),
)
def test_any_files_together_declare_something_that_can_be_kept(
    files: dict[str, Any], names: list[str]
) -> None:
    known = architecture(files.get("config.json", {}))
    modules = modules_of([*names, "model.layers.0.mlp.up_proj.qweight"])
    layers = known.get("layers") if isinstance(known.get("layers"), int) else None
    for more in ({}, {"real": real_names(modules, layers=layers), "stored": stored(modules, layers=layers)}):
        value = declare(files, known, plain="bf16", **more)
        if value is not None:
            assert isinstance(value["components"], dict)
            kept(declared_drafts(value))
    for statement in statements_of(files):
        named = named_modules(modules, {name: component_at(name, layers=layers) for name in modules})
        kept([exclusion_draft(statement, [*MODULES, *named], layers=layers, level="proved")])


ENTRY = st.fixed_dictionaries({}, optional={"dtype": st.sampled_from([*BITS, "X", 3]), "shape": st.lists(st.integers(-1, 9) | st.none(), max_size=5) | LEAF,
                                            "data_offsets": st.lists(st.integers(-1, 99), max_size=3) | LEAF})  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([f"model.layers.0.mlp.x.{s}" for s in SUFFIXES]) | st.text(max_size=9),
        ENTRY | LEAF,
        max_size=6,
    )
)
def test_any_table_of_tensors_is_merged_or_refused(table: dict[str, Any]) -> None:
    try:
        tensors = read_header(json.dumps(table).encode())
    except ParseError as error:
        assert error.message
        return
    merge = Merge(layers=2)
    merge.add(tensors, header_bytes=1)
    kept(merge.drafts())
    assert len(list(merge.modules())) <= len(tensors)


@settings(max_examples=500, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(SUFFIXES),
        st.tuples(st.sampled_from(list(BITS)), st.lists(st.integers(0, 300), max_size=4).map(tuple)),
        max_size=6,
    )
)
def test_any_shapes_have_a_signature_or_none(parts: dict[str, Any]) -> None:
    found = classify(parts, dims=frozenset({64, 128}))
    assert found is None or (found.format != "unknown" or found.note)


def config_of(**block: Any) -> dict[str, Any]:
    return {
        "num_hidden_layers": 10**12,
        "n_routed_experts": 8,
        "model_type": "x",
        "quantization_config": block,
    }


ENDLESS: dict[str, Callable[[], dict[str, Any]]] = {
    "layers": lambda: config_of(quant_method="fp8", weight_block_size=[128, 128]),
    "layer kinds": lambda: {**config_of(), "layer_types": ["linear_attention"] * 200_000, "hybrid_override_pattern": "M*E" * 100_000},
    "listed layers": lambda: config_of(quant_algo="MIXED_PRECISION", quantized_layers={f"layers.{n}.mlp": {"quant_algo": "FP8"} for n in range(60_000)}),
    "entries": lambda: config_of(quant_method="fp8", modules_to_not_convert=[f"model.layers.{n}.x" for n in range(100_000)]),
    "globs": lambda: config_of(quant_algo="NVFP4", ignore=[f"*a*{n}*b*" for n in range(3_000)]),
    "patterns": lambda: config_of(quant_method="compressed-tensors", config_groups={}, ignore=[f"re:(.*a.*)*{n}$" for n in range(3_000)]),
    "groups": lambda: config_of(quant_method="compressed-tensors", config_groups={f"g{n}": {"targets": [f"re:.*x{n}.*"], "weights": {}} for n in range(5_000)}),
    "quark layers": lambda: config_of(quant_method="quark", layer_quant_config={f"*{n}*": {} for n in range(5_000)}),
    "rules": lambda: config_of(quant_method="gptq", bits=4, dynamic={f"-:.*{n}(a+)+$": {} for n in range(5_000)}),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_a_config_without_end_takes_a_bounded_time(name: str) -> None:
    config = ENDLESS[name]()
    start = time.process_time()
    value = declare({"config.json": config}, architecture(config), plain="bf16")
    assert value is not None and len(json.dumps(value)) < 200_000
    assert time.process_time() - start < 8.0


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":' * 50_000,
        b"[" * 1_000_000,
        json.dumps({"a": {"dtype": "F32", "shape": [10**18] * 5_000, "data_offsets": [0, 4]}}).encode(),
        json.dumps({"a": {"dtype": "F32", "shape": [10**4_000], "data_offsets": [0, 4]}}).encode(),
        json.dumps({"a" * 1_000_000: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode(),
        json.dumps({"a": {"dtype": "F" * 100_000, "shape": [1], "data_offsets": [0, 4]}}).encode(),
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, ' + b"9" * 5_000 + b"]}}",
    ],
    ids=[
        "deep",
        "deeper",
        "many dimensions",
        "a long number",
        "a long name",
        "a long dtype",
        "a number beyond what is read",
    ],
)
def test_a_header_made_to_take_long_is_refused_soon(header: bytes) -> None:
    start = time.process_time()
    with pytest.raises(ParseError):
        read_header(header)
    assert time.process_time() - start < 2.0


def test_an_index_of_a_million_names_is_read_in_bounded_time() -> None:
    index = {
        "weight_map": {
            f"model.layers.{n % 90}.mlp.experts.{n // 90}.up_proj.weight_packed": "a" for n in range(200_000)
        }
    }
    start = time.process_time()
    names = index_names(index)
    assert stored(modules_of(names), layers=90)["routed_experts"]["tensors"] == 200_000
    assert time.process_time() - start < 5.0
