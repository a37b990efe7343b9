"""GGUF files: which types their tensors have per component, and the architecture their metadata names.

Types and their block sizes are those of ggml (ggml.h, November 2026); forks add numbers of their own, which are told as such.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from recon.agent.api import Draft, Fact, Json, Raw

# id -> (name, weights in a block, bytes of a block)
TYPES: Final[dict[int, tuple[str, int, int]]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
_PLAIN: Final = frozenset(
    {"F32", "I32", "F64", "I8", "I16", "I64"}
)  # norms, biases and tables beside the weights
_SPLIT: Final = re.compile(r"^(?P<stem>.*)-(?P<n>\d{5})-of-(?P<of>\d{5})\.gguf$")
_COMPONENTS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("mtp", r"nextn|(^|\.)mtp\."),
        ("vision", r"^(v|mm)\."),
        ("other", r"norm"),
        ("router", r"ffn_gate_inp|exp_probs"),
        ("routed_experts", r"ffn_\w+_exps"),
        ("shared_experts", r"ffn_\w+_shexp"),
        ("indexer", r"indexer"),
        ("compressor", r"compress"),
        ("linear_attention", r"ssm_|\.lin_"),
        ("attention", r"attn"),
        ("dense_mlp", r"ffn_(gate|up|down)\b"),
        ("embeddings", r"^token_embd"),
        ("lm_head", r"^output\.weight"),
    )
)
_ARCHITECTURE: Final = {
    "layers": "block_count", "context": "context_length", "hidden_size": "embedding_length", "intermediate_size": "feed_forward_length",
    "attention_heads": "attention.head_count", "kv_heads": "attention.head_count_kv", "experts": "expert_count",
    "experts_per_token": "expert_used_count", "head_dim": "attention.key_length",
}  # fmt: skip


def gguf_fact(path: str) -> Fact:
    """`gguf.PATH`: what the header of one file says, without its list of tensors."""
    return Fact(f"gguf.{path}", lambda raw: [parse(raw, path)])


def parse(raw: Raw, path: str) -> Draft:
    """The finding of one header; unknown with the reason where it was not read."""
    table = header_of(raw)
    if table is None:
        return Draft(name=f"gguf.{path}", outcome="unknown", reason=raw.reason or f"no header: {raw.state}")
    types = Counter(type_name(kind) for _, kind, _ in table["tensors"])
    value = {
        "tensors": len(table["tensors"]), "types": dict(sorted(types.items())), "header_bytes": table["header_bytes"],
        "weights_bytes": sum(bytes_of(kind, shape) for _, kind, shape in table["tensors"]),
    }  # fmt: skip
    return Draft(name=f"gguf.{path}", value=value)


def header_of(raw: Raw) -> dict[str, Any] | None:
    """The header that a source read; None where it did not."""
    if raw.state != "ok":
        return None
    try:
        table = json.loads(raw.stdout)
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) and isinstance(table.get("tensors"), list) else None


def type_name(kind: int) -> str:
    """A ggml type by its number; `type 42` for one that ggml does not have."""
    return TYPES[kind][0] if kind in TYPES else f"type {kind}"


def bytes_of(kind: int, shape: Sequence[int]) -> int:
    """Bytes of a tensor; 0 where the type is a fork's own."""
    if kind not in TYPES:
        return 0
    _, per_block, size = TYPES[kind]
    return -(-math.prod(shape) // per_block) * size


def component_of(name: str) -> str:
    """The component a tensor belongs to by its name in llama.cpp's scheme."""
    return next((component for component, pattern in _COMPONENTS if pattern.search(name)), "other")


def variants(paths: Iterable[str]) -> dict[str, list[str]]:
    """Which files are alternatives of one another: name -> its files in order, several where it is split."""
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        match = _SPLIT.match(path)
        found.setdefault(match["stem"] if match else path.removesuffix(".gguf"), []).append(path)
    return found


def drafts(tables: Sequence[Mapping[str, Any]]) -> list[Draft]:
    """One finding a component, sizes, and the architecture, from the headers of one model (all files of a split one)."""
    rows = [row for table in tables for row in table["tensors"]]
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    types: dict[str, Counter[str]] = {}
    for name, kind, shape in rows:
        component = component_of(str(name))
        sizes[component] += bytes_of(kind, shape)
        counts[component] += 1
        types.setdefault(component, Counter())[type_name(kind)] += 1
    found = [
        Draft(name=component, value=_component(types[component], sizes[component], counts[component]))
        for component in sorted(types)
    ]
    found += [
        Draft(name=name, value={"presence": "absent"}, reason="no tensor of its name")
        for name in ("mtp", "vision")
        if name not in types
    ]
    metadata = tables[0]["metadata"] if tables and isinstance(tables[0].get("metadata"), Mapping) else {}
    found += [
        Draft(name="weights_bytes", value=sum(sizes.values()), unit="bytes"), Draft(name="tensor_count", value=len(rows)),
        Draft(name="header_bytes", value=sum(int(t["header_bytes"]) for t in tables), unit="bytes"),
        Draft(name="gguf.metadata", value={k: v for k, v in sorted(metadata.items()) if not isinstance(v, Mapping)}),
    ]  # fmt: skip
    return found


def _component(types: Counter[str], size: int, count: int) -> dict[str, Json]:
    weights = {name: n for name, n in types.items() if name not in _PLAIN} or dict(types)
    said = ", ".join(f"{name} {n}" for name, n in sorted(weights.items(), key=lambda row: -row[1]))
    return {
        "presence": "present", "format": "gguf", "types": dict(sorted(types.items())), "bytes": size, "tensors": count,
        "signature": f"ggml: {said}", "said": said,
    }  # fmt: skip


def architecture(metadata: Mapping[str, Any]) -> dict[str, Json]:
    """The architecture that the metadata names, in the words of `checkpoint.architecture`; empty where it names none."""
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or not name:
        return {}
    value: dict[str, Json] = {"architectures": [], "model_type": name[:100]}
    for key, suffix in _ARCHITECTURE.items():
        number = metadata.get(f"{name}.{suffix}")
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            value[key] = number
    return value
