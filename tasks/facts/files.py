"""Which version of a file or folder on a host is there: by the time of its last change and its size.

Other facts hold while it stays the same: a unit file that is edited, a package that is installed (its folder changes).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from recon.agent.api import Draft, Fact, Raw

_FORMAT: Final = "%n %Y %s"
_LINE: Final = re.compile(r"^(/.*) (\d{1,12}) (\d{1,20})$", re.DOTALL)

UNIT_FILE: Final = "unit_file"  # of the running service
ENGINE_FILES: Final = "engine_files"  # the folder that the engine's packages lie in


def stat_argv(path: str) -> tuple[str, ...]:
    """Asks when a file or folder was changed; links are followed."""
    return ("stat", "-L", "-c", _FORMAT, "--", path)


def identity_fact(name: str) -> Fact:
    """`name`: {path, stamp}, the stamp being the time of the last change (UTC, seconds) and the size in bytes."""
    return Fact(f"file.{name}", lambda raw: [parse(raw, name)])


def parse(raw: Raw, name: str) -> Draft:
    """The finding of one `stat`; absent where there is no such file, unknown with the reason where stat did not say."""
    text = raw.stdout.decode("utf-8", errors="replace").rstrip("\n")
    match = _LINE.match(text) if raw.state == "ok" else None
    if match is None:
        said = (raw.stderr or raw.stdout).decode("utf-8", errors="replace")
        gone = raw.state == "failed" and "No such file" in said
        reason = "there is no such file" if gone else raw.reason or "stat printed something else"
        return Draft(name=name, outcome="absent" if gone else "unknown", reason=reason)
    at = datetime.fromtimestamp(int(match[2]), UTC)
    stamp = f"{at:%Y-%m-%d %H:%M:%S} UTC, {match[3]} bytes"
    return Draft(name=name, value={"path": match[1], "stamp": stamp}, locator="stat")
