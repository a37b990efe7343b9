"""What the files of one commit declare together: a format per component, level `declared`, and where they disagree.

Files are read where engines look (SGLang 0.5.23, `srt/configs/model_config.py`): a block in config.json, also in a text
config or under `compression_config`; hf_quant_config.json where config.json has none. The others corroborate.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from recon.agent.api import Draft, Json
from recon.tasks.facts.card import clean_line
from recon.tasks.facts.module_names import (
    TEXT_KEYS,
    Kinds,
    Names,
    layer_kinds,
    made_names,
    part_of_entry,
    text_config,
)
from recon.tasks.facts.schemes import PLAIN, UNKNOWN, Word
from recon.tasks.facts.statements import (
    Statement,
    listed_layers,
    of_block,
    of_hf_quant,
    of_modelslim,
    of_params,
    of_quantize,
)

Component = dict[str, Json]
_KEPT: Final = (
    "format", "quant_algo", "moe_quant_algo", "scale_fmt", "weight_block_size", "bits", "group_size", "checkpoint_format",
    "packing_format", "kv_cache_quant_algo", "desc_act", "sym", "zero_point", "version", "activation_scheme",
)  # fmt: skip
_SIDE: Final = ("expert_dtype", "store_dtype", "moe_quant_algo", "routed_experts_quant_method")
# Kernels of these formats run in FP16: a bfloat16 beside them is the original's, not that of what was left out.
_HALF: Final = frozenset({"gptq", "awq", "auto-round"})
_MOST: Final = 2 / 3  # of a leaf's layers: fewer is a mixture


def blocks_of(config: Mapping[str, Json]) -> list[tuple[str, Mapping[str, Json]]]:
    """(where, block) of every quantization block in a config.json, in the order engines look."""
    places = [("", config)]
    places += [(f"/{key}", nested) for key in TEXT_KEYS if isinstance(nested := config.get(key), Mapping)]
    return [
        (f"{prefix}/{key}", block)
        for prefix, place in places
        for key in ("quantization_config", "compression_config", "quantization")
        if isinstance(block := place.get(key), Mapping) and block
    ]


def statement_of_config(config: Mapping[str, Json]) -> Statement | None:
    """The statement of config.json; None where it has no quantization block."""
    for where, block in blocks_of(config):
        parent = where.split("/")[1]
        nested = config.get(parent)
        inner = nested if where.count("/") > 1 and isinstance(nested, Mapping) else None
        side = {**config, **inner} if inner is not None else _side(config)
        return of_block(block, source=f"config.json{where}", side=side, text_only=inner is not None)
    return None


def config_value(
    config: Mapping[str, Json], architecture: Mapping[str, Json]
) -> tuple[dict[str, Json] | None, str]:
    """What config.json alone declares, and where the block stands; None where there is none."""
    statement = statement_of_config(config)
    if statement is None:
        return None, ""
    value = described(statement, _side(config), layers=_count(architecture))
    return value, statement.source.removeprefix("config.json")


def described(statement: Statement, side: Mapping[str, Json], *, layers: int | None) -> dict[str, Json]:
    """The keys of a statement that people and judges read; no formats of components."""
    value: dict[str, Json] = {"quant_method": clean_line(statement.method), "source": statement.source}
    for place, keys in ((statement.block, _KEPT), (side, _SIDE)):
        value.update({key: _bounded(place[key]) for key in keys if place.get(key) is not None})
    if statement.groups and statement.method == "compressed-tensors":
        value["groups"] = [
            {
                "targets": [clean_line(entry) for entry in patterns.entries[:6]],
                "format": word.format,
                "group_size": word.group,
            }
            for patterns, word in statement.groups[:50]
        ]
    value["ignore_count"] = len(statement.skipped.entries)
    if statement.skipped.unread:
        value["ignore_unread"] = [clean_line(entry) for entry in statement.skipped.unread[:20]]
    if layers and (beyond := _beyond(statement.skipped.entries, layers)):
        value["ignore_beyond_layers"] = beyond
    return value


def _bounded(value: Json) -> Json:
    """A value of a file as a finding keeps it: numbers, short clean text, short lists of them."""
    if isinstance(value, str):
        return clean_line(value)[:200]
    if isinstance(value, list):
        return [_bounded(item) for item in value[:20] if isinstance(item, (str, int, float))]
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return type(value).__name__


def _beyond(skipped: Iterable[str], layers: int) -> list[int]:
    """Layer numbers an exclusion list names although the model has no such layer (the first draft layer is allowed)."""
    numbers = {int(m) for entry in skipped for m in re.findall(r"layers\.(\d{1,4})(?:\.|$)", entry)}
    return sorted(n for n in numbers if n > layers)


def _side(config: Mapping[str, Json]) -> Mapping[str, Json]:
    """The config with the side keys of its text config, which engines hoist."""
    text = text_config(config)
    return {**{key: text[key] for key in _SIDE if text.get(key) is not None}, **config}


def _count(architecture: Mapping[str, Json]) -> int | None:
    layers = architecture.get("layers")
    return layers if isinstance(layers, int) and not isinstance(layers, bool) and layers > 0 else None


def declare(
    files: Mapping[str, Mapping[str, Json]], architecture: Mapping[str, Json], *, plain: str = "unknown",
    real: Names | None = None, stored: Mapping[str, Component] | None = None,
) -> dict[str, Json] | None:  # fmt: skip
    """`declared` of the files of one commit (path -> parsed object); None where no file says anything.

    `plain`: the dtype config.json gives to what is not quantized. `real`: tensor names by component where they were read,
    else names are made from the config. `stored`: what the index tells of components (see index_names).
    """
    config = files.get("config.json", {})
    kinds = layer_kinds(config, architecture)
    statements = statements_of(files)
    if not statements and "config.json" not in files and not stored:
        return None
    first = statements[0] if statements else None
    names = real or made_names(kinds, first.entries if first is not None else ())
    components = _components(first, names, kinds, plain)
    rows = _apart(statements, names, components)
    components = _with_index(components, stored or {}, plain_word(first, plain), rows)
    value: dict[str, Json] = (
        described(first, _side(config), layers=_count(architecture))
        if first is not None
        else {"quant_method": "none", "source": "config.json"}
    )
    value["components"] = {**components, "kv_cache": kv_cache(first.block if first is not None else {})}
    if len(statements) > 1:
        value["also"] = [s.source for s in statements[1:]]
    if rows:
        value["disagreement"] = rows
    return value


def formats_of(value: Json) -> dict[str, str]:
    """Component -> format of a `declared` finding's value."""
    components = value.get("components") if isinstance(value, Mapping) else None
    rows = components.items() if isinstance(components, Mapping) else ()
    return {
        str(name): str(row["format"]) for name, row in rows if isinstance(row, Mapping) and "format" in row
    }


