"""RDMA devices: the kernel's directory first, tools as evidence.

A device that exists is not a usable one: ports count when they are active. "transport: InfiniBand" is printed for RoCE
too; link_layer decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import no_command, no_such_file, plain_text, trouble, unknown, whole_lines

INFINIBAND_ARGV: Final = ("ls", "/sys/class/infiniband")
DEVINFO_ARGV: Final = ("ibv_devinfo",)
LINK_ARGV: Final = ("rdma", "link", "show")
_DEVICE: Final = re.compile(r"^[A-Za-z0-9_.-]{1,64}$")
_FIELDS: Final = {"fw_ver": "fw", "board_id": "board_id", "vendor_part_id": "vendor_part_id"}
_PORT_FIELDS: Final = ("state", "max_mtu", "active_mtu", "port_lid", "link_layer")


def parse_infiniband(raw: Raw) -> Sequence[Draft]:
    """`rdma`: the devices, or absent where the kernel has no such class or an empty one."""
    if no_such_file(raw):
        return [
            Draft(
                name="rdma", outcome="absent", reason="the host has no /sys/class/infiniband: no RDMA device"
            )
        ]
    if reason := trouble(raw, "/sys/class/infiniband"):
        return unknown(["rdma"], reason)
    devices = [name for line in whole_lines(raw) for name in line.split() if _DEVICE.match(name)]
    if not devices:
        return [Draft(name="rdma", outcome="absent", reason="/sys/class/infiniband is empty: no RDMA device")]
    return [Draft(name="rdma", value={"devices": devices})]


def adapters(lines: Sequence[str]) -> list[dict[str, Json]]:
    """Adapters of `ibv_devinfo` with their ports."""
    found: list[dict[str, Json]] = []
    for line in lines:
        key, separator, rest = line.strip().partition(":")
        value = rest.strip()
        if not separator:
            continue
        if key == "hca_id":
            found.append({"hca": value, "ports": []})
        elif found:
            _adapter_line(found[-1], key, value)
    return found


def _adapter_line(adapter: dict[str, Json], key: str, value: str) -> None:
    if key == "transport":
        adapter["transport"] = value.partition(" (")[0]
    elif key in _FIELDS:
        adapter[_FIELDS[key]] = value
    elif key == "phys_port_cnt":
        adapter["phys_port_cnt"] = _number(value)
    elif key == "port":
        adapter["ports"].append({"port": _number(value)})
    elif key in _PORT_FIELDS and adapter["ports"]:
        text = value.partition(" (")[0]
        adapter["ports"][-1][key] = text if key in ("state", "link_layer") else _number(text)


def _number(text: str) -> int | None:
    match = re.match(r"\d+", text)
    return int(match.group()) if match else None


def parse_devinfo(raw: Raw) -> Sequence[Draft]:
    """`rdma_adapters`: adapters with firmware and ports; absent where the tool sees none."""
    text = plain_text(raw.stdout) + plain_text(raw.stderr)
    if "No IB devices found" in text:
        return [Draft(name="rdma_adapters", outcome="absent", reason="ibv_devinfo: no IB devices found")]
    if no_command(raw):
        return unknown(["rdma_adapters"], "ibv_devinfo is not installed or not in PATH")
    found = adapters(whole_lines(raw))
    if not found:
        return unknown(["rdma_adapters"], trouble(raw, "ibv_devinfo") or "ibv_devinfo printed no adapter")
    return [
        Draft(
            name="rdma_adapters",
            value={"adapters": found, "complete": raw.state == "ok" and not raw.truncated},
        )
    ]


def parse_link(raw: Raw) -> Sequence[Draft]:
    """`rdma_links`: link, state and network device of `rdma link show`; no line is no link."""
    if reason := trouble(raw, "rdma link show"):
        return unknown(["rdma_links"], reason)
    found: list[Json] = []
    for line in whole_lines(raw):
        if match := re.match(r"^\s*(?:\d+: )?link (\S+) state (\S+)(?:.*? netdev (\S+))?", line):
            found.append({"link": match.group(1), "state": match.group(2), "netdev": match.group(3)})
    return [Draft(name="rdma_links", value=found)]


INFINIBAND: Final = Fact("rdma.devices", parse_infiniband)
DEVINFO: Final = Fact("rdma.ibv_devinfo", parse_devinfo)
LINKS: Final = Fact("rdma.links", parse_link)
