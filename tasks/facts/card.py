"""A model card: front matter and prose -> claims. Nothing a card says is more than `claimed`, and nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from recon.agent.api import GB, GIB, Draft, Fact, Json, Raw
from recon.tasks.knowledge.gpu_names import gpus_in

_SIZE: Final = re.compile(r"(?<![\w.])~?(\d{1,4}(?:[.,]\d{1,2})?)\s?(GB|GiB|TB|TiB)\b")
_SIZE_WORDS: Final = re.compile(
    r"\b(shards?|safetensors|artifact|checkpoint|download|on disk|files?|repo(sitory)?|weights)\b",
    re.IGNORECASE,
)
_NOT_SIZE: Final = re.compile(r"\b(VRAM|HBM|RAM|per (GPU|rank|card)|KV|free|cache|source)\b", re.IGNORECASE)
_ENGINES: Final = (("vllm", r"\bvLLM\b"), ("sglang", r"\bSGLang\b"), ("tensorrt-llm", r"\b(TensorRT-LLM|TRT-LLM)\b"),
                   ("llama.cpp", r"\bllama\.cpp\b"), ("transformers", r"\btransformers\b"), ("ktransformers", r"\bKTransformers\b"))  # fmt: skip
_PATCHED: Final = re.compile(r"\b(patch(ed|es)?|fork|custom build|source build)\b", re.IGNORECASE)
_DATE: Final = re.compile(r"\b(20\d\d-[01]\d-[0-3]\d)\b")
_OTHER: Final = re.compile(
    r"\b(?:use|prefer|take|choose|switch to)\b[^.]{0,60}?\b([\w.-]+/[\w.-]+|[\w.]*(?:NVFP4|W4A16|FP8|MXFP4|INT4|AWQ)[\w.-]*)[^.]{0,30}?\b(?:sibling|repo|build|card|checkpoint|instead)?",
    re.IGNORECASE,
)
_ONLY: Final = re.compile(r"\b(only|exclusively)\b", re.IGNORECASE)
_AVOID: Final = re.compile(
    r"\b(not (recommended|supported|validated)|avoid|do not use|don't use|unsupported)\b", re.IGNORECASE
)
_VALID: Final = re.compile(r"\b(validated|verified|tested|works|recommended|supported)\b", re.IGNORECASE)
_LEAD: Final = re.compile(
    r"\b(corrupt(s|ed|ion)?|garbage|garbled|race|illegal memory access|wrong (output|tokens?)|NaNs?)\b",
    re.IGNORECASE,
)
_LOAD: Final = re.compile(r"\b(concurren\w+|batch\w*|c\s?[=>]\s?\d+)", re.IGNORECASE)
_MTP: Final = re.compile(r"\b(MTP|multi-token[- ]prediction|speculative)\b", re.IGNORECASE)
_DROPPED: Final = re.compile(r"\b(drop(s|ped)?|without|removed|stripped|absent|no) ", re.IGNORECASE)
_KEPT: Final = re.compile(r"\b(kept|keeps?|retain(s|ed)?|preserved|present|included?)\b", re.IGNORECASE)
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_MAX_LINES: Final = 4000


def clean_line(text: str) -> str:
    """Outside text as one line without control characters and terminal sequences, at most 300 characters."""
    flat = "".join(c if c.isprintable() else " " for c in _ANSI.sub("", text[:2000]))
    return " ".join(flat.split())[:300]


@dataclass(frozen=True)
class _Sentence:
    text: str
    date: str
    line: int


def parse_card(raw: Raw) -> list[Draft]:
    """`card.*` claims of a README.md."""
    if raw.state == "missing":
        return [
            Draft(name="card", outcome="absent", reason="the repository has no README.md", level="claimed")
        ]
    if raw.state != "ok":
        return [Draft(name="card", outcome="unknown", reason=raw.reason or raw.state, level="claimed")]
    front, body, offset = _split(raw.text)
    fields = front_matter(front)
    sentences = list(_sentences(body, offset))
    values = {
        "card": {"characters": len(raw.text), "truncated": raw.truncated},
        "card.engines": _engines(fields, sentences),
        "card.sizes": _sizes(sentences),
        "card.hardware": _hardware(sentences),
        "card.leads": _leads(sentences),
        "card.mtp": _mtp(sentences),
        "card.tags": [clean_line(t) for t in _as_list(fields.get("tags"))],
    }
    drafts = [
        Draft(name=name, value=value, level="claimed", locator=_where(value))
        for name, value in values.items()
    ]
    if base := next(iter(_as_list(fields.get("base_model"))), ""):
        drafts.append(
            Draft(name="card.base_model", value=clean_line(base), level="claimed", locator="front matter")
        )
    return drafts


def front_matter(text: str) -> dict[str, Json]:
    """Top-level scalars and lists of scalars of a card's YAML head; anything deeper is left out."""
    fields: dict[str, Json] = {}
    key = ""
    for line in text.splitlines()[:400]:
        if match := re.match(r"^([A-Za-z_][\w-]*):\s*(.*)$", line):
            key, value = match[1], match[2].strip().strip("'\"")
            fields[key] = _inline(value) if value else []
        elif (match := re.match(r"^\s*-\s+(.+)$", line)) and key and isinstance(fields.get(key), list):
            fields[key].append(match[1].strip().strip("'\""))
    return fields


