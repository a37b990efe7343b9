"""Lists of module patterns in quantization files, asked of module names. Each writer means something else by an entry.

* compressed-tensors `targets`, `ignore`: the exact name, `re:` plus a pattern anchored at its start, or a class name;
* ModelOpt `exclude_modules`, `ignore`: a glob over the name, or over one of the modules around it;
* transformers `modules_to_not_convert`, bitsandbytes skip lists: part of the name, on component borders;
* Quark `exclude`: the exact name, `re:` plus a pattern, or a glob.

Patterns are outside text. They run in RE2, whose time grows with the length of the name alone; what RE2 does not know
(look-around, back references) is kept as `unread`: an entry that nobody can say anything about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

import re2

Style = Literal["compressed-tensors", "glob", "part", "quark"]

MAX_ENTRIES: Final = 20_000  # 712 is the longest list seen in a published config
_MAX_LENGTH: Final = 400
MAX_PATTERNS: Final = 200  # written patterns of one declaration; published ones have at most 20
_MEMORY: Final = 32 << 20  # bytes for one compiled pattern or block of globs
_BLOCK: Final = 200  # globs compiled together; written patterns run one by one, for a set that runs out of memory says "no"
_CLASS: Final = re.compile(r"^[A-Z][A-Za-z0-9]*$")  # Linear, Embedding: torch classes, never module names
_WILD: Final = re.compile(r"[*?\[]")
# What one layer of an engine is made of, where the engine fuses: SGLang 0.5.23, `packed_modules_mapping` and the DeepSeek
# models' own fusings. Asked under these names, an entry that was written for the parts may match nothing.
FUSED: Final[dict[str, tuple[str, ...]]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj_with_mqa": ("q_a_proj", "kv_a_proj_with_mqa"),
    "wqkv_a": ("wq_a", "wkv"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_b", "in_proj_a"),
}


@dataclass
class _Rules:
    """A list in the forms it is asked in: plain names, written patterns, blocks of globs, what cannot be asked."""

    names: dict[str, list[int]] = field(default_factory=dict)
    patterns: list[tuple[int, re2._Regexp]] = field(default_factory=list)
    globs: list[tuple[list[int], re2.Set]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def covered(module: str, patterns: Iterable[str], *, style: Style) -> bool:
    """Whether any of the patterns covers the module."""
    return Patterns(patterns, style=style).covers(module)


class Patterns:
    """A list of entries as one writer means them. `entries` are bounded in number and length; `unread` cannot be asked.

    `patterns`: how many written patterns are asked at most, the others are unread.
    """

    def __init__(self, entries: Iterable[object], *, style: Style, patterns: int = MAX_PATTERNS) -> None:
        kept: list[str] = []
        for entry in entries:
            if len(kept) >= MAX_ENTRIES:
                break
            kept.append(_clean(entry))
        self.entries: tuple[str, ...] = tuple(kept)
        self.style: Style = style
        self._allowed = patterns

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def classes(self) -> frozenset[str]:
        """Entries that name a class of layers instead of modules."""
        if self.style != "compressed-tensors":
            return frozenset()
        return frozenset(entry for entry in self.entries if _CLASS.match(entry))

    @property
    def unread(self) -> tuple[str, ...]:
        """Entries that RE2 does not accept or that are too long: what they cover is not known."""
        return tuple(self._compiled.unread)

    @property
    def written(self) -> int:
        """How many written patterns it asks."""
        return len(self._compiled.patterns)

    def covers(self, module: str) -> bool:
        """Whether an entry covers the module; a class of layers covers none by name."""
        return bool(self.hits(module))

    def hits(self, module: str) -> set[int]:
        """Numbers of the entries that cover the module."""
        rules, name = self._compiled, _clean(module)
        found = {n for part in self._parts(name) for n in rules.names.get(part, ())}
        found.update(n for n, pattern in rules.patterns if pattern.match(name) is not None)
        for numbers, globs in rules.globs:
            found.update(numbers[n] for n in globs.Match(name) or ())
        return found

    def _parts(self, name: str) -> Iterable[str]:
        """The names under which a plain entry may mean this module."""
        if self.style in ("compressed-tensors", "quark"):
            return (name,)
        parts = name.split(".")[:24]
        return {".".join(parts[a:b]) for a in range(len(parts)) for b in range(a + 1, len(parts) + 1)}

    @cached_property
    def _compiled(self) -> _Rules:
        rules, globs = _Rules(), []
        for number, entry in enumerate(self.entries):
            pattern = self._pattern(entry)
            if pattern is None:
                plain = entry.strip(".") if self.style == "part" else entry
                rules.names.setdefault(plain, []).append(number)
            elif not entry.startswith("re:"):
                globs.append((number, pattern))
            elif len(rules.patterns) < self._allowed and (compiled := _accepted(pattern)) is not None:
                rules.patterns.append((number, compiled))
            else:
                rules.unread.append(entry)
        rules.names.pop("", None)
        rules.globs = [_set(globs[at : at + _BLOCK]) for at in range(0, len(globs), _BLOCK)]
        return rules

    def _pattern(self, entry: str) -> str | None:
        """The entry as a pattern anchored at the start of the name; None where it is a plain name."""
        if self.style in ("compressed-tensors", "quark") and entry.startswith("re:"):
            return f"(?:{entry[3:]})"
        if self.style == "compressed-tensors" or not _WILD.search(entry):
            return None
        if self.style == "quark":
            return f"{_glob(entry)}$"
        inner = _glob(entry.strip("."))
        return rf"(?:.*\.)?{inner}(?:\..*)?$"


def _clean(entry: object) -> str:
    """Text of at most 400 characters that can be encoded (JSON may carry half a surrogate pair)."""
    return str(entry)[:_MAX_LENGTH].encode("utf-8", "replace").decode()


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    return options


def _accepted(pattern: str) -> re2._Regexp | None:
    try:
        return re2.compile(pattern, _options())
    except re2.error:
        return None


def _set(block: list[tuple[int, str]]) -> tuple[list[int], re2.Set]:
    compiled = re2.Set.MatchSet(_options())
    for _, pattern in block:
        compiled.Add(pattern)
    compiled.Compile()
    return [number for number, _ in block], compiled


def _glob(entry: str) -> str:
    """A shell glob as a pattern: `*` crosses dots, as fnmatch's does."""
    out = []
    for part in re.split(r"(\*+|\?)", entry):
        out.append(".*" if part.startswith("*") else "." if part == "?" else re.escape(part))
    return "".join(out)


def fused(module: str) -> tuple[str, tuple[str, ...]] | None:
    """(the engine's name of the layer this module becomes a part of, all its parts); None where it stays alone."""
    head, dot, leaf = module.rpartition(".")
    for name, parts in FUSED.items():
        if leaf in parts:
            return f"{head}{dot}{name}", tuple(f"{head}{dot}{part}" for part in parts)
    return None
