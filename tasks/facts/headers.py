"""safetensors headers: one header's bytes -> a compact summary; all of a checkpoint's -> findings per component.

A header is a JSON object: tensor name -> {dtype, shape, data_offsets}, and optionally `__metadata__`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pydantic_core import from_json

from recon.agent.api import Draft, Fact, Json, ParseError, Raw
from recon.tasks.facts.module_names import component_at
from recon.tasks.facts.split import HEAD_ALIASES, is_kv, is_replicated
from recon.tasks.facts.tensor_rules import (
    AUXILIARY,
    SCALE_SUFFIXES,
    split_name,
    template_of,
)
from recon.tasks.knowledge.signatures import BITS, Part, Shape, Signature, classify

COMPONENTS = (
    "routed_experts", "shared_experts", "dense_mlp", "attention", "linear_attention", "indexer", "compressor",
    "router", "mtp", "embeddings", "lm_head", "vision", "other",
)  # fmt: skip
ALWAYS_SAID = ("routed_experts", "shared_experts", "attention", "mtp", "lm_head", "embeddings", "vision")


_SIZES = (
    "hidden_size", "intermediate_size", "moe_intermediate_size", "dense_intermediate_size", "shared_intermediate_size",
    "q_lora_rank", "kv_lora_rank",
)  # fmt: skip
_LARGEST = 1 << 48  # of one dimension
_MOST_DIMS = 16
_LONGEST_DTYPE = 32
_LONGEST_NAME = 2_000  # characters; published names have at most 150


class Tensor(NamedTuple):
    """One entry of a header. `bytes` is the length of its data. A tuple: a checkpoint has a hundred thousand."""

    name: str
    dtype: str
    shape: Shape
    bytes: int


def read_header(data: bytes) -> list[Tensor]:
    """The tensors of one header, in its order.

    Raises ParseError where the JSON is no header, an offset runs backwards, or a length does not fit dtype and shape.
    """
    try:
        entries = from_json(data)  # twice as fast as json, and bounded in depth
    except (ValueError, RecursionError) as error:
        raise ParseError(f"safetensors header is not JSON: {error}") from None
    if not isinstance(entries, dict):
        raise ParseError("safetensors header is not a JSON object")
    entries.pop("__metadata__", None)
    sizes: dict[tuple[str, Shape], int | None] = {}
    tensors = []
    for name, entry in entries.items():
        try:
            dtype, shape = entry["dtype"], tuple(entry["shape"])
            start, end = entry["data_offsets"]
            size = end - start
            key = (dtype, shape)
            if key not in sizes:
                sizes[key] = _expected(dtype, shape)
        except (TypeError, KeyError, ValueError):
            raise ParseError(
                f"safetensors header: {name[:120]!r} lacks a usable dtype, shape or data_offsets"
            ) from None
        if len(name) > _LONGEST_NAME:
            raise ParseError(f"safetensors header: a tensor name of {len(name):,} characters")
        if start < 0 or size < 0 or type(size) is not int or sizes[key] not in (None, size):
            raise ParseError(
                f"safetensors header: {name[:120]!r} says {size} bytes for {dtype} {list(shape)}"
            )
        tensors.append(Tensor(name, dtype, shape, size))
    return tensors


def _expected(dtype: str, shape: Shape) -> int | None:
    """Bytes of data that dtype and shape ask for; None for a dtype of unknown width. Raises TypeError on odd values."""
    if not isinstance(dtype, str) or not all(type(n) is int and 0 <= n < _LARGEST for n in shape):
        raise TypeError("dtype or shape")
    if len(shape) > _MOST_DIMS or len(dtype) > _LONGEST_DTYPE:
        raise ValueError("dtype or shape")
    bits = BITS.get(dtype)
    return None if bits is None else -(-bits * math.prod(shape) // 8)


def parse_shard(raw: Raw, *, path: str) -> list[Draft]:
    """One compact finding `shard.<path>`: tensors, bytes, header bytes, bytes by dtype. Never one row per tensor."""
    name = f"shard.{path}"
    if raw.state != "ok":
        return [Draft(name=name, outcome="unknown", reason=raw.reason or f"header not read: {raw.state}")]
    if raw.truncated:
        return [Draft(name=name, outcome="unknown", reason="header longer than the limit")]
    tensors = read_header(raw.stdout)
    dtypes: Counter[str] = Counter()
    for tensor in tensors:
        dtypes[tensor.dtype] += tensor.bytes
    value = {
        "tensors": len(tensors),
        "weights_bytes": sum(dtypes.values()),
        "header_bytes": len(raw.stdout),
        "bytes_by_dtype": dict(sorted(dtypes.items())),
        "first": tensors[0].name if tensors else "",
        "last": tensors[-1].name if tensors else "",
    }
    return [Draft(name=name, value=value, locator="/")]


def shard_fact(path: str) -> Fact:
    """The fact that reads one shard's header."""
    return Fact(id="checkpoint.header", parse=lambda raw: parse_shard(raw, path=path))


