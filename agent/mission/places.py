"""Which host a directive names. None is ever made up: a word counts as a host only where something says so."""

from __future__ import annotations

import re
from typing import Final

from recon.agent.mission import language
from recon.agent.mission.reading import Reading
from recon.agent.model.errors import MissionError

_HOST: Final = re.compile(
    r"(?:([A-Za-z_][A-Za-z0-9._-]{0,31})@)?([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::(\d{1,5}))?"
)
_BARE: Final = re.compile(r"[`'\"*]{0,2}([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::(\d{2,5}))?(?![\w@/])")
_IPV4: Final = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_LOGINS: Final = frozenset({"root", "ubuntu", "admin", "ec2-user", "azureuser"})
_NOT_LOGINS: Final = frozenset({"git", "hg", "npm"})
# GPU 0, TP4, CUDA 12.8, v0.5.13: counted things, not hosts. A leading zero (`gpu01`) is how hosts are numbered.
_COUNTED: Final = re.compile(
    r"\d+x\w*|(?:tp|dp|pp|ep|cu|cuda|sm|v|gpus?|numa|node|rank|cpu|socket|pcie|gen|python|py|q|w|p|d|r)"
    r"-?(?:0(?:\.[\d.]+)?|[1-9][\d.]*)[a-z]{0,2}"
)


def is_host(word: str) -> bool:
    """Whether a word is written like [user@]name[:port]."""
    match = _HOST.fullmatch(word)
    if match is None or ".." in match.group(2):
        return False
    return match.group(3) is None or 0 < int(match.group(3)) < 65536


def host_name(host: str) -> str:
    """The name without user and port, in lower case: what two ways of writing a host have in common."""
    match = _HOST.fullmatch(host)
    return match.group(2).lower() if match else host


def read_host(reading: Reading, *, host: str | None) -> str | None:
    """The host the directive names, None where it names none. `host`, where given, settles which of several is meant.

    Raises MissionError where several are named and none is given.
    """
    found: dict[str, tuple[str, int, int]] = {}
    named = (*_addresses(reading), *_named(reading))
    for address, start, end in named or _here(reading):
        reading.place(start, end)
        if reading.negated(start):
            reading.claim("other_hosts", address, start, end)
            continue
        name = host_name(address)
        if name not in found or len(address) > len(found[name][0]):
            found[name] = (address, start, end)
    if len(found) > 1 and host is None:
        names = sorted(found)
        shown = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
        raise MissionError(
            f"the directive names {len(names)} hosts ({shown}); a mission is about one",
            hint=f"say which with --host {names[0]}",
        )
    for address, start, end in found.values():
        other = host is not None and host_name(address) != host_name(host)
        reading.claim("other_hosts" if other else "host", address, start, end)
    return next((address for address, _, _ in found.values()), None) if len(found) == 1 else None


def _addresses(reading: Reading) -> list[tuple[str, int, int]]:
    """user@name[:port], where it is not a mail address, a package version or a code host."""
    found = []
    for index, token in enumerate(reading.tokens):
        if token.kind != "address" or not is_host(token.text):
            continue
        user, _, rest = token.text.partition("@")
        name = rest.partition(":")[0]
        if user in _NOT_LOGINS or any(user.lower() in term.words for term in reading.vocabulary.engines):
            continue
        cued = index > 0 and reading.words[index - 1] in (
            language.HOST_BEFORE | language.HOST_NOUNS | {"to", ""}
        )
        if "." not in name or ":" in rest or user in _LOGINS or cued or _IPV4.fullmatch(name):
            found.append((token.text, index, index + 1))
    return found


def _named(reading: Reading) -> list[tuple[str, int, int]]:
    """`on ct200`, `auf gpu-07.example`, `host ct200`, `server named athena`."""
    found = []
    for index, word in enumerate(reading.words):
        if reading.tokens[index].kind == "flag":
            if word in ("--host", "--hostname") and index + 1 < len(reading.words):
                found += _host_at(reading, index + 1, index, strict=False)
            elif word.startswith("--host=") and is_host(reading.tokens[index].text.partition("=")[2]):
                found.append((reading.tokens[index].text.partition("=")[2], index, index + 1))
            continue
        if reading.tokens[index].kind != "word" or word not in language.HOST_BEFORE | language.HOST_NOUNS:
            continue
        after, limit = index + 1, min(len(reading.words), index + 1 + _GAP)
        while after < limit and (reading.words[after] in _BETWEEN or reading.tokens[after].text == ":"):
            after += 1
        named = any(reading.words[n] in language.HOST_NAMING for n in range(index + 1, after))
        keyed = word in language.HOST_NOUNS and after < len(reading.tokens) and _keyed(reading, index, after)
        if after < len(reading.tokens) and reading.tokens[after].kind == "word":
            found += _hosts_from(reading, after, index, strict=not (named or keyed))
    return found


def _hosts_from(reading: Reading, index: int, cue: int, *, strict: bool) -> list[tuple[str, int, int]]:
    """The host at a token, and those joined to it: `on ct200 and gpu01`."""
    found = _host_at(reading, index, cue, strict=strict)
    for _ in range(_JOINED):
        if not found:
            break
        following = found[-1][2]
        if following + 1 >= len(reading.words) or reading.words[following] not in _AND:
            break
        another = _host_at(reading, following + 1, cue, strict=True)
        if not another:
            break
        found += another
    return found


_GAP: Final = 4  # words between "on" and the host ("on the host named")
_JOINED: Final = 8
_AND: Final = frozenset({"and", "und", "or", "oder"})
_BETWEEN: Final = (
    frozenset({"the", "our", "my", "dem", "der", "unserem", "unserer"})
    | language.HOST_NOUNS
    | language.HOST_NAMING
)


def _keyed(reading: Reading, index: int, after: int) -> bool:
    return reading.text[reading.tokens[index].end : reading.tokens[after].start].strip() in ("=", ":")


def _host_at(reading: Reading, index: int, cue: int, *, strict: bool) -> list[tuple[str, int, int]]:
    """The host written at a token. Strict: it needs a digit and must not be anything else that has a name like that."""
    token = reading.tokens[index]
    match = _BARE.match(reading.text, token.start)
    if match is None:
        return []
    name = match.group(1)
    start, end = reading.span_at(match.start(1), match.end(1))
    if name in reading.lexicon.known and name != "localhost":
        return []
    if name != "localhost" and (not any(c.isalpha() for c in name) and not _IPV4.fullmatch(name)):
        return []
    if strict and name != "localhost" and not _clearly_a_host(reading, name, index, end):
        return []
    address = f"{name}:{match.group(2)}" if match.group(2) else name
    _, stop = reading.span_at(match.start(1), match.end())
    reading.place(cue, index) if reading.words[cue] in language.HOST_NOUNS else None
    return [(address, start, max(end, stop))]


def _clearly_a_host(reading: Reading, name: str, index: int, end: int) -> bool:
    if not any(c.isdigit() for c in name) or _COUNTED.fullmatch(name):
        return False
    if any(name.startswith(family) for family in reading.vocabulary.families):
        return False
    first = reading.words[index]
    taken = ("format", "engine", "gpu", "transfer", "topic", "dataset")
    if any(
        kind in taken for kind, _, _ in reading.lexicon.at(reading.words, index, reading.clause(index).stop)
    ):
        return False
    return (
        not first[0].isdigit()
        or bool(_IPV4.fullmatch(name))
        or (end > index and any(c.isalpha() for c in first))
    )


def _here(reading: Reading) -> list[tuple[str, int, int]]:
    return [("localhost", match.start, match.end) for match in reading.found("here")]
