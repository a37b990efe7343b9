"""The document of `recon inspect model` as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from recon.agent.api import Json, bytes_text
from recon.tasks.knowledge.format_words import shown

_MARK: Final = {"conflict": "≠", "block": "✗", "warn": "!", "unknown": "?", "pass": "✓"}
_MOST: Final = 12  # rows of a list that may be long
_ANSWER: Final = {"yes": "yes", "no": "NO", "unknown": "not known"}


def lines(document: Mapping[str, Any], *, width: int) -> list[str]:
    """The whole text, at most `width` columns."""
    wide = max(60, width)
    out = list(_head(document, wide))
    out += ["", *_components(document.get("components") or {}, wide)]
    out += ["", *_sizes(document, wide)]
    for title, rows in (
        ("contradictions and warnings", list(_discrepancies(document, wide))),
        ("siblings of the same base", list(_siblings(document, wide))),
        ("servable by SGLang as it is", list(_servable(document, wide))),
        ("not known", list(_unknown(document, wide))),
    ):
        if rows:
            out += ["", title, *rows]
    return out


def _head(document: Mapping[str, Any], width: int) -> Iterator[str]:
    commit = document.get("commit")
    where = "a folder, no commit" if document.get("content_id") else "its commit is not known"
    where = f"commit {str(commit)[:12]}" if commit else where
    yield from _wrap(f"{plain(document.get('repo'))}  ({where})", width)
    architecture = document.get("architecture")
    if isinstance(architecture, Mapping):
        names = ", ".join(plain(n) for n in architecture.get("architectures") or [])
        yield from _wrap("; ".join(p for p in (names, plain(architecture.get("summary"))) if p), width)
    declared = document.get("declared")
    if isinstance(declared, Mapping):
        method = plain(declared.get("quant_method") or "nothing")
        more = plain(declared.get("quant_algo") or declared.get("format") or "")
        yield from _wrap(
            f"declared: {method}{f' {more}' if more else ''} ({plain(declared.get('source'))})", width
        )
    engines = document.get("engines_named") or []
    if engines:
        yield from _wrap(f"its card names: {', '.join(plain(e) for e in engines)}", width)


def _components(components: Mapping[str, Any], width: int) -> Iterator[str]:
    rows = [(name, value) for name, value in components.items() if not _dull(name, value)]
    if not rows:
        yield "no component is known"
        return
    yield f"{'component':<17}{'format':<22}{'level':<9}{'bytes':>9}  evidence"
    for name, value in rows:
        size = value.get("bytes")
        amount = _short(size) if isinstance(size, int) else ""
        line = f"{name.replace('_', ' '):<17}{_format(value):<22}{value['level']:<9}{amount:>9}  "
        yield _cut(line + plain(value.get("evidence")), width)
        mixed = value.get("mixed")
        if isinstance(mixed, list) and len(mixed) > 1:
            shares = ", ".join(
                f"{shown(str(m.get('format')))} {m.get('modules', '')}".strip()
                for m in mixed
                if isinstance(m, Mapping)
            )
            yield from _wrap(f"mixed: {shares}", width, indent=17)


def _dull(name: str, value: Mapping[str, Any]) -> bool:
    """Parts that are not there and were never expected, and norms."""
    return (value.get("presence") == "absent" and name not in ("mtp",)) or name == "other"


def _format(value: Mapping[str, Any]) -> str:
    if value.get("presence") == "absent":
        return "absent"
    word = shown(str(value.get("format")))
    if word == "unknown" and value.get("said"):
        word = plain(value["said"])
    group = value.get("group_size")
    inside = word.endswith(("128x128", "g128"))
    text = word if not isinstance(group, int) or inside else f"{word} g{group}"
    return f"{text}?" if value.get("presence") == "unknown" and text != "unknown" else text


def _sizes(document: Mapping[str, Any], width: int) -> Iterator[str]:
    size = document.get("bytes") or {}
    repo, read = size.get("repo"), size.get("headers_read")
    for word, key in (("whole repository", "repo"), ("to download", "download"), ("the engine's own download", "engine_download"),
                      ("tensors", "weights")):  # fmt: skip
        value = size.get(key)
        if isinstance(value, int):
            yield f"{word:<26} {bytes_text(value)}"
    if isinstance(read, int) and isinstance(repo, int) and repo:
        yield f"{'read to know this':<26} {bytes_text(read)}, {100 * read / repo:.3g} % of the repository"
    tp, per_rank = document.get("tp"), document.get("bytes_per_rank")
    if isinstance(per_rank, int):
        yield f"{f'a rank at TP{tp}':<26} {bytes_text(per_rank)}"
    kv = document.get("kv_bytes_per_token")
    if isinstance(kv, Mapping) and isinstance(kv.get("bytes_per_token_per_rank"), int):
        text = (
            f"{kv['bytes_per_token_per_rank']:,} bytes a token and rank at TP{tp} ({plain(kv.get('basis'))})"
        )
        yield from _wrap(text, width, first=f"{'KV cache':<26} ", indent=27)


def _short(size: int) -> str:
    if size < 1e5:
        return f"{size / 1e3:,.1f} kB"
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"


def _discrepancies(document: Mapping[str, Any], width: int) -> Iterator[str]:
    for row in document.get("discrepancies") or []:
        yield from _wrap(
            plain(row["title"]), width, first=f"  {_MARK.get(str(row['verdict']), '!')} ", indent=4
        )
        for detail in (d for d in row.get("detail") or [] if d != row["title"]):
            yield from _wrap(plain(detail), width, indent=6)


def _siblings(document: Mapping[str, Any], width: int) -> Iterator[str]:
    rows: Sequence[Mapping[str, Any]] = [r for r in document.get("siblings") or [] if isinstance(r, Mapping)]
    for row in rows[:_MOST]:
        formats = ", ".join(shown(str(f)) for f in row.get("formats") or []) or "format not named"
        yield _cut(f"  {plain(row.get('repo'))}  {formats}", width)
    if len(rows) > _MOST:
        yield f"  and {len(rows) - _MOST} more"


def _servable(document: Mapping[str, Any], width: int) -> Iterator[str]:
    servable = document.get("servable") or {}
    yield f"  {_ANSWER.get(str(servable.get('answer')), 'not known')}"
    for reason in servable.get("reasons") or []:
        yield from _wrap(plain(reason), width, first="  - ", indent=4)


def _unknown(document: Mapping[str, Any], width: int) -> Iterator[str]:
    rows = document.get("unknown") or []
    reasons: dict[str, list[str]] = {}
    for row in rows:
        name, _, why = str(row).partition(": ")
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        yield from _wrap(f"{', '.join(plain(n) for n in names)}: {plain(why)}", width, first="  ? ", indent=4)


def plain(value: Json) -> str:
    """Outside text as printable text on one line."""
    text = "" if value is None else str(value)
    return " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())


def _wrap(text: str, width: int, *, first: str = "", indent: int = 0) -> list[str]:
    begin = first or " " * indent
    return textwrap.wrap(
        text, width=width, initial_indent=begin, subsequent_indent=" " * indent, break_on_hyphens=False
    ) or [begin.rstrip()]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
