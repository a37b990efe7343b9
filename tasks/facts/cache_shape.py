"""What each layer of a model keeps of the past, as config.json describes it: every token, a window, a fixed state, nothing.

Read from SGLang 0.5.23: `get_hybrid_layer_ids` and `is_hybrid_swa_model` in `srt/configs/model_config.py`, and the
configurations of its hybrid models (`nemotron_h`, `qwen3_next`, `kimi_linear`, `falcon_h1`, `granitemoehybrid`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from recon.agent.api import Json

Kind = Literal["full", "window", "state", "both", "none"]

# Architectures whose windowed layers get a pool of their own. In every other one each layer keeps every token, whatever
# window the config declares.
WINDOW_POOLS: Final[frozenset[str]] = frozenset({
    "BeamForCausalLM", "DiffusionGemmaForBlockDiffusion", "EmbeddingGemma2Model", "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration", "GptOssForCausalLM", "GraniteMoeSWAForCausalLM",
    "GraniteSWAForCausalLM", "IQuestQ1ForCausalLM", "LagunaForCausalLM", "Llama4ForConditionalGeneration", "MellumForCausalLM",
    "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration",
    "Step3p5ForCausalLM", "Step3p7ForConditionalGeneration",
})  # fmt: skip
_LLAMA4: Final = "Llama4ForConditionalGeneration"
_LLAMA4_PERIOD: Final = 4  # three chunked layers, then one that keeps everything
_WORDS: Final[dict[str, Kind]] = {
    "full_attention": "full", "attention": "full", "sliding_attention": "window", "chunked_attention": "window",
    "linear_attention": "state", "mamba": "state", "mamba2": "state", "conv": "state", "mlp": "none", "moe": "none",
}  # fmt: skip
_LETTERS: Final[dict[str, Kind]] = {
    "M": "state",
    "*": "full",
    "-": "none",
    "E": "none",
}  # Nemotron-H pattern strings
_STATE_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
_MOST_LAYERS: Final = 10_000
_TOO_MANY: Final = 10**9  # no dimension of a model

# name of the value -> keys of the config, for the two families of fixed state
_GDN: Final = {
    "heads": "linear_num_value_heads", "head_dim": "linear_value_head_dim", "state_size": "linear_key_head_dim",
    "groups": "linear_num_key_heads", "conv_kernel": "linear_conv_kernel_dim",
}  # fmt: skip
_MAMBA2: Final = (
    {"heads": "mamba_num_heads", "head_dim": "mamba_head_dim", "state_size": "ssm_state_size", "groups": "n_groups",
     "conv_kernel": "conv_kernel"},
    {"heads": "mamba_n_heads", "head_dim": "mamba_d_head", "state_size": "mamba_d_state", "groups": "mamba_n_groups",
     "conv_kernel": "mamba_d_conv"},
)  # fmt: skip


def cache_shape(config: Mapping[str, Json], text: Mapping[str, Json]) -> dict[str, Json]:
    """Layer counts by what they keep, with the dimensions that differ; empty where every layer keeps every token.

    `full_layers`, `window_layers`, `state_layers` (layers; one layer may count twice), `window` {tokens, kv_heads,
    head_dim, v_head_dim}, `state` {kind, heads, head_dim, state_size, groups, conv_kernel, element_bytes: of the
    recurrent state}, `indexer_layers` where sparse attention shares its index between layers. `text` is the part of
    `config` that describes the language model.
    """
    shape: dict[str, Json] = {}
    kinds = _kinds(config, text)
    if kinds is not None and set(kinds) != {"full"}:
        counts = Counter(kinds)
        shape["full_layers"] = counts["full"] + counts["both"]
        if counts["window"]:
            shape["window_layers"], shape["window"] = counts["window"], _window(text)
        if states := counts["state"] + counts["both"]:
            shape["state_layers"] = states
            if (state := _state(text)) is not None:
                shape["state"] = state
    if (indexers := _indexers(text)) is not None:
        shape["indexer_layers"] = indexers
    return shape


def _kinds(config: Mapping[str, Json], text: Mapping[str, Json]) -> list[Kind] | None:
    """What each layer keeps; None where the config says nothing about single layers."""
    layers = _count(text, "num_hidden_layers")
    if layers is not None and layers > _MOST_LAYERS:
        return None
    for kinds in (
        _pattern_string(text),
        _kda(text, layers),
        _interval(text, layers),
        _parallel(text, layers),
    ):
        if kinds is not None:
            return kinds
    names = config.get("architectures")
    pooled = isinstance(names, list) and any(name in WINDOW_POOLS for name in names if isinstance(name, str))
    if isinstance(names, list) and _LLAMA4 in names and layers:
        return ["full" if (n + 1) % _LLAMA4_PERIOD == 0 else "window" for n in range(layers)]
    pattern = text.get("hybrid_layer_pattern")
    if isinstance(pattern, list) and (pooled or text.get("is_hybrid_swa")) and _readable(pattern, layers):
        return ["window" if one == 1 else "full" for one in pattern[:layers]]
    return _listed(text, layers, pooled=pooled)


def _pattern_string(text: Mapping[str, Json]) -> list[Kind] | None:
    """Nemotron-H: one letter a layer."""
    pattern = text.get("hybrid_override_pattern")
    if (
        not isinstance(pattern, str)
        or not pattern
        or len(pattern) > _MOST_LAYERS
        or set(pattern) - set(_LETTERS)
    ):
        return None
    return [_LETTERS[letter] for letter in pattern]


def _kda(text: Mapping[str, Json], layers: int | None) -> list[Kind] | None:
    """Kimi Linear: the linear layers by number, counted from 1."""
    said = text.get("linear_attn_config")
    listed = said.get("kda_layers") if isinstance(said, Mapping) else None
    if not isinstance(listed, list) or not layers:
        return None
    linear = {n for n in listed if isinstance(n, int)}
    return ["state" if n in linear else "full" for n in range(1, layers + 1)]


def _interval(text: Mapping[str, Json], layers: int | None) -> list[Kind] | None:
    """Qwen3-Next and later: every n-th layer keeps tokens, the others a state."""
    every = _count(text, "full_attention_interval")
    if every is None or not layers or _count(text, "linear_num_value_heads") is None:
        return None
    return ["full" if (n + 1) % every == 0 else "state" for n in range(layers)]


def _parallel(text: Mapping[str, Json], layers: int | None) -> list[Kind] | None:
    """Falcon-H1: attention and state side by side in every layer."""
    return ["both"] * layers if text.get("model_type") == "falcon_h1" and layers else None


def _listed(text: Mapping[str, Json], layers: int | None, *, pooled: bool) -> list[Kind] | None:
    listed = next(
        (text[k] for k in ("layer_types", "layers_block_type") if isinstance(text.get(k), list)), None
    )
    if listed is None or not _readable(listed, layers):
        return None
    kinds = [_WORDS.get(str(word), "full") for word in listed[:layers]]
    return kinds if pooled else ["full" if kind == "window" else kind for kind in kinds]


def _readable(listed: Sequence[Json], layers: int | None) -> bool:
    return 0 < len(listed) <= _MOST_LAYERS and (layers is None or len(listed) >= layers)


def _window(text: Mapping[str, Json]) -> dict[str, Json]:
    """Tokens a windowed layer keeps, and its heads where they are not those of the other layers."""
    names = {
        "tokens": ("sliding_window_size", "sliding_window", "window_size", "attention_chunk_size"),
        "kv_heads": ("swa_num_key_value_heads",), "head_dim": ("swa_head_dim",), "v_head_dim": ("swa_v_head_dim",),
    }  # fmt: skip
    found = {
        name: next((n for key in keys if (n := _count(text, key))), None) for name, keys in names.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def _state(text: Mapping[str, Json]) -> dict[str, Json] | None:
    """The dimensions of a linear layer's state; None where the config does not give all of them."""
    width = _STATE_BYTES.get(str(text.get("mamba_ssm_dtype")), 4)
    linear = text.get("linear_attn_config")
    if isinstance(linear, Mapping):
        heads, size = _count(linear, "num_heads"), _count(linear, "head_dim")
        kernel = _count(linear, "short_conv_kernel_size")
        if heads is None or size is None or kernel is None:
            return None
        return {"kind": "KDA", "heads": heads, "head_dim": size, "state_size": size, "groups": heads,
                "conv_kernel": kernel, "element_bytes": 4}  # fmt: skip
    for kind, keys in (("GDN", _GDN), *(("Mamba-2", keys) for keys in _MAMBA2)):
        found = {name: _count(text, key) for name, key in keys.items()}
        if all(value is not None for value in found.values()):
            return {"kind": kind, **found, "element_bytes": width}
    return None


def _indexers(text: Mapping[str, Json]) -> int | None:
    """Layers with an index of their own where sparse attention shares it (`dsa_layer_skips_topk`); None: every layer."""
    layers = _count(text, "num_hidden_layers")
    if not layers or layers > _MOST_LAYERS or _count(text, "index_head_dim") is None:
        return None
    types, pattern = text.get("indexer_types"), text.get("index_topk_pattern")
    if isinstance(types, list):
        return layers - types[:layers].count("shared")
    if isinstance(pattern, str):
        return layers - pattern[:layers].count("S")
    every = _count(text, "index_topk_freq") or 1
    if every == 1:
        return None
    start = _count(text, "index_skip_topk_offset") or 2
    return sum(max(n - start + 1, 0) % every == 0 for n in range(layers))


def _count(source: Mapping[str, Json], key: str) -> int | None:
    value = source.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value < _TOO_MANY else None
