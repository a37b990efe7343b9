"""Which release of the engine a mission needs, and why: architecture, GPU generation, KV transfer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from recon.agent.api import Json, View
from recon.tasks.deployment import at_least_version, latest
from recon.tasks.knowledge import engine_tables as tables

# What each transfer backend needs beside its own package; the order in which they are offered.
BACKENDS: Final = ("mooncake", "mooncake_tcp", "nixl")
GIT_SOURCES: Final = ("git-ref", "git-prs")
_RELEASE: Final = re.compile(r"v?(?P<release>\d{1,4}(?:\.\d{1,4}){1,3}(?:\.?(?:post|rc|a|b)\d{1,4})?)")
UNTIL_GPU: Final = "not known until the GPU is"


@dataclass(frozen=True)
class Need:
    """The oldest release that will do, and one reason for each part of it.

    `release` is None where no release will, and where what it depends on was not read: `unsettled` says so.
    """

    release: str | None
    reasons: tuple[str, ...]
    unserved: str = ""  # what no release that we know offers
    unsettled: str = ""  # until when the release is not known; "" where it is


def architecture(view: View) -> str:
    """The checkpoint's first architecture name, "" where it is not known."""
    names = view.value("checkpoint.architecture.architectures", [])
    return str(names[0]) if isinstance(names, (list, tuple)) and names else ""


def needed_release(view: View) -> Need:
    """The newest of the first releases that have the architecture, its path on this GPU, and the KV transfer."""
    arch, sm, backend = architecture(view), str(view.value("host.gpus.sm", "")), view.intent.transfer_backend
    parts: list[tuple[str, str]] = []
    unserved = ""
    unsettled = "" if sm else UNTIL_GPU
    if not arch:
        unsettled = "not known until the architecture is"
    else:
        first, on_gpu = (
            tables.first_release_with_architecture(arch),
            tables.first_release_with_architecture_on(arch, sm),
        )
        if first is not None:
            parts.append((first.release, f"{first.release} is the first with {arch}"))
        if on_gpu is not None and sm:
            parts.append((on_gpu.release, f"{on_gpu.release} the first with an {sm} path"))
        if first is None and _scan_is_open(view):
            unsettled = unsettled or "not known until it is scanned"
        elif first is None and arch not in listed_architectures(view):
            unserved = f"no release up to {tables.TABLE_VERSION} is known to have {arch}"
    row = tables.transfer_backend(backend) if backend and view.intent.layout.mode == "pd" else None
    if row is not None and row.min_release:
        parts.append((row.min_release, f"{backend} needs {row.min_release}"))
    newest = max((release for release, _ in parts), key=tables.version_key, default=None)
    reasons = tuple(dict.fromkeys(reason for _, reason in parts))
    return Need(None if unserved or unsettled else newest, reasons, unserved, "" if unserved else unsettled)


def _scan_is_open(view: View) -> bool:
    """Whether nobody knows which architectures the installed engine has; where none is installed, it has none."""
    listed, version = view.read("engine.architectures"), view.read("engine.version")
    return not listed.known and listed.state != "stale" and version.state != "absent"


def asked_release(view: View) -> str:
    """The release that was asked for: by the tag that a person decided on, else as named in the mission; "" for none."""
    decided = view.intent.extra.get("engine_ref") if view.intent.engine_source in GIT_SOURCES else None
    for named in (decided, view.intent.extra.get("engine_release")):
        match = _RELEASE.fullmatch(named.strip()) if isinstance(named, str) else None
        if match is not None:
            return match["release"]
    return ""


def release_to_install(view: View) -> str:
    """The release that an install brings: as asked, else the needed one, or the newest known where what is installed
    will do already; "" where what it depends on was not read."""
    asked, need, version = asked_release(view), needed_release(view), installed(view)
    if asked or need.unsettled:
        return asked
    if need.release is None or (version and at_least_version(version, need.release)):
        plain = version if _RELEASE.fullmatch(version) else ""
        return max((plain, tables.TABLE_VERSION), key=tables.version_key)
    return need.release


def cited(view: View) -> list[tables.Row | None]:
    """The rows of our tables that the needed release rests on."""
    arch, sm = architecture(view), str(view.value("host.gpus.sm", ""))
    return [tables.first_release_with_architecture(arch), tables.first_release_with_architecture_on(arch, sm)]


def listed_architectures(view: View) -> list[str]:
    """The architectures that the installed engine has, empty where that is not known."""
    names = latest(view, "engine.architectures", [])
    return [str(name) for name in names] if isinstance(names, (list, tuple)) else []


def installed(view: View) -> str:
    """The installed engine's version, "" where it is not known."""
    return str(latest(view, "engine.version", "") or "")


def planned_release(view: View) -> str:
    """The release that will run: the one that a decided install brings, else the installed one where it will do, else
    the needed one; "" where that is not known."""
    if view.intent.engine_source or asked_release(view):
        return release_to_install(view)
    version, need = installed(view), needed_release(view)
    if need.unsettled:
        return ""
    if need.release is None:
        return version
    return version if version and at_least_version(version, need.release) else need.release


def newer_than_tables(version: str) -> bool:
    """Whether an installed engine is newer than the newest one that our tables were read from."""
    return bool(version) and tables.version_key(version)[:3] > tables.version_key(tables.TABLE_VERSION)[:3]


def has_package(backends: Json, backend: str) -> bool:
    """Whether the package of a transfer backend is installed; `mooncake_tcp` is the package of `mooncake`."""
    name = "mooncake" if backend == "mooncake_tcp" else backend
    return isinstance(backends, dict) and bool(backends.get(name))
