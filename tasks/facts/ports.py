"""Listening TCP ports and who holds them, from `ss`.

Names are cut to 15 characters; the owner column is empty for other users' processes, which is "not said", not "none".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import VOLATILE_S, trouble, unknown, whole_lines

PORTS_ARGV: Final = ("ss", "-ltnp")
_OWNER: Final = re.compile(r'users:\(\("([^"]{0,64})",pid=(\d+)')


def listening(lines: Sequence[str]) -> list[dict[str, Json]]:
    """Every listening TCP socket: address, port, process and pid (None where not said), in the order printed."""
    found: list[dict[str, Json]] = []
    for line in lines:
        words = line.split()
        if "LISTEN" not in words[:2] or words[0].startswith("udp"):
            continue
        at = words.index("LISTEN")
        if len(words) < at + 4:
            continue
        address, _, port = words[at + 3].rpartition(":")
        if not port.isdigit():
            continue
        owner = _OWNER.search(line)
        found.append(
            {
                "address": address.strip("[]"),
                "port": int(port),
                "process": owner.group(1) if owner else None,
                "pid": int(owner.group(2)) if owner else None,
            }
        )
    return found


def parse_ports(raw: Raw) -> Sequence[Draft]:
    """`ports`: port -> process, pid and addresses, good for a minute."""
    if reason := trouble(raw, "ss"):
        return unknown(["ports"], reason, lifetime_s=VOLATILE_S)
    lines = whole_lines(raw)
    if not lines or raw.truncated:
        reason = "the socket table was cut at the size limit" if lines else "ss printed nothing"
        return unknown(["ports"], reason, lifetime_s=VOLATILE_S)
    ports: dict[str, dict[str, Json]] = {}
    for socket in listening(lines):
        entry = ports.setdefault(
            str(socket["port"]),
            {
                "pid": socket["pid"],
                "process": socket["process"],
                "address": socket["address"],
                "addresses": [],
            },
        )
        entry["addresses"].append(socket["address"])
    return [Draft(name="ports", value=ports, lifetime_s=VOLATILE_S, locator=f"{len(ports)} ports")]


PORTS: Final = Fact("host.ports", parse_ports)
