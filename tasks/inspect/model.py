"""`recon inspect model`: what a checkpoint really holds, in one document (`recon.inspection.model/1`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from recon.agent.api import Finding, Intent, Json, Judgement, Plan, PlannedTask, View
from recon.tasks.facts.kv import element_of, kv_per_token
from recon.tasks.facts.split import per_rank_bytes
from recon.tasks.inspect.model_text import lines
from recon.tasks.playbooks.common import bindings, read_task
from recon.tasks.playbooks.reads import checkpoint_reads, judges

SCHEMA: Final = "recon.inspection.model/1"
COMPONENTS: Final = (
    "routed_experts", "shared_experts", "dense_mlp", "attention", "linear_attention", "indexer", "compressor", "router", "mtp",
    "embeddings", "lm_head", "vision", "kv_cache", "other",
)  # fmt: skip
# These need a host; without one they would only say that they know none.
_NOT_HERE: Final = frozenset({"judge.memory"})
_LEVELS: Final = {"proved": 3, "declared": 2, "claimed": 1}
_QUIET: Final = frozenset({"pass"})
_MAX_SIBLINGS: Final = 40


class ModelInspection:
    """Reads a checkpoint and says what it is. The intent's `layout.tp` is the number of ranks sizes are given for."""

    name: Final = "inspect_model"
    version: Final = "1"

    def bindings(self, intent: Intent, directive_subject: str) -> dict[str, str]:
        """Which subject each role stands for."""
        return bindings(intent, directive_subject)

    def plan(self, intent: Intent, view: View) -> Plan:
        """The readings of the checkpoint, its siblings, and the judges that need no host."""
        reads = [t for t in checkpoint_reads(intent, view) if t.definition != "checkpoint.siblings"]
        reads += _siblings(intent)
        keys = [task.key for task in reads]
        return Plan(tasks=(*reads, *(t for t in judges(intent, keys) if t.key not in _NOT_HERE)))

    def document(self, view: View, judgements: Sequence[Judgement]) -> dict[str, Json]:
        """The document. Levels are those of the evidence: headers `proved`, files `declared`, words `claimed`."""
        found = view.findings(view.subject("checkpoint"))
        tp = view.intent.layout.tp or 1
        architecture = _value(found, "architecture")
        folder = "in_folder" in found and "commit" in found and not _noted(found)
        return {
            "schema": SCHEMA, "repo": view.intent.model, "commit": None if folder else _value(found, "commit"),
            "content_id": _value(found, "commit") if folder else None, "tp": tp,
            "components": {name: row for name in COMPONENTS if (row := component(found, name)) is not None},
            "architecture": architecture, "declared": _declared(found), "claimed": _claimed(view, found),
            "engines_named": _engines(found), "bytes": _bytes(found), "bytes_per_rank": per_rank_bytes(_value(found, "split"), tp),
            "kv_bytes_per_token": _kv(architecture, _value(found, "kv_cache"), tp),
            "siblings": _list(_value(found, "siblings"))[:_MAX_SIBLINGS],
            "servable": _servable(judgements),
            "discrepancies": [_discrepancy(view, j) for j in judgements if j.verdict in ("conflict", "block", "warn")],
            "judgements": [{"key": j.key, "verdict": j.verdict, "title": j.title} for j in judgements],
            "unknown": sorted({f"{n}: {f.reason}" for n, f in found.items() if f.outcome == "unknown" and not n.startswith("shard.")}),
        }  # fmt: skip

    def text(self, document: Mapping[str, Json], *, width: int) -> list[str]:
        """The same for people."""
        return lines(document, width=width)


def _siblings(intent: Intent) -> Iterator[PlannedTask]:
    repo = str(intent.model)
    params: dict[str, Json] = {"repo": repo, "revision": intent.revision}
    needs = [f"checkpoint.config[{repo}]", f"checkpoint.card[{repo}]"]
    yield read_task(
        "checkpoint.siblings", repo, "look for siblings", params, limit="hub", required=False, needs=needs, on="settled",
        order=15, timeout_s=300,
    )  # fmt: skip


# ---- components


def component(found: Mapping[str, Finding], name: str) -> dict[str, Json] | None:
    """`{format, presence, level, group_size?, evidence}` of a component from the best evidence; None where nothing says.

    Headers win; where they were not read, what the files declare. A part whose headers are read but whose format they do
    not tell keeps what is declared of the format, with the presence the headers prove.
    """
    proved, declared = _value(found, name), _declared_components(found).get(name)
    held = found.get(name)
    level = held.level if held is not None and held.outcome == "known" else None
    if isinstance(proved, Mapping) and (level == "proved" or declared is None):
        row = _row(proved, level or "declared", _evidence(proved, held))
        if row["format"] != "unknown" or not isinstance(declared, Mapping) or row["presence"] == "absent":
            return row
        told = _row(declared, "declared", _source(found))
        return {**told, "presence": row["presence"]}
    if isinstance(declared, Mapping):
        return _row(declared, "declared", str(declared.get("because") or "") or _source(found))
    return None


