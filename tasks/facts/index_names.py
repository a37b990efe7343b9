"""Tensor names alone, as model.safetensors.index.json has them: which components are there, and which family of formats.

Names have suffixes but no dtypes and no shapes: `weight_packed` may hold 4 or 8 bits. So a component gets the set of formats
that fit, level declared; headers decide.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from recon.agent.api import Json
from recon.tasks.facts.module_names import component_at
from recon.tasks.facts.tensor_rules import split_name

# Parameters of one dimension have the suffix `weight` too, and names are all there is to tell them by.
SMALL: Final = re.compile(
    r"norm|(^|[._])ln(_|\d|$)|rotary|conv1d|A_log|dt_bias|sink|embedding$|pos_emb|(^|\.)(proj|query)$"
)
_INTEGERS: Final = ("w4a16-int4", "w3a16-int3", "w8a16-int8")
_FP8: Final = ("fp8-tensor", "fp8-channel", "fp8-block128")


MAX_NAMES: Final = 2_000_000


def index_names(index: Mapping[str, Json]) -> list[str]:
    """The tensor names of a safetensors index; empty where it has none."""
    names = index.get("weight_map")
    return (
        [name for name in list(names)[:MAX_NAMES] if len(name) <= 2_000] if isinstance(names, Mapping) else []
    )


def family(suffixes: frozenset[str]) -> tuple[str, ...]:
    """The formats that a module with tensors of these suffixes can have; `plain` for a weight alone; none for no weight."""
    if "qweight" in suffixes:
        return _INTEGERS
    if "weight_packed" in suffixes:
        return (
            ("nvfp4", "nvfp4-w4a16") if "weight_global_scale" in suffixes else (*_INTEGERS, "w4afp8", "mxfp4")
        )
    if "blocks" in suffixes:
        return ("mxfp4",)
    if "weight" not in suffixes:
        return ()
    if "weight.absmax" in suffixes:
        return ("nf4",) if any(s.endswith("bitsandbytes__nf4") for s in suffixes) else ("unknown",)
    if "SCB" in suffixes:
        return ("w8a8-int8",)
    if "weight_scale_2" in suffixes:
        return ("nvfp4",) if "input_scale" in suffixes else ("nvfp4-w4a16",)
    if "weight_scale_inv" in suffixes:
        return (*_FP8, "int8-block128", "w4afp8", "mxfp8")
    if "scales" in suffixes:
        return ("mlx",)
    if "scale" in suffixes:
        return ("fp8-block128", "fp8-tensor", "mxfp4", "mxfp8")
    if "weight_scale" in suffixes:
        return (*_FP8, "w8a8-int8", "mxfp8", "mxfp4")
    return ("plain",)


def modules_of(names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Module -> the suffixes of its tensors, of names that may come in any order."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        module, suffix = split_name(name)
        found[module].add(suffix)
    return {module: frozenset(suffixes) for module, suffixes in found.items()}


def stored(modules: Mapping[str, frozenset[str]], *, layers: int | None) -> dict[str, dict[str, Json]]:
    """Component -> {tensors, modules, formats}: `formats` are those that fit two thirds of its modules and more."""
    tensors: Counter[str] = Counter()
    families: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for module, suffixes in modules.items():
        component = component_at(module, layers=layers)
        tensors[component] += len(suffixes)
        fits = family(suffixes)
        if fits and not SMALL.search(module):
            families[component][fits] += 1
    found: dict[str, dict[str, Json]] = {}
    for component, count in sorted(tensors.items()):
        kinds = families[component]
        total, most = sum(kinds.values()), kinds.most_common(1)
        sure = most and most[0][1] * 3 >= 2 * total
        found[component] = {"tensors": count, "modules": total, "formats": list(most[0][0]) if sure else []}
    return found
