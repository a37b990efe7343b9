"""Which engine is asked for, in which version, from where; and what else the words say about it and about the GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from recon.agent.mission import language
from recon.agent.mission.reading import Match, Reading
from recon.agent.model.base import Json

_VERSION: Final = re.compile(
    r"[ \t]{0,2}(?:version[ \t]{1,2})?(==|>=|~=|@|>|=)?[ \t]{0,2}v?(\d{1,4}\.\d{1,4}(?:\.\d{1,6}){0,3}(?:\.?(?:rc|post|dev|a|b)\d{0,8})?)(?![\w])"
    r"(?:[ \t]{0,2}(\+|or newer|or later|oder neuer))?",
    re.IGNORECASE,
)
_REF: Final = re.compile(
    r"(?<![\w-])(?:branch|commit|tag|ref|sha)[ \t:=]{1,3}([A-Za-z0-9][\w./-]{1,120}\w)", re.IGNORECASE
)
_NUMBERS: Final = (
    ("context", re.compile(r"(?<![\w.])(\d{1,7})([ ]?[km])?(?:[ -](?:token|tokens))?[ -]{1,2}(?:context|ctx|kontext)(?![\w])", re.IGNORECASE)),
    ("context", re.compile(r"(?<![\w-])(?:--context-length|context(?:[ -]length| window)?|ctx|kontext)[ =:]{1,3}(?:of )?(\d{1,7})([ ]?[km])?(?!\w)", re.IGNORECASE)),
    ("concurrency", re.compile(r"(?<![\w-])(?:concurrency|batch size|bs)[ =:]{1,3}(?:of )?(\d{1,6})(k)?(?!\w)", re.IGNORECASE)),
    ("concurrency", re.compile(r"(?<![\w.])(\d{1,6})(k)?[ ](?:concurrent|parallel) (?:requests|users|streams)", re.IGNORECASE)),
    ("listen_port", re.compile(r"(?<![\w-])port[ =:]{1,3}(\d{4,5})()(?!\w)", re.IGNORECASE)),
)  # fmt: skip
_COUNTED: Final = re.compile(r"(\d{1,3})x?")
_SIZE: Final = re.compile(r"(?<![\w.])(\d{1,6}(?:[.,]\d{1,3})?)[ \t]?(TB|TiB|GB|GiB|MB|MiB|G)(?!\w)")


@dataclass
class EngineWords:
    """What was read: the engine (None: none named), and what goes into the intent's `extra`."""

    engine: str | None = None
    transfer_backend: str | None = None
    extra: dict[str, Json] = field(default_factory=dict)


def read_engine(reading: Reading, *, stopped: list[range], given: str | None) -> EngineWords:
    """Reads the engine and its surroundings. `stopped`: token ranges that say what is to be stopped."""
    found = EngineWords()
    _engine(reading, found, stopped=stopped, given=given)
    _transfer(reading, found)
    for match in reading.found("source"):
        if not reading.negated(match.start):
            reading.claim("engine_source_hints", match.value, match.start, match.end)
    for match in reading.found("gpu"):
        reading.claim("gpu_names", match.value, match.start, match.end)
        before = match.start - 1
        if before >= 0 and (counted := _COUNTED.fullmatch(reading.words[before])):
            reading.claim("gpus_named", {"count": int(counted[1]), "name": match.value}, before, match.end)
    for match in reading.found("dataset"):
        reading.claim("datasets", match.value, match.start, match.end)
    for match in reading.found("topic"):
        if (
            all(reading.placed[n] for n in range(match.start, match.end))
            and reading.tokens[match.start].glued
        ):
            continue  # part of a unit's name
        reading.claim(match.value, "no" if reading.negated(match.start) else "yes", match.start, match.end)
    _refs(reading, found)
    _numbers(reading)
    return found


def _engine(reading: Reading, found: EngineWords, *, stopped: list[range], given: str | None) -> None:
    wanted: list[Match] = []
    to_stop = {index for span in stopped for index in span}
    for match in reading.found("engine"):
        if reading.placed[match.start] and reading.tokens[match.start].glued:
            continue  # inside a unit's name
        reading.place(match.start, match.end)
        if (name := _service(reading, match)) > match.end:
            reading.claim("service", reading.quote(match.start, name).strip(), match.start, name)
            continue
        installed = reading.within(match.start, language.ABOUT_NOW, before=3, after=3)
        version, end = _version(reading, match)
        if reading.negated(match.start):
            reading.claim("other_engines", match.value, match.start, match.end)
            continue
        if version:
            reading.place(match.start, end)
            reading.claim("engine_installed" if installed else "engine_version", version, match.start, end)
            if not installed:
                found.extra.setdefault("engine_release", version.lstrip("=<>~@"))
        if not match.start in to_stop:
            wanted.append(match)
    _addressed_versions(reading, found)
    cued = [m for m in wanted if m.start > 0 and reading.words[m.start - 1] in language.USING]
    names = list(dict.fromkeys(m.value for m in cued or wanted))
    if not names:
        return
    found.engine = names[0]
    first = next(m for m in cued or wanted if m.value == names[0])
    if given is None and len(names) > 1:
        reading.conflict("engine", says=names, taken=names[0], start=first.start, end=first.end)
    reading.claim("engine", names[0], first.start, first.end)
    for match in wanted:
        if match.value not in names[:1]:
            reading.claim("other_engines", match.value, match.start, match.end)


