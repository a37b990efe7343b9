"""Format words as names, tags and cards use them, and which measured formats satisfy a wanted one."""

from __future__ import annotations

import re
from typing import Final

# Word in a name -> fixed format it hints at. A name raises a question; it proves nothing.
_WORDS: Final[tuple[tuple[str, str], ...]] = (
    (r"nvfp4", "nvfp4"), (r"nvfp4a16|w4a16-nvfp4|w4a16_nvfp4", "nvfp4-w4a16"), (r"mxfp4(?:a16)?", "mxfp4"), (r"mxfp8", "mxfp8"), (r"w4a16|int4|4bit|4-bit", "w4a16-int4"),
    (r"w8a16", "w8a16-int8"), (r"w3a16|int3|3bit|3-bit", "w3a16-int3"), (r"awq|gptq|autoround|auto-round", "w4a16-int4"), (r"w8a8|int8", "w8a8-int8"), (r"w4afp8", "w4afp8"),
    (r"fp8|f8", "fp8-block128"), (r"gguf", "gguf"), (r"mlx", "mlx"), (r"nf4|bnb", "nf4"), (r"bf16", "bf16"),
)  # fmt: skip
_PATTERNS: Final = tuple((re.compile(rf"(?<![a-z0-9])(?:{word})(?![a-z0-9])"), fmt) for word, fmt in _WORDS)
_FAMILIES: Final[tuple[frozenset[str], ...]] = (
    frozenset({"nvfp4", "nvfp4-w4a16"}),
    frozenset({"fp8-tensor", "fp8-channel", "fp8-block128"}),
    frozenset({"w8a8-int8", "int8-block128"}),
)
_SHOWN: Final[dict[str, str]] = {
    "nvfp4": "NVFP4", "nvfp4-w4a16": "NVFP4 weight-only", "mxfp4": "MXFP4", "mxfp8": "MXFP8", "w4a16-int4": "INT4 W4A16",
    "w3a16-int3": "INT3 W3A16", "w8a16-int8": "INT8 W8A16", "w8a8-int8": "INT8 W8A8", "int8-block128": "INT8 128x128",
    "fp8-tensor": "FP8 per tensor", "fp8-channel": "FP8 per channel", "fp8-block128": "FP8 128x128", "bf16": "BF16",
    "fp16": "FP16", "fp32": "FP32", "w4afp8": "W4AFP8", "nf4": "NF4", "gguf": "GGUF", "mlx": "MLX",
}  # fmt: skip


def formats_in(*texts: str) -> list[str]:
    """The formats that words in these texts hint at, sorted, each once."""
    found = {fmt for text in texts for pattern, fmt in _PATTERNS if pattern.search(text[:400].lower())}
    return sorted(found)


def satisfies(actual: str, wanted: str) -> bool:
    """Whether a format is the wanted one or of its family (`nvfp4-w4a16` is NVFP4 storage)."""
    return actual == wanted or any(actual in family and wanted in family for family in _FAMILIES)


def shown(fmt: str) -> str:
    """A format as people read it: `INT4 W4A16`."""
    return _SHOWN.get(fmt, fmt)
