"""What one file declares of formats, as something that can be asked about a module: `Statement.of(name, component)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from recon.agent.api import Json
from recon.tasks.facts.exclusions import MAX_PATTERNS, Patterns, Style
from recon.tasks.facts.module_names import part_of_entry
from recon.tasks.facts.schemes import (
    ALIASES,
    PLAIN,
    UNKNOWN,
    Word,
    algorithm,
    group_of,
    modelslim,
    quark,
    scheme,
    whole,
)

_MAX_GROUPS: Final = 64  # published configs have at most three
_SKIP_KEYS: Final = (
    "ignore",
    "exclude_modules",
    "modules_to_not_convert",
    "llm_int8_skip_modules",
    "exclude",
)
# Linear layers that every covering method takes; a router is a bare matrix, a head and embeddings are left out by writers.
COVERED: Final = frozenset({"routed_experts", "shared_experts", "dense_mlp", "attention", "linear_attention"})
# Tools that calibrate through transformers' model class drop the draft block or copy it as it was.
_CALIBRATED: Final = frozenset(
    {"compressed-tensors", "modelopt", "gptq", "awq", "auto-round", "bitsandbytes", "quark", "w4afp8"}
)


@dataclass(frozen=True)
class Statement:
    """One declaration. `groups`: (which modules, their format), the first that matches counts; `layers`: formats module by
    module, where the file lists them all; `skipped`: what is left out; `every`: the format of all else."""

    source: str
    method: str
    block: Mapping[str, Json]
    every: Word = UNKNOWN
    groups: tuple[tuple[Patterns, Word], ...] = ()
    layers: Mapping[str, Word] = field(default_factory=dict)
    skipped: Patterns = field(default_factory=lambda: Patterns((), style="part"))
    special: Mapping[str, Word] = field(
        default_factory=dict
    )  # component -> a format of its own, said beside the block
    hybrid: bool = (
        False  # what the list leaves out keeps the native quantized format, instead of the plain dtype
    )
    text_only: bool = False  # the block stands in the text config: it does not speak of the vision part
    abridged: bool = False  # a copy without the list that its writer always writes

    @property
    def entries(self) -> tuple[str, ...]:
        """All module names and patterns in it."""
        targets = [entry for patterns, _ in self.groups for entry in patterns.entries]
        return (*self.skipped.entries, *targets, *self.layers)

    def of(self, name: str, component: str) -> Word:
        """The format it gives to a module; PLAIN for what it leaves out."""
        if component in self.special and (not self.layers or self._listed(name) is None):
            return self.special[component]
        if component == "vision":
            return self._vision()
        word = self._covered(name, component)
        known = word not in (PLAIN, UNKNOWN)
        if known and self.abridged and component != "routed_experts":
            return UNKNOWN
        return UNKNOWN if known and self.skipped.unread else word

    def _covered(self, name: str, component: str) -> Word:
        if self.layers:
            listed = self._listed(name)
            if listed is not None or not self.hybrid:
                return listed or PLAIN  # what a whole list does not name was left alone
        if self.skipped.covers(name):
            return self._skipped(component)
        for patterns, word in self.groups:
            if patterns.covers(name):
                return word
            if "Linear" in patterns.classes:
                return self._linear(component, word)
        if any(patterns.unread for patterns, _ in self.groups):
            return UNKNOWN
        if self.groups and self.method == "compressed-tensors":
            return PLAIN
        if component == "mtp" and self.method in _CALIBRATED:
            return UNKNOWN
        if component == "embeddings":
            return PLAIN
        if component == "lm_head":
            return self.every if self.block.get("lm_head") is True else PLAIN
        if self.method == "mxfp4":
            return self.every if component == "routed_experts" else PLAIN
        if self.method == "w4afp8":  # SGLang's loader: experts INT4, the rest FP8 blocks
            return UNKNOWN if component != "routed_experts" else Word("w4afp8", 128)
        return UNKNOWN if component in ("router", "indexer", "compressor") else self.every

    def _linear(self, component: str, word: Word) -> Word:
        """What a target `Linear` means: the class covers the head too, which every published writer leaves out."""
        if component in ("lm_head", "router", "embeddings"):
            return PLAIN
        return UNKNOWN if component == "mtp" else word

    def _skipped(self, component: str) -> Word:
        if component == "router" and self.skipped.style == "part" and "gate" in self.skipped.entries:
            return UNKNOWN  # a bare `gate`: the router, or every gate projection
        return self._native(component)

    def _native(self, component: str) -> Word:
        if not self.hybrid or component in ("lm_head", "embeddings", "router"):
            return PLAIN
        # The native releases keep parts of these in BF16.
        return UNKNOWN if component in ("indexer", "compressor") else self.every

    def _listed(self, name: str) -> Word | None:
        """The format listed for a module or for one around it."""
        while name:
            if name in self.layers:
                return self.layers[name]
            name = name.rpartition(".")[0]
        return None

    def _vision(self) -> Word:
        if self.text_only or (self.layers and not self.hybrid):
            return PLAIN
        if any(part_of_entry(entry) == "vision" for entry in self.skipped.entries):
            return PLAIN
        for patterns, word in self.groups:
            if any(part_of_entry(entry) == "vision" for entry in patterns.entries):
                return word
        all_named = bool(self.groups) and not any(patterns.classes for patterns, _ in self.groups)
        return PLAIN if all_named or self.method == "mxfp4" else UNKNOWN


def of_block(
    block: Mapping[str, Json], *, source: str, side: Mapping[str, Json], text_only: bool = False
) -> Statement:
    """The statement of a quantization block of config.json. `side`: the object that the block stands in."""
    method = method_of(block)
    style = style_of(method, block)
    layers = listed_layers(block)
    hybrid = method == "fp8" and bool(block.get("quant_algo"))
    skipped, dynamic = skip_list(block), _dynamic(block) if method == "gptq" else ([], [])
    return Statement(
        source=source, method=method, block=block, every=whole(method, block),
        groups=(*_dynamic_groups(dynamic[1], block), *_overrides(method, block), *groups_of(method, block)),
        layers=layers, skipped=Patterns([*skipped, *dynamic[0]], style="quark" if dynamic[0] else style),
        special=_special(block, side), hybrid=hybrid, text_only=text_only,
    )  # fmt: skip


def method_of(block: Mapping[str, Json]) -> str:
    """The method a block names, in one word for its aliases; told from its other keys where it names none."""
    said = str(block.get("quant_method") or "").lower()[:80]
    if said:
        return ALIASES.get(said, said)
    if block.get("quant_algo") or "producer" in block:
        return "modelopt"
    if isinstance(block.get("config_groups"), Mapping):
        return "compressed-tensors"
    if "mode" in block or ("group_size" in block and "bits" in block):
        return "mlx"
    if any(key in block for key in ("load_in_4bit", "_load_in_4bit", "load_in_8bit", "_load_in_8bit")):
        return "bitsandbytes"
    return "unknown"


def style_of(method: str, block: Mapping[str, Json]) -> Style:
    """How the lists of a block are meant."""
    if method == "compressed-tensors":
        return "compressed-tensors"
    if method == "quark":
        return "quark"
    return "glob" if method == "modelopt" or block.get("quant_algo") else "part"


def skip_list(block: Mapping[str, Json]) -> list[str]:
    """The entries of whichever exclusion list the block has."""
    for key in _SKIP_KEYS:
        if isinstance(found := block.get(key), list):
            return [str(entry) for entry in found]
    return []


def listed_layers(block: Mapping[str, Json]) -> dict[str, Word]:
    """ModelOpt's `quantized_layers`: module -> format."""
    rows = block.get("quantized_layers")
    if not isinstance(rows, Mapping):
        return {}
    found = {}
    for name, row in rows.items():
        if isinstance(row, Mapping):
            word = algorithm(row.get("quant_algo")) or UNKNOWN
            group = group_of(row.get("group_size"))
            found[str(name)] = Word(word.format, group or word.group)
    return found


