"""Composes the hub's part of the bundled recording: a checkpoint, its NVFP4 siblings, and what asks them is answered.

Nothing here was captured. File lists, configs and tensor headers follow the published names, dtypes, shapes and sizes;
cards say in our own words what the published cards say, with their dates; commits are made up and start with `c0`.
Deterministic: the same code gives the same bytes. `compose()` is what the bundle is written from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from recon.agent.api import Json, Observation, ProbeState, Raw, Request, observation_id, sha256_hex
from recon.tasks.knowledge.signatures import BITS
from recon.tasks.recon.checkpoint_pin import (
    file_request,
    header_request,
    revision_request,
    siblings_request,
    tree_request,
)
from recon.tasks.recordings import cards
from recon.tasks.recordings.deepseek_v4 import (
    NVFP4_HYBRID,
    NVFP4_MTP,
    NVFP4_NO_MTP,
    RATIOS,
    W4A16,
    Entry,
    Recipe,
    tensors,
)

START: Final = 1794476469.0  # 2026-11-12T09:41:09Z
BASE: Final = "deepseek-ai/DeepSeek-V4-Flash"

_CONFIG: Final[dict[str, Json]] = {
    "architectures": ["DeepseekV4ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0,
    "eos_token_id": 1, "compress_ratios": [*RATIOS, 0], "compress_rope_theta": 160000, "expert_dtype": "fp4",
    "hc_eps": 1e-06, "hc_mult": 4, "hc_sinkhorn_iters": 20, "head_dim": 512, "hidden_act": "silu", "hidden_size": 4096,
    "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512, "max_position_embeddings": 1048576,
    "model_type": "deepseek_v4", "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "norm_topk_prob": True, "num_attention_heads": 64, "num_experts_per_tok": 6, "num_hash_layers": 3,
    "num_hidden_layers": 43, "num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 8,
    "o_lora_rank": 1024, "q_lora_rank": 1024, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000,
    "routed_scaling_factor": 1.5, "scoring_func": "sqrtsoftplus", "sliding_window": 128, "swiglu_limit": 10.0,
    "tie_word_embeddings": False, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "vocab_size": 129280,
}  # fmt: skip
_ATTENTION: Final = r"re:.*attn\.(wq_a|wq_b|wkv|wo_a|wo_b|fused_wqa_wkv)$"
_EXPERTS: Final = r"re:.*experts\.\d+\.(w1|w2|w3|gate_proj|up_proj|down_proj|gate_up_proj)$"
_FP8_GROUP: Final[dict[str, Json]] = {
    "format": "float-quantized", "targets": [_ATTENTION],
    "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128], "symmetric": True},
    "input_activations": {"dynamic": True, "group_size": 128, "num_bits": 8, "strategy": "group", "type": "float"},
}  # fmt: skip


@dataclass(frozen=True)
class Repository:
    """One composed repository."""

    name: str
    sha: str
    recipe: Recipe
    shards: int
    quantization: dict[str, Json]
    card: str
    tags: tuple[str, ...]
    modified: str
    hf_quant: dict[str, Json] | None = None
    config: dict[str, Json] = field(default_factory=dict)


def _compressed(experts: dict[str, Json], ignore: list[str]) -> dict[str, Json]:
    return {
        "config_groups": {"group_0": _FP8_GROUP, "group_1": experts}, "format": "mixed-precision", "ignore": ignore,
        "kv_cache_scheme": None, "quant_method": "compressed-tensors", "quantization_status": "compressed",
        "scale_fmt": "ue8m0",
    }  # fmt: skip


def _ignored(layers: int) -> list[str]:
    kept = ("ffn.gate", "ffn.shared_experts.w1", "ffn.shared_experts.w2", "ffn.shared_experts.w3")
    return ["head", "embed", r"re:mtp\..*", *(f"layers.{n}.{name}" for n in range(layers) for name in kept)]


_INT4_GROUP: Final[dict[str, Json]] = {
    "format": "pack-quantized", "targets": [_EXPERTS], "input_activations": None,
    "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True},
}  # fmt: skip
_NVFP4_GROUP: Final[dict[str, Json]] = {
    "format": "nvfp4-pack-quantized", "targets": [_EXPERTS],
    "input_activations": {"dynamic": "local", "group_size": 16, "num_bits": 4, "strategy": "tensor_group", "type": "float"},
    "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True},
}  # fmt: skip
_MODELOPT_LAYERS: Final = {
    f"layers.{n}.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16} for n in range(43)
}
_MODELOPT_KEPT: Final = ["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"]
_HYBRID: Final[dict[str, Json]] = {
    "activation_scheme": "dynamic", "fmt": "e4m3", "group_size": 16, "ignore": _MODELOPT_KEPT, "moe_quant_algo": "NVFP4",
    "kv_cache_quant_algo": None, "producer": {"name": "modelopt"}, "quant_algo": "MIXED_PRECISION", "quant_method": "fp8",
    "quantized_layers": _MODELOPT_LAYERS, "scale_fmt": "ue8m0", "weight_block_size": [128, 128],
}  # fmt: skip
_QUANTIZED: Final = (
    f"base_model:{BASE}",
    f"base_model:quantized:{BASE}",
    "region:us",
    "safetensors",
    "deepseek_v4",
)

REPOSITORIES: Final = (
    Repository(
        name="canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP", sha="c0a16f8e0c0a16f8e0c0a16f8e0c0a16f8e0c0a1",
        # The published exclusion list runs to layer 60 of a model with 43 layers.
        recipe=W4A16, shards=4, quantization=_compressed(_INT4_GROUP, _ignored(61)), card=cards.W4A16,
        tags=("compressed-tensors", "w4a16", "int4", "gptq", "fp8", "mtp", "vllm"), modified="2026-05-29T18:52:10.000Z",
    ),
    Repository(
        name="canada-quant/DeepSeek-V4-Flash-NVFP4-FP8-MTP", sha="c0f4f8e1c0f4f8e1c0f4f8e1c0f4f8e1c0f4f8e1",
        recipe=NVFP4_MTP, shards=35, quantization=_compressed(_NVFP4_GROUP, _ignored(43)), card=cards.NVFP4_MTP,
        tags=("compressed-tensors", "nvfp4", "fp8", "mtp", "vllm"), modified="2026-05-29T19:20:41.000Z",
    ),
    Repository(
        name="nvidia/DeepSeek-V4-Flash-NVFP4", sha="c0f4a2e2c0f4a2e2c0f4a2e2c0f4a2e2c0f4a2e2",
        recipe=NVFP4_HYBRID, shards=34, quantization=_HYBRID, card=cards.NVFP4_HYBRID,
        tags=("Model Optimizer", "ModelOpt", "nvfp4", "quantized"), modified="2026-05-28T07:03:55.000Z",
        hf_quant={"producer": {"name": "modelopt"}, "quantization": {
            "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": None, "quantized_layers": _MODELOPT_LAYERS,
            "exclude_modules": _MODELOPT_KEPT,
        }},
    ),
    Repository(
        name="RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8", sha="c0f4b3e3c0f4b3e3c0f4b3e3c0f4b3e3c0f4b3e3",
        recipe=NVFP4_NO_MTP, shards=33, quantization=_compressed(_NVFP4_GROUP, _ignored(43)), card=cards.NVFP4_NO_MTP,
        tags=("compressed-tensors", "nvfp4", "fp8", "llm-compressor"), modified="2026-05-19T13:44:02.000Z",
    ),
)  # fmt: skip
_OTHERS: Final = (  # listed beside them, not read
    ("canada-quant/DeepSeek-V4-Flash-W4A16-FP8", ("compressed-tensors", "w4a16", "fp8")),
    ("antirez/deepseek-v4-gguf", ("gguf",)),
)


def compose(start: float = START) -> tuple[list[Observation], dict[str, bytes]]:
    """The observations, in the order of their times (UTC seconds from `start`), and the blobs by sha256."""
    recorder = _Recorder(start)
    for repository in REPOSITORIES:
        _record(repository, recorder)
    listed = [{"id": r.name, "sha": r.sha, "tags": [*r.tags, *_QUANTIZED]} for r in REPOSITORIES]
    listed += [{"id": n, "sha": sha256_hex(n)[:40], "tags": [*t, *_QUANTIZED]} for n, t in _OTHERS]
    recorder.add(siblings_request(BASE), _json(listed), took=0.38)
    return recorder.observations, recorder.blobs


class _Recorder:
    """Collects answers (stateful: the clock moves on with each)."""

    def __init__(self, start: float) -> None:
        self.clock = start
        self.observations: list[Observation] = []
        self.blobs: dict[str, bytes] = {}

    def add(
        self, request: Request, body: bytes, *, took: float, state: ProbeState = "ok", status: int = 200
    ) -> None:
        """One answer. `took` seconds pass for whoever waits for it, a tenth of that on the recording's clock."""
        self.clock = round(self.clock + took / 10, 3)
        reason = "no such file at this commit" if state == "missing" else ""
        raw = Raw(state=state, exit_code=status, stdout=body, revision=request.revision, duration_s=took,
                  origin="composed", observed_at=self.clock, reason=reason)  # fmt: skip
        out, err = self._keep(body), self._keep(b"")
        self.observations.append(Observation(
            id=observation_id(request, raw, stdout_sha=out, stderr_sha=err), request=request, state=state,
            exit_code=status, revision=request.revision, observed_at=self.clock, duration_s=took, host_boot_id="",
            stdout_sha=out, stderr_sha=err, truncated=False, reason=reason, origin="composed",
        ))  # fmt: skip

    def _keep(self, body: bytes) -> str:
        sha = sha256_hex(body)
        self.blobs[sha] = body
        return sha


