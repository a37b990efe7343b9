"""Canonical JSON, content hashes and the frozen base of every type."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

# JSON as read from evidence or stored in state.db. `Any` stops at the functions that read it.
Json: TypeAlias = Any


class Frozen(BaseModel):
    """A value: immutable, compared by content, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def canonical_json(value: Json) -> str:
    """The one text of a JSON value: sorted keys, no spaces, UTF-8 as it is. Half of a character that JSON can write
    alone (a lone surrogate) is no text: it becomes a question mark."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode()


def _plain(value: object) -> Json:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no canonical JSON")


def sha256_hex(data: bytes | str) -> str:
    """The sha256 of bytes (text is hashed as UTF-8), in hex."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def content_id(prefix: str, value: Json) -> str:
    """An id that is a function of the content: `f-0123456789ab`. Twelve hex digits: 10^5 rows collide with p < 2e-5."""
    return f"{prefix}-{sha256_hex(canonical_json(value))[:12]}"