def declared_drafts(value: dict[str, Json]) -> list[Draft]:
    """`declared`, and `declared.disagreement` where two files contradict each other: a line for each component."""
    drafts = [Draft(name="declared", value=value, level="declared", locator=str(value.get("source", "")))]
    rows = value.get("disagreement")
    if isinstance(rows, list) and rows:
        lines = [
            f"{row['component']}: {row['formats'][0]} in {row['sources'][0]}, {row['formats'][1]} in {row['sources'][1]}"
            for row in rows
        ]
        drafts.append(
            Draft(name="declared.disagreement", value=lines, level="declared", locator="the files named")
        )
    return drafts


def statements_of(files: Mapping[str, Mapping[str, Json]]) -> list[Statement]:
    """The statements of the files that make one, the one that engines believe first."""
    readers = (
        ("config.json", statement_of_config), ("hf_quant_config.json", of_hf_quant), ("quantize_config.json", of_quantize),
        ("quant_config.json", of_quantize), ("quant_model_description.json", of_modelslim), ("params.json", of_params),
    )  # fmt: skip
    made = [reader(files[path]) for path, reader in readers if path in files]
    return [statement for statement in made if statement is not None]


def _components(
    statement: Statement | None, names: Names, kinds: Kinds, plain: str
) -> dict[str, Component]:  # fmt: skip
    word = plain_word(statement, plain)
    found: dict[str, Component] = {}
    for component, leaves in names.items():
        if component == "other":
            continue
        found[component] = _value(component, told(statement, component, leaves), word)
    said = statement.entries if statement is not None else ()
    if "vision" not in found and ("vision" in kinds.flags or any(part_of_entry(e) == "vision" for e in said)):
        found["vision"] = _value(
            "vision", [(PLAIN if statement is None else statement.of("", "vision"), 1)], word
        )
    if "mtp" not in found and kinds.whole:  # a part of a config promises nothing by what it lacks
        found["mtp"] = {"presence": "absent"}
    return found


def plain_word(statement: Statement | None, plain: str) -> str:
    """The format of what a statement leaves out: the config's dtype, as far as the method lets it be believed."""
    if statement is None:
        return plain
    if statement.method == "bitsandbytes":
        return "unknown"  # its skip list keeps the dtype of each module
    if statement.method in _HALF:
        return plain if plain == "fp16" else "unknown"
    return plain if plain != "unknown" else ("bf16" if statement.method != "mlx" else "unknown")


def told(
    statement: Statement | None, component: str, leaves: Mapping[str, list[str]]
) -> list[tuple[Word, int]]:
    """The formats of a component's modules with their number, by what a statement says; most modules first.

    A leaf counts as one format where two thirds of its layers have it: first and last layers are often left out.
    """
    counts: Counter[Word] = Counter()
    for modules in leaves.values():
        words = Counter(PLAIN if statement is None else statement.of(name, component) for name in modules)
        if words:
            word, most = words.most_common(1)[0]
            counts[word if most >= _MOST * len(modules) else UNKNOWN] += len(modules)
    return counts.most_common()


