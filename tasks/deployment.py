"""What a deployment looks like, worked out of the intent and the facts: directories, mounts, instances, ports.

Judges, act tasks and playbooks look at a mission through these functions, so that all of them mean the same.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

from recon.agent.api import Json, View
from recon.tasks.knowledge.engine_tables import version_key

# A download is written beside temporary files and the tree's own metadata: 5 % on top of the files.
DISK_MARGIN: Final = 1.05
# Where weights go on a host that names no better place: the FHS folder for data served by the system.
DEFAULT_ROOT: Final = "/srv/models"
PORTS: Final[Mapping[str, int]] = {
    "prefill": 30000, "decode": 30001, "serve": 30000, "router": 8000, "bootstrap": 8998,
}  # fmt: skip
# The engine package of each engine we know, and the distributions its KV transfer needs.
_PYTHON_IN_VENV: Final = re.compile(r"^(?P<venv>/.+)/bin/python[0-9.]*$")
_NO_DATA_MOUNTS: Final = (
    "/dev",
    "/run",
    "/boot",
    "/sys",
    "/proc",
    "/snap",
    "/tmp",
    "/var/lib/docker/overlay2",
)
_NO_DATA_TYPES: Final = frozenset({"tmpfs", "devtmpfs", "squashfs", "overlay", "efivarfs", "vfat", "iso9660"})


@dataclass(frozen=True)
class Instance:
    """One engine process group: its role, its GPUs by index, and the NUMA nodes these GPUs hang on."""

    role: str
    gpus: tuple[int, ...]
    nodes: tuple[str, ...]  # empty where the map of the host is not known

    @property
    def port(self) -> int:
        """The HTTP port of the role."""
        return PORTS[self.role]


def latest(view: View, path: str, default: Json = None) -> Json:
    """The last known value at a path of one finding, also where it has gone stale.

    For what a change is made of (names, paths, ids): whether it is still true is the gate's question, and a command
    that flickers with the age of a reading could never be approved.
    """
    read = view.read(path)
    if read.known:
        return read.value
    if read.state != "stale" or read.finding is None:
        return default
    value = read.finding.value
    for step in path.removeprefix(f"{path.split('.', 1)[0]}.{read.finding.name}").strip(".").split("."):
        if step:
            value = value.get(step) if isinstance(value, Mapping) else None
    return default if value is None else value


def host_name(host: str | None) -> str:
    """The name of `[user@]name[:port]`, "" for none. An IPv6 address keeps its colons."""
    name = (host or "").rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0] if name.count(":") == 1 else name


def host_user(host: str | None) -> str:
    """The user of `[user@]name[:port]`, "" where none is named."""
    return (host or "").rpartition("@")[0]


def model_root(view: View) -> str:
    """The directory that holds model directories: as decided, else where the host already keeps models."""
    if view.intent.target_dir:
        return view.intent.target_dir.rstrip("/") or "/"
    serving = latest(view, "host.service.model_path")
    if isinstance(serving, str) and serving.startswith("/"):
        return posixpath.dirname(serving.rstrip("/"))
    models = sizes_at(view, "host.models")
    if models:
        return posixpath.dirname(max(sorted(models), key=models.__getitem__).rstrip("/"))
    return DEFAULT_ROOT


def model_dir(view: View) -> str:
    """Where this mission's weights go, or lie already."""
    model = view.intent.model or ""
    return model if model.startswith("/") else posixpath.join(model_root(view), model.rpartition("/")[2])


def mount_of(path: str, mounts: Iterable[str]) -> str:
    """The mount point that holds a path: the longest that is a parent of it, "" where none is."""
    holding = [m for m in mounts if is_within(path, m)]
    return max(holding, key=len, default="")


def is_within(path: str, parent: str) -> bool:
    """Whether a path is the parent or lies below it, by whole path components."""
    top = parent.rstrip("/")
    return path == parent or path.rstrip("/") == top or path.startswith(f"{top}/")


