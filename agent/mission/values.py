"""Values that people give with an option: read strictly, so that nothing else can become part of a command. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from recon.agent.model.errors import UsageError

_LONGEST: Final = 4096
_SHOWN: Final = 80  # characters of a refused value that are quoted
# What git takes as a name of a branch, tag or commit, less everything that needs quoting; never an option.
_REF: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,98}[A-Za-z0-9_])?")
_PULL: Final = re.compile(
    r"#?(?P<number>[1-9][0-9]{0,6})|https://github\.com/(?P<of>[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,64})/pull/(?P<n>[1-9][0-9]{0,6})/?"
)
_MOST_PULLS: Final = 20
ENGINE_REPOSITORY: Final = "sgl-project/sglang"  # numbers without an address are pull requests of this one


def git_ref(text: str) -> str:
    """A branch, tag or commit, as given. Raises UsageError where it is none."""
    ref = text.strip()
    if not _REF.fullmatch(ref) or ".." in ref or "//" in ref or ref.endswith(".lock"):
        raise UsageError(
            f"{_quoted(text)} is no name of a branch, tag or commit", hint="a tag as v0.5.20, or a commit"
        )
    return ref


def pull_numbers(text: str) -> tuple[int, ...]:
    """Pull request numbers in the order given, each once: `12`, `#12`, or addresses, set apart by commas or spaces.

    Raises UsageError for anything else, and for the address of another repository than the engine's.
    """
    words = [word for word in re.split(r"[\s,]+", text.strip()) if word]
    found = [_pull(word) for word in words]
    if not found or len(set(found)) > _MOST_PULLS:
        raise UsageError(f"{len(found)} pull requests are given, 1 to {_MOST_PULLS} can be", hint=_PULLS_HINT)
    return tuple(dict.fromkeys(found))


_PULLS_HINT: Final = f"numbers as 123,456, or https://github.com/{ENGINE_REPOSITORY}/pull/123"


def _pull(word: str) -> int:
    match = _PULL.fullmatch(word)
    if match is None:
        raise UsageError(f"{_quoted(word)} is no number or address of a pull request", hint=_PULLS_HINT)
    if match["of"] and match["of"].lower() != ENGINE_REPOSITORY:
        raise UsageError(f"{_quoted(word)} is a pull request of another repository", hint=_PULLS_HINT)
    return int(match["number"] or match["n"])


def check_value(kind: str, text: str) -> None:
    """Raises UsageError where a value is not of its kind (`ref`, `prs`), or is no single line of text."""
    if not text.isprintable() or len(text) > _LONGEST:
        raise UsageError(f"{_quoted(text)} is no single line of text")
    if kind in _KINDS:
        _KINDS[kind](text)


_KINDS: Final[Mapping[str, Callable[[str], object]]] = {"ref": git_ref, "prs": pull_numbers}


def _quoted(text: str) -> str:
    return repr(text[:_SHOWN])