def _record(repository: Repository, recorder: _Recorder) -> None:
    name, sha = repository.name, repository.sha
    shards = list(headers(repository))
    small = _small_files(repository)
    info = {"id": name, "sha": sha, "lastModified": repository.modified, "gated": False, "private": False,
            "tags": [*repository.tags, *_QUANTIZED], "composed": True}  # fmt: skip
    recorder.add(revision_request(name, "main"), _json(info), took=0.21)
    recorder.add(tree_request(name, sha), _json(_tree(shards, small)), took=0.34)
    for path in ("config.json", "hf_quant_config.json", "quantize_config.json", "README.md"):
        body = small.get(path)
        if body is None:
            recorder.add(file_request(name, sha, path), b"", took=0.09, state="missing", status=404)
        else:
            recorder.add(file_request(name, sha, path), body, took=0.14)
    for path, header, _ in shards:
        recorder.add(header_request(name, sha, path), header, took=round(0.2 + len(header) / 8e6, 2))


def _small_files(repository: Repository) -> dict[str, bytes]:
    config = {**_CONFIG, "quantization_config": repository.quantization}
    files = {"config.json": _json(config), "README.md": repository.card.encode()}
    if repository.hf_quant is not None:
        files["hf_quant_config.json"] = _json(repository.hf_quant)
    return files


