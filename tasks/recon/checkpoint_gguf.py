"""GGUF headers of a repository that has no safetensors: the types of the tensors of each alternative in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from recon.agent.api import Draft, Finding, ReconContext, Seen, bytes_text
from recon.tasks.facts.config import summary
from recon.tasks.facts.gguf import architecture, drafts, gguf_fact, header_of, variants
from recon.tasks.recon.checkpoint_pin import Pin, gguf_request

MAX_VARIANTS: Final = (
    4  # alternatives whose headers are read: a repository may hold thirty quantizations of one model
)
MAX_FILES: Final = 40


async def by_gguf(ctx: ReconContext, pin: Pin) -> str:
    """Reads the headers of a repository's GGUF files and records what they say; "" where there are none.

    Several files that are no parts of one another are alternatives: each is told on its own, and what is recorded of the
    components is that of the first.
    """
    paths = _gguf_files(ctx, pin)
    if not paths:
        return ""
    found = variants(paths)
    chosen = dict(list(found.items())[:MAX_VARIANTS])
    wanted = [path for parts in chosen.values() for path in parts][:MAX_FILES]
    ctx.progress(f"{len(wanted)} GGUF headers")
    seen = await ctx.ask_all(
        [(gguf_request(pin.repo, pin.sha, p), gguf_fact(p), pin.subject) for p in wanted]
    )
    by_path = dict(zip(wanted, seen, strict=True))
    told = {name: tables for name, parts in chosen.items() if (tables := _tables(parts, by_path)) is not None}
    inputs = [f for one in seen for f in one.findings if f.outcome == "known"]
    if not told:
        return ""  # each file's finding says why
    first = next(iter(told.values()))
    rows = drafts(first)
    record = [*rows, *_named(first, _held(ctx, pin)), _alternatives(found, told, by_path)]
    ctx.record(record, subject=pin.subject, inputs=inputs)
    size = next(d.value for d in rows if d.name == "weights_bytes")
    more = f", {len(found)} alternatives" if len(found) > 1 else ""
    return f"GGUF: {sum(len(t['tensors']) for t in first):,} tensors, {bytes_text(size)}{more}"


def _gguf_files(ctx: ReconContext, pin: Pin) -> list[str]:
    held = ctx.view.findings(pin.subject).get("files")
    rows = held.value if held is not None and held.outcome == "known" and isinstance(held.value, list) else []
    return sorted(
        str(r["path"]) for r in rows if isinstance(r, Mapping) and str(r.get("path", "")).endswith(".gguf")
    )


def _tables(parts: Sequence[str], by_path: Mapping[str, Seen]) -> list[dict[str, Any]] | None:
    """The headers of one model's files; None where one of them was not read."""
    tables = [header_of(by_path[p].raw) if p in by_path else None for p in parts]
    read = [t for t in tables if t is not None]
    return read if read and len(read) == len(parts) else None


def _held(ctx: ReconContext, pin: Pin) -> Finding | None:
    return ctx.view.findings(pin.subject).get("architecture")


def _named(tables: Sequence[Mapping[str, Any]], held: Finding | None) -> list[Draft]:
    """The architecture that the metadata names, where no config.json says it."""
    if held is not None and held.outcome == "known":
        return []
    value = architecture(tables[0].get("metadata") or {})
    if not value:
        return []
    return [Draft(name="architecture", value={**value, "summary": summary(value)}, locator="GGUF metadata")]


def _alternatives(
    found: Mapping[str, list[str]], told: Mapping[str, Sequence[Mapping[str, Any]]], by_path: Mapping[str, Seen]
) -> Draft:  # fmt: skip
    rows = []
    for name, parts in found.items():
        values = [by_path[p].value(f"gguf.{p}") for p in parts if p in by_path]
        known = [v for v in values if isinstance(v, Mapping)]
        row: dict[str, Any] = {"name": name, "files": len(parts), "read": name in told}
        if name in told:
            types: dict[str, int] = {}
            for value in known:
                for word, count in value["types"].items():
                    types[word] = types.get(word, 0) + count
            row |= {"types": types, "weights_bytes": sum(v["weights_bytes"] for v in known)}
        rows.append(row)
    return Draft(name="gguf_variants", value=rows)
