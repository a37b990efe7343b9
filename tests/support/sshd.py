"""A real OpenSSH server on a loopback port, with keys and known_hosts of its own, for the time of a test."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_BINARIES = ("/usr/sbin/sshd", "/usr/local/sbin/sshd")


@dataclass(frozen=True)
class Server:
    """A running server. `known_hosts` and `client_key` are paths a client has to be given."""

    folder: Path
    port: int
    pid: int
    user: str
    known_hosts: str
    client_key: str
    host_key: Path

    @property
    def target(self) -> str:
        """What a person would type."""
        return f"{self.user}@127.0.0.1:{self.port}"


def sshd_binary() -> str:
    """The path of sshd; skips the test where there is none."""
    found = shutil.which("sshd") or next((b for b in _BINARIES if Path(b).exists()), None)
    if found is None or shutil.which("ssh-keygen") is None:
        pytest.skip("openssh-server is not installed: apt-get install openssh-server")
    return found


def new_key(path: Path, kind: str = "ed25519") -> Path:
    """Makes a key pair without a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "test", "-f", str(path)], check=True)
    return path


def known_line(port: int, public: Path, *, marker: str = "") -> str:
    """A known_hosts line for a server of ours."""
    kind, key = public.read_text().split()[:2]
    return f"{marker}[127.0.0.1]:{port} {kind} {key}\n"


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def sshd(folder: Path, *, path: str = "", settings: str = "") -> Iterator[Server]:
    """Starts a server and stops it by its process id. `path`: PATH of sessions. `settings`: more lines of sshd_config."""
    binary = sshd_binary()
    folder.mkdir(parents=True, exist_ok=True)
    host_key, client_key = new_key(folder / "host_key"), new_key(folder / "client_key")
    (folder / "authorized_keys").write_text((folder / "client_key.pub").read_text())
    port, user = free_port(), getpass.getuser()
    (folder / "known_hosts").write_text(known_line(port, folder / "host_key.pub"))
    lines = [
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {host_key}", f"AuthorizedKeysFile {folder}/authorized_keys",
        "PidFile none", "UsePAM no", "StrictModes no", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
        f"AllowUsers {user}", "PermitRootLogin prohibit-password", "LogLevel ERROR",
    ]  # fmt: skip
    if path:
        lines.append(
            f"SetEnv PATH={path} HOME={folder}"
        )  # a home of its own: no start-up files of whoever runs the test
    (folder / "sshd_config").write_text("\n".join([*lines, settings]) + "\n")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd wants to separate privileges
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen(
            [binary, "-D", "-e", "-f", str(folder / "sshd_config")], stdin=subprocess.DEVNULL, stderr=log
        )
    try:
        _wait_for(port, process, folder / "sshd.log")
        yield Server(folder, port, process.pid, user, str(folder / "known_hosts"), str(client_key), host_key)
    finally:
        process.terminate()
        process.wait(timeout=10)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"sshd ended with {process.returncode}: {log.read_text(errors='replace')}")
        with socket.socket() as s:
            s.settimeout(0.5)
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"sshd does not listen: {log.read_text(errors='replace')}")
