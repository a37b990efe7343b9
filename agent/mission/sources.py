"""Which model a directive is about, which pages it points to, where the weights go."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from recon.agent.mission import language
from recon.agent.mission.reading import Reading
from recon.agent.model.errors import MissionError

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")
_REVISION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_NOT_MODELS: Final = language.words_of(
    "datasets spaces docs papers blog collections organizations models api settings join pricing learn tasks posts chat"
)
_PULL: Final = re.compile(
    r"/([\w.-]{1,64})/([\w.-]{1,64})/(pull|issues|commit|tree|releases)/?(?:tag/)?([\w./-]{0,128})"
)
_PULL_WORDS: Final = re.compile(
    r"(?<![\w#/])(?:PRs?|pull requests?)[ \t]{0,2}#?(\d{2,6})(?!\w)|(?<![\w#])#(\d{3,6})(?!\w)", re.IGNORECASE
)
_OTHER_ROLE: Final = language.words_of(
    "base draft tokenizer like from of than previous old current running existing replaces basis original origin"
)
_TRIED: Final = frozenset({"launch", "benchmark", "download"})


@dataclass
class Mention:
    """A model that was named, where, and what speaks for or against its being the one the mission is about."""

    model: str
    revision: str
    start: int
    end: int
    wanted: bool = False  # the object of deploy, download, benchmark
    other: str = ""  # the part it plays instead


@dataclass
class Sources:
    """What was read: the model and its revision, pages, pull requests of the engine, the directory for the weights."""

    model: str | None = None
    revision: str = "main"
    docs: list[str] = field(default_factory=list)
    pulls: list[int] = field(default_factory=list)
    target_dir: str | None = None
    pd_page: bool = False
    mentions: list[Mention] = field(default_factory=list)


def hub_address(address: str, hosts: tuple[str, ...]) -> tuple[str, str] | None:
    """(ORG/NAME, revision) of a model's address on the Hub; None for anything else. An address without scheme may do."""
    lower = address.lower()
    if lower.startswith("hf://"):
        path = address[5:]
    else:
        parts = _split(address if "://" in address else f"https://{address}")
        if parts is None or (parts[0] not in hosts):
            return None
        path = parts[1]
    pieces = [unquote(p) for p in path.split("/") if p]
    if len(pieces) < 2 or pieces[0].lower() in _NOT_MODELS:
        return None
    name, _, pinned = "/".join(pieces[1:]).partition("@")
    if not pinned or "/" in name:
        name, pinned = pieces[1], ""
    if not _NAME.fullmatch(pieces[0]) or not _NAME.fullmatch(name):
        return None
    revision = pinned
    if len(pieces) > 3 and pieces[2] in ("tree", "blob", "resolve", "commit"):
        revision = pieces[3] if pieces[3] != "refs" else "/".join(pieces[3:6])
    return f"{pieces[0]}/{name}", revision if revision and _REVISION.fullmatch(revision) else "main"


def is_repo_id(word: str) -> bool:
    """Whether a word is written like ORG/NAME, with or without @revision."""
    bare, _, revision = word.partition("@")
    parts = bare.split("/")
    return (
        len(parts) == 2
        and all(_NAME.fullmatch(p) for p in parts)
        and (not revision or bool(_REVISION.fullmatch(revision)))
    )


def read_sources(reading: Reading, *, model: str | None) -> Sources:
    """Reads models, pages, tickets and directories. `model`, where given, settles which of several is meant."""
    found = Sources()
    for index, token in enumerate(reading.tokens):
        if token.kind == "url":
            _url(reading, index, found)
        elif token.kind == "repo":
            name, _, revision = token.text.partition("@")
            found.mentions.append(Mention(name, revision or "main", index, index + 1))
    _pull_words(reading, found)
    for index, token in enumerate(reading.tokens):
        if token.kind == "path":
            _path(reading, index, found)
    _choose(reading, found, given=model)
    return found


def mark_wanted(reading: Reading, sources: list[Mention], heads: list[tuple[str, int]]) -> None:
    """Marks the models that follow a verb of deployment as wanted, up to the next verb. `heads`: (verb, token)."""
    ordered = sorted(heads, key=lambda head: head[1])
    at, verb = 0, ""
    sentence = -1
    for mention in sources:
        while at < len(ordered) and ordered[at][1] < mention.start:
            verb, sentence = ordered[at][0], reading.sentence_of[ordered[at][1]]
            at += 1
        mention.wanted = verb in _TRIED and sentence == reading.sentence_of[mention.start]


def _url(reading: Reading, index: int, found: Sources) -> None:
    address = reading.tokens[index].text
    vocabulary = reading.vocabulary
    if hub := hub_address(address, vocabulary.hub_hosts):
        found.mentions.append(Mention(hub[0], hub[1], index, index + 1))
        return
    parts = _split(address if "://" in address else f"https://{address}")
    if parts is None:
        return
    host, path, page = parts
    if _is_here(host):
        reading.claim("endpoint", page, index, index + 1)
    elif host in vocabulary.code_hosts and (ticket := _PULL.match(path)):
        value = {"repository": f"{ticket[1]}/{ticket[2]}", "kind": ticket[3], "ref": ticket[4]}
        reading.claim("leads", {"url": page, **value}, index, index + 1)
        if ticket[3] == "pull" and ticket[4].split("/")[0].isdigit() and _is_engine(reading, ticket[2]):
            found.pulls.append(int(ticket[4].split("/")[0]))
    else:
        reading.claim("docs", page, index, index + 1)
        found.docs.append(page)
        found.pd_page |= any(mark in path.lower() for mark in vocabulary.pd_pages)