def groups_of(method: str, block: Mapping[str, Json]) -> list[tuple[Patterns, Word]]:
    """Target groups: compressed-tensors `config_groups`, Quark `layer_quant_config` and its global config."""
    if method == "quark":
        return _quark_groups(block)
    groups = block.get("config_groups")
    if method != "compressed-tensors" or not isinstance(groups, Mapping):
        return []
    found: list[tuple[Patterns, Word]] = []
    left = MAX_PATTERNS
    for _, group in sorted(groups.items(), key=lambda row: str(row[0]))[:_MAX_GROUPS]:
        if isinstance(group, Mapping) and isinstance(weights := group.get("weights"), Mapping):
            targets = group.get("targets")
            names = Patterns(
                targets if isinstance(targets, list) else [], style="compressed-tensors", patterns=left
            )
            found.append((names, scheme(weights, group.get("input_activations"))))
            left -= names.written
    # A pattern or name before a class: compressed-tensors prefers the most exact match.
    return sorted(found, key=lambda row: bool(row[0].classes))


def _quark_groups(block: Mapping[str, Json]) -> list[tuple[Patterns, Word]]:
    layers = block.get("layer_quant_config")
    rows = layers.items() if isinstance(layers, Mapping) else ()
    found = [(Patterns([name], style="quark"), quark(row)) for name, row in list(rows)[:MAX_PATTERNS]]
    return [*found, (Patterns(["*"], style="quark"), quark(block.get("global_quant_config")))]


