"""Sizes: tensors, files, cards and indexes against one another; and the published sizes of one family from its shapes."""

from __future__ import annotations

from typing import Any

import pytest
from support.views import absent, fact, unknown, view_of

from recon.agent.api import Judgement
from recon.tasks.facts.headers import Merge, Tensor
from recon.tasks.facts.split import per_rank_bytes
from recon.tasks.judge.size import SIZE
from recon.tasks.knowledge.signatures import BITS
from recon.tasks.recordings import deepseek_v4 as v4

TENSORS = 47_144_806_400
NATIVE_FP8 = v4.fp8_block("scale", "F8_E8M0")


def claim(text: str) -> dict[str, Any]:
    """A size as a card says it."""
    number = float(text.split(" ")[0])
    return {"text": text, "bytes_if_gb": int(number * 1e9), "bytes_if_gib": int(number * 2**30)}


def lines(*sizes: str, **checkpoint: Any) -> dict[str, Judgement]:
    """What judge.size says of a checkpoint with these claims on its card."""
    claims = (
        fact([claim(text) for text in sizes], level="claimed") if sizes else absent("no size on the card")
    )
    found = {"weights_bytes": TENSORS, "card.sizes": claims, **checkpoint}
    judgements = SIZE.judge(view_of({"checkpoint": found})).judgements
    assert all(len(j.title) <= 80 for j in judgements)
    return {j.key: j for j in judgements}


@pytest.mark.parametrize(
    ("said", "verdict", "meaning"),
    [
        ("47.1 GB", "pass", ""),
        ("43.9 GiB", "pass", ""),
        ("43.9 GB", "warn", '"43.9 GB" is right within 2 % only as GiB'),
        (
            "94.3 GB",
            "warn",
            '"94.3 GB" is everything in the repository, 94.3 GB (87.8 GiB), not what is loaded',
        ),
        ("12 GB", "warn", '"12 GB" is not within 2 % in either unit'),
    ],
)
def test_a_claim_is_read_in_both_units_and_against_the_whole_repository(
    said: str, verdict: str, meaning: str
) -> None:
    line = lines(said, repo_bytes=94_300_000_000)["checkpoint.size_claims"]
    assert (line.verdict, line.detail[:1]) == (verdict, (meaning,) if meaning else ())


def test_without_headers_the_files_are_held_against_the_card() -> None:
    unread = {"weights_bytes": unknown("2 headers not read"), "download_bytes": 168_300_000_000}
    wrong = lines("159 GB", **unread)["checkpoint.size_claims"]
    assert (wrong.verdict, wrong.title) == ("warn", "168.3 GB (156.7 GiB) of files; the card says 159 GB")
    right = lines("168 GB", **unread)["checkpoint.size_claims"]
    assert (right.verdict, "2 headers not read" in right.detail[0]) == ("unknown", True)


def test_an_index_with_another_total_is_named_with_both_numbers() -> None:
    total = fact(94_289_612_800, level="declared")
    line = lines(index_total_size=total)["checkpoint.index_size"]
    assert (line.verdict, line.observed, line.expected) == ("warn", 94_289_612_800, TENSORS)
    assert line.title == "the index says 94.3 GB (87.8 GiB), tensors are 47.1 GB (43.9 GiB)"
    assert [side.side for side in line.sides] == ["observed", "expected"]


def test_an_index_without_a_total_is_said_and_a_right_one_is_not() -> None:
    missing = lines(index_total_size=absent("the index has no usable metadata.total_size"))
    assert (missing["checkpoint.index_size"].verdict, missing["checkpoint.index_size"].title) == (
        "warn", "the index gives no total size",
    )  # fmt: skip
    assert "checkpoint.index_size" not in lines(index_total_size=TENSORS)
    assert "checkpoint.index_size" not in lines()
    assert "checkpoint.index_size" not in lines(index_total_size=9, weights_bytes=unknown("timed out"))


def tensors(recipe: v4.Recipe) -> Merge:
    """The headers of a repository that stores DeepSeek-V4-Flash in this way, merged."""
    merge = Merge(layers=v4.LAYERS, kv_heads=1)
    entries = []
    for name, dtype, shape in v4.tensors(recipe):
        count = 1
        for n in shape:
            count *= n
        entries.append(Tensor(name, dtype, shape, -(-count * BITS[dtype] // 8)))
    merge.add(entries, header_bytes=0)
    return merge


def totals(recipe: v4.Recipe) -> dict[str, Any]:
    return {draft.name: draft.value for draft in tensors(recipe).drafts()}


_NATIVE_DRAFT = v4.Recipe(
    experts=v4.mxfp4_native, attention=NATIVE_FP8, shared=NATIVE_FP8, indexer=NATIVE_FP8
)
PUBLISHED = {
    "native, with MTP": (v4.Recipe(experts=v4.mxfp4_native, attention=NATIVE_FP8, shared=NATIVE_FP8, indexer=NATIVE_FP8, draft=_NATIVE_DRAFT), 159.6, 148.6),
    "W4A16, no MTP": (
        v4.Recipe(experts=v4.int4_group128, attention=v4.fp8_block("weight_scale", "BF16"), shared=v4.bf16, indexer=v4.fp8_block("weight_scale", "BF16")),
        152.5, 142.0,
    ),
    "W4A16 with MTP": (v4.W4A16, 168.3, 156.7),
    "NVFP4 without MTP": (v4.NVFP4_NO_MTP, 165.9, 154.5),
    "NVFP4 with MTP": (v4.NVFP4_MTP, 181.3, 168.8),
    "NVFP4 experts, native rest": (v4.NVFP4_HYBRID, 168.3, 156.7),
    "FP8 experts": (
        v4.Recipe(experts=v4.fp8_block("weight_scale_inv", "F32"), attention=NATIVE_FP8, shared=NATIVE_FP8, indexer=NATIVE_FP8, draft=_NATIVE_DRAFT),
        289.5, 269.6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_shapes_of_one_model_give_the_sizes_of_its_repositories(name: str) -> None:
    recipe, gb, gib = PUBLISHED[name]
    size = totals(recipe)["weights_bytes"]
    assert size / 1e9 == pytest.approx(gb, rel=0.003) and size / 2**30 == pytest.approx(gib, rel=0.003)


def test_a_rank_of_four_holds_a_quarter_and_what_is_whole_on_each() -> None:
    split = totals(v4.W4A16)["split"]
    each = per_rank_bytes(split, 4)
    assert each is not None and each / 1e9 == pytest.approx(42.6, rel=0.005)
    experts = split["by_component"]["routed_experts"]
    assert experts["replicated_bytes"] == 0 and experts["sharded_bytes"] / 1e9 == pytest.approx(
        142.8, abs=0.1
    )
    assert split["by_component"]["compressor"]["sharded_bytes"] == 0
    assert split["by_component"]["router"]["sharded_bytes"] == 0
    assert per_rank_bytes(split, 1) == split["sharded_bytes"] + split["replicated_bytes"]
    eights = totals(PUBLISHED["FP8 experts"][0])["split"]
    assert (per_rank_bytes(eights, 4) or 0) / 1e9 == pytest.approx(73, abs=1)
