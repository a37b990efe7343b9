"""Names of a model's linear layers by component and leaf: made from a config where no tensor name was read.

A declaration speaks of modules; what it says of a component is asked of these names. Layer kinds come from the config keys
of the published families; the prefix in front of the layers is taken from the declaration's own entries where it has any.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from recon.agent.api import Json
from recon.tasks.facts.tensor_rules import component_of, layer_of, template_of

Names = dict[str, dict[str, list[str]]]  # component -> leaf -> module names, one a layer

MAX_LAYERS: Final = 200  # the deepest published model has 126
TEXT_KEYS: Final = ("text_config", "llm_config", "language_config", "thinker_config")
_PREFIX: Final = re.compile(r"^((?:\w+\.){0,4})(layers|h|blocks)\.(?:\d+|\*)(?=[.*])")
_NOISE: Final = re.compile(r"\\d[+*]?|\[0-9\][+*]?|\.\*|\.\+|\\\.|[\\^$*]")
_WORD: Final = re.compile(r"^[\w.]+$")
_DRAFTS_UNSAID: Final = ("mimo",)  # MiMo releases have draft layers that no key of their config counts
_EXPERT: Final = re.compile(r"(\bexperts\.)\d+")
_MLA: Final = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
_GQA: Final = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP: Final = ("gate_proj", "up_proj", "down_proj")
_W: Final = ("w1", "w2", "w3")


def _under(place: str, leaves: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{place}.{leaf}" for leaf in leaves)


# Family -> (model types, words of its own, what stands before the layer's number).
_FAMILIES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...], str]]] = {
    "deepseek_v4": (("deepseek_v4",), ("wq_a", ".ffn.experts", ".ffn.shared_experts"), "layers"),
    "nemotron_h": (("nemotron_h",), (".mixer.",), "backbone.layers"),
    "llama4": (("llama4",), (".feed_forward.",), "language_model.model.layers"),
    "mixtral": (("mixtral", "minimax"), (".block_sparse_moe.",), "model.layers"),
    "gpt_oss": (("gpt_oss",), (), "model.layers"),
    "qwen1": (("qwen",), ("attn.c_attn",), "transformer.h"),
}
_LEAVES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "standard": {
        "routed_experts": _under("mlp.experts.1", _MLP), "shared_experts": _under("mlp.shared_experts", _MLP),
        "dense_mlp": _under("mlp", _MLP), "router": ("mlp.gate",), "indexer": ("self_attn.indexer.wq_b",),
        "linear_attention": _under("linear_attn", ("out_proj", "in_proj_qkv", "in_proj_z", "in_proj_qkvz")),
    },
    "deepseek_v4": {
        "routed_experts": _under("ffn.experts.1", _W), "shared_experts": _under("ffn.shared_experts", _W),
        "dense_mlp": _under("ffn", _W), "router": ("ffn.gate",), "indexer": ("attn.indexer.wq_b",),
        "attention": _under("attn", ("wq_a", "wq_b", "wkv", "wo_a", "wo_b")),
    },
    "nemotron_h": {
        "routed_experts": _under("mixer.experts.1", ("up_proj", "down_proj")),
        "shared_experts": _under("mixer.shared_experts", ("up_proj", "down_proj")),
        "dense_mlp": _under("mixer", ("up_proj", "down_proj")), "router": ("mixer.gate",),
        "attention": _under("mixer", _GQA), "linear_attention": _under("mixer", ("in_proj", "out_proj")),
    },
    "llama4": {
        "routed_experts": _under("feed_forward.experts.1", _MLP), "router": ("feed_forward.router",),
        "shared_experts": _under("feed_forward.shared_expert", _MLP), "dense_mlp": _under("feed_forward", _MLP),
    },
    "mixtral": {"routed_experts": _under("block_sparse_moe.experts.1", _W), "router": ("block_sparse_moe.gate",)},
    "gpt_oss": {"routed_experts": ("mlp.experts",), "router": ("mlp.router",)},
    "qwen1": {"attention": _under("attn", ("c_attn", "c_proj")), "dense_mlp": _under("mlp", ("w1", "w2", "c_proj"))},
}  # fmt: skip


@dataclass(frozen=True)
class Kinds:
    """Which layers (numbers from 0) have which component, and how the family names them."""

    layers: int
    experts: tuple[int, ...] = ()
    dense: tuple[int, ...] = ()
    attention: tuple[int, ...] = ()
    linear: tuple[int, ...] = ()
    family: str = ""
    mla: bool = False
    text_prefix: str = ""  # where the language model sits in a multimodal one
    whole: bool = True  # the config says how many layers there are
    flags: frozenset[str] = field(default_factory=frozenset)  # of mtp, vision, shared, indexer


def text_config(config: Mapping[str, Json]) -> Mapping[str, Json]:
    """The part of a config that describes the language model."""
    for key in TEXT_KEYS:
        nested = config.get(key)
        if isinstance(nested, Mapping) and len(nested) > 2:
            return nested
    return config


def layer_kinds(config: Mapping[str, Json], architecture: Mapping[str, Json]) -> Kinds:
    """The kinds of layers that a config describes. `architecture`: the finding's value of the same config."""
    text = text_config(config)
    layers = _int(architecture.get("layers")) or 4
    layers = min(layers, MAX_LAYERS)
    moe = bool(architecture.get("experts"))
    pattern = text.get("hybrid_override_pattern")
    model = str(text.get("model_type") or config.get("model_type") or "").lower()
    linear = _linear(text, layers)
    if isinstance(pattern, str) and pattern:
        at = {kind: tuple(n for n, c in enumerate(pattern[:layers]) if c == kind) for kind in "M*E-"}
        linear, attention, experts, dense = at["M"], at["*"], at["E"], at["-"]
    else:
        attention = tuple(n for n in range(layers) if n not in set(linear))
        experts = _experts(text, layers) if moe else ()
        dense = tuple(n for n in range(layers) if n not in set(experts))
    flags = {
        "mtp": bool(architecture.get("mtp_layers")) or model.startswith(_DRAFTS_UNSAID),
        "vision": bool(architecture.get("vision")),
        "shared": bool(architecture.get("shared_experts")),
        "indexer": bool(architecture.get("index_head_dim")),
    }
    return Kinds(
        layers=layers, whole=_int(architecture.get("layers")) is not None, experts=experts, dense=dense, attention=attention, linear=linear, family=model,
        mla=bool(text.get("kv_lora_rank")), text_prefix="language_model." if text is not config else "",
        flags=frozenset(name for name, there in flags.items() if there),
    )  # fmt: skip


