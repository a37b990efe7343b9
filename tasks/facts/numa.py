"""Which NUMA node each GPU hangs on: the kernel's word first, the GPU tool's as a cross-check."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import (
    no_command,
    no_such_file,
    plain_text,
    trouble,
    unknown,
    whole_lines,
    whole_number,
)

NUMACTL_ARGV: Final = ("numactl", "-H")
_NODE_LINE: Final = re.compile(
    r"^(?:.*/)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/numa_node:(-?\d+)\s*$", re.IGNORECASE
)
_BUS_ID: Final = re.compile(r"^([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])$")


def kernel_bus_id(bus_id: str) -> str:
    """A bus id as sysfs spells it: `00000000:A1:00.0` -> `0000:a1:00.0`. Raises ValueError where it is none."""
    match = _BUS_ID.match(bus_id.strip())
    if match is None:
        raise ValueError(f"not a PCI bus id: {bus_id[:40]!r}")
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def pci_numa_argv(bus_ids: Sequence[str]) -> tuple[str, ...]:
    """What reads the NUMA node of these devices: `grep -H` prints each path before its content."""
    return ("grep", "-H", ".", *(f"/sys/bus/pci/devices/{kernel_bus_id(b)}/numa_node" for b in bus_ids))


def parse_pci_numa(raw: Raw) -> Sequence[Draft]:
    """`pci_numa`: bus id -> node number, None where the kernel says -1 (it does not know)."""
    found = [m for line in whole_lines(raw) if (m := _NODE_LINE.match(line))]
    if not found:
        reason = trouble(raw, "sysfs numa_node") or "no numa_node file in the answer"
        return unknown(["pci_numa"], reason)
    value = {kernel_bus_id(m.group(1)): int(m.group(2)) if int(m.group(2)) >= 0 else None for m in found}
    return [Draft(name="pci_numa", value=value, locator=f"{len(value)} lines")]


def parse_numactl(raw: Raw) -> Sequence[Draft]:
    """`numa_nodes`: CPUs, size and free memory (MB as printed) of each node, and the distances."""
    if no_command(raw):
        return [Draft(name="numa_nodes", outcome="absent", reason="numactl is not installed")]
    if reason := trouble(raw, "numactl"):
        return unknown(["numa_nodes"], reason)
    nodes: dict[str, dict[str, Json]] = {}
    distances: list[list[int]] = []
    for line in whole_lines(raw):
        if match := re.match(r"^node (\d+) cpus:(.*)$", line):
            nodes.setdefault(match.group(1), {})["cpus"] = [
                int(c) for c in match.group(2).split() if c.isdigit()
            ]
        elif match := re.match(r"^node (\d+) (size|free): (\d+) MB", line):
            nodes.setdefault(match.group(1), {})[f"{match.group(2)}_mb"] = int(match.group(3))
        elif match := re.match(r"^\s*\d+:\s+((?:\d+\s*)+)$", line):
            distances.append([int(d) for d in match.group(1).split()])
    if not nodes:
        return unknown(["numa_nodes"], "numactl -H printed no node")
    value: dict[str, Json] = {"count": len(nodes), "nodes": nodes}
    value["distances"] = distances if len(distances) == len(nodes) else None
    return [Draft(name="numa_nodes", value=value)]


def gpu_numa_draft(
    items: Sequence[Mapping[str, Json]], pci_numa: Mapping[str, Json] | None, links: Mapping[str, Json] | None, *, numa_off: bool
) -> Draft:  # fmt: skip
    """`gpu_numa`: node -> GPU indexes, joined by bus id; unknown where sources disagree or do not say.

    Of the kernel and `topo -m` alone the kernel proves it; the tool alone is wrong or silent on about one machine in
    four, so its word counts as declared.
    """
    if numa_off:
        return _unknown("the kernel was booted with numa=off: every GPU claims node 0")
    kernel = _by_kernel(items, pci_numa or {})
    tool = {int(g["index"]): g.get("numa") for g in (links or {}).get("gpus", [])}
    if kernel is None:
        if tool and all(index in tool for index in (i["index"] for i in items)) and None not in tool.values():
            return Draft(
                name="gpu_numa",
                value=_nodes(tool),
                level="declared",
                locator="nvidia-smi topo -m, NUMA column",
            )
        return _unknown("neither the kernel nor nvidia-smi topo -m names a node for every GPU")
    wrong = sorted(i for i, node in kernel.items() if tool.get(i) is not None and tool[i] != node)
    if wrong:
        said = ", ".join(f"GPU {i}: kernel {kernel[i]}, nvidia-smi {tool[i]}" for i in wrong[:4])
        return _unknown(f"the kernel and nvidia-smi disagree: {said}")
    return Draft(name="gpu_numa", value=_nodes(kernel), locator="sysfs numa_node by bus id")


def _unknown(reason: str) -> Draft:
    return Draft(name="gpu_numa", outcome="unknown", reason=reason)


def _by_kernel(items: Sequence[Mapping[str, Json]], pci_numa: Mapping[str, Json]) -> dict[int, int] | None:
    found: dict[int, int] = {}
    for item in items:
        try:
            node = pci_numa.get(kernel_bus_id(str(item.get("bus_id"))))
        except ValueError:
            return None
        if node is None:
            return None
        found[int(item["index"])] = int(node)
    return found or None


def _nodes(by_gpu: Mapping[int, Json]) -> dict[str, list[int]]:
    nodes: dict[str, list[int]] = {}
    for index in sorted(by_gpu):
        nodes.setdefault(str(by_gpu[index]), []).append(index)
    return {node: nodes[node] for node in sorted(nodes, key=lambda n: (whole_number(n) is None, int(n)))}


def parse_proc_numa_off(raw: Raw) -> bool:
    """Whether a boot configuration (`/proc/cmdline`, `/etc/default/grub`) switches NUMA off."""
    if no_such_file(raw):
        return False
    return re.search(r"""(?:^|[\s"'])numa=(?:off|noacpi)(?:$|[\s"'])""", plain_text(raw.stdout)) is not None


PCI_NUMA: Final = Fact("gpu.pci_numa", parse_pci_numa)
NUMACTL: Final = Fact("host.numactl", parse_numactl)
