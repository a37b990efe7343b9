"""Why a host's key is not trusted: unknown, changed, revoked, or known by a key of another type. Never waved through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncssh

from recon.agent.connectors.ssh_errors import Where, host_error
from recon.agent.model.errors import HostError

SYSTEM_FILES: Final = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts")
_DEFAULT_PORT: Final = 22


@dataclass(frozen=True)
class Entry:
    """A line of a known_hosts file that is about the host."""

    file: str
    line: int
    algorithm: str
    fingerprint: str  # SHA256:...
    revoked: bool


def readable(files: Sequence[str]) -> list[str]:
    """The files that are there and can be read, `~` expanded."""
    return [str(p) for p in (Path(f).expanduser() for f in files) if p.is_file() and _can_read(p)]


def entries(files: Sequence[str], host: str, port: int) -> list[Entry]:
    """What the files say about a host. Lines that no key can be read from are skipped, as ssh does."""
    found: list[Entry] = []
    for file in files:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            found += [
                Entry(file, number, key.get_algorithm(), key.get_fingerprint(), revoked)
                for key, revoked in _keys(line, host, port)
            ]
    return found


def untrusted(key: asyncssh.SSHKey | None, known: Sequence[Entry], where: Where) -> HostError:
    """The error for a key that was refused, with both fingerprints and the line that disagrees."""
    if key is None:
        return host_error(
            where, f"{where.host} shows no host key", hint="recon talks to no host that it cannot recognise"
        )
    shown = key.get_fingerprint()
    line = next((e for e in known if e.revoked and e.fingerprint == shown), None)
    if line is not None:
        return host_error(
            where,
            f"the key of {where.host} is marked revoked ({line.file} line {line.line}): {shown}",
            hint="do not go on; ask who revoked it",
        )
    valid = [e for e in known if not e.revoked]
    line = next((e for e in valid if e.algorithm == key.get_algorithm()), None)
    if line is not None:
        return host_error(
            where, f"the key of {where.host} CHANGED: known {line.fingerprint} ({line.file} line {line.line}), shown {shown}",
            hint=f"do not go on before you know why; if the host was installed anew: ssh-keygen -R {_named(where)}",
        )  # fmt: skip
    if valid:
        line = valid[0]
        return host_error(
            where, f"{where.host} is known by another type of key: {line.algorithm} {line.fingerprint} ({line.file} line {line.line}), "
            f"it shows {key.get_algorithm()} {shown}",
            hint="compare the fingerprint on the host itself, then add the key with ssh",
        )  # fmt: skip
    return host_error(
        where, f"{where.host} is not in known_hosts; it shows {key.get_algorithm()} {shown}",
        hint=f"compare this with the fingerprint on the host itself, then run once: {_ssh(where)}",
    )  # fmt: skip


def revoked(key: asyncssh.SSHKey | None, known: Sequence[Entry]) -> bool:
    """Whether a line revokes the key. asyncssh forgets such a line for a port of its own when no other line names it."""
    return key is not None and any(e.revoked and e.fingerprint == key.get_fingerprint() for e in known)


def _keys(line: str, host: str, port: int) -> list[tuple[asyncssh.SSHKey, bool]]:
    is_revoked = line.startswith("@revoked")
    try:
        rows = asyncssh.import_known_hosts(line.removeprefix("@revoked"))
    except (ValueError, asyncssh.KeyImportError):
        return []
    keys, *_ = rows.match(host, "", None if port == _DEFAULT_PORT else port)
    return [(key, is_revoked) for key in keys]


def _can_read(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False


def _named(where: Where) -> str:
    return where.host if where.port == _DEFAULT_PORT else f"'[{where.host}]:{where.port}'"


def _ssh(where: Where) -> str:
    port = "" if where.port == _DEFAULT_PORT else f"-p {where.port} "
    return f"ssh {port}{where.user}@{where.host}"