def target_mount(view: View) -> str:
    """The mount that the weights go to; "/" until the host's mounts are known."""
    return mount_of(model_dir(view), mapping_at(view, "host.fs")) or "/"


def holds_data(mount: str, entry: Mapping[str, Json]) -> bool:
    """Whether a mount is a place for weights: a disk, not memory, not the system's own."""
    if entry.get("fstype") in _NO_DATA_TYPES or entry.get("kind", "disk") not in ("disk", "network"):
        return False
    return not any(is_within(mount, reserved) for reserved in _NO_DATA_MOUNTS)


def instances(view: View) -> tuple[Instance, ...]:
    """The engine instances with their GPUs: as assigned by a decision (`extra.gpus`), else filled from GPU 0 on."""
    assigned = view.intent.extra.get("gpus")
    result = []
    for role, first, count in view.intent.layout.instances():
        gpus = tuple(range(first, first + count))
        if isinstance(assigned, Mapping) and isinstance(assigned.get(role), (list, tuple)):
            gpus = tuple(int(gpu) for gpu in assigned[role])
        result.append(Instance(role, gpus, nodes_of(gpus, latest(view, "host.gpu_numa", {}))))
    return tuple(result)


def nodes_of(gpus: Sequence[int], gpu_numa: Json) -> tuple[str, ...]:
    """The NUMA nodes that GPUs hang on, sorted; empty where one of them is not in the map `{node: [gpu, ...]}`."""
    node_of = {gpu: node for node, members in numa_map(gpu_numa).items() for gpu in members}
    if any(gpu not in node_of for gpu in gpus):
        return ()
    return tuple(sorted({node_of[gpu] for gpu in gpus}, key=_node_order))


def numa_map(value: Json) -> dict[str, list[int]]:
    """A host's `{node: [gpu, ...]}` with what is not of that shape left out."""
    if not isinstance(value, Mapping):
        return {}
    lists = {str(node): gpus for node, gpus in value.items() if isinstance(gpus, (list, tuple))}
    return {node: [gpu for gpu in gpus if is_count(gpu)] for node, gpus in lists.items()}


def _node_order(node: str) -> tuple[int, str]:
    return (int(node) if node.isdigit() else 1 << 30, node)


def gpu_text(gpus: Iterable[int]) -> str:
    """GPU numbers as people write them: `0-3`, `0,2-3`."""
    runs: list[list[int]] = []
    for gpu in sorted(gpus):
        if runs and gpu == runs[-1][1] + 1:
            runs[-1][1] = gpu
        else:
            runs.append([gpu, gpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def running_python(view: View) -> str:
    """The interpreter of the installed engine, "" where none is known."""
    python = latest(view, "engine.python") or latest(view, "host.service.interpreter") or ""
    return str(python)


def venv_of(python: str) -> str:
    """The virtual environment of an interpreter path, "" where it is not in one."""
    match = _PYTHON_IN_VENV.match(python)
    return "" if match is None or match["venv"] in ("/usr", "/usr/local") else match["venv"]


def at_least_version(version: str, needed: str) -> bool:
    """Whether a version is the needed one or newer."""
    return version_key(version) >= version_key(needed)


def is_count(value: Json) -> TypeGuard[int]:
    """Whether a value from outside is a whole number of at least 0; a yes or no is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def mapping_at(view: View, path: str) -> dict[str, Json]:
    """The last known mapping at a path; empty where there is none."""
    value = latest(view, path)
    return {str(key): inner for key, inner in value.items()} if isinstance(value, Mapping) else {}


def sizes_at(view: View, path: str) -> dict[str, int]:
    """The last known `{absolute path: bytes}` at a path; what is not of that shape is left out."""
    return {
        name: size for name, size in mapping_at(view, path).items() if name.startswith("/") and is_count(size)
    }


def download_bytes(view: View) -> int:
    """Bytes that have to be fetched; 0 where that is not known."""
    value = view.value("checkpoint.download_bytes")
    return int(value) if is_count(value) else 0