def _inline(value: str) -> Json:
    if value.startswith("[") and value.endswith("]"):
        return [part.strip().strip("'\"") for part in value[1:-1].split(",") if part.strip()]
    return value


def _split(text: str) -> tuple[str, str, int]:
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return "", text, 0
    for number, line in enumerate(lines[1:401], start=1):
        if line.strip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), number + 1
    return "", text, 0


def _sentences(body: str, offset: int) -> Iterator[_Sentence]:
    """Sentences with the date said in them, in their heading, or nearest above in their section."""
    date = ""
    for number, line in enumerate(body.splitlines()[:_MAX_LINES], start=offset + 1):
        if line.startswith("#"):
            date = ""
        found = _DATE.findall(line)
        if line.startswith("#") and found:
            date = found[-1]
        for part in re.split(r"(?<=[.!;])\s+(?=[A-Z`*(])", line[:2000]):
            own = _DATE.findall(part)
            text = clean_line(part.strip(" |\t").lstrip("#>*-| ").replace(" | ", ": "))
            if text:
                yield _Sentence(text, own[-1] if own else (found[-1] if found else date), number)


def _engines(fields: dict[str, Json], sentences: list[_Sentence]) -> dict[str, Json]:
    text = "\n".join(s.text for s in sentences) + f"\nlibrary {fields.get('library_name') or ''} " + " ".join(
        _as_list(fields.get("tags"))
    )  # fmt: skip
    named = [name for name, pattern in _ENGINES if re.search(pattern, text, re.IGNORECASE)]
    patched = [
        s
        for s in sentences
        if _PATCHED.search(s.text) and any(re.search(p, s.text, re.IGNORECASE) for _, p in _ENGINES)
    ]
    value: dict[str, Json] = {"named": named, "sglang": "sglang" in named}
    if patched:
        value["patched"] = patched[0].text
        value["line"] = patched[0].line
    return value


def _sizes(sentences: list[_Sentence]) -> list[Json]:
    sizes: dict[str, Json] = {}
    for sentence in sentences:
        if not _SIZE_WORDS.search(sentence.text):
            continue
        for match in _SIZE.finditer(sentence.text):
            if _NOT_SIZE.search(sentence.text[match.end() : match.end() + 25]):
                continue
            number = float(match[1].replace(",", "."))
            scale = 1000 if match[2].startswith("T") else 1
            text = f"{match[1]} {match[2]}"
            sizes.setdefault(text, {
                "text": text, "bytes_if_gb": round(number * scale * GB),
                "bytes_if_gib": round(number * (1024 if scale > 1 else 1) * GIB), "line": sentence.line,
            })  # fmt: skip
    return list(sizes.values())[:20]


def _hardware(sentences: list[_Sentence]) -> list[Json]:
    rows = []
    for sentence in sentences:
        gpus = gpus_in(sentence.text)
        advice, target = _advice(sentence.text)
        if gpus and advice:
            rows.append({
                "text": sentence.text, "gpus": [n for n, _ in gpus], "sms": sorted({s for _, s in gpus}),
                "advice": advice, "target": target, "date": sentence.date, "line": sentence.line,
            })  # fmt: skip
    return rows[:40]


def _advice(text: str) -> tuple[str, str]:
    """(advice, what to use instead): use_other, only, avoid, validated, or nothing."""
    if (match := _OTHER.search(text)) is not None:
        return "use_other", match[1].strip("`*.,")
    for advice, pattern in (("avoid", _AVOID), ("only", _ONLY), ("validated", _VALID)):
        if pattern.search(text):
            return advice, ""
    return "", ""


def _leads(sentences: list[_Sentence]) -> list[Json]:
    rows = []
    for sentence in sentences:
        if _LEAD.search(sentence.text) is None:
            continue
        gpus = gpus_in(sentence.text)
        loaded = _LOAD.search(sentence.text) is not None
        rows.append({
            "text": sentence.text, "topic": "corruption", "sms": sorted({s for _, s in gpus}),
            "under_load": loaded, "date": sentence.date, "line": sentence.line,
            "settle": "known answers at concurrency 4 and more" if loaded else "a run with known answers",
        })  # fmt: skip
    return rows[:20]


def _mtp(sentences: list[_Sentence]) -> dict[str, Json]:
    for sentence in sentences:
        if _MTP.search(sentence.text) is None:
            continue
        if _DROPPED.search(sentence.text):
            return {"says": "dropped", "text": sentence.text, "line": sentence.line}
        if _KEPT.search(sentence.text):
            return {"says": "kept", "text": sentence.text, "line": sentence.line}
    return {"says": "nothing"}


def _where(value: Json) -> str:
    first = value[0] if isinstance(value, list) and value else value
    line = first.get("line") if isinstance(first, dict) else None
    return f"line {line}" if isinstance(line, int) else "whole text"


def _as_list(value: Json) -> list[str]:
    if isinstance(value, list):
        return [str(v) for v in value]
    return [value] if isinstance(value, str) and value else []


CARD = Fact(id="checkpoint.card", parse=parse_card)