@dataclass
class _Group:
    """Modules of one component with one signature."""

    bytes: int = 0
    tensors: int = 0
    modules: int = 0
    parameters: float = 0.0
    example: str = ""
    parts: dict[str, Part] = field(default_factory=dict)


@dataclass
class _Component:
    tensors: int = 0
    bytes: int = 0
    sharded: int = 0
    replicated: int = 0
    shared: int = 0
    kv: int = 0
    parameters: float = 0.0
    groups: dict[Signature, _Group] = field(default_factory=dict)


# compressed-tensors packs both alike; only the declaration says what the activations are.
_TWINS = frozenset({("w4a16-int4", "R3", "w4afp8")})


def dims_of(architecture: Mapping[str, Json]) -> frozenset[int]:
    """The sizes that a linear layer of this architecture can take in, by its finding's value."""
    found = {n for name in _SIZES if type(n := architecture.get(name)) is int and n > 0}
    heads, size = (
        architecture.get("attention_heads"),
        architecture.get("head_dim") or architecture.get("v_head_dim"),
    )
    if type(heads) is int and type(size) is int and 0 < heads * size < _LARGEST:
        found.add(heads * size)
    return frozenset(found)


class Merge:
    """Collects the tensors of all shards of one commit; `drafts()` says what they are together.

    Modules may be cut by a shard border, so formats are told only after everything is in. `layers` is the number of
    main layers: what is numbered after them is a draft (multi-token prediction) block. `dims`: see `classify`.
    `declared`: component -> format; it tells formats apart that are stored alike (INT4 with 16-bit or FP8 activations).
    """

    def __init__(
        self, *, layers: int | None = None, kv_heads: int | None = None,
        dims: frozenset[int] = frozenset(), declared: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.layers = layers
        self.dims = dims
        self.declared = dict(declared or {})
        self.kv_heads = kv_heads
        self.header_bytes = 0
        self._modules: dict[str, dict[str, tuple[str, Shape, int]]] = defaultdict(dict)
        self._count = 0

    def add(self, tensors: Iterable[Tensor], *, header_bytes: int) -> None:
        """Takes the tensors of one more shard. A name seen twice keeps its first place and is counted once."""
        self.header_bytes += header_bytes
        for tensor in tensors:
            module, suffix = split_name(tensor.name)
            parts = self._modules[module]
            if suffix not in parts:
                parts[suffix] = (tensor.dtype, tensor.shape, tensor.bytes)
                self._count += 1

    @property
    def tensors(self) -> int:
        """How many different tensors were added."""
        return self._count

    def drafts(self) -> list[Draft]:
        """Findings per component, the split, the totals. Level proved: they are read from tensor headers."""
        components = self._components()
        drafts = [
            _component_draft(name, components.get(name)) for name in COMPONENTS if _said(name, components)
        ]
        total = sum(c.bytes for c in components.values())
        return [
            *drafts,
            _split_draft(components, kv_heads=self.kv_heads),
            Draft(name="weights_bytes", value=total, unit="bytes", locator="data_offsets of every tensor"),
            Draft(name="header_bytes", value=self.header_bytes, unit="bytes"),
            Draft(name="tensor_count", value=self._count, unit="count"),
            Draft(name="scale_names", value=self._scale_names(), locator="names ending in a scale suffix"),
            Draft(name="parameters", value=_parameters(components)),
        ]

    def _components(self) -> dict[str, _Component]:
        components: dict[str, _Component] = defaultdict(_Component)
        known: dict[tuple[tuple[str, str, Shape], ...], Signature | None] = {}
        for module, parts in self._modules.items():
            template = template_of(module)
            name = component_at(module, layers=self.layers, template=template)
            key = tuple([(s, d, shape) for s, (d, shape, _) in parts.items()])
            if key not in known:
                known[key] = classify({s: (d, shape) for s, d, shape in key}, dims=self.dims)
            self._add(components[name], module, template, parts, self._told(name, known[key]))
        return dict(components)

    def _told(self, component: str, signature: Signature | None) -> Signature | None:
        """The signature; where its tensors are those of two formats, the one that is declared."""
        said = self.declared.get(component)
        if signature is None or said is None or (signature.format, signature.rule, said) not in _TWINS:
            return signature
        return replace(signature, format=said, note=f"{signature.note} FP8 activations, as declared".strip())

    def modules(self) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
        """(module, component, format, tensor suffixes) of every module; the format is "" where it holds no matrix."""
        known: dict[tuple[tuple[str, str, Shape], ...], str] = {}
        for module, parts in self._modules.items():
            key = tuple([(s, d, shape) for s, (d, shape, _) in parts.items()])
            if key not in known:
                found = classify({s: (d, shape) for s, d, shape in key}, dims=self.dims)
                known[key] = "" if found is None else found.format
            yield module, component_at(module, layers=self.layers), known[key], tuple(parts)

    def _add(
        self, component: _Component, module: str, template: str, parts: Mapping[str, tuple[str, Shape, int]],
        signature: Signature | None,
    ) -> None:  # fmt: skip
        size = sum(n for _, _, n in parts.values())
        component.tensors += len(parts)
        component.bytes += size
        if module in HEAD_ALIASES:
            component.shared += size
        elif is_replicated(template):
            component.replicated += size
        else:
            component.sharded += size
            component.kv += size if is_kv(template) else 0
        logical = _logical(parts, signature)
        if module not in HEAD_ALIASES:
            component.parameters += logical
        if signature is None:
            return
        group = component.groups.setdefault(signature, _Group(example=module))
        group.bytes += size
        group.tensors += len(parts)
        group.modules += 1
        group.parameters += logical
        if not group.parts:
            group.parts = {s: (d, shape) for s, (d, shape, _) in parts.items()}

    def _scale_names(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for parts in self._modules.values():
            for suffix in parts:
                if suffix in SCALE_SUFFIXES:
                    counts[suffix] += 1
        return dict(sorted(counts.items()))


def _logical(parts: Mapping[str, tuple[str, Shape, int]], signature: Signature | None) -> float:
    """Weights as the model's author counts them: packed elements unpacked, scales and shapes left out."""
    total = 0.0
    for suffix, (dtype, _, size) in parts.items():
        if suffix in AUXILIARY or "." in suffix:
            continue
        elements = size * 8 / BITS.get(dtype, 8)
        if suffix in ("weight", "weight_packed", "qweight", "blocks") and signature is not None:
            elements *= signature.weights_per_element
        total += elements
    return total


def _said(name: str, components: Mapping[str, _Component]) -> bool:
    return name in components or name in ALWAYS_SAID


def _component_draft(name: str, component: _Component | None) -> Draft:
    if component is None:
        return Draft(
            name=name, value={"presence": "absent"}, locator="no tensor name of this kind in any header"
        )
    groups = sorted(component.groups.items(), key=lambda item: (-item[1].bytes, item[0].rule))
    value: dict[str, Json] = {
        "presence": "present",
        "format": groups[0][0].format if groups else "unknown",
        "bytes": component.bytes,
        "tensors": component.tensors,
    }
    if groups and (size := groups[0][0].group_size) is not None:
        value["group_size"] = size
    if groups:
        value["signature"] = _signature_text(groups[0][0], groups[0][1])
    if any(s.format != value["format"] for s, _ in groups):
        value["mixed"] = _mixed(groups)
    return Draft(name=name, value=value, locator=groups[0][1].example if groups else "")


def _signature_text(signature: Signature, group: _Group) -> str:
    parts = ", ".join(
        f"{s} {d} {list(shape)}" for s, (d, shape) in sorted(group.parts.items()) if s != "bias"
    )
    note = f" ({signature.note})" if signature.note else ""
    return f"{signature.rule}: {parts}{note}"[:300]


def _mixed(groups: list[tuple[Signature, _Group]]) -> list[Json]:
    merged: dict[str, dict[str, Json]] = {}
    for signature, group in groups:
        row = merged.setdefault(
            signature.format, {"format": signature.format, "bytes": 0, "modules": 0, "example": group.example}
        )
        row["bytes"] += group.bytes
        row["modules"] += group.modules
    return sorted(merged.values(), key=lambda row: -int(row["bytes"]))


def _split_draft(components: Mapping[str, _Component], *, kv_heads: int | None) -> Draft:
    by = {
        name: {"sharded_bytes": c.sharded, "replicated_bytes": c.replicated, "shared_bytes": c.shared}
        for name, c in sorted(components.items())
    }
    value: dict[str, Json] = {
        "sharded_bytes": sum(c.sharded for c in components.values()),
        "replicated_bytes": sum(c.replicated for c in components.values()),
        "shared_bytes": sum(c.shared for c in components.values()),
        "kv_bytes": sum(c.kv for c in components.values()),
        "kv_heads": kv_heads,
        "by_component": by,
    }
    return Draft(
        name="split", value=value, locator="which layers SGLang 0.5.23 shards over tensor-parallel ranks"
    )


def _parameters(components: Mapping[str, _Component]) -> dict[str, Json]:
    main = {name: round(c.parameters) for name, c in sorted(components.items()) if name != "mtp"}
    return {
        "total": sum(main.values()),
        "routed_experts": main.get("routed_experts", 0),
        "embeddings": main.get("embeddings", 0),
        "mtp": round(components["mtp"].parameters) if "mtp" in components else 0,
    }
