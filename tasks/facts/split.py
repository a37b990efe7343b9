"""Which weights every tensor-parallel rank holds whole, and which are divided among the ranks.

Read from SGLang 0.5.23: `ReplicatedLinear` against `ColumnParallelLinear`, `RowParallelLinear`, `VocabParallelEmbedding`
and the fused expert layers of the DeepSeek V2/V3/V4, Qwen, Llama and gpt-oss models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from recon.agent.api import Json

# A draft block's own copies of embedding and head: the engine points both models at one tensor.
HEAD_ALIASES: Final[frozenset[str]] = frozenset(
    {"mtp.0.head", "mtp.0.emb.tok_emb", "mtp.0.embed", "mtp.0.shared_head.head"}
)

_REPLICATED: Final[re.Pattern[str]] = re.compile(
    r"norm(\.|$)|norm\d?$|_norm"  # every norm
    r"|(^|\.)(gate|router)$|\.gate\.\w+$|e_score_correction_bias|shared_expert_gate"  # routers
    r"|(^|\.)(wq_a|wkv|wqkv_a)$|(q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj\w*)$"  # MLA down projections
    r"|(^|\.)(compressor|indexer)\."  # DeepSeek sparse attention
    r"|(^|\.)(e_proj|h_proj|eh_proj)$"  # draft block
    r"|(^|\.)hc_\w+$"  # hyper-connections
    r"|(^|\.)(vision\w*|visual|vit|mm_projector|multi_modal_projector)(\.|$)"  # encoders run whole on each rank
)
_KV: Final[re.Pattern[str]] = re.compile(r"(^|\.)(k_proj|v_proj)$")


@lru_cache(maxsize=4096)
def is_replicated(template: str) -> bool:
    """Whether a module (as a template) is held whole by every rank."""
    return _REPLICATED.search(template) is not None


def is_kv(template: str) -> bool:
    """Whether a module is a K or V projection, which ranks beyond the number of KV heads hold in duplicate."""
    return _KV.search(template) is not None


def per_rank_bytes(split: Json, tp: int) -> int | None:
    """Weight bytes on one of `tp` ranks: replicated + sharded / tp, K and V by at most their number of heads.

    Expert parallelism does not change it: a group of tp/ep ranks holds experts/ep whole experts, each cut in tp/ep. It is
    an estimate from names: padding of the vocabulary and of kernels' layouts is not in it. None where the split is not
    readable.
    """
    if not isinstance(split, Mapping) or tp < 1:
        return None
    sharded, replicated = split.get("sharded_bytes"), split.get("replicated_bytes")
    if not isinstance(sharded, int) or not isinstance(replicated, int):
        return None
    kv, heads = split.get("kv_bytes") or 0, split.get("kv_heads") or tp
    if not isinstance(kv, int) or not isinstance(heads, int) or heads < 1:
        return None
    return replicated + -(-(sharded - kv) // tp) + -(-kv // min(tp, heads))
