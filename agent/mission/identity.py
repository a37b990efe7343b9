"""What makes two missions the same, and the claims of a directive as findings."""

from __future__ import annotations

import re
from typing import Final

from recon.agent.model.base import Json, canonical_json, sha256_hex
from recon.agent.model.findings import Draft
from recon.agent.model.missions import Claim, Triage

# Names under which several claims may stand: their draft is a list. All others are single values; the first is kept.
_LISTS: Final = frozenset(
    {
        "compared_formats", "conflicts", "datasets", "docs", "engine_prs", "engine_source_hints", "gpus_named", "excluded_steps", "gpu_ids", "gpu_names", "leads",
        "mentioned_formats", "model_hint", "numa_nodes", "other_engines", "other_hosts", "other_models", "other_parallelism", "overruled", "sizes",
        "steps", "uncertain_steps", "unwanted_formats", "unwanted_transfer",
    }
)  # fmt: skip
_SPACES: Final = re.compile(r"\s+")


def mission_key(triage: Triage) -> str:
    """sha256 of the normalised intent and text: the same question again is the same mission.

    Capital letters, white space and a full stop at the end make no difference; neither do the words a wish was read from.
    """
    intent = triage.intent.model_dump(mode="json")
    if intent["wanted_format"] is not None:
        intent["wanted_format"].pop("words")
    intent["verbs"] = sorted(intent["verbs"])
    if intent["host"]:
        intent["host"] = intent["host"].lower()
    text = _SPACES.sub(" ", triage.text).strip().rstrip(".!").casefold()
    return sha256_hex(canonical_json({"intent": intent, "text": text, "playbook": triage.playbook}))


def directive_subject(triage: Triage) -> str:
    """What the claims of a directive are about: `directive:<12 hex>`, the same for the same mission key."""
    return f"directive:{mission_key(triage)[:12]}"


def directive_drafts(triage: Triage) -> list[Draft]:
    """The claims as drafts at level claimed, one a name, sorted by name; plus what found no place.

    The locator quotes the words and says where they stand. Names that may be said several times hold a list.
    """
    named: dict[str, list[Claim]] = {}
    for claim in triage.claims:
        named.setdefault(claim.name, []).append(claim)
    drafts = [_draft(name, claims) for name, claims in sorted(named.items())]
    if triage.unplaced:
        drafts.append(Draft(name="unplaced", value=list(triage.unplaced), level="claimed"))
    return drafts


def _draft(name: str, claims: list[Claim]) -> Draft:
    value: Json = [claim.value for claim in claims] if name in _LISTS else claims[0].value
    first = claims[0]
    locator = f'{first.locator}: "{first.words}"' if first.words and first.locator else first.locator
    return Draft(name=name, value=value, level="claimed", locator=locator)
