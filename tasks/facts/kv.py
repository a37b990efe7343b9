"""KV cache bytes per token, per window and per request on one rank, from the architecture a config declares.

Formulas of SGLang 0.5.23: `srt/model_executor/pool_configurator.py` (pools), `srt/mem_cache/kv_cache_configurator.py`
(`calculate_mla_kv_cache_dim`) and `srt/configs/mamba_utils.py` (`Mamba2StateShape`, `KimiLinearStateShape`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recon.agent.api import Json

BF16: Final = 2
FP8: Final = 1
_TOO_MANY: Final = (
    10**9
)  # no dimension of a model; keeps what a config says within numbers that can be divided
_CONV_BYTES: Final = 2  # a convolution state is kept in BF16
# Sparse attention quantizes its latent and its index keys in blocks of 128 elements with one FP32 scale each.
_BLOCK: Final = 128
_SCALE: Final = 4
# Slots of the window pool as a part of the tokens of the other pool (`swa_full_tokens_ratio`).
_WINDOW_SHARE: Final = 0.8
# DeepSeek V4: bytes beside the latent of one slot, slots of the window pool per token of context, the page of its pools,
# rows of the ring that holds what is not compressed yet (without a draft), bytes of one element of it.
_V4_EXTRA: Final = 8
_V4_WINDOW_SHARE: Final = 0.1
_V4_PAGE: Final = 256
_V4_RINGS: Final = {4: 8, 128: 128}
_V4_STATE_ELEMENT: Final = 4


def kv_per_token(
    architecture: Mapping[str, Json], *, tp: int, element_bytes: int = BF16
) -> dict[str, Json] | None:
    """What one of `tp` ranks keeps of a request's past; None where `why_not` says why no formula applies.

    `bytes_per_token_per_rank`: of each token for as long as the request lives. `basis`: the formula in words.
    `on_every_rank`: whether the ranks hold the same bytes instead of a part each. `window` {bytes_per_token, tokens,
    pool_share?, state_bytes_per_token?}: of the last `tokens` tokens alone; `pool_share` is the size of that pool as a
    part of the other one. `per_request_bytes`: fixed, whatever the length. `draft` {layers, bytes_per_token_per_rank}:
    the same with the multi-token prediction layers in use, where the config has any.

    `element_bytes`: 2 for BF16, 1 for FP8. DeepSeek V4 pools have a fixed FP8 slot and ignore it.
    """
    if tp < 1:
        return None
    if isinstance(ratios := architecture.get("compress_ratios"), list):
        return _deepseek_v4(architecture, ratios)
    if why_not(architecture):
        return None
    if _number(architecture, "kv_lora_rank"):
        return _with_state(_latent(architecture, element_bytes), architecture, tp)
    return _with_state(_grouped(architecture, tp=tp, element_bytes=element_bytes), architecture, tp)


def element_of(kv_cache: Json) -> int:
    """Bytes of one element of the cache under `--kv-cache-dtype auto`: FP8 where the checkpoint declares it so, else the
    BF16 of the model (`kv_cache_quant_algo == "FP8"` or an 8-bit float `kv_cache_scheme`)."""
    said = kv_cache.get("said") if isinstance(kv_cache, Mapping) else None
    return FP8 if str(said).upper() in ("FP8", "8-BIT FLOAT") else BF16


def why_not(architecture: Mapping[str, Json]) -> str:
    """Why no formula applies to an architecture; "" where one does."""
    ratios, cache = architecture.get("compress_ratios"), _cache(architecture)
    if isinstance(ratios, list):
        odd = sorted({str(r) for r in _main(architecture, ratios) if r not in (0, 4, 128)})
        return f"no pool is known for compression ratio {', '.join(odd[:4])}" if odd else ""
    if not _number(architecture, "layers"):
        return "the config does not say how many layers there are"
    linear = architecture.get("linear_attention") and not cache
    if linear or (cache.get("state_layers") and not isinstance(cache.get("state"), Mapping)):
        return "the size of the linear layers' state is not in the config in a form that is known"
    latent = _number(architecture, "kv_lora_rank")
    if latent and not _number(architecture, "qk_rope_head_dim"):
        return "kv_lora_rank without qk_rope_head_dim"
    if not latent and (not _number(architecture, "attention_heads") or not _head_dim(architecture)):
        return "the config gives no attention heads or no head size"
    if cache.get("window_layers") and not isinstance(_window(cache).get("tokens"), int):
        return "windowed layers without the size of their window"
    return ""


def bytes_at(kv: Mapping[str, Json], context: int) -> int:
    """Bytes one request of `context` tokens keeps on one rank: tokens, window and fixed state."""
    each, fixed = kv["bytes_per_token_per_rank"], kv.get("per_request_bytes") or 0
    window = kv.get("window") or {}
    slot = window.get("bytes_per_token", 0) + window.get("state_bytes_per_token", 0)
    return int(each * context + slot * min(context, window.get("tokens", 0)) + fixed)


def pool_bytes(kv: Mapping[str, Json], tokens: int) -> int:
    """Bytes of the pools of one rank that hold `tokens` tokens in all, the window pool at its default share of them.

    Per-request state is not in it.
    """
    return int(_pool_token(kv) * tokens)


def tokens_in(kv: Mapping[str, Json], size: int) -> int:
    """Tokens that `size` bytes of one rank hold in all; 0 where no token costs anything."""
    each = _pool_token(kv)
    return int(size / each) if each > 0 and size > 0 else 0


def _pool_token(kv: Mapping[str, Json]) -> float:
    window = kv.get("window") or {}
    slot = window.get("bytes_per_token", 0) + window.get("state_bytes_per_token", 0)
    return float(kv["bytes_per_token_per_rank"] + slot * window.get("pool_share", 0.0))


def _latent(architecture: Mapping[str, Json], element_bytes: int) -> dict[str, Json]:
    """MLA: (kv_lora_rank + qk_rope_head_dim) elements a layer, whole on every rank. With sparse attention in FP8 the
    latent carries its scales and BF16 rope, and an index key of index_head_dim bytes and its scale is added."""
    rank, rope = _needed(architecture, "kv_lora_rank"), _needed(architecture, "qk_rope_head_dim")
    cache, index = _cache(architecture), _number(architecture, "index_head_dim")
    layers = _layers(architecture)
    each, words = (rank + rope) * element_bytes, "MLA latent, whole on every rank"
    if index and element_bytes == FP8:
        each = rank + rank // _BLOCK * _SCALE + rope * BF16
    total = each * layers
    if index:
        own = _number(cache, "indexer_layers") or layers
        total += (index + index // _BLOCK * _SCALE) * own
        words = f"MLA latent and sparse-attention index of {own} layers, whole on every rank"
    return _value(architecture, total, words, layers, on_every_rank=True)


def _deepseek_v4(architecture: Mapping[str, Json], ratios: list[Json]) -> dict[str, Json] | None:
    """Slot of 584 bytes (448 FP8 + 64 BF16 rope + 8 scales), indexer 132 bytes; one slot per `ratio` tokens.

    Every layer also has a slot for each token of the sliding window; layers of ratio 4 and 128 keep what is not yet
    compressed, the first per window slot, the second per request.
    """
    if why_not(architecture):
        return None
    main = _main(architecture, ratios)
    layers, four, far = len(main), main.count(4), main.count(128)
    head = _number(architecture, "head_dim") or 512
    rope, index = (
        _number(architecture, "qk_rope_head_dim") or 64,
        _number(architecture, "index_head_dim") or 128,
    )
    slot = head - rope + rope * BF16 + _V4_EXTRA
    each = four * (slot + index + index // _BLOCK * _SCALE) / 4 + far * slot / 128
    basis = f"{four} layers of ratio 4, {far} of ratio 128; sliding-window pool not in it"
    value = _value(architecture, each, basis, layers, on_every_rank=True)
    value["window"] = {
        "bytes_per_token": slot * layers,
        "tokens": _number(architecture, "sliding_window") or 128,
        "pool_share": _V4_WINDOW_SHARE,
        "state_bytes_per_token": 4 * (head + index) * _V4_STATE_ELEMENT * four * _V4_RINGS[4] // _V4_PAGE,
    }
    value["per_request_bytes"] = 2 * head * _V4_STATE_ELEMENT * far * _V4_RINGS[128]
    return value


def _main(architecture: Mapping[str, Json], ratios: list[Json]) -> list[Json]:
    """The ratios of the main layers: what follows them belongs to the draft."""
    return ratios[: _number(architecture, "layers") or len(ratios)]


def _grouped(architecture: Mapping[str, Json], *, tp: int, element_bytes: int) -> dict[str, Json]:
    """max(1, kv_heads // tp) * (head_dim + v_head_dim) elements a layer that keeps every token; windowed layers with
    heads and sizes of their own keep the last tokens only."""
    cache, layers = _cache(architecture), _layers(architecture)
    size = _head_dim(architecture)
    heads = _number(architecture, "kv_heads") or _needed(architecture, "attention_heads")
    both = size + (_number(architecture, "v_head_dim") or size)
    each = max(1, heads // tp) * both * layers * element_bytes
    basis = f"{max(1, heads // tp)} KV heads of {size}, {layers} layers"
    if architecture.get("sliding_window") and not cache.get("window_layers"):
        basis += "; the window that the config names saves nothing in SGLang 0.5.23"
    if not cache.get("window_layers"):
        return _value(architecture, each, basis, layers)
    window, count = _window(cache), _needed(cache, "window_layers")
    near_size = _number(window, "head_dim") or size
    near_value = _number(window, "v_head_dim") or (near_size if _number(window, "head_dim") else both - size)
    near = (
        max(1, (_number(window, "kv_heads") or heads) // tp)
        * (near_size + near_value)
        * count
        * element_bytes
    )
    value = _value(architecture, each, f"{basis}; {count} more keep {window['tokens']} tokens", layers)
    value["window"] = {"bytes_per_token": near, "tokens": window["tokens"], "pool_share": _WINDOW_SHARE}
    return value


def _with_state(value: dict[str, Json], architecture: Mapping[str, Json], tp: int) -> dict[str, Json]:
    """The value with the fixed state of linear layers: per layer the last k-1 inputs of a convolution over
    heads*head_dim + 2*groups*state_size channels in BF16, and heads*head_dim*state_size elements of recurrent state.
    Heads are divided among the ranks; groups too few for that are copied (`extra_groups_for_head_shards`)."""
    cache = _cache(architecture)
    state, layers = cache.get("state"), _number(cache, "state_layers")
    if not layers or not isinstance(state, Mapping):
        return value
    heads, size, wide = (_needed(state, name) for name in ("heads", "head_dim", "state_size"))
    groups = _needed(state, "groups")
    groups = groups if groups % tp == 0 else tp
    channels = (heads * size + 2 * groups * wide) // tp
    fixed = channels * (_needed(state, "conv_kernel") - 1) * _CONV_BYTES
    fixed += -(-heads // tp) * size * wide * _needed(state, "element_bytes")
    basis = f"{value['basis']}; {layers} {state.get('kind')} layers keep a fixed state per request"
    return {**value, "basis": basis, "per_request_bytes": fixed * layers}


def _value(
    architecture: Mapping[str, Json], each: float, basis: str, layers: int, *, on_every_rank: bool = False
) -> dict[str, Json]:
    value: dict[str, Json] = {
        "bytes_per_token_per_rank": round(each), "basis": basis, "on_every_rank": on_every_rank,
    }  # fmt: skip
    drafts = _number(architecture, "mtp_layers")
    if drafts and layers and not _cache(architecture).get("window_layers"):
        # The draft is sized as that many more layers of the same kind; a windowed model's draft may be windowed or not.
        value["draft"] = {
            "layers": drafts,
            "bytes_per_token_per_rank": round(each * (layers + drafts) / layers),
        }
    return value


def _layers(architecture: Mapping[str, Json]) -> int:
    """Layers that keep every token."""
    cache = _cache(architecture)
    full = cache.get("full_layers")
    return full if isinstance(full, int) else _needed(architecture, "layers")


def _cache(architecture: Mapping[str, Json]) -> Mapping[str, Json]:
    cache = architecture.get("cache")
    return cache if isinstance(cache, Mapping) else {}


def _window(cache: Mapping[str, Json]) -> Mapping[str, Json]:
    window = cache.get("window")
    return window if isinstance(window, Mapping) else {}


def _head_dim(architecture: Mapping[str, Json]) -> int:
    """The declared head size: hidden size over heads is wrong where they differ, as in Qwen3-32B (128, not 80)."""
    heads, hidden = _number(architecture, "attention_heads"), _number(architecture, "hidden_size")
    return _number(architecture, "head_dim") or (hidden // heads if hidden and heads else 0)


def _needed(source: Mapping[str, Json], name: str) -> int:
    """A number that `why_not` has seen to be there."""
    return _number(source, name) or 1


def _number(source: Mapping[str, Json], name: str) -> int | None:
    value = source.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value < _TOO_MANY else None
