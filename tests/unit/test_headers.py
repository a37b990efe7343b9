"""safetensors headers: what a header says, what all shards say together, and headers that lie."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.api import Draft, ParseError, Raw
from recon.tasks.facts.headers import Merge, parse_shard, read_header
from recon.tasks.facts.split import per_rank_bytes
from recon.tasks.facts.tensor_rules import component_of, split_name, template_of
from recon.tasks.recordings.compose_hub import REPOSITORIES, headers

Entry = tuple[str, str, tuple[int, ...]]
_WIDTH = {"BF16": 2, "F32": 4, "I32": 4, "F8_E4M3": 1, "U8": 1, "I8": 1, "F8_E8M0": 1, "I64": 8, "F16": 2}


def header(*entries: Entry) -> bytes:
    """A header with contiguous offsets."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, dtype, shape in entries:
        size = _WIDTH[dtype]
        for n in shape:
            size *= n
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    return json.dumps(table).encode()


def merged(*shards: bytes, **known: Any) -> dict[str, Draft]:
    """The findings of some headers together."""
    merge = Merge(**known)
    for shard in shards:
        merge.add(read_header(shard), header_bytes=len(shard))
    return {draft.name: draft for draft in merge.drafts()}


def dense(layer: int) -> list[Entry]:
    """A small layer of a plain model."""
    prefix = f"model.layers.{layer}"
    return [
        (f"{prefix}.self_attn.q_proj.weight", "BF16", (64, 64)),
        (f"{prefix}.self_attn.k_proj.weight", "BF16", (16, 64)),
        (f"{prefix}.self_attn.v_proj.weight", "BF16", (16, 64)),
        (f"{prefix}.self_attn.o_proj.weight", "BF16", (64, 64)),
        (f"{prefix}.mlp.down_proj.weight", "BF16", (64, 128)),
        (f"{prefix}.input_layernorm.weight", "BF16", (64,)),
    ]


def test_a_module_cut_by_a_shard_border_is_told_as_a_whole() -> None:
    name = "layers.0.ffn.experts.0.w1"
    found = merged(
        header((f"{name}.weight_packed", "I32", (2048, 512))),
        header((f"{name}.weight_scale", "BF16", (2048, 32)), (f"{name}.weight_shape", "I64", (2,))),
    )
    value = found["routed_experts"].value
    assert (value["format"], value["group_size"], value["tensors"]) == ("w4a16-int4", 128, 3)


def test_layers_after_the_main_ones_are_the_draft_block() -> None:
    found = merged(header(*dense(0), *dense(1), *dense(2)), layers=2)
    assert found["mtp"].value["tensors"] == 6
    assert found["attention"].value["tensors"] == 8


def test_a_component_with_two_formats_says_both() -> None:
    found = merged(
        header(
            ("model.layers.0.self_attn.q_proj.weight", "F8_E4M3", (256, 256)),
            ("model.layers.0.self_attn.q_proj.weight_scale_inv", "F32", (2, 2)),
            ("model.layers.0.self_attn.o_proj.weight", "BF16", (8, 8)),
        )
    )
    assert [row["format"] for row in found["attention"].value["mixed"]] == ["fp8-block128", "bf16"]


def test_what_is_not_there_is_said_to_be_absent() -> None:
    found = merged(header(*dense(0)))
    assert found["mtp"].value == {"presence": "absent"}
    assert found["routed_experts"].value == {"presence": "absent"}
    assert found["dense_mlp"].value["format"] == "bf16"


def test_key_and_value_heads_are_not_cut_smaller_than_one() -> None:
    found = merged(header(*dense(0)), kv_heads=1)
    split = found["split"].value
    assert split["kv_bytes"] == 2 * 16 * 64 * 2
    sharded = split["sharded_bytes"] - split["kv_bytes"]
    assert per_rank_bytes(split, 4) == split["replicated_bytes"] + sharded // 4 + split["kv_bytes"]


