"""The components of a checkpoint as judges see them: from headers where these were read, else as declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from recon.agent.api import Json, Read, View
from recon.tasks.knowledge.name_words import PLAIN

NAMES: Final = {
    "routed_experts": "routed experts", "shared_experts": "shared experts", "dense_mlp": "MLP layers", "attention": "attention",
    "linear_attention": "linear attention", "indexer": "indexer", "compressor": "compressor", "mtp": "MTP", "lm_head": "LM head",
    "embeddings": "embeddings", "vision": "vision",
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One component that is there: its format, the level it is known at, the reading that says so."""

    name: str
    format: str
    read: Read
    formats: frozenset[str] = field(default_factory=frozenset)  # all of them where it is mixed
    signature: str = ""

    @property
    def words(self) -> str:
        """As people read it: `routed experts`."""
        return NAMES[self.name]

    @property
    def proved(self) -> bool:
        """Read from tensor headers."""
        return self.read.level == "proved"

    @property
    def quantized(self) -> bool:
        """A format that is known and is not a plain one."""
        return self.format not in PLAIN and self.format != "unknown"


def parts(view: View) -> dict[str, Part]:
    """The components that are there and whose format is known at some level."""
    found = {}
    for name in NAMES:
        proved, declared = (
            view.read(f"checkpoint.{name}"),
            view.read(f"checkpoint.declared.components.{name}"),
        )
        part = _part(name, proved) if proved.known else _part(name, declared)
        if part is not None:
            found[name] = part
    return found


def _part(name: str, read: Read) -> Part | None:
    value = read.value if read.known and isinstance(read.value, Mapping) else {}
    fmt = value.get("format")
    if value.get("presence") == "absent" or not isinstance(fmt, str) or fmt == "unknown":
        return None
    return Part(
        name, fmt, read, frozenset({fmt, *_mixed(value.get("mixed"))}), str(value.get("signature") or "")
    )


def _mixed(rows: Json) -> list[str]:
    if not isinstance(rows, list):
        return []
    return [
        str(row["format"]) for row in rows if isinstance(row, Mapping) and isinstance(row.get("format"), str)
    ]
