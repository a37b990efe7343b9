"""Byte counts as people read them, and argument vectors as they can be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

GB: Final[int] = 10**9
GIB: Final[int] = 2**30


def bytes_text(count: float) -> str:
    """Both units, for disks and checkpoints: `168.3 GB (156.7 GiB)`; what is small in MB, kB or bytes."""
    for decimal, binary, letter in ((GB, GIB, "G"), (10**6, 2**20, "M")):
        if abs(count) >= decimal / 10:
            return f"{count / decimal:.1f} {letter}B ({count / binary:.1f} {letter}iB)"
    return f"{count / 1000:.1f} kB" if abs(count) >= 1000 else f"{count:g} bytes"


def gib_text(count: float) -> str:
    """GiB alone, as GPU tools show memory: `39.7 GiB`."""
    return f"{count / GIB:.1f} GiB"


def join_argv(argv: Sequence[str]) -> str:
    """An argument vector as one shell line, every argument quoted where it must be."""
    return shlex.join(argv)
