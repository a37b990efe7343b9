"""GPUs as the driver's query tool reports them, and the processes that hold their memory.

The text comes from `nvidia-smi` with `--query-gpu` or `--query-compute-apps`. Cells in square brackets are sentinels,
not values: `[N/A]` and `[Not Supported]` mean that this part or driver does not say; `[Unknown Error]` and `ERR!` mean
that the GPU is in trouble. Sizes are MiB, as the tool prints them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import (
    VOLATILE_S,
    plain_text,
    said,
    trouble,
    unknown,
    whole_lines,
    whole_number,
)

QUERY_FIELDS: Final = (
    "index", "name", "uuid", "pci.bus_id", "memory.total", "memory.used", "memory.free", "compute_cap", "driver_version",
    "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max", "power.draw",
    "power.limit", "temperature.gpu", "utilization.gpu", "mig.mode.current", "ecc.mode.current", "persistence_mode",
    "compute_mode",
)  # fmt: skip
# What every driver since 2016 knows: asked when one of the fields above is refused, which refuses the whole query.
BASIC_FIELDS: Final = (
    "index",
    "name",
    "uuid",
    "pci.bus_id",
    "memory.total",
    "memory.used",
    "memory.free",
    "driver_version",
)
APP_FIELDS: Final = ("gpu_uuid", "pid", "process_name", "used_gpu_memory")
_CSV: Final = "--format=csv,noheader,nounits"
QUERY_ARGV: Final = ("nvidia-smi", f"--query-gpu={','.join(QUERY_FIELDS)}", _CSV)
BASIC_ARGV: Final = ("nvidia-smi", f"--query-gpu={','.join(BASIC_FIELDS)}", _CSV)
APPS_ARGV: Final = ("nvidia-smi", f"--query-compute-apps={','.join(APP_FIELDS)}", _CSV)

GPU_NAMES: Final = ("gpus", "driver", "gpu_memory_free_mib")
_UNSAID: Final = frozenset(
    {"", "[n/a]", "n/a", "[not supported]", "not supported", "[insufficient permissions]", "[not found]"}
)
_FAULTS: Final = ("unknown error", "err!", "gpu requires reset", "gpu is lost")
_INVALID_FIELD: Final = re.compile(r'Field "([^"]{1,80})" is not a valid field')
_HANDLE: Final = re.compile(r"Unable to determine the device handle for (GPU\s?[0-9A-Fa-f:.]+)")
_UNIT: Final = re.compile(r"^(-?[0-9.]+) ?(?:MiB|W|%|MHz|C)$")
_NUMBERS: Final = {
    "memory.total": "memory_total_mib", "memory.used": "memory_used_mib", "memory.free": "memory_free_mib",
    "memory.reserved": "memory_reserved_mib", "pcie.link.gen.current": "pcie_gen_current", "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.width.current": "pcie_width_current", "pcie.link.width.max": "pcie_width_max", "power.draw": "power_draw_w",
    "power.limit": "power_limit_w", "temperature.gpu": "temperature_c", "utilization.gpu": "utilization_percent",
}  # fmt: skip
_WORDS: Final = {
    "name": "name", "uuid": "uuid", "pci.bus_id": "bus_id", "compute_cap": "compute_capability",
    "driver_version": "driver_version", "mig.mode.current": "mig", "ecc.mode.current": "ecc",
    "persistence_mode": "persistence", "compute_mode": "compute_mode",
}  # fmt: skip
_ALIASES: Final = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}


def cell_value(cell: str) -> str | None:
    """A cell's text without its unit, None for a sentinel."""
    text = cell.strip()
    low = text.lower()
    if low in _UNSAID or low.startswith(("[requested functionality", "deprecated, see")) or is_fault(text):
        return None
    unit = _UNIT.match(text)
    return unit.group(1) if unit else text


