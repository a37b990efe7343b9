"""Answers to questions that a mission file asks, read with the parser that the file names. Pure: (raw, spec) -> drafts.

The spec is what the file says about the fact: `id`, `parser`, `type`, `unit`, `lifetime_s`, `level`, `exit_codes`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from recon.agent.api import Draft, Fact, Json, ParseError, Raw, UsageError, bounded_pattern, canonical_json
from recon.tasks.facts.host_text import plain_text

MOST_ROWS: Final = 10_000
LONGEST_VALUE: Final = 64 << 10  # characters of JSON: a fact is what a gate compares, not a log
_NUMBER: Final = re.compile(r"[-+]?(\d{1,18}(\.\d{1,18})?|\.\d{1,18})([eE][-+]?\d{1,2})?")
_YES_NO: Final = {
    "true": True,
    "yes": True,
    "1": True,
    "on": True,
    "false": False,
    "no": False,
    "0": False,
    "off": False,
}


class _Absent(Exception):
    """Looked, and it is not there."""


def own_fact(spec: Mapping[str, Json]) -> Fact:
    """The fact of one entry under `facts:` of a mission file."""
    return Fact(str(spec["id"]), partial(parse, spec=spec))


def parse(raw: Raw, *, spec: Mapping[str, Json]) -> Sequence[Draft]:
    """One draft named like the fact: known, absent with proof, or unknown with the reason."""
    draft = Draft(
        name=str(spec["id"]), unit=spec.get("unit"), level=spec.get("level", "proved"),
        lifetime_s=float(spec.get("lifetime_s", 60.0)),
    )  # fmt: skip
    ended_well = raw.state == "ok" or (raw.state == "failed" and raw.exit_code in spec.get("exit_codes", [0]))
    if raw.state == "ok" and 0 not in spec.get("exit_codes", [0]):
        ended_well = False
    if not ended_well:
        if b"No such file or directory" in raw.stderr and raw.state != "ok":
            return [_as(draft, "absent", f"no such file: {raw.reason}")]
        return [_as(draft, "unknown", raw.reason or f"it ended with exit code {raw.exit_code}")]
    if raw.truncated:
        return [_as(draft, "unknown", f"the answer is longer than {len(raw.stdout)} bytes and was cut")]
    try:
        value, locator = _value(plain_text(raw.stdout), spec.get("parser") or {})
        value = _typed(value, spec.get("type", "text"))
    except _Absent as why:
        return [_as(draft, "absent", str(why))]
    except (ParseError, UsageError) as error:
        return [_as(draft, "unknown", f"seen, not understood: {error.message}")]
    if len(canonical_json(value)) > LONGEST_VALUE:
        return [
            _as(draft, "unknown", f"the value is longer than {LONGEST_VALUE >> 10} KiB; pick a part of it")
        ]
    return [draft.model_copy(update={"value": value, "locator": locator})]


def _as(draft: Draft, outcome: str, reason: str) -> Draft:
    return draft.model_copy(update={"outcome": outcome, "reason": reason[:400], "unit": None})


def _value(text: str, parser: Mapping[str, Json]) -> tuple[Json, str]:
    """(value, where it stood)."""
    if parser.get("json_pointer") is not None:
        return _json(text, str(parser["json_pointer"]))
    if parser.get("csv"):
        return _csv(text, parser["csv"])
    if parser.get("regex"):
        return _regex(text, parser["regex"])
    if parser.get("key_value"):
        return _key_value(text, parser["key_value"])
    return text.strip(), "the whole answer"


# ---- the parsers


def _json(text: str, pointer: str) -> tuple[Json, str]:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ParseError("JSON nested too deeply") from None
    except ValueError as error:
        raise ParseError(f"not JSON: {error}") from None
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and len(key) < 10 and int(key) < len(value):
            value = value[int(key)]
        else:
            raise _Absent(f"the JSON has nothing at {pointer}")
    return value, f"JSON pointer {pointer or '(all)'}"


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _csv(text: str, spec: Mapping[str, Json]) -> tuple[Json, str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise _Absent("no table: the answer is empty")
    if len(lines) > MOST_ROWS:
        raise ParseError(f"more than {MOST_ROWS} rows")
    separator = str(spec.get("separator", ","))
    if separator == "space":  # the last column takes the rest of its line
        header = lines[0].split()
        table = [line.split(None, len(header) - 1) for line in lines[1:]]
    else:
        try:
            header, *table = list(csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True))
        except csv.Error as error:
            raise ParseError(f"not a table: {error}") from None
    header = [name.strip() for name in header]
    columns = [_column(header, str(name)) for name in spec["columns"]]
    rows: list[Json] = []
    for number, cells in enumerate(table):
        if len(cells) <= max(columns):
            raise ParseError(f"row {number} has {len(cells)} columns, the header {len(header)}")
        rows.append({str(name): cells[at].strip() for name, at in zip(spec["columns"], columns, strict=True)})
    row = spec.get("row")
    if row is None:
        return rows, f"{len(rows)} rows"
    if row >= len(rows):
        raise _Absent(f"there is no row {row}: the table has {len(rows)}")
    return rows[row], f"row {row}"


def _column(header: Sequence[str], name: str) -> int:
    if header.count(name) != 1:
        how = "twice" if name in header else "not"
        raise ParseError(f"column {name!r} is {how} in the header: {', '.join(header)[:200]}")
    return header.index(name)


def _regex(text: str, spec: Mapping[str, Json]) -> tuple[Json, str]:
    pattern = bounded_pattern(str(spec["pattern"]))
    every = []
    for line, groups in pattern.matches(text):
        if not spec.get("all"):
            return groups, f"line {line}"
        every.append(groups)
    if not spec.get("all"):
        raise _Absent(f"no line of {len(text.splitlines())} matches the pattern")
    return every, f"{len(every)} lines"


def _key_value(text: str, spec: Mapping[str, Json]) -> tuple[Json, str]:
    separator, found = str(spec.get("separator", "=")), dict[str, str]()
    for number, line in enumerate(text.splitlines(), start=1):
        key, there, value = line.partition(separator)
        key = key.strip()
        if not there or not key or key.startswith("#"):
            continue
        if found.get(key, value.strip()) != value.strip():
            raise ParseError(f"line {number}: {key[:80]} is there twice with two values")
        found[key] = value.strip()
    wanted = [str(key) for key in spec.get("keys") or ()]
    if missing := [key for key in wanted if key not in found]:
        raise _Absent(f"no {', '.join(missing)} among {len(found)} keys")
    return {key: found[key] for key in wanted} if wanted else found, f"{len(found)} keys"


# ---- types


def _typed(value: Json, wanted: Json) -> Json:
    """The value as the file says: of one type, or field by field (`{column: number}`), in every row."""
    if isinstance(value, list):
        return [_typed(item, wanted) for item in value]
    if isinstance(wanted, Mapping):
        if not isinstance(value, Mapping):
            raise ParseError("the value has no fields to give types to")
        if lacking := [name for name in wanted if name not in value]:
            raise ParseError(f"there is no field {', '.join(lacking)}")
        return {
            name: _scalar(item, wanted[name], name) if name in wanted else item
            for name, item in value.items()
        }
    if isinstance(value, Mapping) and wanted != "text":
        return {name: _scalar(item, wanted, name) for name, item in value.items()}
    return value if wanted == "text" else _scalar(value, wanted, "the value")


def _scalar(value: Json, wanted: str, name: str) -> Json:
    if wanted == "text":
        return value
    if wanted == "number":
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        text = str(value).strip().removesuffix("%").strip()
        if isinstance(value, str) and _NUMBER.fullmatch(text):
            return float(text) if any(c in text for c in ".eE") else int(text)
        raise ParseError(f"{name} is not a number: {str(value)[:80]!r}")
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() in _YES_NO:
        return _YES_NO[str(value).strip().lower()]
    raise ParseError(f"{name} is not a yes or no: {str(value)[:80]!r}")
