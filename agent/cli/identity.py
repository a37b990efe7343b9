"""Who gives a command: what decisions and approvals record."""

from __future__ import annotations

import getpass
import os
from pathlib import Path


def who_asks() -> str:
    """User name and id of the person (or process) that started recon."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "?"
    return f"{name} ({os.getuid()})"


def asked_from() -> str:
    """The parent process by name and pid, e.g. `bash (4711)`: a person's shell or an agent."""
    parent = os.getppid()
    try:
        name = Path(f"/proc/{parent}/comm").read_text().strip()
    except OSError:
        name = "?"
    return f"{name} ({parent})"
