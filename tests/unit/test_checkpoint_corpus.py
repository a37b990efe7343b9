"""Conformance over a folder of real checkpoints' metadata, named by RECON_CORPUS (its `models` folder is read)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recon.agent.api import Raw
from recon.tasks.facts.config import parse_config, parse_hf_quant
from recon.tasks.facts.declared import combine
from recon.tasks.facts.hub import download_plan
from recon.tasks.facts.tensor_rules import component_of, split_name, template_of
from recon.tasks.knowledge.format_words import satisfies

ROOT = Path(os.environ.get("RECON_CORPUS", "")) / "models"
pytestmark = pytest.mark.skipif(
    "RECON_CORPUS" not in os.environ, reason="RECON_CORPUS names no corpus folder"
)
FOLDERS = sorted(p.parent for p in ROOT.glob("*/config.json")) if "RECON_CORPUS" in os.environ else []


def declared(folder: Path) -> dict[str, Any]:
    """What a folder's files declare together."""
    found = {d.name: d for d in parse_config(Raw(state="ok", stdout=(folder / "config.json").read_bytes()))}
    beside = folder / "hf_quant_config.json"
    hf_quant = (
        parse_hf_quant(Raw(state="ok", stdout=beside.read_bytes()))[0].value if beside.exists() else None
    )
    return combine(
        found["architecture"].value, config=found["config.declared"].value, hf_quant=hf_quant,
        plain=found["plain_dtype"].value,
    )  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_no_declared_format_is_wrong(folder: Path) -> None:
    """Unknown is allowed, a wrong word is not; routed experts must be told wherever the answer is known."""
    expected = json.loads((folder / "facts.json").read_text())["components"]
    found = declared(folder)["components"]
    for name, want in expected.items():
        have, word = found.get(name, {}), want.get("format", "unknown")
        if word == "unknown" or have.get("format", "unknown") == "unknown":
            continue
        assert satisfies(have["format"], word) and have["format"] == word, name
        if "group_size" in want and "group_size" in have:
            assert have["group_size"] == want["group_size"], name
    if expected.get("routed_experts", {}).get("format", "unknown") != "unknown":
        assert found["routed_experts"]["format"] == expected["routed_experts"]["format"]


@pytest.mark.skipif(
    not list(ROOT.glob("*/model.safetensors.index.json")), reason="the corpus holds no index file"
)
def test_every_name_of_a_real_index_but_norms_finds_a_component() -> None:
    for index in ROOT.glob("*/model.safetensors.index.json"):
        names = json.loads(index.read_text())["weight_map"]
        modules = {template_of(split_name(name)[0]) for name in names}
        lost = {m for m in modules if component_of(m) == "other" and "norm" not in m and ".ln_" not in m}
        assert not lost, index.parent.name


def test_two_copies_of_the_weights_are_counted_once() -> None:
    """A consolidated file beside the shards holds the same tensors again."""
    names = json.loads((ROOT / "mistralai__Devstral-Small-2507/model.safetensors.index.json").read_text())[
        "weight_map"
    ]
    shards = sorted(set(names.values()))
    files = [(name, 1) for name in [*shards, "consolidated.safetensors", "model.safetensors.index.json"]]
    wanted, skipped = download_plan(files)
    assert "consolidated.safetensors" in skipped
    assert set(shards) <= wanted
