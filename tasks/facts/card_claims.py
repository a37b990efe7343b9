"""Sentences of a card -> claims: engines, patches, sizes, advice per GPU, trouble, MTP, benchmarks, recommendations.

Every claim carries the words it was read from, cleaned and cut, with the line and the date that holds for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from recon.agent.api import GB, GIB, Json
from recon.tasks.facts.card_front import words
from recon.tasks.facts.card_text import Sentence, Table
from recon.tasks.knowledge.gpu_names import gpus_in

_SIZE: Final = re.compile(r"(?<![\w.])~?(\d{1,4}(?:[.,]\d{1,2})?)\s?(GB|GiB|TB|TiB)\b")
_SIZE_WORDS: Final = re.compile(
    r"\b(shards?|safetensors|artifact|checkpoint|download|on disk|files?|repo(sitory)?|weights)\b",
    re.IGNORECASE,
)
_NOT_SIZE: Final = re.compile(r"\b(VRAM|HBM|RAM|per (GPU|rank|card)|KV|free|cache|source)\b", re.IGNORECASE)
_ENGINES: Final = (("vllm", r"\bvLLM\b"), ("sglang", r"\bSGLang\b"), ("tensorrt-llm", r"\b(?:TensorRT-LLM|TRT-LLM)\b"),
                   ("llama.cpp", r"\bllama\.cpp\b"), ("transformers", r"\btransformers\b"), ("ktransformers", r"\bKTransformers\b"))  # fmt: skip
_NAMED: Final = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _ENGINES)
_VERSIONED: Final = tuple(
    (name, re.compile(pattern + r"[`*]{0,2}[ \t]{0,3}(?:(?:version|release|>=|==|~=|from)[ \t]{0,3})?v?(\d{1,4}\.\d{1,4}(?:\.\w{1,12}){0,3})", re.IGNORECASE))
    for name, pattern in _ENGINES
)  # fmt: skip
_PATCHED: Final = re.compile(r"\b(patch(ed|es)?|fork|custom build|source build)\b", re.IGNORECASE)
_CHANGE: Final = re.compile(
    r"github\.com/([\w.-]{1,80}/[\w.-]{1,80})/(?:pull|issues)/(\d{1,7})", re.IGNORECASE
)
_NUMBERED: Final = re.compile(
    r"\b(?:PRs?|pull requests?|issues?)[ ]{0,2}#?(\d{2,7})\b|(?<!\w)#(\d{3,7})\b", re.IGNORECASE
)
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
# A word after a flag is its value in a command line; in a sentence only a number or what an equals sign joins is.
_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]{1,60}(?:=[\w./:,+-]{1,60}| \d[\w.]{0,20})?")
_FLAG_LINE: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]{1,60}(?:[= ](?!-)[\w./:,+-]{1,60})?")
_ADVISED: Final = re.compile(
    r"\b(recommend\w*|suggest\w*|should|must|need to|make sure|set|pass|use|prefer|avoid)\b", re.IGNORECASE
)
_COMMAND: Final = re.compile(
    r"\b(vllm serve|sglang\.launch_server|sglang serve|llama-server|trtllm-serve|api_server)\b"
)
_MEASURE: Final = re.compile(
    r"(?<![\w.])(\d{1,7}(?:[.,]\d{1,3})?)\s?(tok(?:ens?)?/s(?:ec)?|tps|req/s|ms|%)(?!\w)", re.IGNORECASE
)
_SCORES: Final = re.compile(
    r"\b(benchmark|score|accuracy|eval\w*|recovery|metric|MMLU\S*|GSM8K|AIME\S*|GPQA\S*|HumanEval\S*|MATH\S*|LiveCodeBench|IFEval|ARC\S*|HellaSwag|"
    r"SWE-?bench\S*|perplexity|PPL|throughput|latency|TTFT|TPOT|ITL|tok(?:ens)?/s|tps)\b|tok/s",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"^[~≈]?\s?(-?\d{1,7}(?:[.,]\d{1,4})?)\s?([%\w/]{0,10})(?:\s?[±(].{0,40})?$")


def engines(fields: Mapping[str, Json], sentences: Sequence[Sentence]) -> dict[str, Json]:
    """`{named, sglang, patched?, line?, versions?}`: every engine the card or its front matter names."""
    text = "\n".join(s.text for s in sentences)
    text += f"\nlibrary {' '.join(words(fields.get('library_name')))} {' '.join(words(fields.get('tags')))}"
    named = [name for name, pattern in _NAMED if pattern.search(text)]
    patched = [s for s in sentences if _PATCHED.search(s.text) and any(p.search(s.text) for _, p in _NAMED)]
    value: dict[str, Json] = {"named": named, "sglang": "sglang" in named}
    if patched:
        value["patched"] = patched[0].text
        value["line"] = patched[0].line
    if versions := _versions(sentences):
        value["versions"] = versions
    return value


def _versions(sentences: Iterable[Sentence]) -> list[Json]:
    rows: dict[tuple[str, str], Json] = {}
    for sentence in sentences:
        for name, pattern in _VERSIONED:
            for match in pattern.finditer(sentence.text):
                version = match[1].rstrip(".")
                row = {"engine": name, "version": version, "text": sentence.text, "line": sentence.line}
                rows.setdefault((name, version), row)
    return list(rows.values())[:20]


def patches(sentences: Iterable[Sentence]) -> list[Json]:
    """Forks, patches and pull requests that the card counts on: `[{text, refs, date, line}]`."""
    rows = []
    for sentence in sentences:
        linked = [
            f"{m[1]}#{m[2]}" for text in (sentence.text, *sentence.links) for m in _CHANGE.finditer(text)
        ]
        numbered = [f"#{m[1] or m[2]}" for m in _NUMBERED.finditer(sentence.text)]
        numbers = {ref.rpartition("#")[2] for ref in linked}
        refs = list(dict.fromkeys([*linked, *(n for n in numbered if n[1:] not in numbers)]))
        if refs or _PATCHED.search(sentence.text):
            rows.append(
                {"text": sentence.text, "refs": refs[:20], "date": sentence.date, "line": sentence.line}
            )
    return rows[:40]


def sizes(sentences: Iterable[Sentence]) -> list[Json]:
    """Sizes of the files, each in both readings of its unit."""
    found: dict[str, Json] = {}
    for sentence in sentences:
        if not _SIZE_WORDS.search(sentence.text):
            continue
        for match in _SIZE.finditer(sentence.text):
            if _NOT_SIZE.search(sentence.text[match.end() : match.end() + 25]):
                continue
            number = float(match[1].replace(",", "."))
            scale = 1000 if match[2].startswith("T") else 1
            text = f"{match[1]} {match[2]}"
            found.setdefault(text, {
                "text": text, "bytes_if_gb": round(number * scale * GB),
                "bytes_if_gib": round(number * (1024 if scale > 1 else 1) * GIB), "line": sentence.line,
            })  # fmt: skip
    return list(found.values())[:20]


def hardware(sentences: Iterable[Sentence]) -> list[Json]:
    """Advice for GPUs: validated, only, avoid, use_other."""
    rows = []
    for sentence in sentences:
        gpus = gpus_in(sentence.text)
        said, target = _advice(sentence.text)
        if gpus and said:
            rows.append({
                "text": sentence.text, "gpus": [n for n, _ in gpus], "sms": sorted({s for _, s in gpus}),
                "advice": said, "target": target, "date": sentence.date, "line": sentence.line,
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


def leads(sentences: Iterable[Sentence]) -> list[Json]:
    """Reports of trouble, each with what would settle it."""
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


def mtp(sentences: Iterable[Sentence]) -> dict[str, Json]:
    """What the card says of the draft block: kept, dropped, or nothing."""
    for sentence in sentences:
        if _MTP.search(sentence.text) is None:
            continue
        if _DROPPED.search(sentence.text):
            return {"says": "dropped", "text": sentence.text, "line": sentence.line}
        if _KEPT.search(sentence.text):
            return {"says": "kept", "text": sentence.text, "line": sentence.line}
    return {"says": "nothing"}


def recommendations(sentences: Iterable[Sentence]) -> list[Json]:
    """What to run it with: sentences of advice and command lines that name flags: `[{text, flags, date, line}]`."""
    rows = []
    for sentence in sentences:
        pattern = _FLAG_LINE if sentence.kind == "code" else _FLAG
        flags = [match[0] for match in pattern.finditer(sentence.text)]
        command = sentence.kind == "code" and (flags or _COMMAND.search(sentence.text))
        if command or (flags and _ADVISED.search(sentence.text)):
            rows.append(
                {"text": sentence.text, "flags": flags[:20], "date": sentence.date, "line": sentence.line}
            )
    return rows[:40]


def benchmarks(
    fields: Mapping[str, Json], sentences: Iterable[Sentence], tables: Iterable[Table]
) -> list[Json]:
    """Measured numbers: `[{name, of, value, unit, text, date?, line?}]`; from tables, sentences and the model index."""
    rows = [*_indexed(fields.get("model-index"))]
    for table in tables:
        rows += _scores(table)
    for sentence in sentences:
        if sentence.kind in ("row", "code"):
            continue
        for match in _MEASURE.finditer(sentence.text):
            if match[2] == "%" and _SCORES.search(sentence.text) is None:
                continue
            rows.append({
                "name": _metric(sentence.text), "of": "", "value": _float(match[1]), "unit": match[2], "text": sentence.text,
                "date": sentence.date, "line": sentence.line,
            })  # fmt: skip
    return rows[:80]


def _metric(text: str) -> str:
    match = _SCORES.search(text)
    return match[0] if match else "speed"


def _scores(table: Table) -> list[Json]:
    """The numbers of a table that is about scores or speed: one row a cell, named by its row and its column."""
    about = " ".join([*table.head, *(cells[0] for _, cells in table.rows if cells)])
    if _SCORES.search(about[:4000]) is None:
        return []
    rows: list[Json] = []
    for line, cells in table.rows:
        for column, cell in list(enumerate(cells))[1:]:
            match = _NUMBER.match(cell)
            if match is None:
                continue
            of = table.head[column] if column < len(table.head) else ""
            rows.append({
                "name": cells[0], "of": of, "value": _float(match[1]), "unit": match[2], "text": cell, "date": table.date,
                "line": line,
            })  # fmt: skip
    return rows


def _indexed(index: Json) -> list[Json]:
    """Metrics of a front matter's `model-index`, as the Hub's model card specification has them."""
    rows: list[Json] = []
    for model in index if isinstance(index, list) else ():
        for result in _rows(model, "results"):
            dataset = result.get("dataset")
            name = words(dataset.get("name") if isinstance(dataset, Mapping) else None)
            for metric in _rows(result, "metrics"):
                value, kind = metric.get("value"), words(metric.get("name") or metric.get("type"))
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    said = " ".join([*name, *kind])
                    rows.append(
                        {
                            "name": said,
                            "of": "model-index",
                            "value": value,
                            "unit": "",
                            "text": f"{said} {value}",
                        }
                    )
    return rows


def _rows(value: Json, key: str) -> list[Mapping[str, Json]]:
    held = value.get(key) if isinstance(value, Mapping) else None
    return [row for row in held if isinstance(row, Mapping)] if isinstance(held, list) else []


def _float(text: str) -> float:
    return float(
        text.replace(",", ".") if text.count(",") == 1 and "." not in text else text.replace(",", "")
    )
