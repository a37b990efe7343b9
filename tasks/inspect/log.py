"""`recon inspect log FILE|-`: reads its arguments, prints what an engine's log says."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recon.tasks.logs.reader import Log, clean, read_log

_WIDTH = 80


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns 0, also for a log of a failure. Raises ValueError for a file that cannot be read."""
    parser = argparse.ArgumentParser(
        prog="recon inspect log", description="What an engine's log says: the cause of a failure, memory, backends, silent corruption.",
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE|-", help="a log of SGLang, or - for standard input")
    parser.add_argument("--format", "-f", choices=("text", "json"), default="text")
    try:
        asked = parser.parse_args(list(arguments))
    except SystemExit as ended:
        return int(ended.code or 0)
    document = _read(asked.file).document()
    out = json.dumps(document, indent=1) if asked.format == "json" else "\n".join(text(document))
    sys.stdout.write(out + "\n")
    return 0


def _read(name: str) -> Log:
    if name == "-":
        return read_log(sys.stdin)
    try:
        with open(name, encoding="utf-8", errors="replace") as lines:
            return read_log(lines)
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror or error}") from None


def text(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for people, at most 80 columns."""
    yield _verdict(document)
    for cause in document["causes"]:
        yield from _wrap(cause["cause"], first="✗ ", rest="  ")
        yield from _wrap(f"line {cause['line']}: {clean(cause['evidence'])}", first="    ", rest="    ")
        yield from _wrap(f"remedy: {cause['remedy']}", first="    ", rest="    ")
    for finding in document["findings"]:
        where = f" (line {finding['line']})" if finding["line"] else ""
        yield from _wrap(f"{finding['text']}{where}", first="! ", rest="  ")
    observed = document["observed"]
    rows = (
        ("weights on a rank", observed["weights_mem_gb_per_rank"], "GiB"), ("KV cache of a rank", observed["kv_gb"], "GiB"),
        ("tokens in it", observed["kv_tokens"], ""), ("CUDA graphs", observed["cuda_graph_gb"], "GiB"),
        ("free after all", observed["avail_mem_after_gb"], "GiB"),
    )  # fmt: skip
    for name, value, unit in rows:
        if value is not None:
            yield f"  {name:<20} {value:,} {unit}".rstrip()
    backends = observed["chosen_backends"]
    if backends:
        yield from _wrap(
            ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in backends.items()),
            first=f"  {'backends':<20} ",
            rest=" " * 23,
        )


def _verdict(document: Mapping[str, Any]) -> str:
    if document["causes"]:
        return "FAILED" if not document["ready"] else "FAILED, though it said that it was ready"
    if not document["healthy"]:
        return "NOT USABLE, though nothing failed"
    return (
        "healthy: ready, no sign of trouble"
        if document["ready"]
        else "no sign of trouble; the log does not come to ready"
    )


def _wrap(words: str, *, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        words, width=_WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
