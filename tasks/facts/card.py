"""A model card: front matter and prose -> claims. Nothing a card says is more than `claimed`, and nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from recon.agent.api import Draft, Fact, Json, ParseError, Raw
from recon.tasks.facts import card_claims as claims
from recon.tasks.facts.card_front import front_matter, split_front, words
from recon.tasks.facts.card_text import DATE, CardText, clean_line, read_body
from recon.tasks.knowledge.format_words import formats_in

__all__ = ["CARD", "clean_line", "parse_card"]

_REPO: Final = re.compile(r"^(?:https?://[\w.-]{1,80}/)?([A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96})/?$")
_FRONT: Final = (
    "license",
    "library_name",
    "pipeline_tag",
    "base_model_relation",
    "quantized_by",
    "model_type",
    "language",
    "datasets",
)


def parse_card(raw: Raw) -> list[Draft]:
    """`card.*` claims of a README.md: engines, patches, sizes, hardware, leads, mtp, benchmarks, recommendations, dates,
    formats, front matter."""
    if raw.state == "missing":
        return [
            Draft(name="card", outcome="absent", reason="the repository has no README.md", level="claimed")
        ]
    if raw.state != "ok":
        return [Draft(name="card", outcome="unknown", reason=raw.reason or raw.state, level="claimed")]
    head, body, offset = split_front(raw.text)
    front, fields = _front(head)
    text = read_body(body, offset=offset)
    values = {"card": {"characters": len(raw.text), "truncated": raw.truncated}, **_values(fields, text)}
    drafts = [
        Draft(name=name, value=value, level="claimed", locator=_where(value))
        for name, value in values.items()
    ]
    drafts.append(front)
    if bases := base_models(fields):
        drafts.append(Draft(name="card.base_model", value=bases[0], level="claimed", locator="front matter"))
    return drafts


def _values(fields: Mapping[str, Json], text: CardText) -> dict[str, Json]:
    said = text.sentences
    tags = words(fields.get("tags"))
    return {
        "card.engines": claims.engines(fields, said),
        "card.patches": claims.patches(said),
        "card.sizes": claims.sizes(said),
        "card.hardware": claims.hardware(said),
        "card.leads": claims.leads(said),
        "card.mtp": claims.mtp(said),
        "card.benchmarks": claims.benchmarks(fields, said, text.tables),
        "card.recommendations": claims.recommendations(said),
        "card.dates": sorted({date for s in said for date in DATE.findall(s.text)})[:100],
        "card.formats": formats_in(text.title, *tags),
        "card.tags": tags[:100],
    }


def _front(head: str) -> tuple[Draft, dict[str, Json]]:
    """The draft `card.front_matter` and the fields; no field of a head that is not strict YAML is believed."""
    try:
        fields = front_matter(head)
    except ParseError as error:
        reason = clean_line(error.message)
        return Draft(name="card.front_matter", outcome="unknown", reason=reason, level="claimed"), {}
    value: dict[str, Json] = {name: found for name in _FRONT if (found := words(fields.get(name)))}
    value["base_models"] = base_models(fields)
    value["gated_prompt"] = any(key.startswith("extra_gated") for key in fields)
    return Draft(name="card.front_matter", value=value, level="claimed", locator="front matter"), fields


def base_models(fields: Mapping[str, Json]) -> list[str]:
    """The base models a front matter names, as ORG/NAME where it gives an address; a local path stays as it is."""
    return [match[1] if (match := _REPO.match(said)) else said for said in words(fields.get("base_model"))]


def _where(value: Json) -> str:
    first = value[0] if isinstance(value, list) and value else value
    line = first.get("line") if isinstance(first, dict) else None
    return f"line {line}" if isinstance(line, int) else "whole text"


CARD = Fact(id="checkpoint.card", parse=parse_card)
