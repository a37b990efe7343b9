"""What the words of a repository's name promise: formats, and quantization algorithms. A name proves nothing.

One word may mean several formats (`W8A8` is INT8 or FP8), and an algorithm's name (AWQ, GPTQ) says nothing of the container.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FP8: Final = frozenset({"fp8-tensor", "fp8-channel", "fp8-block128"})
_NVFP4: Final = frozenset({"nvfp4", "nvfp4-w4a16"})
_INT8: Final = frozenset({"w8a8-int8", "int8-block128", "w8a16-int8"})
PLAIN: Final = frozenset({"bf16", "fp16", "fp32"})
_FOUR: Final = _NVFP4 | {"mxfp4", "w4a16-int4", "w4afp8", "nf4", "gguf", "mlx"}


@dataclass(frozen=True)
class Promise:
    """A word of a name with the formats that keep it."""

    word: str
    formats: frozenset[str]


_WORDS: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (r"nvfp4(?:a16)?", _NVFP4), (r"mxfp4", frozenset({"mxfp4"})), (r"mxfp8", frozenset({"mxfp8"})), (r"fp4", _NVFP4 | {"mxfp4"}),
    (r"w4a16", frozenset({"w4a16-int4"})), (r"int4", frozenset({"w4a16-int4", "w4afp8"})), (r"4[_-]?bits?", _FOUR),
    (r"w3a16|int3|3[_-]?bits?", frozenset({"w3a16-int3"})), (r"w8a16", frozenset({"w8a16-int8"})), (r"w8a8", _INT8 | _FP8),
    (r"int8", _INT8), (r"8[_-]?bits?", _INT8 | _FP8 | {"mxfp8"}), (r"w4afp8|w4a8", frozenset({"w4afp8"})), (r"fp8|f8", _FP8 | {"mxfp8"}),
    (r"nf4|bnb[_-]?4bit", frozenset({"nf4"})), (r"gguf", frozenset({"gguf"})), (r"mlx", frozenset({"mlx"})), (r"bf16", frozenset({"bf16"})),
    (r"fp16|f16", frozenset({"fp16"})),
)  # fmt: skip
_COMPILED: Final = tuple(
    (re.compile(rf"(?<![a-z0-9])(?:{word})(?![a-z0-9])"), formats) for word, formats in _WORDS
)
# algorithm's word -> the `quant_method` values under which engines load it by that name
_ALGORITHMS: Final[tuple[tuple[re.Pattern[str], frozenset[str]], ...]] = (
    (re.compile(r"(?<![a-z0-9])awq(?![a-z0-9])"), frozenset({"awq", "awq_marlin"})),
    (re.compile(r"(?<![a-z0-9])gptq(?![a-z0-9])"), frozenset({"gptq", "gptq_marlin"})),
    (re.compile(r"(?<![a-z0-9])auto-?round(?![a-z0-9])"), frozenset({"auto-round", "intel/auto-round", "auto-round-int8"})),
)  # fmt: skip


def promises(text: str) -> list[Promise]:
    """The formats that a name's words promise, in the order they stand in it."""
    low = text[:200].lower()
    found = [
        (m.start(), Promise(text[m.start() : m.end()], formats))
        for p, formats in _COMPILED
        if (m := p.search(low))
    ]
    return [promise for _, promise in sorted(found, key=lambda row: row[0])]


def algorithms(text: str) -> list[tuple[str, frozenset[str]]]:
    """(word, `quant_method` values it would be loaded under) of each algorithm that a name mentions."""
    low = text[:200].lower()
    return [(text[m.start() : m.end()], methods) for p, methods in _ALGORITHMS if (m := p.search(low))]


def promises_draft(text: str) -> bool:
    """Whether a name says that a draft block for multi-token prediction is there."""
    return re.search(r"(?<![a-z0-9])(mtp|nextn)(?![a-z0-9])", text[:200].lower()) is not None
