"""config.json: the architecture, and what its quantization block says.

What it says is `declared`: engines believe it, tensors may contradict it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from recon.agent.api import Draft, Fact, Json, ParseError, Raw
from recon.tasks.facts.cache_shape import cache_shape
from recon.tasks.facts.declared import config_value
from recon.tasks.facts.module_names import text_config

_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts"),
    "shared_experts": ("n_shared_experts", "num_shared_experts"),
    "experts_per_token": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts"),
    "moe_intermediate_size": ("moe_intermediate_size",),
    "dense_intermediate_size": ("intermediate_size_mlp",),  # Llama 4: intermediate_size is that of one expert
    "shared_intermediate_size": ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_hidden_size"),
    "attention_heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "multi_query_group_num"),
    "head_dim": ("head_dim",),
    "context": ("max_position_embeddings", "model_max_length", "seq_length", "max_sequence_length"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "mtp_layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules"),
    "q_lora_rank": ("q_lora_rank",),
    "kv_lora_rank": ("kv_lora_rank",),
    "qk_rope_head_dim": ("qk_rope_head_dim",),
    "v_head_dim": ("v_head_dim",),
    "index_head_dim": ("index_head_dim",),
    "sliding_window": ("sliding_window",),
}  # fmt: skip


def read_object(raw: Raw) -> dict[str, Json]:
    """The JSON object of an answer. Raises ParseError in words where there is none."""
    if raw.state != "ok":
        raise ParseError(raw.reason or raw.state)
    if raw.truncated:
        raise ParseError("longer than the limit")
    try:
        value = json.loads(raw.stdout)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ParseError("not a JSON object")
    return value


def parse_config(raw: Raw) -> list[Draft]:
    """`architecture` and `config.declared` of a config.json."""
    try:
        config = read_object(raw)
    except ParseError as error:
        return [
            _no_answer("architecture", raw, error.message),
            _no_answer("config.declared", raw, error.message),
        ]
    value = architecture(config)
    declared, where = config_value(config, value)
    return [
        Draft(name="architecture", value=value, level="declared", locator="/"),
        Draft(name="config.declared", outcome="absent", reason="config.json has no quantization block", level="declared")
        if declared is None
        else Draft(name="config.declared", value=declared, level="declared", locator=where),
        Draft(name="plain_dtype", value=_plain_dtype(config), level="declared", locator="/torch_dtype"),
    ]  # fmt: skip


def _no_answer(name: str, raw: Raw, reason: str) -> Draft:
    if raw.state == "missing":
        return Draft(name=name, outcome="absent", reason="no config.json at this commit", level="declared")
    return Draft(name=name, outcome="unknown", reason=reason, level="declared")


def architecture(config: Mapping[str, Json]) -> dict[str, Json]:
    """The architecture a config declares; language-model fields come from a nested text config where there is one."""
    text, names = text_config(config), config.get("architectures")
    value: dict[str, Json] = {
        "architectures": [str(a) for a in names[:20]] if isinstance(names, list) else [],
        "model_type": str(config.get("model_type") or text.get("model_type") or ""),
    }
    for name, keys in _FIELDS.items():
        found = _first(text, keys)
        if found is None:
            found = _first(config, keys)
        if found is not None:
            value[name] = found
    ratios = text.get("compress_ratios") or config.get("compress_ratios")
    if isinstance(ratios, list) and all(isinstance(r, int) for r in ratios):
        value["compress_ratios"] = ratios
    if shape := cache_shape(config, text):
        value["cache"] = shape
    kinds = text.get("layer_types")
    flags = {
        "custom_code": config.get("auto_map"),
        "dense_layers": text.get("first_k_dense_replace"),
        "vision": next((k for k in ("vision_config", "visual", "vision_tower") if k in config), None),
        "linear_attention": isinstance(kinds, list) and "linear_attention" in kinds,
        "shared_experts": value.get("shared_experts") or text.get("shared_expert_intermediate_size"),
    }
    value.update({name: True if name != "shared_experts" else flag for name, flag in flags.items() if flag})
    value["summary"] = summary(value)
    return value


def summary(value: Mapping[str, Json]) -> str:
    """One line: `284B total, 13B active, 256 routed experts top-6, 43 layers, 1,048,576 context`."""
    words = []
    if isinstance(total := value.get("parameters"), int):
        words.append(f"{billions(total)} total")
    if isinstance(active := value.get("active_parameters"), int) and active != value.get("parameters"):
        words.append(f"{billions(active)} active")
    if isinstance(experts := value.get("experts"), int):
        top = value.get("experts_per_token")
        words.append(f"{experts} routed experts" + (f" top-{top}" if isinstance(top, int) else ""))
    if isinstance(layers := value.get("layers"), int):
        words.append(f"{layers} layers")
    if isinstance(context := value.get("context"), int):
        words.append(f"{context:,} context")
    return ", ".join(words)


def billions(count: int) -> str:
    """A parameter count as people write it: `284B`, `7.6B`."""
    if count < 100e6:
        return f"{count / 1e6:.1f}M"
    return f"{count / 1e9:.0f}B" if count >= 10e9 else f"{count / 1e9:.1f}B"


def _first(config: Mapping[str, Json], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        found = config.get(key)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def _plain_dtype(config: Mapping[str, Json]) -> str:
    text = text_config(config)
    said = (
        text.get("torch_dtype") or text.get("dtype") or config.get("torch_dtype") or config.get("dtype") or ""
    )
    return {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(str(said), "unknown")


CONFIG = Fact(id="checkpoint.config", parse=parse_config)
