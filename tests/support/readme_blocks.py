"""The marked blocks of README.md: found, run and compared by tests, and written anew by `make readme`.

A mark is an HTML comment on the line before a fenced block: `<!-- shown: recon run -->` is the output of that command,
`<!-- tour -->` a list of commands with the exit code each must have, `<!-- command: NAME -->` a line that others run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
WIDTH = 80

_BLOCK = re.compile(
    r"^<!-- (?P<mark>[^>]*) -->\n```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_STEP = re.compile(r"^(?P<command>recon .*?)\s+# exit (?P<code>\d+)\b.*$")
# What differs from run to run although the evidence is the same: how long it took.
_DURATION = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s)\b")


@dataclass(frozen=True)
class Block:
    """A marked block; `start` and `end` bound its body in the text."""

    mark: str
    body: str
    start: int
    end: int


@dataclass(frozen=True)
class TourStep:
    """One command of the tour and the exit code that the README promises."""

    argv: tuple[str, ...]
    exit_code: int


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str


def blocks(text: str) -> list[Block]:
    """Every marked block in the order of the text."""
    return [
        Block(mark=m["mark"].strip(), body=m["body"], start=m.start("body"), end=m.end("body"))
        for m in _BLOCK.finditer(text)
    ]


def block(text: str, mark: str) -> Block:
    """The block with this mark. Raises LookupError where the text has none, or several."""
    found = [b for b in blocks(text) if b.mark == mark]
    if len(found) != 1:
        raise LookupError(f"{len(found)} blocks are marked {mark!r}")
    return found[0]


def tour(text: str) -> list[TourStep]:
    """The commands of the tour. Raises ValueError for a line that names no exit code."""
    steps = []
    for line in block(text, "tour").body.splitlines():
        match = _STEP.match(line)
        if match is None:
            raise ValueError(f"not a step with an exit code: {line!r}")
        steps.append(TourStep(argv=tuple(shlex.split(match["command"])), exit_code=int(match["code"])))
    return steps


def run(argv: tuple[str, ...], *, cwd: Path, timeout_s: float = 120) -> Ended:
    """Runs `recon ...` in `cwd` as a person would, 80 columns wide, with nothing of the caller's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    environment = {**kept, "HOME": str(cwd), "COLUMNS": str(WIDTH), "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "recon", *argv[1:]], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    return Ended(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def comparable(output: str) -> str:
    """The output without what differs from run to run."""
    return "\n".join(_DURATION.sub("… s", line.rstrip()) for line in output.strip().splitlines())


def with_real_output(text: str, *, cwd: Path) -> str:
    """The text with the real output in every `shown:` block."""
    for found in reversed(blocks(text)):
        if not found.mark.startswith("shown: "):
            continue
        ended = run(tuple(shlex.split(found.mark.removeprefix("shown: "))), cwd=cwd)
        text = text[: found.start] + ended.stdout.strip("\n") + "\n" + text[found.end :]
    return text


def _main() -> int:
    from tempfile import TemporaryDirectory

    if sys.argv[1:] != ["--write"]:
        print("usage: readme_blocks.py --write", file=sys.stderr)
        return 2
    with TemporaryDirectory() as folder:
        README.write_text(with_real_output(README.read_text(), cwd=Path(folder)))
    return 0


if __name__ == "__main__":
    raise SystemExit(_main())
