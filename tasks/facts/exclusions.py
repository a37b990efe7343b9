"""Whether a list of module patterns in a quantization file covers a module. Each writer means something else by them.

* compressed-tensors `targets`, `ignore`: the exact name, `re:` plus a pattern anchored at the start, or a class name;
* ModelOpt `exclude_modules`, `ignore`: a glob;
* transformers `modules_to_not_convert`, bitsandbytes skip lists: part of the name, on component borders.

Patterns are outside text: they are length-bound, and regular expressions are translated only from a harmless subset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

Style = Literal["compressed-tensors", "glob", "part"]

_MAX_PATTERN = 300
# A quantified group is what makes backtracking explode; published patterns need none.
_NESTED = re.compile(r"\)[*+{]")


def covered(module: str, patterns: Iterable[str], *, style: Style) -> bool:
    """Whether any of the patterns covers the module."""
    return any(_covers(module, str(pattern)[:_MAX_PATTERN], style) for pattern in patterns)


def _covers(module: str, pattern: str, style: Style) -> bool:
    if style == "compressed-tensors":
        if pattern.startswith("re:"):
            compiled = _compile(pattern[3:])
            return compiled is not None and compiled.match(module[:_MAX_PATTERN]) is not None
        return module == pattern or pattern == "Linear"
    if style == "glob":
        return fnmatchcase(module, pattern) or fnmatchcase(module, f"*.{pattern}")
    return _has_part(module, pattern.strip("."))


@lru_cache(maxsize=512)
def _compile(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > _MAX_PATTERN or _NESTED.search(pattern) or pattern.count("*") > 6:
        return None
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _has_part(module: str, part: str) -> bool:
    if not part:
        return False
    if "*" in part:
        return fnmatchcase(module, part) or fnmatchcase(module, f"*{part}*")
    return f".{part}." in f".{module}."