def _value(component: str, words: list[tuple[Word, int]], plain: str) -> Component:
    # The presence of a draft block is never taken from a declaration.
    value: Component = {"presence": "unknown" if component == "mtp" else "present"}
    named = [(plain if word == PLAIN else word.format, word.group, count) for word, count in words]
    formats = {fmt for fmt, _, _ in named}
    value["format"] = named[0][0] if len(formats) == 1 else "unknown"
    groups = {group for _, group, _ in named}
    if len(formats) == 1 and len(groups) == 1 and (group := named[0][1]) is not None:
        value["group_size"] = group
    if len(formats) > 1:
        value["mixed"] = [{"format": fmt, "modules": count} for fmt, _, count in named]
    return value


def _apart(statements: list[Statement], names: Names, components: dict[str, Component]) -> list[Json]:
    """Where two files quantize the same component differently: named with both, and unknown until headers are read."""
    rows: list[Json] = []
    for other in statements[1:]:
        for component, leaves in names.items():
            mine = components.get(component, {})
            words = told(other, component, leaves)
            theirs = words[0][0] if len(words) == 1 else UNKNOWN
            if theirs in (PLAIN, UNKNOWN) or mine.get("format") in (None, "unknown", "bf16", "fp16", "fp32"):
                continue
            groups = (mine.get("group_size"), theirs.group)
            if theirs.format == mine["format"] and (None in groups or groups[0] == groups[1]):
                continue
            rows.append({
                "component": component, "sources": [statements[0].source, other.source],
                "formats": [_spelled(mine["format"], groups[0]), _spelled(theirs.format, theirs.group)],
            })  # fmt: skip
            components[component] = {"presence": mine.get("presence", "unknown"), "format": "unknown"}
    return rows


def _spelled(fmt: Json, group: Json) -> str:
    return f"{fmt} in groups of {group}" if group else str(fmt)


def _with_index(
    components: dict[str, Component], stored: Mapping[str, Component], plain: str, rows: list[Json]
) -> dict[str, Component]:
    """The components with what the index tells: what is there, what is not, and which are stored quantized."""
    if not stored:
        return components
    found: dict[str, Component] = {}
    for component in [*components, *(name for name in stored if name not in components and name != "other")]:
        held, said = stored.get(component), components.get(component)
        if held is None:
            found[component] = {"presence": "absent"}
            continue
        value = dict(said or {"format": "unknown"})
        value["presence"] = "unknown" if component == "mtp" else "present"
        value["in_index"] = held["tensors"]
        fmt = str(value.get("format") or "unknown")
        family = [word for f in held["formats"] if (word := plain if f == "plain" else f) != "unknown"]
        if fmt == "unknown" and len(family) == 1:
            value["format"] = family[0]
        elif fmt != "unknown" and family and fmt not in family:
            rows.append({"component": component, "sources": ["declaration", "model.safetensors.index.json"], "formats": [fmt, " or ".join(family)]})  # fmt: skip
            value = {"presence": value["presence"], "format": "unknown", "in_index": held["tensors"]}
        found[component] = value
    return found


def kv_cache(block: Mapping[str, Json]) -> Component:
    """What a block says of the KV cache, in its own words."""
    said, scheme = block.get("kv_cache_quant_algo"), block.get("kv_cache_scheme")
    if said:
        return {"presence": "present", "format": "unknown", "said": clean_line(str(said))[:80]}
    if isinstance(scheme, Mapping) and scheme:
        text = f"{scheme.get('num_bits')}-bit {scheme.get('type')}"
        return {"presence": "present", "format": "unknown", "said": clean_line(text)[:80]}
    return {"presence": "unknown", "format": "unknown"}


def hf_quant_value(file: Mapping[str, Json]) -> dict[str, Json] | None:
    """A ModelOpt hf_quant_config.json in the keys that judges read."""
    statement = of_hf_quant(file)
    if statement is None:
        return None
    value = described(statement, {}, layers=None)
    value.update({"quant_algo": str(statement.block.get("quant_algo") or ""), "default_format": statement.every.format,
                  "exclude_modules": [clean_line(entry) for entry in statement.skipped.entries[:400]]})  # fmt: skip
    if statement.every.group is not None:
        value["group_size"] = statement.every.group
    if layers := listed_layers(statement.block):
        counts = Counter(word.format for word in layers.values())
        value["by_module"] = {fmt: count for fmt, count in sorted(counts.items())}
    if statement.abridged:
        value["abridged"] = True
    return value


def quantize_value(file: Mapping[str, Json]) -> dict[str, Json] | None:
    """A quantize_config.json in the keys that judges read."""
    statement = of_quantize(file)
    if statement is None:
        return None
    value = described(statement, {}, layers=None)
    group = statement.every.group
    return {**value, "default_format": statement.every.format, "group_size": group}


def modelslim_value(file: Mapping[str, Json]) -> dict[str, Json] | None:
    """A quant_model_description.json in short: its type and how many modules have which format."""
    statement = of_modelslim(file)
    if statement is None:
        return None
    counts = Counter(word.format for word in statement.layers.values())
    value = described(statement, {}, layers=None)
    return {**value, "by_module": dict(sorted(counts.items()))}