def _split(address: str) -> tuple[str, str, str] | None:
    """(host, path, address without user, password and fragment) of an http address; None where it is none."""
    try:
        parts = urlsplit(address)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    if parts.scheme.lower() not in ("http", "https") or not host:
        return None
    shown = f"[{host}]" if ":" in host else host
    authority = f"{shown}:{port}" if port else shown
    query = f"?{parts.query}" if parts.query else ""
    return host, parts.path, f"{parts.scheme.lower()}://{authority}{parts.path}{query}"


def _is_here(host: str) -> bool:
    return host in ("localhost", "0.0.0.0", "::1") or host.startswith(("127.", "10.", "192.168."))


def _is_engine(reading: Reading, name: str) -> bool:
    return any(name.lower() in term.words for term in reading.vocabulary.engines)


def _pull_words(reading: Reading, found: Sources) -> None:
    for match in _PULL_WORDS.finditer(reading.text):
        start, end = reading.span_at(match.start(), match.end())
        if start >= end or reading.tokens[start].kind != "word":
            continue
        number = int(match.group(1) or match.group(2))
        reading.claim("engine_prs", number, start, end)
        if number not in found.pulls:
            found.pulls.append(number)


def _path(reading: Reading, index: int, found: Sources) -> None:
    path = reading.tokens[index].text.rstrip("/") or "/"
    clause = reading.clause(index)
    before = reading.words[max(clause.start, index - 3) : index]
    if any(word in language.TOWARDS for word in before) and not reading.negated(index):
        reading.claim("target_dir", path, index, index + 1)
        if found.target_dir is not None and found.target_dir != path:
            says = [found.target_dir, path]
            reading.conflict("target_dir", says=says, taken=found.target_dir, start=index, end=index + 1)
        found.target_dir = found.target_dir or path
    elif path.count("/") > 1 and any(
        word in ("model", "checkpoint", "weights", "serve", "deploy", "from", "modell") for word in before
    ):
        found.mentions.append(Mention(path, "main", index, index + 1))


def _choose(reading: Reading, found: Sources, *, given: str | None) -> None:
    for mention in found.mentions:
        mention.other = _other_role(reading, mention)
        reading.place(mention.start, mention.end)
    heads = [(verb, at) for verb, at in _deploying_heads(reading)]
    mark_wanted(reading, found.mentions, heads)
    candidates = {m.model: m for m in reversed(found.mentions) if not m.other}
    wanted = {m.model: m for m in reversed(found.mentions) if m.wanted and not m.other}
    chosen = wanted if len(wanted) == 1 else candidates
    if given is None and len(chosen) > 1:
        raise _two_models(list(reversed(chosen)))
    taken = given if given is not None else next(iter(chosen), None)
    for mention in found.mentions:
        _claim_model(reading, mention, taken)
    same = [m for m in found.mentions if m.model == taken and not m.other]
    found.model = taken
    found.revision = next((m.revision for m in same if m.revision != "main"), "main")


def _claim_model(reading: Reading, mention: Mention, taken: str | None) -> None:
    if mention.model == taken and not mention.other:
        reading.claim("model", mention.model, mention.start, mention.end)
        if mention.revision != "main":
            reading.claim("revision", mention.revision, mention.start, mention.end)
        return
    part = mention.other or "also named"
    reading.claim("other_models", {"model": mention.model, "part": part}, mention.start, mention.end)


def _two_models(models: list[str]) -> MissionError:
    shown = ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
    return MissionError(
        f"the directive names {len(models)} models ({shown}); a mission is about one",
        hint=f"say which with --model {models[0]}, or give each its own mission",
    )


def _deploying_heads(reading: Reading) -> list[tuple[str, int]]:
    verbs: dict[str, str] = {}
    for action in reading.vocabulary.actions:
        for head in action.heads:
            verbs.setdefault(head, action.verb)
    return [(verbs[match.value], match.start) for match in reading.found("action")]


def _other_role(reading: Reading, mention: Mention) -> str:
    """The part a model plays that is not the mission's own: what is stopped, replaced, compared with, drafted from."""
    if reading.negated(mention.start):
        return "not wanted"
    clause = reading.clause(mention.start)
    before = reading.words[max(clause.start, mention.start - 2) : mention.start]
    return next(
        (f"{word} model" for word in reversed(before) if word in _OTHER_ROLE and not _leads(before, word)), ""
    )


def _leads(before: list[str], word: str) -> bool:
    """`from` and `of` name the mission's own model behind download or weights (`weights from ORG/NAME`)."""
    return word in ("from", "of") and (
        len(before) < 2 or before[0] not in ("base", "quantized", "quant", "derived", "copy")
    )