def _overrides(method: str, block: Mapping[str, Json]) -> list[tuple[Patterns, Word]]:
    """AutoRound `extra_config`: layers with bits of their own; 16 and more are left plain."""
    rows = block.get("extra_config")
    if method != "auto-round" or not isinstance(rows, Mapping):
        return []
    by: dict[Word, list[str]] = {}
    for name, row in list(rows.items())[:20_000]:
        if isinstance(row, Mapping) and isinstance(bits := row.get("bits", block.get("bits")), int):
            by.setdefault(PLAIN if bits >= 16 else whole(method, {**block, **row}), []).append(str(name))
    return [(Patterns(names, style="part"), word) for word, names in by.items()]


def _dynamic(block: Mapping[str, Json]) -> tuple[list[str], list[tuple[str, Json]]]:
    """GPTQModel `dynamic`: `-:pattern` leaves modules out, `+:pattern` gives them other bits."""
    rows = block.get("dynamic")
    if not isinstance(rows, Mapping):
        return [], []
    out = [f"re:{str(key)[2:]}" for key in rows if str(key).startswith("-:")]
    return out[:MAX_PATTERNS], [(f"re:{str(k).removeprefix('+:')}", v) for k, v in list(rows.items())[:MAX_PATTERNS] if not str(k).startswith("-:")]  # fmt: skip


def _dynamic_groups(rows: list[tuple[str, Json]], block: Mapping[str, Json]) -> list[tuple[Patterns, Word]]:
    return [
        (Patterns([pattern], style="quark"), whole("gptq", {**block, **row}))
        for pattern, row in rows if isinstance(row, Mapping)
    ]  # fmt: skip


def _special(block: Mapping[str, Json], side: Mapping[str, Json]) -> dict[str, Word]:
    """Keys beside the block that give routed experts, and with them the draft block, a format of their own."""

    def said(key: str) -> str:
        return str(block.get(key) or side.get(key) or "").lower()

    # Both keys are of the native FP8 releases; an export in another format may still carry its base's config keys.
    own = method_of(block) == "fp8"
    native = _expert_word(said("expert_dtype"), block) if own else None
    word = algorithm(said("moe_quant_algo")) or native
    if word is None and (method := said("routed_experts_quant_method")):
        word = algorithm(method) or whole(ALIASES.get(method, method), block)
    if word is None and own:
        word = _expert_word(said("store_dtype"), block)
    found = {} if word is None or word == UNKNOWN else {"routed_experts": word}
    return found if native is None else {**found, "mtp": native}


def _expert_word(kind: str, block: Mapping[str, Json]) -> Word | None:
    """`expert_dtype` and `store_dtype`: fp4 is two E2M1 values a byte with one E8M0 scale per 32."""
    if kind in ("fp4", "mxfp4"):
        return Word("mxfp4", 32)
    if kind == "nvfp4":
        return Word("nvfp4", 16)
    return whole("fp8", block) if kind in ("fp8", "float8_e4m3fn") else None


def of_hf_quant(file: Mapping[str, Json]) -> Statement | None:
    """The statement of a ModelOpt hf_quant_config.json; None where it has no quantization object."""
    block = file.get("quantization")
    if not isinstance(block, Mapping):
        return None
    word = algorithm(block.get("quant_algo")) or UNKNOWN
    layers, skipped = listed_layers(block), skip_list(block)
    # Its exporter names itself and always leaves something out: without either it is somebody's shortened copy.
    abridged = not layers and not skipped and not isinstance(file.get("producer"), Mapping)
    group = group_of(block.get("group_size"))
    return Statement(
        source="hf_quant_config.json", method="modelopt", block=block, every=Word(word.format, group or word.group),
        layers=layers, skipped=Patterns(skipped, style="glob"), abridged=abridged,
    )  # fmt: skip


def of_quantize(file: Mapping[str, Json]) -> Statement | None:
    """The statement of a quantize_config.json beside the weights: GPTQ, or AWQ where it says so."""
    if not isinstance(file.get("bits", file.get("w_bit")), int):
        return None
    method = method_of(
        {**file, "quant_method": file.get("quant_method") or ("awq" if "zero_point" in file else "gptq")}
    )
    block = {**file, "quant_method": method}
    made = of_block(block, source="quantize_config.json", side={})
    return made


def of_modelslim(file: Mapping[str, Json]) -> Statement | None:
    """The statement of a ModelSlim quant_model_description.json: a type for every tensor."""
    layers = {
        name.removesuffix(".weight"): modelslim(kind)
        for name, kind in file.items() if name.endswith(".weight") and isinstance(kind, str)
    }  # fmt: skip
    if not layers:
        return None
    block = {"quant_algo": file.get("model_quant_type")}
    return Statement(source="quant_model_description.json", method="modelslim", block=block, layers=layers)


def of_params(file: Mapping[str, Json]) -> Statement | None:
    """The statement of a params.json in Mistral's own layout; None where it declares no quantization."""
    block = file.get("quantization")
    if not isinstance(block, Mapping):
        return None
    eight = str(block.get("qformat_weight") or "").startswith("fp8")
    return Statement(
        source="params.json", method="fp8", block=block, every=Word("fp8-tensor") if eight else UNKNOWN
    )
