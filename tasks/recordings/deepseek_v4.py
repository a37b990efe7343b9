"""Names, dtypes and shapes of DeepSeek-V4-Flash tensors, as published: what the composed recording's headers are made of.

Sizes are those of the published config.json: hidden 4096, 43 layers, 256 experts of 2048, 64 heads of 512, one draft
block. Formats differ only in how a linear layer is stored, so each repository is a choice of storages per component.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

HIDDEN: Final = 4096
EXPERT: Final = 2048
LAYERS: Final = 43
EXPERTS: Final = 256
VOCAB: Final = 129280
RATIOS: Final = (0, 0, *((4, 128) * 20), 4)  # compress_ratios without the draft block's

Entry = tuple[str, str, tuple[int, ...]]  # tensor name, dtype, shape
Storage = Callable[[str, int, int], Iterator[Entry]]  # (module, out features, in features)


def bf16(module: str, n: int, k: int) -> Iterator[Entry]:
    """A plain linear layer."""
    yield f"{module}.weight", "BF16", (n, k)


def int4_group128(module: str, n: int, k: int) -> Iterator[Entry]:
    """compressed-tensors pack-quantized INT4, symmetric, groups of 128."""
    yield f"{module}.weight_packed", "I32", (n, k // 8)
    yield f"{module}.weight_scale", "BF16", (n, k // 128)
    yield f"{module}.weight_shape", "I64", (2,)


def nvfp4_packed(module: str, n: int, k: int) -> Iterator[Entry]:
    """compressed-tensors NVFP4: two values a byte, an E4M3 scale per 16, global scales."""
    yield f"{module}.weight_packed", "U8", (n, k // 2)
    yield f"{module}.weight_scale", "F8_E4M3", (n, k // 16)
    yield f"{module}.weight_global_scale", "F32", (1,)
    yield f"{module}.input_global_scale", "F32", (1,)


def nvfp4_modelopt(module: str, n: int, k: int) -> Iterator[Entry]:
    """ModelOpt NVFP4: the same values under ModelOpt's names."""
    yield f"{module}.weight", "U8", (n, k // 2)
    yield f"{module}.weight_scale", "F8_E4M3", (n, k // 16)
    yield f"{module}.weight_scale_2", "F32", ()
    yield f"{module}.input_scale", "F32", ()


def mxfp4_native(module: str, n: int, k: int) -> Iterator[Entry]:
    """The native release's experts: E2M1 pairs in I8, an E8M0 scale per 32."""
    yield f"{module}.weight", "I8", (n, k // 2)
    yield f"{module}.scale", "F8_E8M0", (n, k // 32)


def fp8_block(suffix: str, dtype: str) -> Storage:
    """FP8 in blocks of 128x128 whose scales have this suffix and dtype."""

    def store(module: str, n: int, k: int) -> Iterator[Entry]:
        yield f"{module}.weight", "F8_E4M3", (n, k)
        yield f"{module}.{suffix}", dtype, (-(-n // 128), -(-k // 128))

    return store


@dataclass(frozen=True)
class Recipe:
    """How one repository stores each kind of layer; `draft` is None where the draft block was dropped."""

    experts: Storage
    attention: Storage
    shared: Storage
    indexer: Storage
    draft: Recipe | None = None
    aliases: bool = False  # the draft block's own copies of embedding and head


def tensors(recipe: Recipe) -> Iterator[Entry]:
    """Every tensor of a repository, layer by layer."""
    yield "embed.weight", "BF16", (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        yield from _block(f"layers.{layer}", recipe, ratio=RATIOS[layer], hashed=layer < 3)
    yield from _hyper("hc_head", rows=4, scales=1)
    yield "norm.weight", "BF16", (HIDDEN,)
    yield "head.weight", "BF16", (VOCAB, HIDDEN)
    if recipe.draft is not None:
        yield from _draft(recipe.draft, aliases=recipe.aliases)


def _block(prefix: str, recipe: Recipe, *, ratio: int, hashed: bool) -> Iterator[Entry]:
    yield from _attention(f"{prefix}.attn", recipe, ratio=ratio)
    yield f"{prefix}.attn_norm.weight", "BF16", (HIDDEN,)
    yield f"{prefix}.ffn_norm.weight", "BF16", (HIDDEN,)
    yield from _hyper(f"{prefix}.hc_attn", rows=24, scales=3)
    yield from _hyper(f"{prefix}.hc_ffn", rows=24, scales=3)
    yield f"{prefix}.ffn.gate.weight", "BF16", (EXPERTS, HIDDEN)
    if hashed:
        yield f"{prefix}.ffn.gate.tid2eid", "I32", (VOCAB, 6)
    else:
        yield f"{prefix}.ffn.gate.bias", "F32", (EXPERTS,)
    for expert in range(EXPERTS):
        yield from _mlp(f"{prefix}.ffn.experts.{expert}", recipe.experts)
    yield from _mlp(f"{prefix}.ffn.shared_experts", recipe.shared)


def _mlp(prefix: str, store: Storage) -> Iterator[Entry]:
    yield from store(f"{prefix}.w1", EXPERT, HIDDEN)
    yield from store(f"{prefix}.w2", HIDDEN, EXPERT)
    yield from store(f"{prefix}.w3", EXPERT, HIDDEN)


def _attention(prefix: str, recipe: Recipe, *, ratio: int) -> Iterator[Entry]:
    for name, n, k in (("wq_a", 1024, HIDDEN), ("wq_b", 32768, 1024), ("wkv", 512, HIDDEN),
                       ("wo_a", 8192, HIDDEN), ("wo_b", HIDDEN, 8192)):  # fmt: skip
        yield from recipe.attention(f"{prefix}.{name}", n, k)
    yield f"{prefix}.q_norm.weight", "BF16", (1024,)
    yield f"{prefix}.kv_norm.weight", "BF16", (512,)
    yield f"{prefix}.attn_sink", "F32", (64,)
    if ratio:
        yield from _compressor(f"{prefix}.compressor", ratio, 512)
    if ratio == 4:
        yield from recipe.indexer(f"{prefix}.indexer.wq_b", 8192, 1024)
        yield f"{prefix}.indexer.weights_proj.weight", "BF16", (64, HIDDEN)
        yield from _compressor(f"{prefix}.indexer.compressor", ratio, 128)


def _compressor(prefix: str, ratio: int, head: int) -> Iterator[Entry]:
    width = 2 * head if ratio == 4 else head  # ratio 4 compresses overlapping windows
    yield f"{prefix}.ape", "F32", (ratio, width)
    yield f"{prefix}.wkv.weight", "BF16", (width, HIDDEN)
    yield f"{prefix}.wgate.weight", "BF16", (width, HIDDEN)
    yield f"{prefix}.norm.weight", "BF16", (head,)


def _hyper(prefix: str, *, rows: int, scales: int) -> Iterator[Entry]:
    yield f"{prefix}_fn", "F32", (rows, 4 * HIDDEN)
    yield f"{prefix}_base", "F32", (rows,)
    yield f"{prefix}_scale", "F32", (scales,)


def _draft(recipe: Recipe, *, aliases: bool) -> Iterator[Entry]:
    yield from recipe.attention("mtp.0.e_proj", HIDDEN, HIDDEN)
    yield from recipe.attention("mtp.0.h_proj", HIDDEN, HIDDEN)
    for name in ("enorm", "hnorm", "norm"):
        yield f"mtp.0.{name}.weight", "BF16", (HIDDEN,)
    yield from _block("mtp.0", recipe, ratio=0, hashed=False)
    yield from _hyper("mtp.0.hc_head", rows=4, scales=1)
    if aliases:
        yield "mtp.0.emb.tok_emb.weight", "BF16", (VOCAB, HIDDEN)
        yield "mtp.0.head.weight", "BF16", (VOCAB, HIDDEN)


_PLAIN: Final = Recipe(experts=bf16, attention=bf16, shared=bf16, indexer=bf16)
_NATIVE_FP8: Final = fp8_block("scale", "F8_E8M0")
_NATIVE_DRAFT: Final = Recipe(
    experts=mxfp4_native, attention=_NATIVE_FP8, shared=_NATIVE_FP8, indexer=_NATIVE_FP8
)

W4A16: Final = Recipe(experts=int4_group128, attention=fp8_block("weight_scale", "BF16"), shared=bf16, indexer=bf16,
                      draft=_PLAIN, aliases=True)  # fmt: skip
NVFP4_MTP: Final = Recipe(experts=nvfp4_packed, attention=fp8_block("weight_scale", "F32"), shared=bf16, indexer=bf16,
                          draft=_PLAIN, aliases=True)  # fmt: skip
NVFP4_NO_MTP: Final = Recipe(
    experts=nvfp4_packed, attention=fp8_block("weight_scale", "BF16"), shared=bf16, indexer=bf16
)
NVFP4_HYBRID: Final = Recipe(experts=nvfp4_modelopt, attention=_NATIVE_FP8, shared=_NATIVE_FP8, indexer=_NATIVE_FP8,
                             draft=_NATIVE_DRAFT)  # fmt: skip