def is_fault(cell: str) -> bool:
    """Whether a cell says that the GPU itself is in trouble."""
    text = cell.strip().strip("[]").lower()
    return any(text.startswith(words) for words in _FAULTS)


def number(text: str | None) -> int | float | None:
    """A number as printed, whole where it has no decimal point."""
    if text is None:
        return None
    try:
        return int(text) if re.fullmatch(r"-?\d{1,15}", text) else float(text)
    except ValueError:
        return None


def refusal(raw: Raw) -> str:
    """Why the tool gave no table: its own error texts, which older drivers print on stdout with exit code 0; "" if none."""
    text = f"{plain_text(raw.stdout)}\n{plain_text(raw.stderr)}"
    if found := _INVALID_FIELD.search(text):
        return f"this driver's nvidia-smi does not know the field {found.group(1)}"
    if "Driver/library version mismatch" in text:
        return "driver and library versions differ (upgraded without a reboot): GPUs are unknown, not gone"
    if "couldn't communicate with the NVIDIA driver" in text:
        return "nvidia-smi cannot reach the driver: its kernel module is not loaded"
    if found := _HANDLE.search(text):
        return f"{found.group(1)} does not answer: it fell off the bus or needs a reset"
    if "NVML" in text and "Failed to initialize" in text:
        return f"nvidia-smi: {said(raw)}"
    return ""


def table(lines: Sequence[str], fields: Sequence[str]) -> list[dict[str, str]]:
    """CSV lines as rows of cells by field name; a header line names the fields itself. ValueError for a broken row.

    Cells are split at comma and space; the one field that may hold a comma (a process name) takes what is left over.
    Lines that cannot be rows (log noise of an agent) are passed over as long as rows are there.
    """
    rows: list[dict[str, str]] = []
    names = [_ALIASES.get(field, field) for field in fields]
    noise = ""
    for line in lines:
        cells = line.strip().split(", ")
        if _is_header(cells, names):
            names = [_ALIASES.get(c.partition(" [")[0].strip(), c.partition(" [")[0].strip()) for c in cells]
            continue
        if "process_name" in names and len(cells) > len(names):
            at = names.index("process_name")
            extra = len(cells) - len(names)
            cells = [*cells[:at], ", ".join(cells[at : at + extra + 1]), *cells[at + extra + 1 :]]
        if len(cells) != len(names):
            noise = noise or line
            continue
        rows.append(dict(zip(names, cells, strict=True)))
    if noise and (not rows or re.match(r"^\s*\d+, ", noise)):
        raise ValueError(f"a row has the wrong number of cells: {noise[:60]!r}")
    return rows


def _is_header(cells: Sequence[str], names: Sequence[str]) -> bool:
    first = cells[0].partition(" [")[0].strip().lower()
    return first in {"index", "name", "timestamp", "uuid", *_ALIASES} or (
        first == names[0] and len(cells) > 1
    )


def gpu_item(row: Mapping[str, str]) -> dict[str, Json]:
    """One GPU of one row. Keys ending in `_mib` are MiB, `_w` watts; None where the tool does not say."""
    item: dict[str, Json] = {"index": whole_number(row["index"]) if "index" in row else None}
    for field, key in _WORDS.items():
        if field in row:
            item[key] = cell_value(row[field])
    for field, key in _NUMBERS.items():
        if field in row:
            item[key] = number(cell_value(row[field]))
    faults = [field for field, cell in row.items() if is_fault(cell)]
    if faults:
        item["faults"] = faults
    return item


