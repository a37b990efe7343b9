"""CPUs and main memory: `lscpu` as JSON or text, `free`, `/proc/meminfo`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import plain_text, trouble, unknown, whole_lines, whole_number

LSCPU_ARGV: Final = ("lscpu", "-J")
FREE_ARGV: Final = ("free", "-b")
MEMINFO_ARGV: Final = ("cat", "/proc/meminfo")

_NODE: Final = re.compile(r"^NUMA node(\d+) CPU\(s\)$")
_RANGES: Final = re.compile(r"^\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$")


def parse_lscpu(raw: Raw) -> Sequence[Draft]:
    """`cpu`: counts, model and the CPUs of each NUMA node that has any, from `lscpu -J` or plain `lscpu`."""
    if reason := trouble(raw, "lscpu"):
        return unknown(["cpu"], reason)
    text = plain_text(raw.stdout)
    try:
        pairs = (
            list(_json_pairs(json.loads(text)["lscpu"]))
            if text.lstrip().startswith("{")
            else list(_text_pairs(text))
        )
    except (ValueError, KeyError, TypeError):
        return unknown(["cpu"], "lscpu -J printed no JSON that can be read")
    if not any(key in ("CPU(s)", "NUMA node(s)") for key, _ in pairs):
        return unknown(["cpu"], "lscpu names no CPUs")
    return [Draft(name="cpu", value=cpu_value(pairs, cut=raw.truncated))]


def cpu_value(pairs: Sequence[tuple[str, str]], *, cut: bool = False) -> dict[str, Json]:
    """The fields we use. A machine with two core types repeats keys: then counts per socket are a list, not a number."""
    said: dict[str, list[str]] = {}
    for key, value in pairs:
        said.setdefault(key, []).append(value)
    nodes = {
        m.group(1): values[0]
        for key, values in said.items()
        if (m := _NODE.match(key)) and _RANGES.match(values[0])
    }
    models = said.get("Model name", [])
    found: dict[str, Json] = {
        "arch": _first(said, "Architecture"),
        "cpus": _number(said, "CPU(s)"),
        "online": _first(said, "On-line CPU(s) list"),
        "offline": _first(said, "Off-line CPU(s) list"),
        "model": models[0] if len(models) == 1 else None,
        "models": models,
        "sockets": _number(said, "Socket(s)"),
        "cores_per_socket": _number(said, "Core(s) per socket"),
        "cores_per_cluster": [
            n for v in said.get("Core(s) per socket", []) if (n := whole_number(v)) is not None
        ],
        "threads_per_core": _number(said, "Thread(s) per core"),
        "numa_nodes": _number(said, "NUMA node(s)"),
        "numa": nodes or None,
    }
    if cut:
        found["complete"] = False
    return found


def _json_pairs(rows: Json) -> Iterator[tuple[str, str]]:
    for row in rows:
        yield str(row["field"]).rstrip(":"), str(row.get("data") or "")
        yield from _json_pairs(row.get("children") or [])


def _text_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Key and value of each line; on a terminal lscpu indents keys under headings and wraps long values."""
    for line in text.split("\n"):
        key, separator, value = line.partition(":")
        if separator and key.strip() and not key.startswith(" " * 12):
            yield key.strip(), value.strip()


def _first(said: dict[str, list[str]], key: str) -> str | None:
    return next((v for v in said.get(key, []) if v), None)


def _number(said: dict[str, list[str]], key: str) -> int | None:
    values = {v for v in said.get(key, [])}
    return whole_number(values.pop()) if len(values) == 1 else None


def parse_free(raw: Raw) -> Sequence[Draft]:
    """`memory`: total and available bytes of RAM, total of swap. Rounded sizes (`free -h`) are refused."""
    if reason := trouble(raw, "free"):
        return unknown(["memory"], reason)
    try:
        value = free_value(whole_lines(raw))
    except ValueError as error:
        return unknown(["memory"], str(error))
    return [Draft(name="memory", value=value)]


def free_value(lines: Sequence[str], *, unit_bytes: int = 1) -> dict[str, Json]:
    """Bytes by row and column of `free`. `unit_bytes`: 1 for `free -b`, 1024 for plain `free`. ValueError if rounded."""
    header = next((line.split() for line in lines if "total" in line.split()), None)
    rows = {line.split(":")[0].strip(): line.split(":")[1].split() for line in lines if ":" in line}
    if header is None or "Mem" not in rows:
        raise ValueError("free printed no Mem: line")
    cells = [whole_number(c) for c in rows["Mem"]]
    if None in cells or len(cells) != len(header):
        raise ValueError("free printed rounded sizes: bytes are not known")
    memory = {name: int(c or 0) * unit_bytes for name, c in zip(header, cells, strict=True)}
    swap = whole_number(next(iter(rows.get("Swap", [])), ""))
    return {
        "total_bytes": memory.get("total"),
        "available_bytes": memory.get("available"),  # older procps has no such column
        "swap_total_bytes": None if swap is None else swap * unit_bytes,
    }


def parse_meminfo(raw: Raw) -> Sequence[Draft]:
    """`memory` from `/proc/meminfo`: the fallback where `free` is missing. Its kB are 1,024 bytes."""
    if reason := trouble(raw, "/proc/meminfo"):
        return unknown(["memory"], reason)
    found = meminfo_bytes(whole_lines(raw))
    if "MemTotal" not in found:
        return unknown(["memory"], "/proc/meminfo has no MemTotal")
    value = {
        "total_bytes": found["MemTotal"],
        "available_bytes": found.get("MemAvailable"),
        "swap_total_bytes": found.get("SwapTotal"),
    }
    return [Draft(name="memory", value=value)]


def meminfo_bytes(lines: Sequence[str]) -> dict[str, int]:
    """Bytes by name; lines without a unit (HugePages_Total) are plain counts."""
    found: dict[str, int] = {}
    for line in lines:
        if match := re.match(r"^(\w[\w()]*):\s+(\d+)(?: (kB))?\s*$", line):
            found[match.group(1)] = int(match.group(2)) * (1024 if match.group(3) else 1)
    return found


LSCPU: Final = Fact("host.lscpu", parse_lscpu)
FREE: Final = Fact("host.free", parse_free)
MEMINFO: Final = Fact("host.meminfo", parse_meminfo)
