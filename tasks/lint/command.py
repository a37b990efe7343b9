"""The command `recon lint`: reads its arguments, prints what was found."""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from recon.tasks.lint.checkpoint import Checkpoint, read_checkpoint
from recon.tasks.lint.lines import Launch, launch_of, launches_in
from recon.tasks.lint.lint import Against, Linted, lint
from recon.tasks.lint.notes import Note

_EPILOG: Final = """\
examples:
  recon lint -- python -m sglang.launch_server --model-path /m --tp-size 4
  recon lint --engine-version 0.5.11 --gpu rtx-pro-6000 --model /models/m -- sglang serve --model-path /models/m
  systemctl cat sglang | recon lint -

Exit codes: 0 clean (warnings allowed), 1 errors, 2 usage.
"""
# Names of cards and their generation, as people write them.
GPUS: Final[dict[str, str]] = {
    "a100": "sm_80", "a800": "sm_80", "a10": "sm_86", "a40": "sm_86", "rtx3090": "sm_86", "l4": "sm_89", "l20": "sm_89", "l40": "sm_89",
    "l40s": "sm_89", "rtx4090": "sm_89", "rtx6000ada": "sm_89", "h20": "sm_90", "h100": "sm_90", "h200": "sm_90", "h800": "sm_90",
    "gh200": "sm_90", "b100": "sm_100", "b200": "sm_100", "gb200": "sm_100", "b300": "sm_103", "gb300": "sm_103", "rtxpro6000": "sm_120",
    "rtxpro5000": "sm_120", "rtx5090": "sm_120", "rtx5080": "sm_120", "gb10": "sm_121",
}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns its exit code. Raises ValueError, in words, for what it cannot read."""
    own, words = _split(list(arguments))
    try:
        asked = _parser().parse_args(own)
    except SystemExit as ended:
        return int(ended.code or 0)
    launches = _launches(words)
    if not launches:
        raise ValueError(
            "there is no launch line: python -m sglang.launch_server ..., sglang serve ..., or a router's"
        )
    against = Against(
        version=asked.engine_version or "", sm=_generation(asked.gpu), rdma={"yes": True, "no": False}.get(asked.rdma or ""),
        checkpoint=_checkpoint(asked.model),
    )  # fmt: skip
    linted = lint(launches, against)
    lines = (
        [json.dumps(_document(linted), indent=1)] if asked.format == "json" else list(_text(linted, against))
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if any(one.errors for one in linted) else 0


def _checkpoint(named: str | None) -> Checkpoint | None:
    if not named:
        return None
    if Path(named).is_dir() or not _REPO.match(named):
        return read_checkpoint(Path(named))
    from recon.tasks.lint.hub import fetch_checkpoint

    return fetch_checkpoint(named)


_REPO: Final = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}$")


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """(lint's own options, the words of the launch line): what comes after `--`, or from the first plain word on."""
    if "--" in arguments:
        at = arguments.index("--")
        return arguments[:at], arguments[at + 1 :]
    skip = False
    for i, word in enumerate(arguments):
        if skip:
            skip = False
        elif word.startswith("--") and "=" not in word and word in _TAKES_VALUE:
            skip = True
        elif word == "-" or not word.startswith("-"):
            return arguments[:i], arguments[i:]
    return arguments, []


_TAKES_VALUE: Final = frozenset({"--engine-version", "--gpu", "--model", "--rdma", "--format"})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="recon lint", description="Check launch lines of SGLang against a release, before anything is stopped for them.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument(
        "--engine-version", metavar="V", help="the release (default: the newest that is known)"
    )
    parser.add_argument("--gpu", metavar="GPU", help="rtx-pro-6000, h200, b200 ... or sm_120")
    parser.add_argument(
        "--model", metavar="REPO|DIR", help="the checkpoint: its config.json and index are read"
    )
    parser.add_argument("--rdma", choices=("yes", "no"), help="whether the host has an RDMA device")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    return parser


def _launches(words: list[str]) -> list[Launch]:
    if words == ["-"]:
        return launches_in(sys.stdin.read())
    if len(words) == 1 and " " in words[0]:
        return launches_in(words[0])
    one = launch_of(words)
    return [one] if one is not None else []


def _generation(gpu: str | None) -> str:
    if not gpu:
        return ""
    word = gpu.lower().replace("nvidia", "").replace("geforce", "").translate({ord(c): None for c in " -_."})
    if word.startswith("sm") and word[2:].rstrip("af").isdigit():
        return f"sm_{word[2:].rstrip('af')}"
    if word not in GPUS:
        raise ValueError(f"{gpu!r} is no GPU that is known; write its generation: sm_90, sm_100, sm_120 ...")
    return GPUS[word]


# ---- what people read


def _text(linted: Sequence[Linted], against: Against) -> Iterator[str]:
    for one in linted:
        yield f"{one.launch.kind}, line {one.launch.at}" if len(linted) > 1 else one.launch.kind
        yield f"  held against {'SGLang' if one.launch.kind == 'server' else 'sglang-router'} {_release(one, against)}"
        for note in one.notes:
            yield from _note(one.launch, note)
    errors = sum(one.errors for one in linted)
    warnings = sum(len(one.notes) - one.errors for one in linted)
    yield f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"


def _release(one: Linted, against: Against) -> str:
    if one.launch.kind == "router" or not against.version or against.version == one.release:
        return one.release
    return f"{one.release}, the last one read up to {against.version}"


_WIDTH: Final = 72
_BEFORE: Final = 30


def _note(launch: Launch, note: Note) -> Iterator[str]:
    mark = "✗ error  " if note.severity == "error" else "! warning"
    yield from textwrap.wrap(
        clean(note.text),
        width=78,
        initial_indent=f"  {mark} ",
        subsequent_indent=" " * 12,
        break_on_hyphens=False,
    )
    if note.argument is not None:
        column, width = launch.column(note.argument)
        begin = max(0, column - _BEFORE)
        shown = clean(launch.shown)[begin : begin + _WIDTH]
        yield f"      {'…' if begin else ''}{shown}"
        pad = column - begin + (1 if begin else 0)
        yield f"      {' ' * pad}{'^' * max(1, min(width, _WIDTH - pad))}"
    if note.instead:
        yield f"      instead: {clean(note.instead)}"


def clean(text: str) -> str:
    """Outside text as printable text on one line; every character keeps its column."""
    return "".join(c if c.isprintable() else " " for c in text)


# ---- what programs read


def _document(linted: Sequence[Linted]) -> dict[str, Any]:
    return {
        "schema": "recon.lint/1",
        "errors": sum(one.errors for one in linted),
        "launches": [
            {
                "kind": one.launch.kind, "line": one.launch.at, "release": one.release, "command": one.launch.shown,
                "notes": [
                    {
                        "severity": n.severity, "code": n.code, "text": n.text, "argument": n.argument,
                        "word": None if n.argument is None else one.launch.arguments[n.argument], "instead": n.instead, "source": n.source,
                    }
                    for n in one.notes
                ],
            }
            for one in linted
        ],
    }  # fmt: skip