def _tree(shards: Iterable[tuple[str, bytes, int]], small: dict[str, bytes]) -> list[Json]:
    sizes = {path: 8 + len(header) + data for path, header, data in shards}
    sizes |= {path: len(body) for path, body in small.items()}
    sizes |= {"model.safetensors.index.json": 11_904_112, "tokenizer.json": 7_847_602, "tokenizer_config.json": 3_585,
              "generation_config.json": 171, "LICENSE": 1_084, ".gitattributes": 1_519}  # fmt: skip
    return [{"type": "file", "path": path, "size": size} for path, size in sorted(sizes.items())]


def headers(repository: Repository) -> Iterator[tuple[str, bytes, int]]:
    """(path, header JSON, bytes of data) of each shard: whole layers in order, offsets contiguous, padded to 8 bytes."""
    groups = _shards(list(tensors(repository.recipe)), repository.shards)
    for number, entries in enumerate(groups, start=1):
        offset, table = 0, {"__metadata__": {"format": "pt"}}
        for name, dtype, shape in entries:
            end = offset + _bytes(dtype, shape)
            table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}  # type: ignore[dict-item]
            offset = end
        body = json.dumps(table, separators=(",", ":")).encode()
        body += b" " * (-len(body) % 8)
        yield f"model-{number:05d}-of-{repository.shards:05d}.safetensors", body, offset


def _shards(entries: list[Entry], count: int) -> list[list[Entry]]:
    """Cuts the tensors into `count` shards of about equal bytes, wherever the border falls: as writers do."""
    total = sum(_bytes(dtype, shape) for _, dtype, shape in entries)
    groups: list[list[Entry]] = [[] for _ in range(count)]
    done = 0
    for entry in entries:
        groups[min(count - 1, done * count // total)].append(entry)
        done += _bytes(entry[1], entry[2])
    return groups


def _bytes(dtype: str, shape: tuple[int, ...]) -> int:
    size = BITS[dtype] // 8
    for n in shape:
        size *= n
    return size


def _json(value: Json) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def main() -> None:
    """Prints what the recording holds."""
    observations, blobs = compose()
    print(f"{len(observations)} answers, {len(blobs)} blobs, {sum(map(len, blobs.values())):,} bytes")
    for repository in REPOSITORIES:
        data = sum(size for _, _, size in headers(repository))
        print(f"{repository.name}: {data / 1e9:.2f} GB, {data / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
