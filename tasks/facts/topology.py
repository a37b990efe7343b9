"""How GPUs are linked: the matrices of `nvidia-smi topo -m` and `topo -p2p`.

The first has GPUs and network cards as rows and columns, then up to three columns of two or three words. Cells of links
are read by count, cells of affinity by tab position, because an empty cell and a missing column look alike once the
text is split at spaces. SYS does not mean another NUMA node and NODE not the same one: only the NUMA column or the
kernel says that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from recon.agent.api import Draft, Fact, Json, ParseError, Raw
from recon.tasks.facts.gpu import refusal
from recon.tasks.facts.host_text import had_ansi, plain_text, trouble, unknown, whole_number

TOPO_ARGV: Final = ("nvidia-smi", "topo", "-m")
P2P_ARGV: Final = ("nvidia-smi", "topo", "-p2p", "rw")

_HEADER: Final = re.compile(r"^\s*GPU0\b(?!\s+X\b)")
_LINK: Final = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|SOC|NV\d+")
_PEER: Final = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U")
_LEGEND: Final = re.compile(r"^\s*(X|SYS|NODE|PHB|PXB|PIX|SOC|NV#)\s*=\s")
_NIC_NAME: Final = re.compile(r"^\s*(NIC\d+)\s*:\s*(\S+)\s*$")
_AFFINITY: Final = (("CPU Affinity", "<cpu>"), ("NUMA Affinity", "<numa>"), ("GPU NUMA ID", "<gpu_numa>"))
_NO_TOPOLOGY: Final = (
    "must be used in conjunction", "is missing its value", "invalid combination", "not supported", "is not a valid", "usage:",
)  # fmt: skip


@dataclass
class Matrix:
    """One matrix as read; `complete` says whether every column has its row and the halves agree."""

    columns: list[str]
    marks: list[str] = field(default_factory=list)
    links: dict[str, list[str]] = field(default_factory=dict)
    affinity: dict[str, dict[str, str | None]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[str]:
        """Columns without a whole row."""
        return [name for name in self.columns if name not in self.links]

    @property
    def complete(self) -> bool:
        """Every row is there and whole, the diagonal is X, and both halves say the same."""
        if self.missing or self.damaged:
            return False
        at = {name: i for i, name in enumerate(self.columns)}
        return all(
            self.links[row][at[row]] == "X"
            and all(self.links[col][at[row]] == self.links[row][at[col]] for col in self.columns)
            for row in self.columns
        )


def read_matrix(text: str, cell: re.Pattern[str]) -> Matrix:
    """The matrix in a text. Raises ParseError where there is none."""
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        raise ParseError("no header line with GPU0")
    matrix = _columns(lines[start])
    for line in lines[start + 1 :]:
        label = line.split()[0] if line.split() else ""
        if label not in matrix.columns:
            if matrix.links or matrix.damaged:
                break
            continue
        _read_row(matrix, label, line, cell)
    if not matrix.links:
        raise ParseError("the matrix has no whole row")
    return matrix


def _columns(header: str) -> Matrix:
    for words, mark in _AFFINITY:
        header = header.replace(words, mark)
    names = header.split()
    return Matrix(
        columns=[n for n in names if not n.startswith("<")], marks=[n for n in names if n.startswith("<")]
    )


def _read_row(matrix: Matrix, label: str, line: str, cell: re.Pattern[str]) -> None:
    count = len(matrix.columns)
    words = line.split()
    cells = words[1 : 1 + count]
    if label in matrix.links or len(cells) != count or not all(cell.fullmatch(c) for c in cells):
        matrix.damaged.append(label)
        return
    matrix.links[label] = cells
    if label.startswith("GPU"):
        matrix.affinity[label] = _affinity(matrix, line, words[1 + count :])


def _affinity(matrix: Matrix, line: str, rest: Sequence[str]) -> dict[str, str | None]:
    """The cells after the links, by mark. Empty where the text does not say which cell is which."""
    if not matrix.marks:
        return {}
    if "\t" in line.strip():
        tail = [c.strip() for c in line.lstrip().split("\t")][1 + len(matrix.columns) :]
        found: dict[str, str | None] = {}
        for place, mark in enumerate(m for m in matrix.marks if m != "<gpu_numa>"):
            found[mark] = tail[place] if place < len(tail) and tail[place] else None
        if "<gpu_numa>" in matrix.marks:
            found["<gpu_numa>"] = next((c for c in tail[len(found) :] if c), None)
        return found
    return dict(zip(matrix.marks, rest, strict=True)) if len(rest) == len(matrix.marks) else {}


def topology_value(text: str, *, ansi: bool = False) -> dict[str, Json]:
    """Everything that `topo -m` says. Raises ParseError where it says nothing."""
    matrix = read_matrix(text, _LINK)
    legend = [m.group(1) for line in text.split("\n") if (m := _LEGEND.match(line))]
    names = {m.group(1): m.group(2) for line in text.split("\n") if (m := _NIC_NAME.match(line))}
    value: dict[str, Json] = {
        "ansi": ansi,
        "columns": matrix.columns,
        "has_cpu_affinity": "<cpu>" in matrix.marks,
        "has_numa_affinity": "<numa>" in matrix.marks,
        "has_gpu_numa_id": "<gpu_numa>" in matrix.marks,
        "gpus": [_gpu(matrix, name) for name in matrix.columns if re.fullmatch(r"GPU\d+", name)],
        "nics": {
            c: (names.get(c) if re.fullmatch(r"NIC\d+", c) else c)
            for c in matrix.columns
            if not c.startswith("GPU")
        },
        "links": matrix.links,
        "legend": legend,
        "legend_present": bool(legend),
        "matrix_complete": matrix.complete,
    }
    if matrix.missing:
        value["missing_rows"] = matrix.missing
    if matrix.damaged:
        value["damaged_rows"] = matrix.damaged
    return value


def _gpu(matrix: Matrix, name: str) -> dict[str, Json]:
    cells = matrix.affinity.get(name, {})
    cpu, numa, own = cells.get("<cpu>"), cells.get("<numa>"), cells.get("<gpu_numa>")
    return {
        "name": name,
        "index": int(name.removeprefix("GPU")),
        "cpu_affinity": None if cpu == "N/A" else cpu,
        "numa": whole_number(numa or ""),
        "numa_raw": numa,
        "gpu_numa_id": whole_number(own or ""),
        "gpu_numa_id_raw": own,
    }


def parse_topo(raw: Raw) -> Sequence[Draft]:
    """`links`: the matrix, the affinity of each GPU, which cards the NIC columns stand for, and whether it is whole."""
    text = plain_text(raw.stdout)
    if reason := refusal(raw) or trouble(raw, "nvidia-smi topo -m"):
        return unknown(["links"], reason)
    try:
        value = topology_value(text, ansi=had_ansi(raw.stdout))
    except ParseError as error:
        first = next((line.strip() for line in text.split("\n") if line.strip()), "")
        known = any(words in first.lower() for words in _NO_TOPOLOGY)
        return unknown(["links"], f"nvidia-smi topo -m: {first[:100] if known else error.message}")
    if raw.truncated:
        value["matrix_complete"] = False
    return [Draft(name="links", value=value, locator="the matrix")]


def parse_p2p(raw: Raw) -> Sequence[Draft]:
    """`p2p`: whether each pair of GPUs may read and write the other's memory, and whether all may."""
    if reason := refusal(raw) or trouble(raw, "nvidia-smi topo -p2p rw"):
        return unknown(["p2p"], reason)
    try:
        matrix = read_matrix(plain_text(raw.stdout), _PEER)
    except ParseError as error:
        return unknown(["p2p"], f"nvidia-smi topo -p2p rw: {error.message}")
    if matrix.missing or matrix.damaged or raw.truncated:
        return unknown(["p2p"], "the peer-to-peer matrix is not whole")
    value = {
        "columns": matrix.columns,
        "status": matrix.links,
        "ok": all(c in ("X", "OK") for row in matrix.links.values() for c in row),
    }
    return [Draft(name="p2p", value=value, locator="the matrix")]


TOPO: Final = Fact("gpu.topo", parse_topo)
P2P: Final = Fact("gpu.p2p", parse_p2p)
