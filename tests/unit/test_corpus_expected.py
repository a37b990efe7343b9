"""Every conclusion that the corpus expects of a checkpoint has its judgement or finding, or a reason why its data decide nothing.

A folder's files are read by the real tasks through a stand-in hub; `facts.json` gives the sentences and nothing else. What
concerns format, size, MTP, duplicates or servability is `covered` (a check) or `undecided` (why the files cannot tell, and
which test shows the same on made-up files); the rest is not concerned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.corpus_hub import read_folder, read_recorded

from recon.agent.api import Judgement, View, Wish

ROOT = Path(os.environ.get("RECON_CORPUS", "")) / "models"
pytestmark = pytest.mark.skipif(
    "RECON_CORPUS" not in os.environ, reason="RECON_CORPUS names no corpus folder"
)

Lines = dict[str, Judgement]
Check = Callable[[View, Lines], bool]


def component(name: str, fmt: str) -> Check:
    """The component is declared in this format."""
    return lambda view, _: view.value(f"checkpoint.declared.components.{name}.format") == fmt


def line(key: str, *words: str, verdict: str = "") -> Check:
    """A judgement under this key that says all these words in title, detail or what it observed."""

    def check(_: View, lines: Lines) -> bool:
        held = lines.get(key)
        text = "" if held is None else " ".join([held.title, *held.detail, json.dumps(held.observed)])
        return (
            held is not None and all(w in text for w in words) and held.verdict == (verdict or held.verdict)
        )

    return check


def finding(path: str, holds: Callable[[Any], bool]) -> Check:
    """The value at a path holds."""
    return lambda view, _: holds(view.value(path))


def both(*checks: Check) -> Check:
    return lambda view, lines: all(check(view, lines) for check in checks)


def not_naive_cache(view: View, _: Lines) -> bool:
    """No KV figure, or one that is not layers x heads x head_dim x 2 x 2."""
    value = view.value("checkpoint.architecture")
    size = value.get("head_dim") or value["hidden_size"] // value["attention_heads"]
    naive = 4 * value["layers"] * (value.get("kv_heads") or value["attention_heads"]) * size
    held = view.value("checkpoint.kv_per_token")
    return held is None or held["bytes_per_token_per_rank"] != naive


CODE = line("checkpoint.servable", "auto_map")
COVERED: dict[tuple[str, int], Check] = {
    ("EnsueAI__DeepSeek-V4-Flash-Base-INT4", 0): line("checkpoint.servable", "quant_metadata.json", verdict="block"),
    ("EnsueAI__DeepSeek-V4-Flash-Base-INT4", 1): line("checkpoint.servable", "loader of its own", verdict="block"),
    ("Iamjuhwan__HY-MT1.5-yoruba-pidgin-lora", 0): line("checkpoint.servable", "adapter alone", "tencent/HY-MT1.5-1.8B", verdict="block"),
    ("MiniMaxAI__MiniMax-M2.5", 0): component("routed_experts", "fp8-block128"),
    ("MiniMaxAI__MiniMax-M2.5", 1): both(component("routed_experts", "fp8-block128"), component("attention", "fp8-block128")),
    ("MiniMaxAI__MiniMax-M2.5", 2): finding("checkpoint.plain_dtype", lambda v: v == "unknown"),
    ("MiniMaxAI__MiniMax-M2.5", 3): CODE,
    ("Qwen__Qwen-VL-Chat-Int4", 0): both(component("attention", "w4a16-int4"), finding("checkpoint.declared.quant_method", lambda v: v == "gptq")),
    ("Qwen__Qwen-VL-Chat-Int4", 1): CODE,
    ("Qwen__Qwen2-VL-2B-Instruct-AWQ", 0): both(
        finding("checkpoint.declared.ignore_count", lambda v: v == 1), component("attention", "w4a16-int4"),
        finding("checkpoint.declared.components.vision.format", lambda v: v != "w4a16-int4"),
    ),
    ("Qwen__Qwen3-30B-A3B-FP8", 0): both(component("routed_experts", "fp8-block128"), component("router", "bf16")),
    ("Qwen__Qwen3-32B", 0): line("checkpoint.format", "wanted FP8", verdict="conflict"),
    ("Qwen__Qwen3-32B", 1): finding("checkpoint.kv_per_token.bytes_per_token_per_rank", lambda v: v == 262_144),
    ("RedHatAI__DeepSeek-V4-Flash-NVFP4-FP8", 0): line("checkpoint.mtp", "dropped", "drops the multi-token-prediction block"),
    ("RedHatAI__Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", 0): component("routed_experts", "fp8-channel"),
    ("RedHatAI__Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", 1): component("attention", "bf16"),
    ("TheBloke__Genz-70b-GPTQ", 0): both(component("dense_mlp", "w3a16-int3"), line("checkpoint.servable", "3-bit", verdict="block")),
    ("XiaomiMiMo__MiMo-V2-Flash", 0): not_naive_cache,
    ("antirez__deepseek-v4-gguf", 0): line("checkpoint.servable", "GGUF", verdict="block"),
    ("bryce-hoehn__Qwen3.5-25B-REAP-A3B-Coding", 1): component("routed_experts", "fp16"),
    ("canada-quant__DeepSeek-V4-Flash-W4A16-FP8", 0): line("checkpoint.mtp", "dropped"),
    ("deepseek-ai__DeepSeek-R1", 0): both(component("routed_experts", "fp8-block128"), finding("checkpoint.plain_dtype", lambda v: v == "bf16")),
    ("deepseek-ai__DeepSeek-R1", 1): CODE,
    ("deepseek-ai__DeepSeek-V4-Flash", 0): line("checkpoint.declared.method", "routed experts are MXFP4", verdict="warn"),
    ("deepseek-ai__DeepSeek-V4-Flash", 1): line("checkpoint.declared.method", "expert_dtype fp4"),
    ("deepseek-ai__DeepSeek-V4-Flash", 2): component("routed_experts", "mxfp4"),
    ("meituan__DeepSeek-R1-Block-INT8", 1): line("checkpoint.format", "wanted FP8", "INT8", verdict="unknown"),
    ("moonshotai__Kimi-K2.5", 0): finding("checkpoint.declared.source", lambda v: "text_config" in v),
    ("moonshotai__Kimi-K2.5", 1): both(component("routed_experts", "w4a16-int4"), component("attention", "bf16")),
    ("moonshotai__Kimi-K2.5", 3): CODE,
    ("moonshotai__Kimi-K3", 0): component("routed_experts", "mxfp4"),
    ("moonshotai__Kimi-K3", 1): component("routed_experts", "mxfp4"),
    ("neuralmagic-ent__Qwen2.5-72B-Instruct-quantized.w8a8", 1): line("checkpoint.format", "w8a8", verdict="unknown"),
    ("nicosuter__Qwen3.8-27B-AWQ", 0): line("checkpoint.name", "AWQ names the algorithm", "compressed-tensors"),
    ("nvidia__DeepSeek-V3.1-NVFP4", 0): finding("checkpoint.declared.source", lambda v: v == "hf_quant_config.json"),
    ("nvidia__DeepSeek-V3.1-NVFP4", 1): component("routed_experts", "nvfp4"),
    ("nvidia__DeepSeek-V4-Flash-NVFP4", 0): line("checkpoint.name", "attention FP8 128x128", "MTP MXFP4", verdict="warn"),
    ("nvidia__DeepSeek-V4-Flash-NVFP4", 1): line("checkpoint.declared.method", "routed experts are NVFP4", verdict="warn"),
    ("nvidia__DeepSeek-V4-Flash-NVFP4", 2): line("checkpoint.mtp", "MXFP4", "renames the draft block"),
    ("nvidia__Kimi-K2.5-NVFP4", 0): component("routed_experts", "nvfp4"),
    ("nvidia__Kimi-K2.5-NVFP4", 1): line("checkpoint.kv_cache", "auto makes it FP8", verdict="warn"),
    ("nvidia__Llama-3.1-70B-Instruct-FP8", 0): finding("checkpoint.declared.source", lambda v: v == "hf_quant_config.json"),
    ("nvidia__Llama-3.1-70B-Instruct-FP8", 1): component("dense_mlp", "fp8-tensor"),
    ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", 0): not_naive_cache,
    ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", 1): CODE,
    ("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", 0): line("checkpoint.declared.abridged", "not verified", verdict="warn"),
    ("nvidia__Qwen3.6-27B-NVFP4", 0): line("checkpoint.w4a16", "not INT4", verdict="warn"),
    ("nvidia__Qwen3.6-27B-NVFP4", 1): line("checkpoint.name", "FP8 per tensor", verdict="warn"),
    ("nvidia__Qwen3.6-27B-NVFP4", 2): component("lm_head", "nvfp4-w4a16"),
    ("nvidia__Qwen3.6-27B-NVFP4", 3): not_naive_cache,
    ("openai__gpt-oss-120b", 2): not_naive_cache,
    ("unknown-owner__Molmo_7B_D_0924_NF4", 0): line("checkpoint.servable", "tensor parallelism"),
    ("unknown-owner__Molmo_7B_D_0924_NF4", 1): CODE,
    ("unknown-owner__Molmo_7B_D_0924_NF4", 2): component("attention", "nf4"),
    ("zai-org__GLM-5-FP8", 0): not_naive_cache,
    ("zai-org__GLM-5-FP8", 1): both(component("routed_experts", "fp8-block128"), component("router", "bf16")),
}  # fmt: skip
# The folders of these have no headers; the recording that recon ships is composed of the same names, shapes and statements.
RECORDED: dict[tuple[str, int], Check] = {
    ("canada-quant__DeepSeek-V4-Flash-W4A16-FP8-MTP", 0): both(
        line("checkpoint.format", "wanted NVFP4", "INT4 W4A16", verdict="conflict"),
        lambda _, lines: "DeepSeek-V4-Flash-NVFP4-FP8-MTP" in {o.id for o in lines["checkpoint.format"].options},
    ),
    ("canada-quant__DeepSeek-V4-Flash-W4A16-FP8-MTP", 1): both(
        finding("checkpoint.scale_names", lambda v: v == {"weight_scale": 33_239}), line("checkpoint.attention", "scales named weight_scale")
    ),
    ("canada-quant__DeepSeek-V4-Flash-W4A16-FP8-MTP", 3): line("checkpoint.size_claims", "159 GB and 159 GiB", verdict="warn"),
    ("canada-quant__DeepSeek-V4-Flash-W4A16-FP8-MTP", 4): line("checkpoint.mtp", "MTP present: 799 tensors", verdict="pass"),
    ("canada-quant__DeepSeek-V4-Flash-NVFP4-FP8-MTP", 1): line("checkpoint.size_claims", "right within 2 % only as GiB", verdict="warn"),
}  # fmt: skip
_NO_FILES = "the folder holds words only: no config, no index, no file list"
_NO_LIST = "the folder lists no weight files; test_checkpoint_traps has the same on a made-up file list"
UNDECIDED: dict[tuple[str, int], str] = {
    ("EnsueAI__DeepSeek-V4-Flash-Base-INT4", 2): "the folder lists no rank files, so nothing is summed",
    ("RedHatAI__Meta-Llama-3.1-8B-Instruct-quantized.w4a16", 0): _NO_FILES,
    ("RedHatAI__Meta-Llama-3.1-8B-Instruct-quantized.w4a16", 1): _NO_FILES,
    ("RedHatAI__Meta-Llama-3.1-8B-Instruct-quantized.w4a16", 2): _NO_FILES,
    ("Vishva007__Qwen3.8-27B-W4A16-AutoRound", 0): _NO_FILES,
    ("Vishva007__Qwen3.8-27B-W4A16-AutoRound", 1): _NO_FILES,
    ("antirez__deepseek-v4-gguf", 1): _NO_LIST,
    ("bryce-hoehn__Qwen3.5-25B-REAP-A3B-Coding", 0): "the base model's expert count is not in the folder",
    ("canada-quant__DeepSeek-V4-Flash-W4A16-FP8-MTP", 2): "the native checkpoint's size is not in the folder",
    ("canada-quant__DeepSeek-V4-Flash-W4A16-FP8", 1): _NO_FILES,
    ("canada-quant__DeepSeek-V4-Pro-NVFP4-FP8-MTP", 0): "no size is in the folder",
    ("meituan__DeepSeek-R1-Block-INT8", 0): f"{_NO_FILES}; test_signatures has the tensors",
    ("mistralai__Devstral-Small-2507", 0): _NO_LIST,
    ("mistralai__Devstral-Small-2507", 1): _NO_LIST,
    ("openai__gpt-oss-120b", 0): _NO_LIST,
    ("openai__gpt-oss-120b", 1): "parameters are counted from headers, which the folder does not have; test_headers counts them",
}  # fmt: skip
_OTHER = "about neither format, size, MTP, duplicates nor servability"
NOT_CONCERNED: dict[tuple[str, int], str] = {
    ("Qwen__Qwen-VL-Chat-Int4", 2): f"{_OTHER}: two context lengths",
    ("TheBloke__Genz-70b-GPTQ", 1): f"{_OTHER}: branches; everything is read at one commit",
    ("canada-quant__DeepSeek-V4-Flash-NVFP4-FP8-MTP", 0): f"{_OTHER}: hardware advice; judge.cards compares cards by date",
    ("canada-quant__DeepSeek-V4-Flash-W4A16-FP8", 2): f"{_OTHER}: a defect of an engine",
    ("meta-llama__Meta-Llama-3.1-8B", 0): f"{_OTHER}: access",
    ("mistralai__Devstral-Small-2507", 2): f"{_OTHER}: the prompt of a gate",
    ("moonshotai__Kimi-K2.5", 2): f"{_OTHER}: the size of an index, which the reader's cap allows for",
    ("neuralmagic-ent__Qwen2.5-72B-Instruct-quantized.w8a8", 0): f"{_OTHER}: lineage",
}  # fmt: skip
WANTED = {
    "Qwen__Qwen3-32B": "fp8-block128", "meituan__DeepSeek-R1-Block-INT8": "fp8-block128",
}  # fmt: skip


@cache
def judged(folder: str) -> tuple[View, Lines]:
    wish = {"wanted_format": Wish(value=WANTED[folder])} if folder in WANTED else {}
    return read_folder(ROOT / folder, **wish)


@cache
def recorded(folder: str) -> tuple[View, Lines]:
    return read_recorded(folder.replace("__", "/", 1), wanted_format=Wish(value="nvfp4"))


def test_every_expected_sentence_has_its_place() -> None:
    sentences = {
        (path.parent.name, n) for path in ROOT.glob("*/facts.json") for n in range(len(json.loads(path.read_text())["expected"]))
    }  # fmt: skip
    told = [*COVERED, *RECORDED, *UNDECIDED, *NOT_CONCERNED]
    assert len(told) == len(set(told))
    assert set(told) == sentences
    covered = len(COVERED) + len(RECORDED)
    print(
        f"\nexpected conclusions: {covered} covered of {covered + len(UNDECIDED)} concerned, {len(UNDECIDED)} the data cannot decide"
    )
    for (folder, n), why in UNDECIDED.items():
        print(f"  not decided: {folder} {n}: {why}")


@pytest.mark.parametrize(("folder", "number"), COVERED, ids=[f"{f}-{n}" for f, n in COVERED])
def test_an_expected_conclusion_comes_out(folder: str, number: int) -> None:
    view, lines = judged(folder)
    told = "\n".join(f"{j.verdict} {j.key}: {j.title} {list(j.detail)}" for j in lines.values())
    assert COVERED[folder, number](view, lines), told


@pytest.mark.parametrize(("folder", "number"), RECORDED, ids=[f"{f}-{n}" for f, n in RECORDED])
def test_an_expected_conclusion_comes_out_of_the_recording(folder: str, number: int) -> None:
    view, lines = recorded(folder)
    assert RECORDED[folder, number](view, lines), "\n".join(f"{j.key}: {j.title}" for j in lines.values())