def parse_query(raw: Raw, fields: Sequence[str] = QUERY_FIELDS) -> Sequence[Draft]:
    """`gpus`, `driver` and `gpu_memory_free_mib` (MiB by index, good for a minute)."""
    if reason := refusal(raw):
        return unknown(GPU_NAMES, reason)
    if "No devices were found" in plain_text(raw.stdout) + plain_text(raw.stderr):
        reason = "the driver offers no GPU (one on the bus may have been refused: see the kernel log)"
        return [Draft(name=name, outcome="absent", reason=reason) for name in ("gpus", "gpu_memory_free_mib")]
    if reason := trouble(raw, "nvidia-smi"):
        return unknown(GPU_NAMES, reason)
    if raw.truncated:
        return unknown(GPU_NAMES, "the GPU table was cut at the size limit")
    try:
        items = [gpu_item(row) for row in table(whole_lines(raw), fields)]
    except ValueError as error:
        return unknown(GPU_NAMES, f"nvidia-smi: {error}")
    indexes = [item["index"] for item in items]
    if not items or None in indexes or len(set(indexes)) != len(indexes):
        return unknown(GPU_NAMES, "nvidia-smi printed no numbered GPUs")
    return [*_gpu_drafts(items)]


def _gpu_drafts(items: list[dict[str, Json]]) -> list[Draft]:
    capability, driver = _shared(items, "compute_capability"), _shared(items, "driver_version")
    totals: list[Json] = [item.get("memory_total_mib") for item in items]
    value = {
        "count": len(items),
        "name": _shared(items, "name")
        or " + ".join(sorted({str(i.get("name") or "unknown") for i in items})),
        "compute_capability": capability,
        "sm": f"sm_{capability.replace('.', '')}" if capability else None,
        "memory_total_mib": None if None in totals else min(totals),
        "items": items,
    }
    free = {str(item["index"]): item.get("memory_free_mib") for item in items}
    return [
        Draft(name="gpus", value=value, locator=f"{len(items)} rows"),
        Draft(name="driver", value=driver)
        if driver
        else unknown(["driver"], "the query does not name one driver version")[0],
        Draft(name="gpu_memory_free_mib", value=free, lifetime_s=VOLATILE_S),
    ]


def _shared(items: Sequence[Mapping[str, Json]], key: str) -> str | None:
    values = {item.get(key) for item in items}
    return str(values.pop()) if len(values) == 1 and None not in values else None


def parse_apps(raw: Raw) -> Sequence[Draft]:
    """`compute_apps`: every process that holds GPU memory, as far as this user and namespace may see."""
    names = ("compute_apps",)
    if reason := refusal(raw) or trouble(raw, "nvidia-smi"):
        return unknown(names, reason, lifetime_s=VOLATILE_S)
    if "No devices were found" in plain_text(raw.stdout):
        return [
            Draft(
                name="compute_apps",
                outcome="absent",
                reason="the driver offers no GPU",
                lifetime_s=VOLATILE_S,
            )
        ]
    if raw.truncated:
        return unknown(names, "the process table was cut at the size limit", lifetime_s=VOLATILE_S)
    lines = [line for line in whole_lines(raw) if not line.lower().startswith("no running")]
    try:
        apps = [app_item(row) for row in table(lines, APP_FIELDS)]
    except ValueError as error:
        return unknown(names, f"nvidia-smi: {error}", lifetime_s=VOLATILE_S)
    return [Draft(name="compute_apps", value=apps, lifetime_s=VOLATILE_S, locator=f"{len(apps)} rows")]


def app_item(row: Mapping[str, str]) -> dict[str, Json]:
    """One process. A pid or name that is hidden is None: the GPU is busy all the same."""
    return {
        "gpu_uuid": cell_value(row.get("uuid", "")),
        "pid": whole_number(row.get("pid", "")),
        "name": cell_value(row.get("process_name", "")),
        "used_mib": number(
            cell_value(next((v for k, v in row.items() if k.startswith("used_gpu_memory")), ""))
        ),
    }


def parse_basic(raw: Raw) -> Sequence[Draft]:
    """The same as `parse_query` for the short list of fields that old drivers know."""
    return parse_query(raw, BASIC_FIELDS)


QUERY: Final = Fact("gpu.query", parse_query)
QUERY_BASIC: Final = Fact("gpu.query_basic", parse_basic)
APPS: Final = Fact("gpu.apps", parse_apps)
