"""Answers of a hub: pins, file lists, download plans, siblings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recon.agent.api import Draft, Raw
from recon.tasks.facts.hub import (
    base_of,
    complete_series,
    download_plan,
    missing_shards,
    parse_index,
    parse_revision,
    parse_siblings,
    parse_tree,
)
from recon.tasks.knowledge.format_words import formats_in, satisfies

SHA = "0123456789abcdef0123456789abcdef01234567"


def raw(value: Any) -> Raw:
    """A hub's JSON answer."""
    return Raw(state="ok", exit_code=200, stdout=json.dumps(value).encode())


def by_name(drafts: list[Draft]) -> dict[str, Draft]:
    """Drafts by their names."""
    return {draft.name: draft for draft in drafts}


def test_a_pin_points_to_the_commit_and_carries_its_facts() -> None:
    tags = ["nvfp4", "base_model:org/base", "base_model:quantized:org/base", "x\x1b[31my"]
    found = by_name(parse_revision(raw({"sha": SHA, "tags": tags}), repo="org/model"))
    assert found["same_as"].value == f"hf:org/model@{SHA}"
    assert (found["commit"].subject, found["commit"].value) == (f"hf:org/model@{SHA}", SHA)
    assert found["base_model"].value == "org/base"
    assert "\x1b" not in found["tags"].value[3]


@pytest.mark.parametrize("value", [None, [], {}, {"sha": "main"}, {"sha": 7}, {"sha": SHA[:39]}])
def test_an_answer_without_a_commit_is_unknown(value: Any) -> None:
    (draft,) = parse_revision(raw(value), repo="org/model")
    assert draft.outcome == "unknown" and draft.reason


def test_the_download_is_one_layout_of_the_weights_and_says_what_it_leaves_out() -> None:
    files = [
        ("model-00001-of-00002.safetensors", 10),
        ("model-00002-of-00002.safetensors", 10),
        ("model.safetensors.index.json", 1),
        ("consolidated.safetensors", 20),
        ("original/params.pth", 30),
        ("pytorch_model.bin", 20),
        ("model-q4.gguf", 7),
        ("config.json", 1),
    ]
    found = by_name(parse_tree(raw([{"type": "file", "path": p, "size": s} for p, s in files])))
    assert found["download_bytes"].value == 22
    assert found["repo_bytes"].value == 99
    assert found["weight_files"].value == [files[0][0], files[1][0]]
    assert {row["path"] for row in found["skipped"].value} == {p for p, s in files[3:7]}


def test_a_consolidated_file_without_shards_is_the_checkpoint() -> None:
    wanted, skipped = download_plan([("consolidated.safetensors", 5), ("params.json", 1)])
    assert "consolidated.safetensors" in wanted and not skipped


def test_bin_files_stay_where_there_are_no_safetensors() -> None:
    wanted, _ = download_plan([("pytorch_model.bin", 5)])
    assert wanted == {"pytorch_model.bin"}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([("a.gguf", 1)], "weights only as gguf"),
        ([("tokenizer.json", 1)], "the repository holds no weight file"),
    ],
)
def test_no_safetensors_is_absent_and_says_what_is_there(files: list[tuple[str, int]], reason: str) -> None:
    found = by_name(parse_tree(raw([{"path": p, "size": s} for p, s in files])))
    assert (found["weight_files"].outcome, found["weight_files"].reason) == ("absent", reason)


def test_paths_that_leave_the_repository_are_not_listed() -> None:
    found = by_name(
        parse_tree(
            raw(
                [{"path": "../../etc/passwd", "size": 1}, {"path": "/x", "size": 1}, {"path": "a", "size": 2}]
            )
        )
    )
    assert found["repo_bytes"].value == 2


def test_a_file_list_that_was_cut_is_unknown_not_short() -> None:
    cut = raw([{"path": "a", "size": 1}]).model_copy(update={"truncated": True})
    assert {d.outcome for d in parse_tree(cut)} == {"unknown"}


def test_series_of_shards_and_what_is_missing_of_them() -> None:
    paths = ["m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors", "mtp.safetensors"]
    assert complete_series(paths) == (paths[:2], ["mtp.safetensors"])
    assert missing_shards(paths) == ["m-00002-of-00003.safetensors"]


def test_an_index_names_the_files_that_are_loaded() -> None:
    names = {"a": "x.safetensors", "b": "x.safetensors", "c": "../y"}
    files, total = parse_index(raw({"weight_map": names, "metadata": {"total_size": 47_144_806_400}}))
    assert (files.value, total.value, total.unit) == (["x.safetensors"], 47_144_806_400, "bytes")
    assert [d.level for d in (files, total)] == ["declared", "declared"]
    assert parse_index(Raw(state="missing"))[0].outcome == "absent"
    assert parse_index(raw([1]))[0].outcome == "unknown"


@pytest.mark.parametrize(
    "metadata", [None, {}, {"total_size": "9"}, {"total_size": -1}, {"total_size": True}, 7]
)
def test_an_index_without_a_usable_total_says_so(metadata: object) -> None:
    total = parse_index(raw({"weight_map": {}, "metadata": metadata}))[1]
    assert (total.name, total.outcome) == ("index_total_size", "absent") and total.reason


def test_siblings_are_listed_with_the_formats_their_words_hint_at() -> None:
    rows = [
        {"id": "org/Base-NVFP4", "sha": SHA, "tags": ["fp8"]},
        {"id": "org/own", "tags": []},
        {"id": "../x", "tags": []},
        {"id": "b/Base-AWQ", "sha": "?", "tags": None},
        7,
    ]
    (draft,) = parse_siblings(raw(rows), base="org/base", own="org/own")
    assert draft.level == "claimed"
    assert [(r["repo"], r["sha"], r["formats"]) for r in draft.value] == [
        ("b/Base-AWQ", None, ["w4a16-int4"]),
        ("org/Base-NVFP4", SHA, ["fp8-block128", "nvfp4"]),
    ]


def test_a_format_word_inside_another_word_is_not_one() -> None:
    assert formats_in("gpt4bitty", "notfp8x") == []
    assert formats_in("Model-W4A16-FP8-MTP") == ["fp8-block128", "w4a16-int4"]


def test_families_satisfy_a_wish_and_strangers_do_not() -> None:
    assert satisfies("nvfp4-w4a16", "nvfp4")
    assert not satisfies("w4a16-int4", "nvfp4")
    assert not satisfies("mxfp4", "nvfp4")


def test_the_most_telling_base_tag_wins() -> None:
    assert base_of(["base_model:a/b", "base_model:quantized:c/d"]) == "c/d"
    assert base_of(["base_model:quantized:not a repo"]) == ""