def _service(reading: Reading, match: Match) -> int:
    """Where a unit name like `sglang-k26-ddtree.service` ends; the end of the match where it is just the engine's name."""
    end = match.end
    while (
        end < len(reading.tokens)
        and reading.tokens[end].glued
        and reading.tokens[end].joiner in ("-", "_", "@")
    ):
        if reading.tokens[end].text[0].isdigit() and end == match.end:
            return match.end
        end += 1
    whole = reading.text[reading.tokens[match.start].start : reading.tokens[end - 1].end].lower()
    cued = (
        whole.endswith(".service")
        or any(c.isdigit() for c in whole)
        or _asks_for_unit(reading, match.start, end)
    )
    return end if end > match.end and cued else match.end


def _asks_for_unit(reading: Reading, start: int, end: int) -> bool:
    clause = reading.clause(start)
    near = (*range(max(clause.start, start - 3), start), *range(end, min(clause.stop, end + 2)))
    return any(
        reading.words[n] in ("service", "unit", "dienst", "stop", "stoppe", "kill", "beende") for n in near
    )


def _version(reading: Reading, match: Match) -> tuple[str, int]:
    """The version written behind an engine's name ("" for none) and the token where it ends."""
    after = _VERSION.match(reading.text, reading.tokens[match.end - 1].end)
    if after is None:
        return "", match.end
    _, end = reading.span_at(after.start(2), after.end())
    newer = bool(after.group(3)) or after.group(1) in (">=", ">", "~=")
    return f"{'>=' if newer else ''}{after.group(2).rstrip('.')}", end


def _addressed_versions(reading: Reading, found: EngineWords) -> None:
    """`sglang@0.5.13` is written like a login, but is a version."""
    names = {word: term.value for term in reading.vocabulary.engines for word in term.words}
    for index, token in enumerate(reading.tokens):
        name, at, version = token.low.partition("@")
        if token.kind == "address" and at and name in names and _VERSION.fullmatch(version):
            reading.claim("engine_version", version.lstrip("v"), index, index + 1)
            found.extra.setdefault("engine_release", version.lstrip("v"))


def _transfer(reading: Reading, found: EngineWords) -> None:
    wanted = []
    for match in reading.found("transfer"):
        if reading.negated(match.start):
            reading.claim("unwanted_transfer", match.value, match.start, match.end)
            continue
        reading.place(match.start, match.end)
        wanted.append(match)
    names = list(dict.fromkeys(match.value for match in wanted))
    found.transfer_backend = names[0] if len(names) == 1 else None
    if found.transfer_backend:
        reading.claim("transfer_backend", names[0], wanted[0].start, wanted[0].end)
    if len(names) > 1:
        reading.conflict(
            "transfer_backend", says=names, taken="none", start=wanted[0].start, end=wanted[0].end
        )


def _refs(reading: Reading, found: EngineWords) -> None:
    engines = {reading.clause_of[match.start] for match in reading.found("engine")}
    for match in _REF.finditer(reading.text):
        start, end = reading.span_at(match.start(), match.end())
        if (
            start >= end
            or reading.tokens[start].kind != "word"
            or match.group(1).lower() in language.STOP_WORDS
        ):
            continue
        if reading.clause_of[start] in engines:
            reading.claim("engine_ref", match.group(1), start, end)
            found.extra.setdefault("engine_ref", match.group(1))


def _numbers(reading: Reading) -> None:
    for name, pattern in _NUMBERS:
        for match in pattern.finditer(reading.text):
            start, end = reading.span_at(match.start(), match.end())
            if start < end and reading.tokens[start].kind in ("word", "flag"):
                scale = {"k": 1024, "m": 1024 * 1024}.get((match.group(2) or "").strip().lower(), 1)
                reading.claim(name, int(match.group(1)) * scale, start, end)
    for match in _SIZE.finditer(reading.text):
        start, end = reading.span_at(match.start(), match.end())
        if start < end and all(reading.tokens[n].kind in ("word", "break") for n in range(start, end)):
            reading.claim("sizes", match.group(), start, end)
