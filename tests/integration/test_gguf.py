"""GGUF headers: files written by the real gguf package, read from a folder and over HTTP; and bytes that are none."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.loopback_hub import Hub, Repo, loopback_hub

from recon.agent.cli.inspection import load_inspection, look
from recon.agent.connectors.directory import DirectorySource
from recon.agent.connectors.gguf import Short, read_gguf
from recon.agent.connectors.hub import HubSource
from recon.agent.connectors.safetensors import BadHeader
from recon.agent.model.findings import Raw, Request
from recon.agent.model.missions import Intent
from recon.tasks.facts.gguf import TYPES, component_of, variants

LAYERS = 2
VOCABULARY = 60_000  # words: makes the header longer than one first read


def write(path: Path, *, words: int = 100, split: tuple[int, int] | None = None) -> Path:
    """A small mixture of experts in the formats of llama.cpp."""
    writer = gguf.GGUFWriter(path, "deepseek2")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(256)
    writer.add_head_count(4)
    writer.add_expert_count(8)
    writer.add_token_list([f"word {n}" for n in range(words)])
    kinds = gguf.GGMLQuantizationType
    tensors = {"token_embd.weight": (kinds.F16, (32, 256)), "output.weight": (kinds.Q8_0, (32, 256))}
    for n in range(LAYERS):
        tensors |= {
            f"blk.{n}.attn_q.weight": (kinds.Q8_0, (256, 256)), f"blk.{n}.attn_norm.weight": (kinds.F32, (256,)),
            f"blk.{n}.ffn_gate_inp.weight": (kinds.F32, (8, 256)), f"blk.{n}.ffn_gate_exps.weight": (kinds.Q4_K, (8, 64, 256)),
            f"blk.{n}.ffn_down_exps.weight": (kinds.Q6_K, (8, 64, 256)),
        }  # fmt: skip
    for i, (name, (kind, shape)) in enumerate(tensors.items()):
        if split is not None and i % split[1] != split[0]:
            continue
        size = gguf.quant_shape_to_byte_shape(shape, kind) if kind.name.startswith("Q") else shape
        kind_of = np.uint8 if kind.name.startswith("Q") else {"F16": np.float16, "F32": np.float32}[kind.name]
        writer.add_tensor(name, np.zeros(size, dtype=kind_of), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def document(folder: Path) -> dict[str, Any]:
    inspection, source = load_inspection("model"), DirectorySource(folder)
    looked = look(inspection, Intent(model=source.repo), listen=lambda message: None, source=source)
    return inspection.document(looked.view, [j.judgement for j in looked.state.judgements])


def test_the_header_of_a_real_file(tmp_path: Path) -> None:
    data = write(tmp_path / "m.gguf").read_bytes()
    header = read_gguf(data)
    assert header["metadata"]["general.architecture"] == "deepseek2"
    assert header["metadata"]["tokenizer.ggml.tokens"] == {"array": 100}
    kinds = {name: TYPES[kind][0] for name, kind, _ in header["tensors"]}
    assert kinds["blk.0.ffn_gate_exps.weight"] == "Q4_K" and kinds["token_embd.weight"] == "F16"
    read_gguf(data[: header["header_bytes"]])
    with pytest.raises(Short):
        read_gguf(data[: header["header_bytes"] - 1])


def test_a_folder_of_gguf_is_proved_type_by_type(tmp_path: Path) -> None:
    write(tmp_path / "m-q4.gguf")
    found = document(tmp_path)
    parts = found["components"]
    assert {n: (p["format"], p["level"]) for n, p in parts.items() if n in ("routed_experts", "attention", "lm_head")} == {
        "routed_experts": ("gguf", "proved"), "attention": ("gguf", "proved"), "lm_head": ("gguf", "proved"),
    }  # fmt: skip
    assert parts["routed_experts"]["types"] == {"Q4_K": LAYERS, "Q6_K": LAYERS}
    assert parts["routed_experts"]["bytes"] == LAYERS * 8 * 64 * (144 + 210)
    assert found["architecture"]["layers"] == LAYERS and found["architecture"]["experts"] == 8
    assert found["servable"]["answer"] == "no"


def test_parts_of_one_model_are_one_and_alternatives_are_told_apart(tmp_path: Path) -> None:
    for n in (1, 2):
        write(tmp_path / f"big-0000{n}-of-00002.gguf", split=(n - 1, 2))
    assert len(variants(p.name for p in tmp_path.iterdir())) == 1
    whole = document(tmp_path)
    assert whole["components"]["attention"]["tensors"] == LAYERS
    assert whole["components"]["routed_experts"]["tensors"] == 2 * LAYERS
    write(tmp_path / "small.gguf")
    assert len(variants(p.name for p in tmp_path.iterdir())) == 2


def test_a_long_header_is_read_in_ranges_and_the_data_never(tmp_path: Path) -> None:
    data = write(tmp_path / "m.gguf", words=VOCABULARY).read_bytes()
    header = read_gguf(data)
    assert header["header_bytes"] > 1 << 19
    with loopback_hub({"org/m": Repo(files={"m.gguf": (40 << 30, data)})}) as hub:
        raw = asyncio.run(asked(hub))
        assert raw.state == "ok" and json.loads(raw.stdout)["tensors"] == header["tensors"]
        assert hub.sent_bytes < 4 * header["header_bytes"]
        hub.repos["org/m"] = Repo(files={"m.gguf": b"GGUF" + bytes(64)})
        broken = asyncio.run(asked(hub))
    assert broken.state == "unparsable" and "version 0" in broken.reason


async def asked(hub: Hub) -> Raw:
    source = HubSource(endpoint=hub.endpoint)
    try:
        request = Request(
            connector="hub",
            target="org/m",
            probe="hub.gguf",
            path="m.gguf",
            revision="main",
            cap_bytes=64 << 20,
        )
        return await source.fetch(request)
    finally:
        await source.close()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GGML" + bytes(20), "does not begin"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 40), "metadata entries"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 40), "a text of"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 99), "type 99"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<I", 9), "dimensions"),
    ],
)
def test_what_is_no_header_is_refused_before_anything_is_made_of_it(data: bytes, says: str) -> None:
    with pytest.raises(BadHeader, match=says):
        read_gguf(data)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_header_or_refused(tail: bytes) -> None:
    for data in (tail, b"GGUF\x03\x00\x00\x00" + tail):
        try:
            json.dumps(read_gguf(data), allow_nan=False)
        except (BadHeader, Short):
            pass


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("blk.3.attn_kv_a_mqa.weight", "attention"), ("blk.3.ffn_up_exps.weight", "routed_experts"), ("blk.3.ffn_up_shexp.weight", "shared_experts"),
        ("blk.0.ffn_up.weight", "dense_mlp"), ("blk.3.ffn_gate_inp.weight", "router"), ("blk.61.nextn.eh_proj.weight", "mtp"),
        ("output_norm.weight", "other"), ("output.weight", "lm_head"), ("v.blk.0.attn_q.weight", "vision"), ("blk.1.ssm_in.weight", "linear_attention"),
    ],
)  # fmt: skip
def test_names_of_llama_cpp_find_their_component(name: str, component: str) -> None:
    assert component_of(name) == component
