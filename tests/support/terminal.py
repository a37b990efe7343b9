"""Runs a command on a real terminal (a pty) and types answers when its questions appear."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Ended:
    """What stood on the terminal, and the exit code."""

    shown: str
    exit_code: int


def on_terminal(
    argv: Sequence[str],
    answers: Sequence[tuple[str, str]],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Runs `argv`; each (question, answer) is typed once the question was shown, in order."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        argv, stdin=follower, stdout=follower, stderr=follower, cwd=cwd, env={**os.environ, **(env or {})},
        start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    shown, at, left = "", 0, list(answers)
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            if left and left[0][0] in shown[at:]:
                at = shown.index(left[0][0], at) + len(left[0][0])
                os.write(leader, f"{left.pop(0)[1]}\n".encode())
            if not select.select([leader], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other side is closed: the command ended
                break
            if not piece:
                break
            shown += piece.decode(errors="replace").replace("\r\n", "\n")
        else:
            raise AssertionError(f"still running after {DEADLINE_S} s; shown:\n{shown}")
        return Ended(shown, child.wait(timeout=10))
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        os.close(leader)
