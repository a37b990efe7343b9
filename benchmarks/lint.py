"""What one lint costs, start-up included, against the real argument parser of SGLang, in one run.

    python benchmarks/lint.py                       recon alone
    python benchmarks/lint.py --python PATH         and the parser of the SGLang that this other interpreter has
    python benchmarks/lint.py --check               exit 1 where the target is missed

CPU seconds of whole processes (user and system), the smallest of the repeats, since other load only ever adds.
"""

from __future__ import annotations

import resource
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Final

MOST_S: Final = 0.3
LINE: Final = shlex.split(
    "python -m sglang.launch_server --model-path /m --tp-size 4 --trust-remote-code --disaggregation-mode prefill "
    "--disaggregation-transfer-backend mooncake_tcp --moe-runner-backend marlin --mem-fraction-static 0.7 --numa-node 0 0 0 0 "
    "--speculative-algorithm EAGLE --kv-cache-dtype fp8_e4m3"
)
_PARSER: Final = """
import argparse, sys
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
parser.parse_args(sys.argv[1:])
"""


def cpu_seconds(argv: list[str], *, repeats: int) -> float:
    """The smallest CPU time of a process. Raises CalledProcessError where it fails."""
    best = float("inf")
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def main() -> int:
    """Prints the table; 1 where a target is missed and --check is given."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", help="an interpreter that can import sglang")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    recon = str(Path(sys.executable).with_name("recon"))
    rows = [
        (
            "recon lint",
            cpu_seconds([recon, "lint", "--gpu", "rtx-pro-6000", "--", *LINE], repeats=asked.repeats),
        )
    ]
    rows.append(("an empty Python", cpu_seconds([sys.executable, "-c", ""], repeats=asked.repeats)))
    if asked.python:
        argv = [asked.python, "-c", _PARSER, *LINE[3:]]
        rows.append(("the real parser", cpu_seconds(argv, repeats=2)))
    for name, seconds in rows:
        print(f"{name:<18}{seconds:>8.2f} s CPU{seconds / rows[0][1]:>9.1f}x")
    return int(asked.check and rows[0][1] > MOST_S)


if __name__ == "__main__":
    sys.exit(main())