def test_logical_parameters_unpack_what_is_packed() -> None:
    name = "layers.0.ffn.experts.0.w1"
    found = merged(
        header((f"{name}.weight_packed", "U8", (64, 32)), (f"{name}.weight_scale", "F8_E4M3", (64, 4)),
               (f"{name}.weight_global_scale", "F32", (1,)), (f"{name}.input_global_scale", "F32", (1,)))
    )  # fmt: skip
    assert found["parameters"].value["total"] == 64 * 64


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"a": 1}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0.5, 8.5]}}',
        b'{"a": {"dtype": "F32", "shape": "22", "data_offsets": [0, 8]}}',
    ],
)
def test_a_header_that_lies_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        read_header(data)


@settings(max_examples=200, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda c: st.lists(c) | st.dictionaries(st.text(max_size=8), c), max_leaves=12))  # fmt: skip
def test_any_json_is_read_or_refused(value: object) -> None:
    try:
        read_header(json.dumps(value).encode())
    except ParseError as error:
        assert error.message


@pytest.mark.parametrize("state", ["missing", "denied", "timeout", "lost"])
def test_a_header_that_was_not_read_is_unknown_with_the_reason(state: Any) -> None:
    (draft,) = parse_shard(Raw(state=state, reason="why"), path="a.safetensors")
    assert (draft.name, draft.outcome, draft.reason) == ("shard.a.safetensors", "unknown", "why")


def test_a_header_of_a_hundred_thousand_tensors_is_quick_and_its_finding_small() -> None:
    ((path, data, _),) = headers(replace(REPOSITORIES[0], shards=1))
    assert len(data) > 11_000_000
    start = time.process_time()
    (draft,) = parse_shard(Raw(state="ok", stdout=data), path=path)
    assert time.process_time() - start < 1.5  # about 0.5 s on the machine it was written on
    assert len(json.dumps(draft.value)) < 2_000


@pytest.mark.parametrize(
    ("name", "module", "suffix", "component"),
    [
        ("model.layers.3.mlp.experts.7.down_proj.weight_scale_inv", "model.layers.3.mlp.experts.7.down_proj",
         "weight_scale_inv", "routed_experts"),
        ("model.layers.3.mlp.shared_experts.up_proj.weight", "model.layers.3.mlp.shared_experts.up_proj", "weight",
         "shared_experts"),
        ("model.layers.0.mlp.experts.gate_up_proj_blocks", "model.layers.0.mlp.experts.gate_up_proj", "blocks",
         "routed_experts"),
        ("language_model.model.layers.0.feed_forward.experts.gate_up_proj",
         "language_model.model.layers.0.feed_forward.experts.gate_up_proj", "weight", "routed_experts"),
        ("model.layers.0.mlp.gate.weight", "model.layers.0.mlp.gate", "weight", "router"),
        ("model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.gate_proj", "weight", "dense_mlp"),
        ("model.layers.0.self_attn.indexer.wq_b.weight", "model.layers.0.self_attn.indexer.wq_b", "weight", "indexer"),
        ("layers.4.attn.compressor.wkv.weight", "layers.4.attn.compressor.wkv", "weight", "compressor"),
        ("mtp.0.attn.wq_a.weight", "mtp.0.attn.wq_a", "weight", "mtp"),
        ("model.layers.1.linear_attn.in_proj_qkv.weight", "model.layers.1.linear_attn.in_proj_qkv", "weight",
         "linear_attention"),
        ("visual.blocks.0.attn.qkv.weight", "visual.blocks.0.attn.qkv", "weight", "vision"),
        ("lm_head.weight", "lm_head", "weight", "lm_head"),
        ("layers.0.hc_attn_fn", "layers.0.hc_attn_fn", "parameter", "other"),
        ("model.layers.0.mlp.up_proj.weight.absmax", "model.layers.0.mlp.up_proj", "weight.absmax", "dense_mlp"),
    ],
)  # fmt: skip
def test_names_of_every_family_find_their_component(
    name: str, module: str, suffix: str, component: str
) -> None:
    assert split_name(name) == (module, suffix)
    assert component_of(template_of(module)) == component
