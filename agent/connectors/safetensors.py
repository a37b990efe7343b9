"""The header of a safetensors file: how long it is, and whether it can be true.

Format: 8 bytes little-endian length N, N bytes of JSON, then the tensors. The JSON maps each tensor to dtype, shape and
`data_offsets`, counted from the end of the header; `__metadata__` is free text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json

PREFIX_BYTES: Final = 8
MAX_HEADER_BYTES: Final = 25_000_000  # readers agree to refuse more


class BadHeader(ValueError):
    """Why the bytes are no safetensors header."""


def header_length(prefix: bytes) -> int:
    """The length of the JSON from the first 8 bytes. Raises BadHeader where it cannot be one."""
    if len(prefix) < PREFIX_BYTES:
        raise BadHeader(f"the file has {len(prefix)} bytes")
    length = int.from_bytes(prefix[:PREFIX_BYTES], "little")
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise BadHeader(f"it says its header has {length} bytes; at most {MAX_HEADER_BYTES} are read")
    return length


def check_header(header: bytes, *, file_bytes: int | None) -> None:
    """Raises BadHeader unless the tensors lie one behind the other from 0 to the end of the file (where that is known)."""
    try:
        tensors = from_json(header)  # twice as fast as json, and bounded in depth
    except (ValueError, RecursionError):
        raise BadHeader("its header is not JSON") from None
    if not isinstance(tensors, dict):
        raise BadHeader("its header is not a JSON object")
    tensors.pop("__metadata__", None)
    end = 0
    for begin, stop, name in sorted(_span(name, value) for name, value in tensors.items()):
        if begin != end:
            raise BadHeader(f"tensor {name[:100]!r} begins at {begin}, the one before ends at {end}")
        end = stop
    if file_bytes is not None and PREFIX_BYTES + len(header) + end != file_bytes:
        raise BadHeader(
            f"its tensors end at byte {PREFIX_BYTES + len(header) + end} of a file of {file_bytes}"
        )


def _span(name: str, value: Any) -> tuple[int, int, str]:
    offsets = value.get("data_offsets") if isinstance(value, Mapping) else None
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(type(o) is int for o in offsets)
        or not 0 <= offsets[0] <= offsets[1]
        or not isinstance(value.get("dtype"), str)
        or not isinstance(value.get("shape"), list)
    ):
        raise BadHeader(f"tensor {name[:100]!r} has no readable dtype, shape and data_offsets")
    return offsets[0], offsets[1], name
