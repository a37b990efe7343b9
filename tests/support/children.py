"""Python code in a process of its own, with recon and the helpers here importable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import recon
from recon.agent.model.errors import ReconError

_PATHS = (Path(recon.__file__).parents[1], Path(__file__).parents[1])


def child(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts `python -c code arguments`; the caller waits for it or kills it."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _PATHS))}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip


def output_of(code: str, *arguments: str) -> str:
    """What `python -c code arguments` prints. Fails the test where it does not end well within a minute."""
    process = child(code, *arguments)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def as_nobody(action: Callable[[], str]) -> str:
    """Calls `action` in a forked process without root's rights; what it returns or the text of what it raises."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "died"
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            said = action()
        except (ReconError, OSError) as error:
            said = f"{type(error).__name__}: {error}"
        finally:  # whatever happens, this copy of the test run ends here
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said
