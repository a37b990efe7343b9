"""Triage: a directive in prose becomes an intent, claims, and the words that found no place. Rules only, no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recon.agent.mission import language
from recon.agent.mission.asking import only_asks
from recon.agent.mission.engines import EngineWords, read_engine
from recon.agent.mission.flags import Overrides, read_overrides
from recon.agent.mission.formats import read_format
from recon.agent.mission.places import host_name, read_host
from recon.agent.mission.reading import Reading
from recon.agent.mission.sources import Sources, read_sources
from recon.agent.mission.spread import Spread, read_layout
from recon.agent.mission.text import clean_text
from recon.agent.mission.verbs import Steps, read_steps
from recon.agent.mission.vocabulary import Vocabulary
from recon.agent.model.base import Json
from recon.agent.model.missions import Claim, Intent, Triage, Wish

# Where only "don't ..." is said, everything else is asked for; these come only where asked for or found to be needed.
_ON_DEMAND: Final = frozenset({"stop", "port"})
_DEFAULT_ENGINE: Final = "sglang"
CHECK: Final = "check"


def triage(text: str, vocabulary: Vocabulary, *, overrides: Mapping[str, Json] | None = None) -> Triage:
    """Reads a directive. What `overrides` says (fields of the intent, from flags or a file) wins over the words.

    Raises MissionError where the words name two models or two hosts and nothing says which is meant, and UsageError
    where an override makes no sense. Time grows linearly with the text.
    """
    given = read_overrides(overrides or {}, vocabulary)
    reading, read = read_directive(text, vocabulary, given)
    intent = given.applied(read)
    playbook = given.playbook or _playbook(reading, intent, vocabulary)
    if playbook == CHECK:  # nothing is to be done: what the words would do is what is asked about
        intent = intent.model_copy(update={"verbs": (), "extra": {**intent.extra, "check_only": True}})
    claims = (*reading.claims, *_layout_claims(read), *_overruled(read, intent, given))
    return Triage(
        text=reading.text, intent=intent, claims=claims, unplaced=reading.unplaced(), playbook=playbook
    )


def _playbook(reading: Reading, intent: Intent, vocabulary: Vocabulary) -> str:
    """The playbook of a directive: `check` where it only asks, else the one of its layout."""
    if CHECK in vocabulary.playbooks and intent.model and only_asks(reading):
        return vocabulary.playbooks[CHECK]
    return vocabulary.playbooks.get(intent.layout.mode, "deploy")


def read_directive(text: str, vocabulary: Vocabulary, given: Overrides) -> tuple[Reading, Intent]:
    """The reading of a text and the intent its words give. `given` only settles what would be ambiguous."""
    reading = Reading.of(clean_text(text), vocabulary)
    sources = read_sources(reading, model=given.fields.get("model"))
    steps = read_steps(reading)
    host = read_host(reading, host=given.fields.get("host"))
    wish = read_format(reading)
    spread = read_layout(reading, pd_page=sources.pd_page)
    engine = read_engine(reading, stopped=steps.stopped, given=given.fields.get("engine"))
    _model_hints(reading)
    _place_cues(reading)
    return reading, _intent(sources, steps, host, wish, spread, engine, vocabulary)


def _intent(
    sources: Sources,
    steps: Steps,
    host: str | None,
    wish: Wish | None,
    spread: Spread,
    engine: EngineWords,
    vocabulary: Vocabulary,
) -> Intent:
    verbs = steps.asked
    if not verbs and steps.excluded:
        verbs = [v for v in vocabulary.verbs if v not in steps.excluded and v not in _ON_DEMAND]
    extra: dict[str, Json] = dict(engine.extra)
    if steps.excluded:
        extra["excluded"] = steps.excluded
    if spread.gpus:
        extra["gpus"] = spread.gpus
    if sources.pulls:
        extra["engine_prs"] = sources.pulls
    return Intent(
        model=sources.model, revision=sources.revision, host=host, engine=engine.engine or _DEFAULT_ENGINE, wanted_format=wish,
        layout=spread.layout, verbs=tuple(verbs), docs=tuple(dict.fromkeys(sources.docs)), target_dir=sources.target_dir,
        transfer_backend=engine.transfer_backend, extra=extra,
    )  # fmt: skip


def _model_hints(reading: Reading) -> None:
    """Model names without an organisation: nothing to fetch by, but worth saying."""
    at, first_words = 0, tuple(family.split("-")[0] for family in reading.vocabulary.families)
    while at < len(reading.tokens):
        token, start = reading.tokens[at], at
        at += 1
        if token.kind != "word" or not token.low.startswith(first_words):
            continue
        if reading.placed[start] or reading.is_light(start) or not _is_family(reading, start):
            continue
        while at < len(reading.tokens) and _goes_on(reading, at):
            at += 1
        reading.claim("model_hint", reading.quote(start, at), start, at)


def _is_family(reading: Reading, index: int) -> bool:
    whole = reading.text[reading.tokens[index].start : reading.tokens[index].start + 24].lower()
    family = next((f for f in reading.vocabulary.families if whole.startswith(f)), "")
    return bool(family) and not whole[len(family) : len(family) + 1].isalpha()


def _goes_on(reading: Reading, index: int) -> bool:
    """Whether a model's name goes on: glued on (`-V4-Flash`), or a version behind a space (`K2.6`)."""
    token = reading.tokens[index]
    if token.kind != "word" or reading.placed[index]:
        return False
    return token.glued or (
        token.text[0].isalnum() and any(c.isdigit() for c in token.text) and len(token.text) <= 8
    )


def _place_cues(reading: Reading) -> None:
    """Cues that steered the reading have found their place, also where no wish came of them."""
    for kind in ("negation", "hedge", "must", "prefer", "here", "read_only"):
        for match in reading.found(kind):
            reading.place(match.start, match.end)
    for index, word in enumerate(reading.words):
        if (
            word in language.NUMBERS
            or word in language.EACH
            or word in language.HOST_NAMING
            or word in language.USING
        ):
            reading.place(index)


def _layout_claims(intent: Intent) -> list[Claim]:
    """The layout as claims: what the directive says about it, in the words of the intent."""
    layout = intent.layout
    if layout.mode == "single" and layout.tp is None and not layout.one_node_per_instance:
        return []
    claims = [Claim(name="layout", value=layout.model_dump(mode="json", exclude_none=True), words="")]
    if layout.mode == "single" and layout.tp is not None:
        claims.append(Claim(name="tp", value=layout.tp, words=""))
    return claims


def _overruled(read: Intent, intent: Intent, given: Overrides) -> list[Claim]:
    """What the words said and a flag overruled."""
    claims = []
    for name in sorted(given.named):
        said, flag = getattr(read, name), getattr(intent, name)
        default = Intent.model_fields[name].get_default(call_default_factory=True)
        if said == default or _same(name, said, flag):
            continue
        value = {"field": name, "words": _plain(said), "flag": _plain(flag)}
        claims.append(Claim(name="overruled", value=value, words=f"{name}: {_plain(said)}", locator="flags"))
    return claims


def _same(name: str, said: Json, flag: Json) -> bool:
    if name == "host" and isinstance(said, str) and isinstance(flag, str):
        return host_name(said) == host_name(flag)
    if isinstance(said, Wish) and isinstance(flag, Wish):
        return said.value == flag.value
    return bool(said == flag)


def _plain(value: Json) -> Json:
    if isinstance(value, Wish):
        return value.value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    return list(value) if isinstance(value, tuple) else value