def _linear(text: Mapping[str, Json], layers: int) -> tuple[int, ...]:
    kinds = text.get("layer_types")
    if not isinstance(kinds, list):
        return ()
    return tuple(n for n, kind in enumerate(kinds[:layers]) if str(kind) in ("linear_attention", "mamba"))


def _experts(text: Mapping[str, Json], layers: int) -> tuple[int, ...]:
    """Layers that have routed experts, by the keys of DeepSeek, Qwen, Llama 4 and MiMo configs."""
    marks = text.get("moe_layer_freq")
    if isinstance(marks, list):
        return tuple(n for n, mark in enumerate(marks[:layers]) if mark)
    first = _int(text.get("first_k_dense_replace")) or 0
    step = next((s for k in ("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq") if (s := _int(text.get(k)))), 1)  # fmt: skip
    only = text.get("mlp_only_layers")
    dense = {n for n in only if isinstance(n, int)} if isinstance(only, list) else set()
    return tuple(n for n in range(first, layers) if (n + 1) % step == 0 and n not in dense)


def made_names(kinds: Kinds, entries: Iterable[str]) -> Names:
    """Names of the components that the config promises or that the entries of a declaration speak of.

    The vision part has none: encoders are named in too many ways, and writers leave them out as a whole.
    """
    said = [entry for entry in entries if len(entry) <= 400]
    spoken = frozenset(map(part_of_entry, said))
    family = _family(kinds, said)
    head = _head(family, kinds, said)
    names: Names = {}
    for component, layers in _where(kinds, spoken).items():
        for leaf in _leaves(family, component, kinds, said):
            names.setdefault(component, {})[leaf] = [f"{head}.{n}.{leaf}" for n in layers]
    names["lm_head"] = {"": [_top(said, "lm_head", "head" if family == "deepseek_v4" else "lm_head")]}
    names["embeddings"] = {
        "": [_top(said, "embeddings", "embed" if family == "deepseek_v4" else "model.embed_tokens")]
    }
    if "mtp" in kinds.flags or "mtp" in spoken:
        names["mtp"] = {leaf: [leaf] for leaf in _draft(family, head, kinds, said)}
    return names


