"""The real argument parser of SGLang, in one process, against `recon lint` on every flag. Opt-in: it needs SGLang installed.

RECON_SGLANG_PYTHON names an interpreter that can import sglang (no GPU is needed); without it the test is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib import metadata

import pytest

from recon.tasks.knowledge.flag_table import FlagTable, Span, flag_table
from recon.tasks.lint.arguments import read

PYTHON = os.environ.get("RECON_SGLANG_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="RECON_SGLANG_PYTHON names no interpreter with SGLang")

_PARSER = """
import argparse, contextlib, io, json, sys
import sglang.version
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
out = sys.stdout
print(json.dumps({"version": sglang.version.__version__}), file=out, flush=True)
for line in sys.stdin:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(json.loads(line))
        print(json.dumps(None), file=out, flush=True)
    except (SystemExit, Exception) as error:
        print(json.dumps(said.getvalue().strip().splitlines()[-1:] or [repr(error)]), file=out, flush=True)
"""


def good(span: Span) -> list[str]:
    """Words that the flag takes."""
    if span.nargs == 0:
        return []
    if span.choices:
        return [next(c for c in span.choices if c != "None")]
    return [{"int": "1", "float": "0.5", "json": "[1]", "size": "2k"}.get(span.type, "word")]


def lines(table: FlagTable, release: str) -> Iterator[list[str]]:
    """Command lines: each flag with a good value, none, a bad choice or type, `=`, an abbreviation, two values."""
    model = ["--model-path", "/m"]
    options = table.options(release)
    for option, span in sorted(options.items()):
        base = [] if span.name == "--model-path" else model
        yield [*base, option, *good(span)]
        yield [*base, option]
        yield [*base, f"{option}={(good(span) or ['x'])[0]}"]
        if span.choices:
            yield [*base, option, "no-such-choice"]
        elif span.type in ("int", "float", "json", "size"):
            yield [*base, option, "four"]
        if span.nargs in (0, 1):
            yield [*base, option, *good(span), "extra"]
        if len(option) > 6:
            yield [*base, option[:-1], *good(span)]
            yield [*base, option[: len(option) // 2 + 2], *good(span)]
        yield [*base, f"{option}x", *good(span)]
    for name in ("--gpu-memory-utilization", "--stream-output", "--nsa-prefill-backend"):
        yield [*model, name, "1"]


def written_down(arguments: list[str], options: dict[str, Span], theirs: list[str]) -> bool:
    """Whether what was refused stands in the text of the program: choices that it computes, and words with a syntax of
    their own, do not."""
    name = next(a for a in reversed(arguments) if a.startswith("--")).partition("=")[0]
    spans = {s.name: s for option, s in options.items() if option == name or option.startswith(name)}
    computed = all(s.choices is None and "invalid choice" in str(theirs) for s in spans.values())
    return not (computed or all(s.type == "any" for s in spans.values()))


def test_lint_and_the_real_parser_agree(capsys: pytest.CaptureFixture[str]) -> None:
    process = subprocess.Popen(
        [PYTHON, "-c", _PARSER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    head = json.loads(process.stdout.readline())
    table = flag_table()
    release = table.release_for(head["version"])
    assert release == head["version"].removesuffix("+cpu"), "the table does not know this release"
    asked = list(lines(table, release))
    counts: Counter[str] = Counter()
    differ = []
    try:
        for arguments in asked:
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
            theirs = json.loads(process.stdout.readline())
            ours = [n.text for n in read(arguments, table, release).notes if n.severity == "error"]
            counts[
                "refused by both"
                if theirs and ours
                else "taken by both"
                if not theirs and not ours
                else "differ"
            ] += 1
            if theirs and not ours and not written_down(arguments, table.options(release), theirs):
                counts["refused for what the program computes"] += 1
                counts["differ"] -= 1
            elif bool(theirs) != bool(ours):
                differ.append((arguments, theirs, ours))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=30)
    with capsys.disabled():
        print(
            f"\nSGLang {release}: {len(asked)} command lines, {dict(counts)} (recon {metadata.version('recon-runner')})"
        )
    assert len(asked) >= 500
    assert differ == [], differ[:10]
