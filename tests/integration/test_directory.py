"""A folder as a hub: downloads, the Hub's cache, metadata alone; links and paths that lead elsewhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.loopback_hub import header_bytes

from recon.agent.cli.inspection import load_inspection, look
from recon.agent.connectors.directory import DirectorySource, repo_of
from recon.agent.model.errors import HubError, UsageError
from recon.agent.model.findings import Raw, Request
from recon.agent.model.missions import Intent, Layout

SHA = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64,
          "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 32, "torch_dtype": "bfloat16"}  # fmt: skip
SHAPES = {
    "model.embed_tokens.weight": [32, 64], "lm_head.weight": [32, 64], "model.norm.weight": [64],
    "model.layers.0.self_attn.q_proj.weight": [64, 64], "model.layers.0.mlp.up_proj.weight": [128, 64],
}  # fmt: skip


def checkpoint(folder: Path, *, data: bytes | None = None) -> Path:
    """A whole small BF16 checkpoint, its weights as one file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    table, at = {}, 0
    for name, shape in SHAPES.items():
        count = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        table[name], at = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + count]}, at + count
    _, head = header_bytes(table)
    (folder / "model.safetensors").write_bytes(head + (bytes(at) if data is None else data))
    return folder


def ask(probe: str, repo: str, path: str = "", revision: str = "main") -> Request:
    return Request(connector="hub", target=repo, probe=probe, path=path, revision=revision, cap_bytes=1 << 20)


async def fetched(source: DirectorySource, probe: str, path: str = "") -> Raw:
    return await source.fetch(ask(probe, source.repo, path))


def document(source: DirectorySource, *, tp: int = 1) -> dict[str, Any]:
    inspection = load_inspection("model")
    intent = Intent(model=source.repo, layout=Layout(tp=tp))
    looked = look(inspection, intent, listen=lambda message: None, source=source)
    return inspection.document(looked.view, [j.judgement for j in looked.state.judgements])


def test_a_download_is_proved_from_its_bytes(tmp_path: Path) -> None:
    found = document(DirectorySource(checkpoint(tmp_path / "tiny")), tp=2)
    parts = found["components"]
    assert {
        n: (parts[n]["format"], parts[n]["level"])
        for n in ("attention", "dense_mlp", "embeddings", "lm_head")
    } == dict.fromkeys(("attention", "dense_mlp", "embeddings", "lm_head"), ("bf16", "proved"))
    assert found["commit"] is None and len(found["content_id"]) == 40
    assert found["servable"]["answer"] == "yes"
    assert found["bytes"]["weights"] == 2 * (32 * 64 * 2 + 64 + 64 * 64 + 128 * 64)
    assert found["bytes"]["headers_read"] < 1000
    assert 0 < found["bytes_per_rank"] < found["bytes"]["weights"]


def test_the_commit_that_the_hubs_tools_noted_is_taken(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "tiny")
    notes = folder / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (notes / f"{name}.metadata").write_text(f"{SHA}\netag\n1.0\n")
    source = DirectorySource(folder)
    assert source.commit == SHA
    assert document(source)["commit"] == SHA
    (notes / "config.json.metadata").write_text(f"{'f' * 40}\netag\n1.0\n")
    assert DirectorySource(folder).commit == "", "files of two commits are no commit"


def test_a_folder_of_the_hubs_cache(tmp_path: Path) -> None:
    cache = tmp_path / "models--acme--tiny"
    real = checkpoint(tmp_path / "real")
    (cache / "blobs").mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(SHA)
    snapshot = cache / "snapshots" / SHA
    snapshot.mkdir(parents=True)
    for n, path in enumerate(sorted(real.iterdir())):
        path.rename(cache / "blobs" / str(n))
        (snapshot / path.name).symlink_to(f"../../blobs/{n}")
    for folder in (cache, snapshot):
        source = DirectorySource(folder)
        assert (source.repo, source.commit) == ("acme/tiny", SHA)
        assert document(source)["components"]["attention"]["level"] == "proved"


async def test_links_and_paths_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "tiny")
    (tmp_path / "secret").write_text("secret")
    (folder / "README.md").symlink_to(tmp_path / "secret")
    source = DirectorySource(folder)
    for path in ("README.md", "../secret", "/etc/passwd"):
        assert (await fetched(source, "hub.file", path)).state == "missing"
    assert b"secret" not in (await fetched(source, "hub.tree")).stdout


async def test_a_header_that_lies_is_unparsable(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "tiny", data=b"short")
    raw = await fetched(DirectorySource(folder), "hub.header", "model.safetensors")
    assert raw.state == "unparsable" and "of a file of" in raw.reason


def test_metadata_alone_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.partial.json").write_text(json.dumps(CONFIG))
    (tmp_path / "card.md").write_text("# Tiny\n")
    source = DirectorySource(tmp_path)
    info = json.loads(asyncio.run(fetched(source, "hub.revision")).stdout)
    assert info["metadataOnly"] and info["partialConfig"]
    assert asyncio.run(fetched(source, "hub.file", "README.md")).stdout == b"# Tiny\n"
    assert document(source)["servable"]["answer"] == "unknown"


@pytest.mark.parametrize(
    ("name", "repo"),
    [
        ("models--acme--tiny-1.5", "acme/tiny-1.5"),
        ("acme__tiny", "acme/tiny"),
        ("tiny model", "local/tiny-model"),
        ("..x", "local/x"),
    ],
)
def test_the_name_a_folder_goes_by(tmp_path: Path, name: str, repo: str) -> None:
    assert repo_of(tmp_path / name) == repo


async def test_what_it_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        DirectorySource(tmp_path / "nowhere")
    source = DirectorySource(checkpoint(tmp_path / "tiny"))
    with pytest.raises(HubError, match="not other/repo"):
        await source.fetch(ask("hub.tree", "other/repo"))
    with pytest.raises(HubError, match="of no known commit"):
        await source.fetch(ask("hub.revision", source.repo, revision="v1"))
