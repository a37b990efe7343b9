"""Who a host is: boot id, name, kernel, operating system, kernel command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import no_such_file, plain_text, trouble, unknown, whole_lines

BOOT_ID_ARGV: Final = ("cat", "/proc/sys/kernel/random/boot_id")
UNAME_ARGV: Final = ("uname", "-a")
OS_ARGV: Final = ("cat", "/etc/os-release")
CMDLINE_ARGV: Final = ("cat", "/proc/cmdline")

_BOOT_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MACHINES: Final = re.compile(r"\b(x86_64|amd64|aarch64|arm64|ppc64le|riscv64|s390x|i[3-6]86)\b")
_IOMMU: Final = re.compile(r"^(?:iommu(?:\.\w+)?|intel_iommu|amd_iommu)=")


def parse_boot_id(raw: Raw) -> Sequence[Draft]:
    """`boot_id`: the kernel's id of this boot. Everything else about the host is valid while it stays the same."""
    if reason := trouble(raw, "boot id"):
        return unknown(["boot_id"], reason)
    found = _BOOT_ID.search(plain_text(raw.stdout).lower())
    if found is None:
        return unknown(["boot_id"], "the kernel's boot id is not in the answer")
    return [Draft(name="boot_id", value=found.group(), locator="line 1")]


def parse_uname(raw: Raw) -> Sequence[Draft]:
    """`identity`: hostname, kernel release and machine architecture, as `uname -a` prints them."""
    if reason := trouble(raw, "uname"):
        return unknown(["identity"], reason)
    words = plain_text(raw.stdout).split()
    if len(words) < 4:
        return unknown(["identity"], "uname -a printed fewer than four words")
    machines = _MACHINES.findall(" ".join(words[3:]))
    value: dict[str, Json] = {
        "os": words[0],
        "hostname": words[1],
        "kernel": words[2],
        "arch": machines[0] if machines else None,
    }
    return [Draft(name="identity", value=value, locator="line 1")]


def parse_os_release(raw: Raw) -> Sequence[Draft]:
    """`os`: id, version and pretty name of the distribution."""
    if no_such_file(raw):
        return [Draft(name="os", outcome="absent", reason="the host has no /etc/os-release")]
    if reason := trouble(raw, "/etc/os-release"):
        return unknown(["os"], reason)
    fields: dict[str, str] = {}
    for line in whole_lines(raw):
        key, separator, value = line.partition("=")
        if separator and re.fullmatch(r"[A-Z_0-9]+", key.strip()):
            fields[key.strip()] = _unquoted(value)
    if "ID" not in fields:
        return unknown(["os"], "no ID= line in /etc/os-release")
    system = {
        "id": fields["ID"],
        "version_id": fields.get("VERSION_ID"),
        "name": fields.get("PRETTY_NAME") or fields.get("NAME"),
    }
    return [Draft(name="os", value=system)]


def parse_kernel_cmdline(raw: Raw) -> Sequence[Draft]:
    """`kernel_cmdline`: what bears on NUMA and the IOMMU. Other words are left out: they may name disks or keys."""
    if reason := trouble(raw, "/proc/cmdline"):
        return unknown(["kernel_cmdline"], reason)
    words = plain_text(raw.stdout).split()
    if not words:
        return unknown(["kernel_cmdline"], "/proc/cmdline is empty")
    value = {
        "iommu": [word for word in words if _IOMMU.match(word)],
        "numa_off": any(word in ("numa=off", "numa=noacpi") for word in words),
        "mitigations": next((w.partition("=")[2] for w in words if w.startswith("mitigations=")), None),
        "words": len(words),
    }
    return [Draft(name="kernel_cmdline", value=value, locator="line 1")]


def _unquoted(text: str) -> str:
    try:
        return "".join(shlex.split(text.strip())[:1])
    except ValueError:  # an open quote: take the text as it is
        return text.strip().strip("\"'")


BOOT_ID: Final = Fact("host.boot_id", parse_boot_id)
UNAME: Final = Fact("host.uname", parse_uname)
OS_RELEASE: Final = Fact("host.os", parse_os_release)
KERNEL_CMDLINE: Final = Fact("host.kernel_cmdline", parse_kernel_cmdline)
