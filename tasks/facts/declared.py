"""Quantization declarations -> formats per component. Pure readings of published JSON keys; every answer is `declared`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from recon.agent.api import Json
from recon.tasks.facts.exclusions import Style, covered
from recon.tasks.facts.tensor_rules import component_of, template_of

Component = dict[str, Json]
Formatter = Callable[[str], tuple[str, int | None]]

# Module names that stand for a component, one per naming family; the layer number is filled in.
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "routed_experts": ("model.layers.{n}.mlp.experts.1.down_proj", "layers.{n}.ffn.experts.1.w2"),
    "shared_experts": ("model.layers.{n}.mlp.shared_experts.down_proj", "layers.{n}.ffn.shared_experts.w2"),
    "dense_mlp": ("model.layers.{n}.mlp.down_proj", "layers.{n}.ffn.w2"),
    "attention": (
        "model.layers.{n}.self_attn.o_proj", "layers.{n}.attn.wo_b", "language_model.model.layers.{n}.self_attn.o_proj",
    ),
    "linear_attention": ("model.layers.{n}.linear_attn.out_proj",),
    "router": ("model.layers.{n}.mlp.gate", "layers.{n}.ffn.gate"),
    "lm_head": ("lm_head", "head", "language_model.lm_head"),
    "embeddings": ("model.embed_tokens", "embed"),
    "mtp": ("mtp.0.ffn.experts.1.w2", "mtp.layers.0.mlp.down_proj", "model.layers.{last}.mlp.experts.1.down_proj"),
    "vision": ("visual.blocks.1.attn.proj", "vision_model.model.layers.1.self_attn.q_proj"),
}  # fmt: skip
_ALGORITHMS: Final[dict[str, tuple[str, int | None]]] = {
    "FP8": ("fp8-tensor", None), "FP8_PER_CHANNEL_PER_TOKEN": ("fp8-channel", None), "FP8_PB_WO": ("fp8-block128", 128),
    "NVFP4": ("nvfp4", 16), "NVFP4_AWQ": ("nvfp4", 16), "NVFP4_SVD": ("nvfp4", 16), "W4A16_NVFP4": ("nvfp4-w4a16", 16),
    "MXFP8": ("mxfp8", 32), "W4A16_AWQ": ("w4a16-int4", 128), "W4A8_AWQ": ("w4afp8", 128), "W8A16": ("w8a16-int8", None),
    "W8A8_SQ_PER_CHANNEL": ("w8a8-int8", None), "INT8_SQ": ("w8a8-int8", None),
}  # fmt: skip


def declaration(
    config: Mapping[str, Json], architecture: Mapping[str, Json]
) -> tuple[dict[str, Json] | None, str]:  # fmt: skip
    """The quantization block of a config.json as `declared`, and where it stands; None where there is none.

    Looked for where engines look: `quantization_config`, `compression_config`, then the same inside a text config.
    """
    for where, block in _blocks(config):
        return _read_block(block, config, where, _Shape(architecture)), where
    return None, ""


def _blocks(config: Mapping[str, Json]) -> list[tuple[str, Mapping[str, Json]]]:
    places = [("", config)]
    places += [
        (f"/{key}", nested)
        for key in ("text_config", "llm_config")
        if isinstance(nested := config.get(key), Mapping)
    ]
    return [
        (f"{prefix}/{key}", block)
        for prefix, place in places
        for key in ("quantization_config", "compression_config", "quantization")
        if isinstance(block := place.get(key), Mapping) and block
    ]


def _read_block(
    block: Mapping[str, Json], config: Mapping[str, Json], where: str, shape: _Shape
) -> dict[str, Json]:  # fmt: skip
    text = config.get("text_config") if where.startswith("/text_config") else config
    side = text if isinstance(text, Mapping) else config
    method = str(block.get("quant_method") or _method_of(block))
    value: dict[str, Json] = {"quant_method": method, "source": f"config.json{where}"}
    for key in ("format", "quant_algo", "moe_quant_algo", "scale_fmt", "weight_block_size", "bits", "group_size",
                "checkpoint_format", "kv_cache_quant_algo", "desc_act", "sym", "zero_point", "version"):  # fmt: skip
        if block.get(key) is not None:
            value[key] = block[key]
    for key in ("expert_dtype", "store_dtype"):
        if side.get(key) is not None:
            value[key] = side[key]
    if (groups := _groups(block)) and method == "compressed-tensors":
        value["groups"] = [{"targets": t[:6], "format": f, "group_size": g} for t, f, g in groups]
    skipped = _skipped(block)
    value["ignore_count"] = len(skipped)
    if beyond := _beyond(skipped, shape.layers):
        value["ignore_beyond_layers"] = beyond
    components = _components(method, block, side, shape, groups, skipped)
    components["kv_cache"] = _kv_cache(block)
    value["components"] = components
    return value


def _method_of(block: Mapping[str, Json]) -> str:
    if block.get("quant_algo") or "producer" in block:
        return "modelopt"
    if "mode" in block or ("group_size" in block and "bits" in block):
        return "mlx"
    return "unknown"


class _Shape:
    """What of an architecture (the finding's value) decides which components exist."""

    def __init__(self, architecture: Mapping[str, Json]) -> None:
        layers = architecture.get("layers")
        self.layers = layers if isinstance(layers, int) and layers > 0 else 4
        self.wanted = {
            "routed_experts": bool(architecture.get("experts")),
            "shared_experts": bool(architecture.get("shared_experts")),
            "dense_mlp": not architecture.get("experts") or bool(architecture.get("dense_layers")),
            "attention": True,
            "linear_attention": bool(architecture.get("linear_attention")),
            "router": bool(architecture.get("experts")),
            "lm_head": True,
            "embeddings": True,
            "mtp": bool(architecture.get("mtp_layers")),
            "vision": bool(architecture.get("vision")),
        }

    def names(self, component: str) -> list[str]:
        middle = self.layers // 2
        return [name.format(n=middle, last=self.layers) for name in _NAMES[component]]

    def components(self) -> list[str]:
        return [name for name, there in self.wanted.items() if there]


def _components(
    method: str, block: Mapping[str, Json], side: Mapping[str, Json], shape: _Shape,
    groups: list[tuple[list[str], str, int | None]], skipped: list[str],
) -> dict[str, Json]:  # fmt: skip
    said = (
        _by_component(block["quantized_layers"]) if isinstance(block.get("quantized_layers"), Mapping) else {}
    )
    style: Style = "compressed-tensors" if method == "compressed-tensors" else "part"
    if method == "modelopt" or block.get("quant_algo"):
        style = "glob"
    # In a hybrid export the list says what was left in the native format, not what is plain.
    hybrid = method == "fp8" and bool(block.get("quant_algo"))
    values: dict[str, Json] = {}
    for component in shape.components():
        names = shape.names(component)
        if component in said:
            values[component] = said[component]
            continue
        if covered_any(names, skipped, style) and not (hybrid and component != "lm_head"):
            word, size = _left_out(component, names, skipped)
        else:
            word, size = _format(component, method, block, side, names, groups)
        values[component] = _component(component, word, size)
    return values


def covered_any(names: list[str], patterns: list[str], style: Style) -> bool:
    """Whether any of a component's names is covered."""
    return any(covered(name, patterns, style=style) for name in names)


def _component(name: str, word: str, size: int | None) -> Component:
    # The presence of a draft block is never taken from a declaration.
    value: Component = {"presence": "unknown" if name == "mtp" else "present", "format": word}
    return value if size is None else {**value, "group_size": size}


def _left_out(component: str, names: list[str], skipped: list[str]) -> tuple[str, int | None]:
    """What an exclusion means: the plain format. A bare `gate` may mean the router or every gate projection."""
    return ("unknown" if component == "router" and "gate" in skipped else "bf16"), None


def _format(
    component: str, method: str, block: Mapping[str, Json], side: Mapping[str, Json], names: list[str],
    groups: list[tuple[list[str], str, int | None]],
) -> tuple[str, int | None]:  # fmt: skip
    special = _expert_format(block, side)
    if component == "routed_experts" and special is not None:
        return special
    if component == "mtp":
        return ("mxfp4", 32) if str(side.get("expert_dtype") or "").lower() == "fp4" else ("unknown", None)
    # Writers of these formats left the head and the embeddings in whatever dtype they had loaded.
    kept = "unknown" if method in ("gptq", "awq", "bitsandbytes", "auto-round", "mlx") else "bf16"
    if component == "embeddings":
        return kept, None
    if method == "compressed-tensors":
        for targets, word, size in groups:
            if any(covered(name, targets, style="compressed-tensors") for name in names):
                # The class name Linear covers the head too, which every published writer leaves out.
                return (
                    ("bf16", None)
                    if component in ("lm_head", "router") and targets == ["Linear"]
                    else (word, size)
                )
        return "bf16", None
    if component in ("router", "vision"):
        return "unknown", None
    if component == "lm_head":
        return kept, None
    return _uniform(method, block)(component)


def _expert_format(block: Mapping[str, Json], side: Mapping[str, Json]) -> tuple[str, int | None] | None:
    """Keys beside the block that give routed experts a format of their own."""
    algorithm = _ALGORITHMS.get(str(block.get("moe_quant_algo") or side.get("moe_quant_algo") or "").upper())
    if algorithm is not None:
        return algorithm
    if str(block.get("quant_method")) == "fp8" and str(side.get("expert_dtype") or "").lower() == "fp4":
        return "mxfp4", None
    if str(side.get("store_dtype") or "").lower() == "mxfp4":
        return "mxfp4", 32
    return None


def _uniform(method: str, block: Mapping[str, Json]) -> Formatter:
    bits, group = block.get("bits"), block.get("group_size")
    size = group if isinstance(group, int) and group > 0 else None
    integers = {3: "w3a16-int3", 4: "w4a16-int4", 8: "w8a16-int8"}
    word: tuple[str, int | None] = ("unknown", None)
    if method in ("gptq", "awq", "auto-round", "intel/auto-round"):
        word = (integers.get(bits, "unknown") if isinstance(bits, int) else "unknown", size)
    elif method == "fp8":
        word = (
            ("fp8-block128", None) if block.get("weight_block_size") == [128, 128] else ("fp8-tensor", None)
        )
        if block.get("quant_algo") and not block.get("weight_block_size"):
            word = ("fp8-block128", None)  # a hybrid export keeps the native block format outside its experts
    elif method == "bitsandbytes":
        nf4 = block.get("load_in_4bit") and block.get("bnb_4bit_quant_type") == "nf4"
        word = ("nf4", None) if nf4 else ("w8a8-int8" if block.get("load_in_8bit") else "unknown", None)
    elif method == "modelopt":
        word = _ALGORITHMS.get(str(block.get("quant_algo") or "").upper(), ("unknown", None))
    elif method == "w4afp8":
        word = ("w4afp8", None)
    elif method == "mlx":
        word = ("mlx", None)
    elif method == "mxfp4":
        return lambda component: ("mxfp4", None) if component == "routed_experts" else ("bf16", None)
    return lambda component: word


def _groups(block: Mapping[str, Json]) -> list[tuple[list[str], str, int | None]]:
    """compressed-tensors groups as (targets, format, group size). A group's own format wins over the block's."""
    groups = block.get("config_groups")
    if not isinstance(groups, Mapping):
        return []
    found = []
    for _, group in sorted(groups.items()):
        if not isinstance(group, Mapping) or not isinstance(group.get("weights"), Mapping):
            continue
        targets = [str(t) for t in group.get("targets") or []]
        word = _scheme(group["weights"], group.get("input_activations"))
        size = group["weights"].get("group_size")
        found.append((targets, word, size if isinstance(size, int) and size > 0 else None))
    return found


def _scheme(weights: Mapping[str, Json], activations: Json) -> str:
    bits, kind, strategy = weights.get("num_bits"), weights.get("type"), str(weights.get("strategy") or "")
    group = weights.get("group_size")
    acts = activations if isinstance(activations, Mapping) else {}
    if kind == "float" and bits == 4:
        if group == 16 or strategy == "tensor_group":
            return "nvfp4" if acts else "nvfp4-w4a16"
        return "mxfp4" if group == 32 else "unknown"
    if kind == "float" and bits == 8:
        if group == 32:
            return "mxfp8"
        return {"block": "fp8-block128", "channel": "fp8-channel", "tensor": "fp8-tensor"}.get(
            strategy, "unknown"
        )
    if kind == "int" and bits == 4 and acts.get("type") == "float":
        return "w4afp8"
    if kind == "int" and bits == 8 and acts:
        return "w8a8-int8"
    integers = {3: "w3a16-int3", 4: "w4a16-int4", 8: "w8a16-int8"}
    return integers.get(bits, "unknown") if kind == "int" and isinstance(bits, int) else "unknown"


def _skipped(block: Mapping[str, Json]) -> list[str]:
    for key in ("ignore", "exclude_modules", "modules_to_not_convert", "llm_int8_skip_modules", "exclude"):
        if isinstance(block.get(key), list):
            return [str(entry) for entry in block[key]]
    return []


def _beyond(skipped: list[str], layers: int) -> list[int]:
    """Layer numbers an exclusion list names although the model has no such layer (the first draft layer is allowed)."""
    numbers = {int(m) for entry in skipped for m in re.findall(r"layers\.(\d{1,4})(?:\.|$)", entry)}
    return sorted(n for n in numbers if n > layers)


def _kv_cache(block: Mapping[str, Json]) -> Component:
    said = block.get("kv_cache_quant_algo")
    scheme = block.get("kv_cache_scheme")
    if said:
        return {"presence": "present", "format": "unknown", "said": str(said)}
    if isinstance(scheme, Mapping) and scheme:
        return {
            "presence": "present",
            "format": "unknown",
            "said": f"{scheme.get('num_bits')}-bit {scheme.get('type')}",
        }
    return {"presence": "unknown", "format": "unknown"}


def combine(
    architecture: Mapping[str, Json], *, config: Mapping[str, Json] | None, hf_quant: Mapping[str, Json] | None,
    plain: str,
) -> dict[str, Json]:  # fmt: skip
    """What the files of one commit declare together. config.json wins: engines read no other file where it speaks.

    Neither file speaks: `quant_method` none, every component in the plain dtype (which headers must still prove).
    """
    if config is not None:
        return dict(config)
    shape = _Shape(architecture)
    if hf_quant is None:
        components = {
            name: _component(name, plain if name != "mtp" else "unknown", None) for name in shape.components()
        }
        kv: Component = {"presence": "unknown", "format": "unknown"}
        return {"quant_method": "none", "source": "config.json", "components": {**components, "kv_cache": kv}}
    skipped = [str(e) for e in hf_quant.get("exclude_modules") or []]
    said = hf_quant.get("by_module") if isinstance(hf_quant.get("by_module"), Mapping) else {}
    values: dict[str, Json] = {}
    for name in shape.components():
        values[name] = (said or {}).get(name) or _modelopt_component(name, shape, hf_quant, skipped)
    values["kv_cache"] = _kv_cache(hf_quant)
    return {**hf_quant, "components": values}


def _modelopt_component(
    name: str, shape: _Shape, hf_quant: Mapping[str, Json], skipped: list[str]
) -> Component:  # fmt: skip
    if name in ("lm_head", "embeddings", "router") or covered_any(shape.names(name), skipped, "glob"):
        return _component(name, "bf16", None)
    if name == "attention" and any("self_attn" in e or "attn" in e or "_proj" in e for e in skipped):
        return {"presence": "unknown", "format": "unknown"}  # some projections are left out, some are not
    if name in ("mtp", "vision"):
        return _component(name, "unknown", None)
    size = hf_quant.get("group_size")
    return _component(name, str(hf_quant.get("default_format")), size if isinstance(size, int) else None)


def hf_quant_declaration(file: Mapping[str, Json]) -> dict[str, Json] | None:
    """A ModelOpt hf_quant_config.json as `declared`; components are only those that every such model has."""
    block = file.get("quantization")
    if not isinstance(block, Mapping):
        return None
    algorithm = str(block.get("quant_algo") or "")
    word, size = _ALGORITHMS.get(algorithm.upper(), ("unknown", None))
    skipped = _skipped(block)
    value: dict[str, Json] = {
        "quant_method": "modelopt", "source": "hf_quant_config.json", "quant_algo": algorithm,
        "ignore_count": len(skipped), "default_format": word, "exclude_modules": skipped[:400],
    }  # fmt: skip
    if size is not None:
        value["group_size"] = size
    if block.get("kv_cache_quant_algo"):
        value["kv_cache_quant_algo"] = str(block["kv_cache_quant_algo"])
    layers = block.get("quantized_layers")
    if isinstance(layers, Mapping):
        value["by_module"] = _by_component(layers)
    return value


def quantize_declaration(file: Mapping[str, Json]) -> dict[str, Json] | None:
    """A GPTQ quantize_config.json as `declared`."""
    if not isinstance(file.get("bits"), int):
        return None
    word, size = _uniform("gptq", file)("attention")
    return {"quant_method": "gptq", "source": "quantize_config.json", "bits": file["bits"],
            "default_format": word, "group_size": size}  # fmt: skip


def _by_component(layers: Mapping[str, Json]) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for module, row in layers.items():
        if not isinstance(row, Mapping):
            continue
        word, size = _ALGORITHMS.get(str(row.get("quant_algo") or "").upper(), ("unknown", None))
        component = component_of(template_of(str(module)))
        values.setdefault(
            component, {"presence": "present", "format": word, **({"group_size": size} if size else {})}
        )
    return values
