"""Fields of the intent given outright (flags, a mission file, the short form of the command), checked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from recon.agent.mission.places import is_host
from recon.agent.mission.sources import hub_address, is_repo_id
from recon.agent.mission.vocabulary import Vocabulary
from recon.agent.model.base import Json
from recon.agent.model.errors import UsageError
from recon.agent.model.missions import Intent, Layout, Wish

_PAIR: Final = re.compile(r"(\d{1,4})\s*[+/:,]\s*(\d{1,4})")
_ALIASES: Final = {"quant": "wanted_format", "pd": "layout", "tp": "layout"}
NAMES: Final = (*Intent.model_fields, *_ALIASES, "playbook")


@dataclass
class Overrides:
    """What was given outright: values for fields of the intent; `named`: the fields that were given."""

    fields: dict[str, Any] = field(default_factory=dict)
    layout: dict[str, Any] = field(default_factory=dict)
    playbook: str | None = None

    @property
    def named(self) -> frozenset[str]:
        """The fields of the intent that were given."""
        return frozenset(self.fields) | (frozenset({"layout"}) if self.layout else frozenset())

    def applied(self, intent: Intent) -> Intent:
        """The intent with what was given in the place of what was read."""
        changes = dict(self.fields)
        if "model" in changes and "revision" not in changes and changes["model"] != intent.model:
            changes["revision"] = "main"
        if "extra" in changes:
            changes["extra"] = {**intent.extra, **changes["extra"]}
        if self.layout:
            changes["layout"] = _merged(intent.layout, self.layout)
        return intent.model_copy(update=changes)


def read_overrides(given: Mapping[str, Json], vocabulary: Vocabulary) -> Overrides:
    """Checks fields given outright. None means not given. Raises UsageError for what makes no sense."""
    overrides = Overrides()
    if given.get("tp") is not None and given.get("pd") is not None:
        raise UsageError(
            "--tp and --pd exclude each other", hint="--tp N is one instance, --pd P+D is prefill and decode"
        )
    for name, value in given.items():
        if name not in NAMES:
            raise UsageError(f"unknown field of a mission: {name}", hint=did_you_mean(name, NAMES))
        if value is None or value == "" or value == ():
            continue
        _read(name, value, overrides, vocabulary)
    return overrides


def did_you_mean(word: str, known: tuple[str, ...] | list[str]) -> str:
    """`did you mean X?`, or the list of what there is."""
    near = difflib.get_close_matches(word[:64], known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)


def format_named(word: str, vocabulary: Vocabulary) -> str:
    """The format name that a word stands for. Raises UsageError with a suggestion for an unknown word."""
    low = " ".join(re.split(r"[\s_-]+", word.lower().strip()))
    for term in vocabulary.formats:
        if word.lower() == term.value or low in term.words:
            return term.value
    names = [t.value for t in vocabulary.formats]
    words = names + [w for t in vocabulary.formats for w in t.words]
    near = difflib.get_close_matches(low[:64], words, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(names)
    raise UsageError(f"unknown format of weights: {word[:64]!r}", hint=hint)


def _read(name: str, value: Json, overrides: Overrides, vocabulary: Vocabulary) -> None:
    match name:
        case "tp":
            overrides.layout.update(mode="single", tp=_count("--tp", value))
        case "pd":
            overrides.layout.update(_pd(value))
        case "layout":
            overrides.layout.update(_layout(value))
        case "quant" | "wanted_format":
            overrides.fields["wanted_format"] = _wish(value, vocabulary)
        case "model":
            overrides.fields.update(_model(value, vocabulary))
        case "host":
            overrides.fields["host"] = _host(value)
        case "engine":
            overrides.fields["engine"] = _engine(value, vocabulary)
        case "playbook":
            overrides.playbook = str(value)
        case _:
            overrides.fields[name] = _valid(name, value)


def _valid(name: str, value: Json) -> Any:
    try:
        return getattr(Intent.model_validate({name: value}), name)
    except ValidationError as error:
        raise UsageError(f"{name}: {error.errors()[0]['msg'].lower()}", hint=f"got {value!r:.80}") from None


def _model(value: Json, vocabulary: Vocabulary) -> dict[str, str]:
    text = str(value).strip()
    if hub := hub_address(text, vocabulary.hub_hosts):
        return {"model": hub[0]} | ({"revision": hub[1]} if hub[1] != "main" else {})
    if is_repo_id(text):
        name, _, revision = text.partition("@")
        return {"model": name} | ({"revision": revision} if revision else {})
    if text.startswith("/") and "\n" not in text:
        return {"model": text.rstrip("/") or "/"}
    raise UsageError(
        f"not a model: {text[:80]!r}",
        hint="write ORG/NAME, its address on the Hub, or an absolute directory of the host",
    )


def _host(value: Json) -> str:
    text = str(value).strip()
    if not is_host(text):
        raise UsageError(f"not a host: {text[:80]!r}", hint="write [user@]name[:port], or localhost")
    return text


def _engine(value: Json, vocabulary: Vocabulary) -> str:
    low = str(value).strip().lower()
    for term in vocabulary.engines:
        if low == term.value or low in term.words:
            return term.value
    raise UsageError(
        f"unknown engine: {low[:64]!r}", hint=did_you_mean(low, [t.value for t in vocabulary.engines])
    )


def _wish(value: Json, vocabulary: Vocabulary) -> Wish:
    """A format given outright is a must; a file may say how strong the wish is."""
    if isinstance(value, Wish):
        return value.model_copy(update={"value": format_named(value.value, vocabulary)})
    if isinstance(value, Mapping):
        word = str(value.get("value", ""))
        return Wish(
            value=format_named(word, vocabulary), strength=value.get("strength") or "must", words=word
        )
    return Wish(value=format_named(str(value), vocabulary), strength="must", words=str(value))


def _pd(value: Json) -> dict[str, Any]:
    match = _PAIR.fullmatch(str(value).strip())
    if match is None:
        raise UsageError(
            f"not a prefill/decode layout: {str(value)[:40]!r}",
            hint="write the GPUs of prefill and decode: --pd 4+4",
        )
    return {
        "mode": "pd",
        "prefill_tp": _count("--pd", match.group(1)),
        "decode_tp": _count("--pd", match.group(2)),
    }


def _count(flag: str, value: Json) -> int:
    number = int(value) if isinstance(value, int) or str(value).isdecimal() else 0
    if isinstance(value, bool) or not 0 < number <= 1024:
        raise UsageError(
            f"{flag}: not a number of GPUs: {str(value)[:40]!r}", hint="a whole number, 1 to 1024"
        )
    return number


def _layout(value: Json) -> dict[str, Any]:
    if isinstance(value, Layout):
        return value.model_dump(exclude_unset=True)
    try:
        return Layout.model_validate(value).model_dump(exclude_unset=True)
    except ValidationError as error:
        where = ".".join(str(p) for p in error.errors()[0]["loc"])
        raise UsageError(
            f"layout.{where}: {error.errors()[0]['msg'].lower()}", hint=f"got {value!r:.80}"
        ) from None


def _merged(read: Layout, given: Mapping[str, Any]) -> Layout:
    """The layout read, with what was given on top; sizes of the other mode are dropped."""
    merged = {**read.model_dump(), **given}
    sized = {"prefill_tp", "decode_tp"} & set(given)
    if "mode" not in given and sized:
        merged["mode"] = "pd"
    if merged["mode"] == "pd":
        merged["tp"] = None
    else:
        merged["prefill_tp"] = merged["decode_tp"] = None
    return Layout.model_validate(merged)
