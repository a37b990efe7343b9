"""Room on disks: mounts in bytes, inodes, what directories take.

Sizes are planned in bytes: `22G` of `df -h` is 21.5 GiB or 23.1 GB. Free is what a process may write (Available), which
is less than total minus used where the file system keeps a reserve.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import (
    VOLATILE_S,
    no_such_file,
    plain_text,
    trouble,
    unknown,
    whole_lines,
    whole_number,
)

DF_ARGV: Final = ("df", "-P", "-B1")
INODES_ARGV: Final = ("df", "-iP", "/")
# Where people keep weights, and what fills disks beside them. Only those that exist are measured.
MODEL_ROOTS: Final = ("/root/models", "/models", "/data/models", "/mnt/models", "/srv/models", "/opt/models")
SPACE_DIRS: Final = ("/root", "/home", "/var/lib/docker", "/var/lib/containerd", "/var/log", "/swap.img")

_PATH: Final = re.compile(r"^/[A-Za-z0-9._+@=,/ -]*$")
_ROW: Final = re.compile(
    r"^(?P<source>.+?)\s+(?:(?P<type>[a-z][a-z0-9.]*)\s+)?(?P<total>[0-9.,]+[KMGTPE]?|-)\s+(?P<used>[0-9.,]+[KMGTPE]?|-)\s+"
    r"(?P<avail>-?[0-9.,]+[KMGTPE]?|-)\s+(?P<percent>\d+%|-)\s+(?P<mount>/.*)$"
)
# GNU df names the block in the header: `1B-blocks`, `1K-blocks`, with -P as a plain number: `1-blocks`, `1024-blocks`.
_BLOCK: Final = re.compile(r"(?<!\S)(\d{1,12})([BKMGT]?)-\S")
_SUFFIX: Final = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MEMORY: Final = frozenset({"tmpfs", "devtmpfs", "udev", "ramfs", "shm", "none", "efivarfs"})
_NETWORK: Final = re.compile(r"^(?:\d+\.\d+\.\d+\.\d+|[A-Za-z0-9.-]+):/|^//")
_NO_SPACE: Final = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "overlay"})
_LONGEST: Final = 2000  # a df line is a path and five numbers; longer ones are not read


def safe_path(path: str) -> bool:
    """Whether a path that came from a host or a person may go into an argument vector."""
    return bool(_PATH.fullmatch(path)) and len(path) <= 512 and "/../" not in f"{path}/"


def ls_argv(paths: Sequence[str]) -> tuple[str, ...]:
    """Which of these paths exist."""
    return ("ls", "-d", "--", *paths)


def du_argv(path: str, *, children: bool) -> tuple[str, ...]:
    """Bytes below a path on its own file system: of each child and in all, or in all only."""
    return ("du", "-x", "-B1", "-d1" if children else "-s", path)


def findmnt_argv(path: str) -> tuple[str, ...]:
    """The mount that holds a path."""
    return ("findmnt", "-J", "--target", path, "-o", "TARGET,SOURCE,FSTYPE,OPTIONS")


def df_rows(lines: Sequence[str]) -> dict[str, dict[str, Json]]:
    """Mount -> row of any `df`. Byte values are None where sizes were printed rounded (`-h`), with `size_text` then."""
    header = next((line for line in lines if "/" not in line.partition(" ")[0]), "")
    block = _BLOCK.search(header)
    unit = int(block.group(1)) * _SUFFIX[block.group(2)] if block else None
    rows: dict[str, dict[str, Json]] = {}
    for line in lines:
        if line is header or len(line) > _LONGEST or (match := _ROW.match(line)) is None:
            continue
        rows[match["mount"].rstrip() or "/"] = _df_row(match, unit)
    return rows


def _df_row(match: re.Match[str], unit: int | None) -> dict[str, Json]:
    row: dict[str, Json] = {
        "filesystem": match["source"],
        "use_percent": whole_number(match["percent"].rstrip("%")),
    }
    if match["type"]:
        row["fstype"] = match["type"]
    for key in ("total", "used", "avail"):
        number = whole_number(match[key])
        row[f"{key}_bytes"] = None if unit is None or number is None else number * unit
    if unit is None:
        row["size_text"] = {key: match[key] for key in ("total", "used", "avail")}
    row["kind"] = _kind(match["source"], match["type"])
    return row


def _kind(source: str, fstype: str | None) -> str:
    """`disk`, `network`, `memory`, `image` (a read-only loop mount, always full) or `other`."""
    if source in _MEMORY or fstype in _MEMORY:
        return "memory"
    if source.startswith("/dev/loop"):
        return "image"
    if source in _NO_SPACE or fstype in _NO_SPACE:
        return "other"
    return "network" if _NETWORK.match(source) else "disk"


def parse_df(raw: Raw) -> Sequence[Draft]:
    """`fs`: mount -> bytes, good for a minute. A mount that hangs makes df fail: what was printed still counts."""
    rows = df_rows(whole_lines(raw))
    if not rows:
        reason = trouble(raw, "df") or "df printed no mount"
        return unknown(["fs"], reason, lifetime_s=VOLATILE_S)
    if all(row["total_bytes"] is None for row in rows.values()):
        return unknown(["fs"], "df printed rounded sizes: bytes are not known", lifetime_s=VOLATILE_S)
    return [Draft(name="fs", value=rows, lifetime_s=VOLATILE_S, locator=f"{len(rows)} mounts")]


def parse_inodes(raw: Raw) -> Sequence[Draft]:
    """`fs_inodes`: mount -> inodes used in percent and free."""
    rows = df_rows(whole_lines(raw))
    if not rows:
        return unknown(
            ["fs_inodes"], trouble(raw, "df -i") or "df -i printed no mount", lifetime_s=VOLATILE_S
        )
    value: dict[str, Json] = {}
    for line in whole_lines(raw):
        if (match := _ROW.match(line)) is not None:
            percent = whole_number(match["percent"].rstrip("%"))
            value[match["mount"].rstrip()] = {
                "inode_use_percent": percent,
                "inodes_free": whole_number(match["avail"]),
            }
    return [Draft(name="fs_inodes", value=value, lifetime_s=VOLATILE_S)]


def parse_findmnt(raw: Raw) -> Sequence[Draft]:
    """`models_mount`: target, source, type and options of the mount that holds the models."""
    if reason := trouble(raw, "findmnt"):
        return unknown(["models_mount"], reason)
    try:
        entry = json.loads(plain_text(raw.stdout))["filesystems"][0]
        source, _, inside = str(entry["source"]).partition("[")
        value = {
            "target": str(entry["target"]),
            "source": source,
            "subpath": inside.rstrip("]") or None,
            "fstype": str(entry["fstype"]),
            "read_only": "ro" in str(entry.get("options", "")).split(","),
        }
    except (ValueError, KeyError, IndexError, TypeError):
        return unknown(["models_mount"], "findmnt printed no JSON that can be read")
    return [Draft(name="models_mount", value=value)]


def parse_existing(raw: Raw, *, name: str = "existing_dirs") -> Sequence[Draft]:
    """Which of the asked paths exist. `ls` fails when one is missing and still lists the others."""
    paths = [line.strip() for line in whole_lines(raw) if line.startswith("/")]
    if raw.state == "ok" or no_such_file(raw) or paths:
        return [Draft(name=name, value=sorted(paths))]
    return unknown([name], trouble(raw, "ls"))


def parse_du(raw: Raw, *, path: str) -> Sequence[Draft]:
    """`du.PATH`: path -> bytes of what du came to. Where it was stopped before the end, `complete` is false."""
    name = f"du.{path}"
    sizes: dict[str, int] = {}
    for line in whole_lines(raw):
        size, tab, where = line.partition("\t")
        if tab and (count := whole_number(size)) is not None and where.startswith("/"):
            sizes[where] = count
    if not sizes:
        if no_such_file(raw):
            return [Draft(name=name, outcome="absent", reason=f"{path} does not exist")]
        return unknown([name], trouble(raw, f"du {path}") or f"du {path} printed nothing")
    return [
        Draft(
            name=name,
            value={"sizes": sizes, "complete": path in sizes and raw.state == "ok" and not raw.truncated},
        )
    ]


def du_fact(path: str) -> Fact:
    """The fact that measures one path."""
    return Fact("disk.du", partial(parse_du, path=path))


def children_of(root: str, du: Mapping[str, Json]) -> dict[str, int]:
    """What lies directly below a measured path, largest first."""
    top = root.rstrip("/")
    below = {p: int(b) for p, b in du["sizes"].items() if p.rpartition("/")[0] == top and p != root}
    return dict(sorted(below.items(), key=lambda item: (-item[1], item[0])))


DF: Final = Fact("disk.df", parse_df)
INODES: Final = Fact("disk.inodes", parse_inodes)
FINDMNT: Final = Fact("disk.findmnt", parse_findmnt)
EXISTING: Final = Fact("disk.existing", parse_existing)
NAMED: Final = Fact("disk.named", partial(parse_existing, name="named_dirs"))