def part_of_entry(entry: str) -> str:
    """The component that an entry of a list speaks of: a name, a glob or a pattern read loosely; `other` for none."""
    text = _NOISE.sub(".", entry.removeprefix("re:")[:400])
    return component_of(template_of(re.sub(r"\.{2,}", ".", text).strip(".")))


def _where(kinds: Kinds, spoken: frozenset[str]) -> dict[str, tuple[int, ...]]:
    """Component -> its layers. What only the entries name is taken to be in every layer."""
    every = tuple(range(kinds.layers))
    found = {
        "routed_experts": kinds.experts or (every if "routed_experts" in spoken else ()),
        "shared_experts": (kinds.experts or every)
        if {"shared", "shared_experts"} & (kinds.flags | spoken)
        else (),
        "dense_mlp": kinds.dense if kinds.experts or "routed_experts" not in spoken else (),
        "attention": kinds.attention,
        "linear_attention": kinds.linear or (every if "linear_attention" in spoken else ()),
        "router": kinds.experts,
        "indexer": kinds.attention if "indexer" in kinds.flags else (),
    }
    return {name: layers for name, layers in found.items() if layers}


def _family(kinds: Kinds, said: list[str]) -> str:
    """The naming family: by the model type, else by the words the entries use."""
    for family, (types, _, _) in _FAMILIES.items():
        if kinds.family.startswith(types) and (family != "qwen1" or kinds.family == "qwen"):
            return family
    text = "\n".join(said[:2000])
    for family, (_, words, _) in _FAMILIES.items():
        if words and any(word in text for word in words):
            return family
    return "standard"


def _head(family: str, kinds: Kinds, said: list[str]) -> str:
    """What stands before the layer's number: the prefix that most entries use, else the family's own."""
    seen = Counter(
        f"{match[1]}{match[2]}" for entry in said
        if (match := _PREFIX.match(entry)) is not None and part_of_entry(entry) not in ("vision", "mtp")
    )  # fmt: skip
    if seen:
        return seen.most_common(1)[0][0]
    own = _FAMILIES[family][2] if family in _FAMILIES else "model.layers"
    return f"{kinds.text_prefix}{own}" if own == "model.layers" else own


def _leaves(family: str, component: str, kinds: Kinds, said: list[str]) -> tuple[str, ...]:
    table = _LEAVES.get(family, {})
    if component == "attention" and component not in table:
        return tuple(f"self_attn.{leaf}" for leaf in (_MLA if kinds.mla else _GQA))
    leaves = table.get(component) or _LEAVES["standard"][component]
    if (
        component == "linear_attention"
    ):  # releases fuse these projections differently: those that are spoken of
        return tuple(leaf for leaf in leaves if any(leaf in entry for entry in said)) or leaves[:1]
    return leaves


def _top(said: list[str], component: str, default: str) -> str:
    """The module outside the layers as the entries spell it, else the family's name."""
    return next((e for e in said if _WORD.match(e) and part_of_entry(e) == component), default)


def _draft(family: str, head: str, kinds: Kinds, said: list[str]) -> tuple[str, ...]:
    """Modules of the draft block: numbered after the main layers, or under `mtp`."""
    if family == "deepseek_v4":
        return tuple(f"mtp.0.ffn.experts.1.{leaf}" for leaf in ("w1", "w2", "w3"))
    own = any(part_of_entry(entry) == "mtp" for entry in said) or kinds.family.startswith(
        ("qwen", "nemotron")
    )
    block = "mtp.layers.0" if own else f"{head}.{kinds.layers}"
    inner = "mlp.experts.1." if kinds.experts else "mlp."
    return tuple(f"{block}.{inner}{leaf}" for leaf in _MLP)


def real_names(modules: Iterable[str], *, layers: int | None) -> Names:
    """The same of module names that were read; one expert stands for all of a layer."""
    names: Names = {}
    seen: set[str] = set()
    for module in modules:
        one = _EXPERT.sub(r"\1#", module)
        if one in seen:
            continue
        seen.add(one)
        component = component_at(module, layers=layers)
        leaf = template_of(module)
        names.setdefault(component, {}).setdefault(leaf, []).append(module)
    return names


def component_at(module: str, *, layers: int | None, template: str = "") -> str:
    """The component of a module of a model with that many main layers: what is numbered after them drafts."""
    component = component_of(template or template_of(module))
    layer = None if layers is None else layer_of(module)
    beyond = layer is not None and layers is not None and layer >= layers
    return "mtp" if beyond and component != "vision" else component


def _int(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
