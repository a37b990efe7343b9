"""An exclusion list against the modules that are there: entries that match nothing, and modules that are the other way round.

An entry is asked under the names of the file and under those of the layers that an engine fuses (`qkv_proj`,
`gate_up_proj`, `wqkv_a`): a list may fit the file and miss the engine.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from recon.agent.api import Draft, Fact, Json, Level, Raw
from recon.tasks.facts.card import clean_line
from recon.tasks.facts.config import read_object
from recon.tasks.facts.declared import statements_of
from recon.tasks.facts.exclusions import Patterns, fused
from recon.tasks.facts.index_names import SMALL, family
from recon.tasks.facts.schemes import PLAIN, UNKNOWN
from recon.tasks.facts.statements import COVERED, Statement
from recon.tasks.facts.tensor_rules import template_of

PLAIN_FORMATS: Final = frozenset({"bf16", "fp16", "fp32", "plain"})
_LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,4})(?=[.*]|$)")
_EXPERT: Final = re.compile(r"(\bexperts\.)\d+")
_MOST: Final = 20_000  # modules asked, an expert for all of its layer; published models have 2,000
_ROWS: Final = 40  # templates a finding lists; a model has about as many


@dataclass(frozen=True)
class Module:
    """One module of a checkpoint: its component, its format ("" where it holds no matrix, `quantized` where only names were
    read), and the suffixes of its tensors."""

    name: str
    component: str
    format: str
    suffixes: tuple[str, ...] = ("weight",)


def list_fact(path: str) -> Fact:
    """The fact that reads the exclusion list of one file again, beside the tensor names: `exclusion_list` {entries, first}."""

    def parse(raw: Raw) -> list[Draft]:
        made = statements_of({path: read_object(raw)})
        entries = made[0].skipped.entries if made else ()
        return [Draft(name="exclusion_list", value={"entries": len(entries), "first": [clean_line(entry)[:200] for entry in entries[:5]]}, level="declared", locator=path)]  # fmt: skip

    return Fact(id="checkpoint.exclusion_list", parse=parse)


def named_modules(modules: Mapping[str, frozenset[str]], components: Mapping[str, str]) -> list[Module]:
    """Modules of names alone: plain or quantized is what suffixes tell."""
    found = []
    for name, suffixes in modules.items():
        fits = family(suffixes)
        fmt = "" if not fits or SMALL.search(name) else "plain" if fits == ("plain",) else "quantized"
        found.append(Module(name, components[name], fmt, tuple(sorted(suffixes))))
    return found


def exclusion_draft(
    statement: Statement, modules: Iterable[Module], *, layers: int | None, level: Level
) -> Draft:  # fmt: skip
    """`exclusions` {entries, dead, beyond, unread, covers, ...} of the list that engines believe.

    `dead`: entries that match no module and no tensor; `beyond`: how many more name layers after the last one. `covers`:
    modules per component. `excluded_but_quantized`, `plain_but_covered`: template -> count. `fused`: template of an
    engine's layer -> what its parts and what its own name are told.
    """
    every = list(modules)
    one = _collapsed(every)
    alive, covers = _alive(statement.skipped, every, one)
    dead = [entry for n, entry in enumerate(statement.skipped.entries) if n not in alive]
    beyond = [entry for entry in dead if _beyond(entry, layers)]
    odd = [entry for entry in dead if entry not in set(beyond)]
    value: dict[str, Json] = {
        "source": statement.source, "entries": len(statement.skipped.entries), "dead": [clean_line(entry)[:200] for entry in odd[:200]], "dead_count": len(odd),
        "beyond": len(beyond), "unread": [clean_line(entry)[:200] for entry in statement.skipped.unread[:20]], "covers": covers, **_the_other_way(statement, one),
        "fused": _fused(statement, one),
    }  # fmt: skip
    return Draft(
        name="exclusions", value=value, level=level, locator=f"{statement.source} against tensor names"
    )


def _collapsed(modules: Iterable[Module]) -> list[tuple[Module, int]]:
    """One expert of every layer stands for all of them: (module, how many)."""
    first: dict[str, Module] = {}
    counts: Counter[str] = Counter()
    for module in modules:
        key = _EXPERT.sub(r"\1#", module.name)
        first.setdefault(key, module)
        counts[key] += 1
    return [(module, counts[key]) for key, module in list(first.items())[:_MOST]]


def _alive(
    skipped: Patterns, every: list[Module], one: list[tuple[Module, int]]
) -> tuple[set[int], dict[str, int]]:
    """(numbers of the entries that match something, modules covered by component)."""
    alive = {n for n, e in enumerate(skipped.entries) if e in skipped.classes or e in skipped.unread}
    covers: Counter[str] = Counter()
    if not skipped:
        return alive, {}
    for module, count in one:
        hits = skipped.hits(module.name)
        alive |= hits
        if hits:
            covers[module.component] += count
    rest = [n for n in range(len(skipped.entries)) if n not in alive]
    alive |= _found(skipped, rest, (f"{m.name}.{suffix}" for m, _ in one for suffix in m.suffixes))
    single = [n for n in rest if n not in alive and re.search(r"experts\D{1,3}\d", skipped.entries[n])]
    alive |= _found(skipped, single, (m.name for m in every if m.component in ("routed_experts", "mtp")))
    return alive, dict(sorted(covers.items()))


def _found(skipped: Patterns, numbers: list[int], names: Iterable[str]) -> set[int]:
    """Which of these entries match one of the names."""
    if not numbers:
        return set()
    rest = Patterns([skipped.entries[n] for n in numbers], style=skipped.style)
    return {numbers[hit] for name in names for hit in rest.hits(name)}


def _beyond(entry: str, layers: int | None) -> bool:
    numbers = [int(n) for n in _LAYER.findall(entry)]
    return layers is not None and bool(numbers) and min(numbers) >= layers


def _the_other_way(statement: Statement, one: list[tuple[Module, int]]) -> dict[str, Json]:
    """Modules that are excluded and quantized, or covered and plain, by template."""
    excluded: Counter[str] = Counter()
    plain: Counter[str] = Counter()
    for module, count in one:
        if not module.format or module.format == "unknown":
            continue
        quantized = module.format not in PLAIN_FORMATS
        if quantized and not statement.hybrid and statement.skipped.covers(module.name):
            excluded[template_of(module.name)] += count
        elif not quantized and _told_to_be_quantized(statement, module):
            plain[template_of(module.name)] += count
    return {
        "excluded_but_quantized": dict(sorted(excluded.items())[:_ROWS]),
        "plain_but_covered": dict(sorted(plain.items())[:_ROWS]),
    }


def _told_to_be_quantized(statement: Statement, module: Module) -> bool:
    linear = module.component in COVERED and not SMALL.search(module.name)
    return linear and statement.of(module.name, module.component) not in (PLAIN, UNKNOWN)


def _fused(statement: Statement, one: list[tuple[Module, int]]) -> dict[str, Json]:
    """Engine layers whose parts are told different things, or another thing than their own name is."""
    there = {module.name: module for module, _ in one if module.component in COVERED}
    rows: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    names = dict(found for module in there if (found := fused(module)) is not None)
    for name in sorted(names):
        parts = [there[part] for part in names[name] if part in there]
        told = {statement.of(part.name, part.component).format for part in parts}
        asked = statement.of(name, parts[0].component).format
        if told != {asked}:
            rows[template_of(name)][" and ".join(sorted(told)), asked] += 1
    value: dict[str, Json] = {}
    for template, counts in sorted(rows.items())[:_ROWS]:
        (parts_told, asked), count = counts.most_common(1)[0]
        value[template] = {"parts": parts_told, "asked": asked, "layers": count}
    return value
