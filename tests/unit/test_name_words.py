"""Words of repository names and the loaders of quantization methods."""

from __future__ import annotations

import pytest

from recon.tasks.knowledge.engine_rows import TABLE_VERSION
from recon.tasks.knowledge.name_words import algorithms, promises, promises_draft
from recon.tasks.knowledge.quant_loaders import loader, too_old


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DeepSeek-V4-Flash-W4A16-FP8-MTP", ["W4A16", "FP8"]),
        ("DeepSeek-V4-Flash-NVFP4", ["NVFP4"]),
        ("Llama-3.1-8B-Instruct-quantized.w4a16", ["w4a16"]),
        ("DeepSeek-R1-Block-INT8", ["INT8"]),
        ("Molmo_7B_D_0924_NF4", ["NF4"]),
        ("model-4bit", ["4bit"]),
        ("DeepSeek-V3-BF16", ["BF16"]),
        ("Qwen3-32B", []),
        ("notfp8ish", []),
    ],
)
def test_a_name_promises_the_formats_it_spells(name: str, words: list[str]) -> None:
    assert [p.word for p in promises(name)] == words


def test_a_word_may_mean_several_formats() -> None:
    (w8a8,) = promises("Qwen2.5-72B-Instruct-quantized.w8a8")
    assert {"w8a8-int8", "fp8-channel"} <= w8a8.formats
    (w4a16,) = promises("x-w4a16")
    assert w4a16.formats == {"w4a16-int4"}


def test_an_algorithm_is_told_with_the_methods_that_carry_its_name() -> None:
    assert [(word, "awq" in methods) for word, methods in algorithms("Qwen3.8-27B-AWQ")] == [("AWQ", True)]
    assert [word for word, _ in algorithms("Qwen3.8-27B-W4A16-AutoRound")] == ["AutoRound"]
    assert algorithms("hawqs") == []


def test_a_draft_block_is_promised_by_a_word_of_its_own() -> None:
    assert promises_draft("V4-Flash-FP8-MTP") and not promises_draft("smtp-model")


@pytest.mark.parametrize(
    ("method", "loads"),
    [
        ("compressed-tensors", True),
        ("modelopt", True),
        ("gptq", True),
        ("Intel/auto-round", True),
        ("fbgemm_fp8", False),
        ("mlx", False),
        ("ascend", False),
    ],
)
def test_each_method_has_its_row_with_a_source(method: str, loads: bool) -> None:
    row = loader(method)
    assert row is not None and row.loads is loads
    assert row.source and row.read_from == TABLE_VERSION
    assert row.loads or row.says


def test_a_method_that_no_release_names_has_no_row() -> None:
    assert loader("vptq") is None


@pytest.mark.parametrize(
    ("fmt", "sm", "old"),
    [("fp8-block128", "sm_80", True), ("fp8-block128", "sm_89", False), ("nvfp4", "sm_90", False), ("w4afp8", "sm_89", True),
     ("w4a16-int4", "sm_75", True), ("bf16", "sm_70", False), ("fp8-tensor", "unknown", False)],
)  # fmt: skip
def test_formats_without_kernels_on_a_gpu(fmt: str, sm: str, old: bool) -> None:
    assert bool(too_old(fmt, sm)) is old
