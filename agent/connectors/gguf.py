"""The header of a GGUF file: its metadata and the table of its tensors, without the data.

Format (versions 2 and 3, little-endian): `GGUF`, version, number of tensors, number of metadata entries, the entries (key,
type, value), the tensors (name, dimensions, type, offset). Vocabularies are arrays of the metadata, so a header may have
tens of megabytes: only their lengths are kept. Source: the specification in the ggml repository, docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from recon.agent.connectors.safetensors import BadHeader

MAGIC: Final = b"GGUF"
MAX_HEADER_BYTES: Final = 64 << 20
_MAX_TENSORS: Final = 200_000
_MAX_ENTRIES: Final = 10_000
_MAX_KEY: Final = 65_535
_MAX_STRING: Final = 16 << 20
_MAX_ITEMS: Final = 10_000_000
_KEPT_STRING: Final = 500  # characters of a text that are kept
_KEPT_ITEMS: Final = 512  # of an array of numbers: one a layer
_SCALARS: Final[dict[int, str]] = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_FLOATS: Final = frozenset({6, 12})
_STRING: Final = 8
_ARRAY: Final = 9


class Short(Exception):
    """More bytes are needed: at least `needed` from the beginning of the file."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"at least {needed} bytes")
        self.needed = needed


def read_gguf(data: bytes) -> dict[str, Any]:
    """`{version, metadata, tensors: [[name, type id, dimensions]], header_bytes}` of the beginning of a file.

    Long texts are cut, arrays that are no short list of numbers become `{"array": length}`. Raises Short where the
    bytes end too early, BadHeader where they are no GGUF header that can be believed.
    """
    return _Reader(data).header()


class _Reader:
    """Walks the bytes (stateful: the place)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def header(self) -> dict[str, Any]:
        if self._take(4) != MAGIC:
            raise BadHeader("it does not begin with GGUF")
        version = self._number("<I")
        if version not in (2, 3):
            raise BadHeader(f"GGUF version {version}: only 2 and 3 are read")
        tensors = self._count("tensors", _MAX_TENSORS)
        entries = self._count("metadata entries", _MAX_ENTRIES)
        metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._text(_MAX_KEY)
            metadata[key[:200]] = self._value(self._number("<I"), depth=0)
        table = [self._tensor() for _ in range(tensors)]
        return {"version": version, "metadata": metadata, "tensors": table, "header_bytes": self._at}

    def _tensor(self) -> list[Any]:
        name = self._text(_MAX_KEY)
        dimensions = self._number("<I")
        if not 1 <= dimensions <= 4:
            raise BadHeader(f"tensor {name[:100]!r} has {dimensions} dimensions")
        shape = [self._number("<Q") for _ in range(dimensions)]
        kind = self._number("<I")
        self._number("<Q")  # where its data begins
        if any(n > 1 << 48 for n in shape):
            raise BadHeader(f"tensor {name[:100]!r} has the shape {shape}")
        return [name, kind, shape]

    def _value(self, kind: int, *, depth: int) -> Any:
        if kind in _SCALARS:
            value = self._number(_SCALARS[kind])
            return value if not isinstance(value, float) or math.isfinite(value) else str(value)
        if kind == _STRING:
            return self._text(_MAX_STRING)[:_KEPT_STRING]
        if kind == _ARRAY and depth == 0:
            return self._array()
        raise BadHeader(f"a metadata value of type {kind}")

    def _array(self) -> Any:
        kind, count = self._number("<I"), self._count("items of an array", _MAX_ITEMS)
        if kind in _SCALARS:
            form = _SCALARS[kind]
            width = struct.calcsize(form)
            if count <= _KEPT_ITEMS and kind not in _FLOATS:
                return [self._number(form) for _ in range(count)]
            self._skip(width * count)
        elif kind == _STRING:
            for _ in range(count):
                self._skip(self._length(_MAX_STRING))
        else:
            raise BadHeader(f"an array of type {kind}")
        return {"array": count}

    # ---- bytes

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _count(self, of: str, most: int) -> int:
        count: int = self._number("<Q")
        if count > most:
            raise BadHeader(f"it says it has {count} {of}")
        return count

    def _length(self, most: int) -> int:
        length: int = self._number("<Q")
        if length > most:
            raise BadHeader(f"a text of {length} bytes")
        return length

    def _text(self, most: int) -> str:
        return self._take(self._length(most)).decode("utf-8", errors="replace")

    def _take(self, count: int) -> bytes:
        begin = self._at
        self._skip(count)
        return self._data[begin : self._at]

    def _skip(self, count: int) -> None:
        if self._at + count > MAX_HEADER_BYTES:
            raise BadHeader(f"its header is longer than {MAX_HEADER_BYTES >> 20} MiB")
        if self._at + count > len(self._data):
            raise Short(self._at + count)
        self._at += count
