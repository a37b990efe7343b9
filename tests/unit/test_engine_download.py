"""What an engine's own download fetches, against the filter of the real hub client."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.utils import filter_repo_objects
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.api import Draft, Raw
from recon.tasks.facts.engine_download import engine_download
from recon.tasks.facts.hub import download_plan, parse_tree

CORPUS = Path(os.environ.get("RECON_CORPUS", "")) / "models" if os.environ.get("RECON_CORPUS") else None
SHARDS = [(f"model-{n:05d}-of-00010.safetensors", 4_714_484_887) for n in range(1, 11)]
DEVSTRAL = [
    ("config.json", 600), ("model.safetensors.index.json", 30_000), ("consolidated.safetensors", 47_144_846_024),
    *SHARDS[:9], (SHARDS[9][0], 47_144_848_872 - 9 * 4_714_484_887),
]  # fmt: skip


def tree(files: list[tuple[str, int]]) -> dict[str, Draft]:
    """The findings of a file list."""
    body = json.dumps([{"type": "file", "path": path, "size": size} for path, size in files])
    return {draft.name: draft for draft in parse_tree(Raw(state="ok", stdout=body.encode()))}


def test_a_second_copy_of_the_weights_is_fetched_for_nothing() -> None:
    found = tree(DEVSTRAL)
    assert found["engine_download_bytes"].value == 94_289_694_896
    assert found["engine_download_extra"].value == [
        {"path": "consolidated.safetensors", "size_bytes": 47_144_846_024}
    ]
    assert found["download_bytes"].value == 47_144_848_872 + 30_600
    assert found["engine_download_bytes"].unit == "bytes"


@pytest.mark.skipif(CORPUS is None, reason="RECON_CORPUS does not name a corpus of checkpoints")
def test_the_sizes_of_a_real_double_repository() -> None:
    assert CORPUS is not None
    index = json.loads(
        (CORPUS / "mistralai__Devstral-Small-2507" / "model.safetensors.index.json").read_bytes()
    )
    shards = sorted(set(index["weight_map"].values()))
    wanted, _ = download_plan(
        [(name, 1) for name in [*shards, "consolidated.safetensors", "model.safetensors.index.json"]]
    )
    assert set(shards) <= wanted and "consolidated.safetensors" not in wanted and len(shards) == 10


def test_copies_for_other_runtimes_are_not_needed_and_some_are_fetched() -> None:
    files = [
        ("config.json", 9), ("model-00001-of-00001.safetensors", 65), ("model.safetensors.index.json", 1),
        ("original/model--00001-of-00001.safetensors", 64), ("original/deep/model.safetensors", 7), ("metal/model.bin", 63),
        ("draft/model.safetensors", 5),
    ]  # fmt: skip
    found = tree(files)
    assert found["download_bytes"].value == 9 + 65 + 1
    # The pattern that leaves out original/ asks for two slashes: files right in it come along.
    assert [row["path"] for row in found["engine_download_extra"].value] == [
        "draft/model.safetensors", "original/model--00001-of-00001.safetensors",
    ]  # fmt: skip
    assert found["weight_files"].value == ["model-00001-of-00001.safetensors"]


def test_one_layout_has_nothing_beyond_itself() -> None:
    found = tree([("config.json", 9), ("model.safetensors", 65), ("tokenizer.json", 3)])
    assert (found["engine_download_bytes"].value, found["engine_download_extra"].value) == (65, [])


def test_weights_in_a_subfolder_alone_are_fetched_and_not_found() -> None:
    found = tree([("config.json", 9), ("fp8/model-00001-of-00001.safetensors", 65)])
    for name in ("engine_download_bytes", "engine_download_extra"):
        assert found[name].outcome == "absent"
        assert found[name].reason == "weights only in fp8: the engine lists the top folder alone"
    assert found["weight_files"].value == ["fp8/model-00001-of-00001.safetensors"]


def test_a_top_level_bin_wins_over_nested_safetensors() -> None:
    found = engine_download([("pytorch_model.bin", 65), ("fp8/model.safetensors", 30), ("config.json", 1)])
    assert (found.patterns, found.files) == (("*.bin",), (("pytorch_model.bin", 65),))


def test_a_repository_without_weights_has_no_engine_download() -> None:
    assert tree([("tokenizer.json", 9)])["engine_download_bytes"].reason == "no weights"


def test_of_a_whole_file_and_its_consolidated_twin_one_counts() -> None:
    wanted, skipped = download_plan(
        [("consolidated.safetensors", 9), ("model.safetensors", 9), ("config.json", 1)]
    )
    assert wanted == {"model.safetensors", "config.json"} and "consolidated.safetensors" in skipped


_NAMES = st.sampled_from(
    ["a.safetensors", "model.bin", "x.json", "weights.SAFETENSORS", "b.safetensors.index.json"]
)
_PATHS = st.builds(lambda folders, name: "/".join([*folders, name]),
                   st.lists(st.sampled_from(["original", "metal", "x"]), max_size=3), _NAMES)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_PATHS, max_size=8, unique=True))
def test_the_filter_is_the_one_of_the_hub_client(paths: list[str]) -> None:
    found = engine_download([(path, 1) for path in paths])
    expected: list[Any] = list(
        filter_repo_objects(
            sorted(paths), allow_patterns=list(found.patterns), ignore_patterns=["original/**/*"]
        )
    )
    assert [path for path, _ in found.files] == expected
