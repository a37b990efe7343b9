"""How a directive wants the engine spread over GPUs: one instance or prefill/decode, how many GPUs each, on which nodes."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from recon.agent.mission import language
from recon.agent.mission.reading import Reading
from recon.agent.model.base import Json
from recon.agent.model.missions import Layout

_GROUPS: Final = {
    "prefill": "prefill",
    "prefiller": "prefill",
    "decode": "decode",
    "decoder": "decode",
    "prefills": "prefill",
    "decodes": "decode",
}
_GROUP_WORD: Final = r"(prefill(?:er|s)?|decoder?s?)"
_TP: Final = (
    re.compile(
        r"(?<![A-Za-z0-9])(?:--)?(?:tp|tensor[ _-]?parallel(?:ism)?)(?:[ _-]?(?:size|degree|of)){0,2}[ \t]{0,2}[=:-]?[ \t]{0,2}(\d{1,3})(?![\w.]*\w)",
        re.IGNORECASE,
    ),
    re.compile(r"(?<![\w.])(\d{1,3})[ -]?way[ -](?:tp|tensor)(?:[ -]?parallel(?:ism)?)?(?!\w)", re.IGNORECASE),
    re.compile(r"(?<![\w.])(\d{1,3})[ -]?(?:fach(?:er|e)?)[ -](?:tp|tensor)(?:[ -]?parallel\w{0,8})?", re.IGNORECASE),
)  # fmt: skip
_PAIR: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:--)?(?:pd|p/d|disagg\w{0,12})[ \t]{0,2}[=:]?[ \t]{0,2}\(?(\d{1,3})[ \t]{0,2}[+/:][ \t]{0,2}(\d{1,3})(?!\w)",
    re.IGNORECASE,
)
_PLUS: Final = re.compile(r"(?<![\w.+])(\d{1,3})[ \t]?\+[ \t]?(\d{1,3})(?![\w.+])")
_SHORT: Final = re.compile(
    r"(?<!\w)(?:p(\d{1,2})[ /+-]{0,2}d(\d{1,2})|(\d{1,2})p[ /+-]{0,2}(\d{1,2})d)(?!\w)", re.IGNORECASE
)
_COUNT: Final = re.compile(
    rf"(?<![\w.-])(\d{{1,4}}|{'|'.join(language.NUMBERS)})[ \t]{{0,2}}x?[ \t]{{0,2}}(?:gpu'?s?|graphics cards?|cards?|karten|grafikkarten|devices?)(?![\w])",
    re.IGNORECASE,
)
_GROUP_COUNT: Final = re.compile(
    rf"(?<!\w){_GROUP_WORD}[ \t]{{0,2}}[=:]?[ \t]{{0,2}}(?:on |with |auf |mit )?(\d{{1,2}})(?!\w|[.,]\d|[ ]?k\b|\+)",
    re.IGNORECASE,
)
_COUNT_GROUP: Final = re.compile(
    rf"(?<![\w.-])(\d{{1,2}}|{'|'.join(language.NUMBERS)})[ \t]{{0,2}}(?:x[ \t]{{0,2}})?(?:gpu'?s?|cards?|karten)?[ \t]{{0,2}}"
    r"(?:for |für )?(?:prefill(?:er|s)?|decoder?s?)(?![\w])(?![ -](?:instances?|workers?|servers?|nodes?|tokens?))",
    re.IGNORECASE,
)
_RANGE: Final = re.compile(
    r"(?<!\w)(?:gpus?|cuda(?:_visible_devices)?|devices?)[ \t=:]{0,3}(\d{1,3}(?:[ \t]{0,2}(?:-|,|to|bis|\.\.)[ \t]{0,2}\d{1,3}){1,31})(?!\w)",
    re.IGNORECASE,
)
_OTHER: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:--)?(dp|pp|ep|cp)(?:[ _-]?size)?[ \t]{0,2}[=:]?[ \t]{0,2}(\d{1,3})(?!\w)",
    re.IGNORECASE,
)
_NODE: Final = re.compile(
    r"(?<!\w)(?:numa(?:[ -]?node)?|socket|cpu)[ \t]{0,2}[#=:]?[ \t]{0,2}(\d{1,2})(?!\w)", re.IGNORECASE
)
_DISAGGREGATED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:pd|p/d|p-d)(?![A-Za-z0-9])|(?<![a-z])disaggreg\w{0,10}|prefill[ ]?[/+&-][ ]?decode|prefill[ -]decode"
    r"[ -](?:split|separation|disagg)|(?:prefill and decode|prefill und decode) (?:separate|getrennt|split)",
    re.IGNORECASE,
)
_PLACES: Final = frozenset({"numa", "socket", "sockets", "cpu", "cpus", "sockel", "knoten", "numaknoten"})
_TOGETHER: Final = frozenset(
    {
        "comms",
        "communication",
        "traffic",
        "stay",
        "stays",
        "kommunikation",
        "bleibt",
        "bleiben",
        "each",
        "jeweils",
    }
)

Group = Literal["prefill", "decode"]


@dataclass
class _Size:
    """A number of GPUs that was said, for which groups, and whether as a parallel degree or as a count."""

    kind: Literal["tp", "count", "gpus", "group"]
    number: int
    at: int
    end: int
    gpus: tuple[int, ...] = ()


@dataclass
class Spread:
    """What was read: the layout, and GPU numbers by instance where they were named (`extra.gpus`)."""

    layout: Layout = field(default_factory=Layout)
    gpus: dict[str, Json] = field(default_factory=dict)


@dataclass
class _Said:
    tp: dict[str, int] = field(default_factory=dict)  # "" for what is meant for every instance
    count: dict[str, int] = field(default_factory=dict)
    gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    total: tuple[int, int, int] | None = None  # number, tokens
    counted: tuple[int, int] = (0, 1)  # tokens of the last count


def read_layout(reading: Reading, *, pd_page: bool) -> Spread:
    """Reads the layout. Sizes said for a group win over sizes said for all; contradictions are claimed, not raised."""
    said = _Said()
    pair = _pair(reading, said)
    sizes = _sizes(reading)
    for at, clause_sizes in sizes.items():
        _assign(reading, reading.clauses[at], clause_sizes, said)
    disaggregated = _is_disaggregated(reading)
    groups = {"prefill", "decode"} <= (said.tp.keys() | said.count.keys() | said.gpus.keys())
    pd = pair or groups or (pd_page if disaggregated is None else disaggregated)
    one_node = _one_node(reading)
    layout = _pd(said, one_node) if pd else _single(said, one_node)
    spread = Spread(layout=layout)
    if pd and all(g in said.gpus for g in ("prefill", "decode")):
        spread.gpus = {g: list(said.gpus[g]) for g in ("prefill", "decode")}
    if not pd and "" in said.gpus:
        spread.gpus = {"serve": list(said.gpus[""])}
    _compare(reading, said, layout)
    return spread


def _pd(said: _Said, one_node: bool) -> Layout:
    sizes = {
        g: said.tp.get(g) or said.tp.get("") or said.count.get(g) or said.count.get("")
        for g in ("prefill", "decode")
    }
    return Layout(
        mode="pd", prefill_tp=sizes["prefill"], decode_tp=sizes["decode"], one_node_per_instance=one_node
    )


def _single(said: _Said, one_node: bool) -> Layout:
    total = said.total[0] if said.total else None
    return Layout(tp=said.tp.get("") or said.count.get("") or total, one_node_per_instance=one_node)


def _compare(reading: Reading, said: _Said, layout: Layout) -> None:
    """Says where sizes, counts and totals of the directive cannot all be true."""
    sizes = {"prefill": layout.prefill_tp, "decode": layout.decode_tp} if layout.mode == "pd" else {}
    for group, size in sizes.items():
        count = said.count.get(group) or said.count.get("")
        if size and count and size != count:
            says = [f"{group} TP{size}", f"{group} on {count} GPUs"]
            reading.conflict("layout", says=says, taken=says[0], start=said.counted[0], end=said.counted[1])
    if said.total is None or layout.gpus is None or layout.gpus <= said.total[0]:
        return
    number, start, end = said.total
    shape = f"{layout.prefill_tp}+{layout.decode_tp}" if layout.mode == "pd" else f"TP{layout.tp}"
    reading.conflict(
        "layout",
        says=[f"{shape} takes {layout.gpus} GPUs", f"{number} GPUs"],
        taken=shape,
        start=start,
        end=end,
    )


def _pair(reading: Reading, said: _Said) -> bool:
    """`PD 4+4`, `P4D4`, `1p1d`."""
    for pattern in (_PAIR, _PLUS):
        for match in pattern.finditer(reading.text):
            start, end = reading.span_at(match.start(), match.end())
            if not _plain(reading, start, end) or (pattern is _PLUS and not _near_pd(reading, start)):
                continue
            prefill, decode = int(match.group(1)), int(match.group(2))
            if _sensible(prefill) and _sensible(decode):
                _set(reading, said.tp, "prefill", prefill, start, end)
                _set(reading, said.tp, "decode", decode, start, end)
                return True
    return _short(reading, said)


def _short(reading: Reading, said: _Said) -> bool:
    for match in _SHORT.finditer(reading.text):
        start, end = reading.span_at(match.start(), match.end())
        if not _plain(reading, start, end):
            continue
        prefill, decode = int(match.group(1) or match.group(3)), int(match.group(2) or match.group(4))
        if match.group(3) and (prefill, decode) in ((1, 1), (1, 2), (2, 1), (2, 2)):  # xPyD counts instances
            reading.claim("instances", {"prefill": prefill, "decode": decode}, start, end)
            if (prefill, decode) != (1, 1):
                says = [f"{prefill} prefill and {decode} decode instances"]
                reading.conflict("layout", says=says, taken="one instance of each", start=start, end=end)
            return True
        if _sensible(prefill) and _sensible(decode):
            _set(reading, said.tp, "prefill", prefill, start, end)
            _set(reading, said.tp, "decode", decode, start, end)
            return True
    return False


def _near_pd(reading: Reading, start: int) -> bool:
    return any(
        reading.words[n] in ("pd", "prefill", "decode", "disaggregated", "disaggregation", "layout", "split")
        for n in reading.clause(start)[:40]
    )


def _sizes(reading: Reading) -> dict[int, list[_Size]]:
    """The sizes by clause, in order."""
    found: dict[int, list[_Size]] = {}
    for pattern in _TP:
        _collect(reading, pattern, "tp", found)
    _collect(reading, _COUNT, "count", found)
    _collect(reading, _RANGE, "gpus", found)
    _collect(reading, _GROUP_COUNT, "group", found)
    _collect(reading, _COUNT_GROUP, "group", found)
    for match in _OTHER.finditer(reading.text):
        start, end = reading.span_at(match.start(), match.end())
        if _plain(reading, start, end):
            reading.claim("other_parallelism", {match.group(1).lower(): int(match.group(2))}, start, end)
    return {at: sorted(sizes, key=lambda s: s.at) for at, sizes in sorted(found.items())}


def _collect(
    reading: Reading,
    pattern: re.Pattern[str],
    kind: Literal["tp", "count", "gpus", "group"],
    found: dict[int, list[_Size]],
) -> None:
    for match in pattern.finditer(reading.text):
        start, end = reading.span_at(match.start(), match.end())
        if not _plain(reading, start, end):
            continue
        gpus = _gpu_numbers(match.group(1)) if kind == "gpus" else ()
        text = match.group(match.lastindex or 1)
        number = (
            len(gpus)
            if kind == "gpus"
            else language.NUMBERS.get(text.lower()) or (int(text) if text.isdigit() else 0)
        )
        if _sensible(number):
            reading.place(start, end)
            found.setdefault(reading.clause_of[start], []).append(_Size(kind, number, start, end, gpus))


def _gpu_numbers(text: str) -> tuple[int, ...]:
    """`0-3` and `0,1,2,3` as numbers; empty where a range runs backwards or is too long."""
    numbers: list[int] = []
    for part in text.split(","):
        ends = [int(n) for n in re.findall(r"\d+", part)]
        if not ends:
            continue
        if ends[-1] < ends[0] or ends[-1] - ends[0] > 63:
            return ()
        numbers.extend(range(ends[0], ends[-1] + 1))
    return tuple(dict.fromkeys(numbers))


def _assign(reading: Reading, clause: range, sizes: list[_Size], said: _Said) -> None:
    """Gives the sizes of a clause to the groups it names: `prefill TP4 decode TP8`, `TP4 for prefill`, `TP4 each`."""
    names = [(n, _GROUPS[reading.words[n]]) for n in clause if reading.words[n] in _GROUPS]
    for size in sizes:
        if size.kind == "group":
            group = next((_GROUPS[w] for w in reading.words[size.at : size.end] if w in _GROUPS), "")
            _set(reading, said.count, group, size.number, size.at, size.end)
    plain = [size for size in sizes if size.kind != "group"]
    places = [index for index, _ in names]
    for index in places:
        reading.place(index)
    if len(names) == len(plain) and len({size.kind for size in plain}) == 1:
        for size, (_, group) in zip(plain, names, strict=True):
            _put(reading, size, [group], said)
        return
    size_first = bool(names) and bool(plain) and plain[0].at < names[0][0]
    for position, size in enumerate(plain):
        low = plain[position - 1].at if position else clause.start - 1
        high = plain[position + 1].at if position + 1 < len(plain) else clause.stop
        here, before, after = (bisect.bisect_left(places, at) for at in (size.at, low + 1, high))
        if size_first:
            groups = [g for _, g in names[here:after]]
        else:
            groups = [g for _, g in names[before:here] or names[max(here - 1, 0) : here]]
        _put(reading, size, list(dict.fromkeys(groups)), said)


def _put(reading: Reading, size: _Size, groups: list[str], said: _Said) -> None:
    each = reading.within(size.at, language.EACH, before=4, after=4)
    if size.kind == "count" and not groups and not each:
        reading.claim("gpus", size.number, size.at, size.end)
        if said.total is None:
            said.total = (size.number, size.at, size.end)
        return
    if size.kind == "gpus":
        reading.claim("gpu_ids", list(size.gpus), size.at, size.end)
    held = said.tp if size.kind == "tp" else said.count
    if size.kind != "tp":
        said.counted = (size.at, size.end)
    for group in groups or [""]:
        _set(reading, held, group, size.number, size.at, size.end)
        if size.kind == "gpus":
            said.gpus.setdefault(group, size.gpus)


def _set(reading: Reading, held: dict[str, int], group: str, number: int, start: int, end: int) -> None:
    reading.place(start, end)
    if group in held and held[group] != number:
        what = group or "every instance"
        says = [f"{what}: {held[group]} GPUs", f"{what}: {number} GPUs"]
        reading.conflict("layout", says=says, taken=f"{what}: {held[group]} GPUs", start=start, end=end)
        return
    held[group] = number


def _is_disaggregated(reading: Reading) -> bool | None:
    """Whether prefill and decode are to be split: None where nothing is said about it."""
    answer: bool | None = None
    for match in _DISAGGREGATED.finditer(reading.text):
        start, end = reading.span_at(match.start(), match.end())
        if not _plain(reading, start, end):
            continue
        reading.place(start, end)
        negated = reading.negated(start) or any(reading.is_negation(n) for n in range(start, end))
        answer = (not negated) if answer is None else answer and not negated
    return answer


def _one_node(reading: Reading) -> bool:
    """Whether each instance is to stay on one NUMA node: `comms stay on 1 cpu`, `same numa`, `one socket each`."""
    wanted = False
    for index, word in enumerate(reading.words):
        if word not in _PLACES or reading.tokens[index].kind != "word":
            continue
        one = reading.within(index, language.SAME, before=4, after=4)
        together = word not in ("cpu", "cpus") or reading.within(
            index, _TOGETHER | {"same", "single"}, before=5, after=5
        )
        across = reading.within(index, language.ACROSS - {"both", "beide"}, before=4, after=2)
        crossing = across and not _says_no(reading, index)
        if across or (one and together):
            reading.claim(
                "placement", "may cross nodes" if crossing else "one node per instance", index, index + 1
            )
            wanted = wanted or not crossing
    nodes = [m for m in _NODE.finditer(reading.text) if _plain(reading, *reading.span_at(m.start(), m.end()))]
    for match in nodes:
        start, end = reading.span_at(match.start(), match.end())
        groups = [
            _GROUPS[reading.words[n]]
            for n in reading.clause(start)[:40]
            if n < start and reading.words[n] in _GROUPS
        ]
        if groups:
            reading.claim("numa_nodes", {groups[-1]: int(match.group(1))}, start, end)
            wanted = True
    return wanted


def _says_no(reading: Reading, index: int) -> bool:
    clause = reading.clause(index)
    return any(
        reading.is_negation(n) for n in range(max(clause.start, index - 6), min(clause.stop, index + 4))
    )


def _plain(reading: Reading, start: int, end: int) -> bool:
    """Whether characters were found in ordinary words: not in an address or a repository id."""
    return (
        start < end
        and all(reading.tokens[n].kind in ("word", "flag", "break") for n in range(start, end))
        and reading.tokens[start].kind != "break"
    )


def _sensible(number: int) -> bool:
    return 0 < number <= 1024