def _row(value: Mapping[str, Any], level: str, evidence: str) -> dict[str, Json]:
    presence = str(value.get("presence") or "unknown")
    fmt = str(value.get("format") or "unknown")
    row: dict[str, Json] = {
        "format": fmt, "presence": presence, "evidence": evidence[:300],
        "level": "unknown" if fmt == "unknown" and presence == "unknown" else level,
    }  # fmt: skip
    for key in ("group_size", "bytes", "tensors", "mixed", "said", "types"):
        if value.get(key) is not None:
            row[key] = value[key]
    return row


def _evidence(value: Mapping[str, Any], held: Finding | None) -> str:
    if value.get("signature"):
        return str(value["signature"])
    return str(held.locator) if held is not None and held.locator else "tensor headers"


def _source(found: Mapping[str, Finding]) -> str:
    declared = _value(found, "declared")
    return str(declared.get("source") or "config.json") if isinstance(declared, Mapping) else "config.json"


def _declared_components(found: Mapping[str, Finding]) -> Mapping[str, Any]:
    declared = _value(found, "declared")
    rows = declared.get("components") if isinstance(declared, Mapping) else None
    return rows if isinstance(rows, Mapping) else {}


# ---- the other parts


def _declared(found: Mapping[str, Finding]) -> Json:
    value = _value(found, "declared")
    return {k: v for k, v in value.items() if k != "components"} if isinstance(value, Mapping) else None


def _claimed(view: View, found: Mapping[str, Finding]) -> dict[str, Json]:
    claims = {
        name.removeprefix("card."): f.value
        for name, f in sorted(found.items())
        if name.startswith("card.") and f.outcome == "known" and f.value not in ([], {}, "")
    }
    tags = _value(found, "tags")
    return {"name": str(view.intent.model), **({"hub_tags": tags} if tags else {}), **claims}


def _engines(found: Mapping[str, Finding]) -> list[Json]:
    value = _value(found, "card.engines")
    return _list(value.get("named")) if isinstance(value, Mapping) else []


def _bytes(found: Mapping[str, Finding]) -> dict[str, Json]:
    names = {
        "repo": "repo_bytes", "download": "download_bytes", "engine_download": "engine_download_bytes", "weights": "weights_bytes",
        "headers_read": "header_bytes",
    }  # fmt: skip
    return {word: _value(found, name) for word, name in names.items()}


def _kv(architecture: Json, kv_cache: Json, tp: int) -> Json:
    if not isinstance(architecture, Mapping):
        return None
    cache = dict(kv_cache) if isinstance(kv_cache, Mapping) else None
    return kv_per_token(architecture, tp=tp, element_bytes=element_of(cache))


def _servable(judgements: Sequence[Judgement]) -> dict[str, Json]:
    line = next((j for j in judgements if j.key == "checkpoint.servable"), None)
    if line is None or not isinstance(line.observed, Mapping):
        return {"answer": "unknown", "reasons": ["it was not judged"]}
    return {"answer": line.observed.get("answer"), "reasons": _list(line.observed.get("reasons"))}


def _discrepancy(view: View, judgement: Judgement) -> dict[str, Json]:
    by_id = {f.id: f for f in view.all_findings()}
    sides = [(s.side, by_id[s.finding_id]) for s in judgement.sides if s.finding_id in by_id]
    return {
        "key": judgement.key, "verdict": judgement.verdict, "title": judgement.title, "observed": judgement.observed,
        "expected": judgement.expected, "detail": list(judgement.detail), "consequence": judgement.consequence,
        "options": [o.title for o in judgement.options],
        "evidence": [{"side": side, "finding": f.name, "level": f.level, "at": f.locator} for side, f in sides[:8]],
    }  # fmt: skip


def _noted(found: Mapping[str, Finding]) -> bool:
    """Whether a folder's id is a commit that the Hub's tools noted."""
    held = found.get("commit_noted")
    return held is not None and held.value is True


def _value(found: Mapping[str, Finding], name: str) -> Json:
    held = found.get(name)
    return held.value if held is not None and held.outcome == "known" else None


def _list(value: Json) -> list[Json]:
    return list(value) if isinstance(value, (list, tuple)) else []


inspection: Final = ModelInspection()
