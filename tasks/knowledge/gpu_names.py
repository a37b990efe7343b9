"""GPU names as cards and tools write them -> compute capability. Vendor data sheets; read November 2026."""

from __future__ import annotations

import re
from typing import Final

_TABLE: Final[tuple[tuple[str, str, str], ...]] = (
    (r"RTX[ -]?PRO[ -]?6000|RTX[ -]?6000[ -]?PRO", "RTX PRO 6000", "sm_120"),
    (r"RTX[ -]?PRO[ -]?[45]\d00", "RTX PRO", "sm_120"),
    (r"RTX[ -]?50[6-9]0", "RTX 50", "sm_120"),
    (r"SM[ _-]?12\.?0|sm_120", "SM 12.0", "sm_120"),
    (r"DGX Spark|GB10|SM[ _-]?12\.?1", "GB10", "sm_121"),
    (r"GB300|B300", "B300", "sm_103"),
    (r"GB200|B200", "B200", "sm_100"),
    (r"H100|H200|H20|GH200|Hopper", "Hopper", "sm_90"),
    (r"L40S?|RTX[ -]?40[6-9]0|RTX[ -]?6000 Ada", "Ada", "sm_89"),
    (r"A100|A800", "A100", "sm_80"),
)
_PATTERNS: Final = tuple(
    (re.compile(rf"(?<![A-Za-z0-9])(?:{p})(?![A-Za-z0-9])", re.IGNORECASE), n, s) for p, n, s in _TABLE
)


def gpus_in(text: str) -> list[tuple[str, str]]:
    """(name, sm) of every GPU named in a text, in the table's order."""
    return [(name, sm) for pattern, name, sm in _PATTERNS if pattern.search(text)]
