"""Read-only tasks about a checkpoint: pin the commit, list files, read config, card and tensor headers, find siblings.

Parameters of all: `repo` (ORG/NAME) and `revision` (a branch, tag or commit; `main` where not said). Everything but the
pin is asked of one commit and recorded on the subject `hf:ORG/NAME@<commit>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from recon.agent.api import (
    Draft,
    Fact,
    Json,
    ParseError,
    ReachError,
    ReconContext,
    ReconTask,
    Request,
    Seen,
    bytes_text,
)
from recon.tasks.facts.card import CARD
from recon.tasks.facts.config import CONFIG, HF_QUANT, QUANTIZE, summary
from recon.tasks.facts.declared import combine
from recon.tasks.facts.headers import Merge, read_header, shard_fact
from recon.tasks.facts.hub import (
    INDEX,
    TREE,
    complete_series,
    missing_shards,
    revision_fact,
    siblings_fact,
    subject_of,
)
from recon.tasks.facts.kv import kv_per_token
from recon.tasks.knowledge.format_words import satisfies

HEADER_CAP: Final = 25_000_000 + 8  # the length limit that safetensors readers agree on
INDEX_CAP: Final = 32 << 20  # the index of a 1,000 B-parameter mixture of experts is about 24 MB
SMALL_CAP: Final = 4 << 20
MAX_SIBLINGS: Final = 8

PROVED: Final = ("routed_experts", "shared_experts", "dense_mlp", "attention", "mtp", "lm_head", "embeddings")


def repo_of(params: Mapping[str, Json]) -> tuple[str, str]:
    """(ORG/NAME, revision) a task was planned with."""
    return str(params["repo"]), str(params.get("revision") or "main")


def revision_request(repo: str, revision: str) -> Request:
    """Which commit a name stands for."""
    return Request(connector="hub", target=repo, probe="hub.revision", revision=revision, cap_bytes=SMALL_CAP)


def tree_request(repo: str, sha: str) -> Request:
    """All files of a commit with their sizes."""
    return Request(connector="hub", target=repo, probe="hub.tree", revision=sha, cap_bytes=SMALL_CAP)


def file_request(repo: str, sha: str, path: str, *, cap_bytes: int = SMALL_CAP) -> Request:
    """One file of a commit."""
    return Request(
        connector="hub", target=repo, probe="hub.file", revision=sha, path=path, cap_bytes=cap_bytes
    )


def header_request(repo: str, sha: str, path: str) -> Request:
    """The header of one safetensors file, without its data."""
    return Request(
        connector="hub",
        target=repo,
        probe="hub.header",
        revision=sha,
        path=path,
        cap_bytes=HEADER_CAP,
        timeout_s=60.0,
    )


def siblings_request(base: str) -> Request:
    """Everything that says it was quantized from a base."""
    query = (("filter", f"base_model:quantized:{base}"),)
    return Request(connector="hub", target=base, probe="hub.siblings", query=query, cap_bytes=SMALL_CAP)


@dataclass(frozen=True)
class Pin:
    """A checkpoint at one commit; `why` says what is wrong where the commit is not known."""

    repo: str
    sha: str = ""
    why: str = ""

    @property
    def subject(self) -> str:
        """The subject everything about the commit is recorded on."""
        return subject_of(self.repo, self.sha)


async def pinned(ctx: ReconContext, repo: str = "", revision: str = "main") -> Pin:
    """The commit a name stands for, asked now where nothing has pinned it yet. Without `repo`: the task's own."""
    if not repo:
        repo, revision = repo_of(ctx.params)
    subject = ctx.view.resolve(subject_of(repo, revision))
    if subject != subject_of(repo, revision):
        return Pin(repo, subject.rpartition("@")[2])
    return await _pin(ctx, repo, revision)


async def _pin(ctx: ReconContext, repo: str, revision: str) -> Pin:
    """The commit a name stands for, asked now."""
    fact = revision_fact(repo, revision)
    seen = await ctx.ask(revision_request(repo, revision), fact, subject=subject_of(repo, revision))
    found = seen.value("same_as")
    if isinstance(found, str):
        return Pin(repo, found.rpartition("@")[2])
    reason = next((f.reason for f in seen.findings if f.outcome == "unknown"), "no answer")
    return Pin(repo, why=f"the commit of {repo}@{revision} is not known: {reason}")


async def resolve(ctx: ReconContext) -> str:
    """Pins the name to a commit; asks also where it was pinned before, for a branch moves."""
    pin = await _pin(ctx, *repo_of(ctx.params))
    return pin.why or f"{pin.repo} is commit {pin.sha[:12]}"


async def files(ctx: ReconContext) -> str:
    """Lists the files of the commit and what of them has to be fetched."""
    pin = await pinned(ctx)
    if pin.why:
        return pin.why
    seen = await ctx.ask(tree_request(pin.repo, pin.sha), TREE, subject=pin.subject)
    size = seen.value("download_bytes")
    return (
        f"{bytes_text(size)} to fetch" if isinstance(size, int) else "the size of the download is not known"
    )


async def config(ctx: ReconContext) -> str:
    """Reads config.json and the quantization files beside it."""
    pin = await pinned(ctx)
    return pin.why or await _config(ctx, pin)


async def _config(ctx: ReconContext, pin: Pin) -> str:
    facts: tuple[tuple[str, Fact], ...] = (
        ("config.json", CONFIG), ("hf_quant_config.json", HF_QUANT), ("quantize_config.json", QUANTIZE),
    )  # fmt: skip
    seen = await ctx.ask_all(
        [(file_request(pin.repo, pin.sha, path), fact, pin.subject) for path, fact in facts]
    )
    drafts = _declared_drafts(seen)
    if drafts:
        ctx.record(
            drafts,
            subject=pin.subject,
            inputs=[f for s in seen for f in s.findings if f.outcome != "unknown"],
        )
    value = seen[0].value("architecture")
    return str(value.get("summary")) if isinstance(value, Mapping) else "config.json is not readable"


def _declared_drafts(seen: Sequence[Seen]) -> list[Draft]:
    config, hf_quant, _ = seen
    architecture = config.value("architecture")
    if not isinstance(architecture, Mapping):
        return []
    value = combine(
        architecture, config=config.value("config.declared"), hf_quant=hf_quant.value("hf_quant.declared"),
        plain=str(config.value("plain_dtype", "unknown")),
    )  # fmt: skip
    drafts = [Draft(name="declared", value=value, level="declared", locator=str(value.get("source", "")))]
    kv = value["components"].get("kv_cache")
    drafts.append(Draft(name="kv_cache", value=kv, level="declared"))
    fp8_cache = "8" in str((kv or {}).get("said") or "")
    if (per_token := kv_per_token(architecture, tp=1, element_bytes=1 if fp8_cache else 2)) is not None:
        drafts.append(
            Draft(
                name="kv_per_token", value=per_token, level="declared", locator="SGLang 0.5.23 pool formulas"
            )
        )
    return drafts


async def card(ctx: ReconContext) -> str:
    """Reads the model card."""
    pin = await pinned(ctx)
    if pin.why:
        return pin.why
    seen = await ctx.ask(file_request(pin.repo, pin.sha, "README.md"), CARD, subject=pin.subject)
    leads, advice = seen.value("card.leads", []), seen.value("card.hardware", [])
    return f"{len(advice)} statements about hardware, {len(leads)} reports of trouble"


async def headers(ctx: ReconContext) -> str:
    """Reads the header of every shard and says per component which format the tensors have."""
    pin = await pinned(ctx)
    if pin.why:
        return pin.why
    paths, subject = await _weight_files(ctx, pin), pin.subject
    if isinstance(paths, str):
        ctx.record(_unproved(paths), subject=subject)
        return paths
    ctx.progress(f"{len(paths)} headers")
    seen = await ctx.ask_all([(header_request(pin.repo, pin.sha, p), shard_fact(p), subject) for p in paths])
    shards = [f for s in seen for f in s.findings if f.name.startswith("shard.")]
    unread = [p for p, s in zip(paths, seen, strict=True) if not _readable(s)]
    if unread:
        reason = f"{len(unread)} of {len(paths)} headers not read: {_why(seen) or unread[0]}"
        ctx.record(_unproved(reason), subject=subject, inputs=shards)
        return reason
    architecture = await _architecture(ctx, pin)
    drafts = _merge(seen, architecture)
    ctx.record([*drafts, *_with_parameters(architecture, drafts)], subject=subject, inputs=shards)
    return _said(drafts)


async def _weight_files(ctx: ReconContext, pin: Pin) -> list[str] | str:
    """The safetensors files an engine would load, or why there is nothing to read."""
    found = ctx.view.findings(pin.subject)
    if "weight_files" not in found:
        await ctx.ask(tree_request(pin.repo, pin.sha), TREE, subject=pin.subject)
        found = ctx.view.findings(pin.subject)
    listed = found.get("weight_files")
    if listed is None or listed.outcome != "known":
        return listed.reason if listed is not None else "the file list was not read"
    paths = [str(p) for p in listed.value]
    if gone := missing_shards(paths):
        return f"{len(gone)} shards are missing at this commit, first {gone[0]}"
    series, others = complete_series(paths)
    if not others or (not series and len(others) == 1):
        return paths
    return await _named_by_index(ctx, pin, paths)


async def _named_by_index(ctx: ReconContext, pin: Pin, paths: list[str]) -> list[str] | str:
    """Files beside a complete series are loaded only where the index names them."""
    request = file_request(pin.repo, pin.sha, "model.safetensors.index.json", cap_bytes=INDEX_CAP)
    seen = await ctx.ask(request, INDEX, subject=pin.subject)
    named = seen.value("index_files")
    if not isinstance(named, list):
        absent = any(f.name == "index_files" and f.outcome == "absent" for f in seen.findings)
        return paths if absent else "the index that says which files are loaded was not read"
    left_out = [p for p in paths if p not in named]
    drafts = [
        Draft(
            name="not_loaded",
            value=left_out,
            level="declared",
            locator="weight files the index does not name",
        )
    ]
    ctx.record(drafts, subject=pin.subject, inputs=seen.findings)
    return [p for p in paths if p in named]


def _readable(seen: Seen) -> bool:
    return any(f.name.startswith("shard.") and f.outcome == "known" for f in seen.findings)


def _why(seen: Sequence[Seen]) -> str:
    return next((f.reason for s in seen for f in s.findings if f.outcome == "unknown" and f.reason), "")


def _unproved(reason: str) -> list[Draft]:
    names = (*PROVED, "split", "weights_bytes", "tensor_count", "scale_names")
    return [Draft(name=name, outcome="unknown", reason=reason) for name in names]


async def _architecture(ctx: ReconContext, pin: Pin) -> Mapping[str, Json]:
    """The declared architecture; read now where the config task has not run."""
    if "architecture" not in ctx.view.findings(pin.subject):
        await _config(ctx, pin)
    found = ctx.view.findings(pin.subject).get("architecture")
    return found.value if found is not None and isinstance(found.value, Mapping) else {}


def _merge(seen: Sequence[Seen], architecture: Mapping[str, Json]) -> list[Draft]:
    """All shards together. Raises ParseError where two shards of one commit hold a header that is none."""
    sizes = ("hidden_size", "intermediate_size", "moe_intermediate_size")
    dims = frozenset(n for name in sizes if (n := _count(architecture, name)))
    merge = Merge(layers=_count(architecture, "layers"), kv_heads=_count(architecture, "kv_heads"), dims=dims)
    for one in seen:
        merge.add(read_header(one.raw.stdout), header_bytes=len(one.raw.stdout))
    drafts = merge.drafts()
    if not any(d.name == "weights_bytes" and d.value for d in drafts):
        raise ParseError("the headers of this checkpoint name no tensor")
    return drafts


def _count(architecture: Mapping[str, Json], name: str) -> int | None:
    value = architecture.get(name)
    return value if isinstance(value, int) else None


def _with_parameters(architecture: Mapping[str, Json], drafts: Sequence[Draft]) -> list[Draft]:
    """The architecture with parameter counts: total from the headers; active: the experts a token takes, no look-ups."""
    counts = next((d.value for d in drafts if d.name == "parameters"), None)
    if not architecture or not isinstance(counts, Mapping):
        return []
    value = {**architecture, "parameters": counts["total"]}
    experts, top = _count(architecture, "experts"), _count(architecture, "experts_per_token")
    if experts and top:
        routed = int(counts["routed_experts"])
        value["active_parameters"] = (
            int(counts["total"]) - int(counts["embeddings"]) - routed + routed * top // experts
        )
    value["summary"] = summary(value)
    return [
        Draft(name="architecture", value=value, level="declared", locator="config.json and tensor headers")
    ]


def _said(drafts: Sequence[Draft]) -> str:
    by_name = {d.name: d.value for d in drafts}
    formats = [
        by_name[n]["format"]
        for n in ("routed_experts", "dense_mlp", "attention")
        if "format" in by_name.get(n, {})
    ]
    size = bytes_text(by_name["weights_bytes"])
    return f"{by_name['tensor_count']:,} tensors, {size}, {formats[0] if formats else 'unknown'}"


async def siblings(ctx: ReconContext) -> str:
    """Lists what else was quantized from the same base, and reads files, config and card of those in the wanted format."""
    pin = await pinned(ctx)
    if pin.why:
        return pin.why
    base = _base(ctx, pin.subject)
    if not base:
        reason = "neither the card nor the tags name a base model"
        ctx.record(
            [Draft(name="siblings", outcome="unknown", reason=reason, level="claimed")], subject=pin.subject
        )
        return reason
    seen = await ctx.ask(siblings_request(base), siblings_fact(base=base, own=pin.repo), subject=pin.subject)
    rows = seen.value("siblings", [])
    wanted = _wanted(ctx)
    chosen = [row for row in rows if wanted and any(satisfies(f, wanted) for f in row["formats"])][
        :MAX_SIBLINGS
    ]
    for row in chosen:
        await _sibling(ctx, str(row["repo"]))
    return (
        f"{len(rows)} siblings, {len(chosen)} that name the wanted format"
        if wanted
        else f"{len(rows)} siblings"
    )


def _base(ctx: ReconContext, subject: str) -> str:
    found = ctx.view.findings(subject)
    for name in ("card.base_model", "base_model"):
        held = found.get(name)
        if held is not None and held.outcome == "known" and held.value:
            return str(held.value)
    return ""


def _wanted(ctx: ReconContext) -> str:
    if wish := ctx.intent.wanted_format:
        return wish.value
    said = ctx.view.value("mission.wanted_format", "")
    return str(said.get("value", "") if isinstance(said, Mapping) else said)


async def _sibling(ctx: ReconContext, repo: str) -> None:
    """Files, config and card of one sibling, on its own subject. One that cannot be read does not stop the others."""
    ctx.progress(repo)
    try:
        pin = await _pin(ctx, repo, "main")
        if pin.why:
            return
        await ctx.ask_all([
            (tree_request(repo, pin.sha), TREE, pin.subject),
            (file_request(repo, pin.sha, "README.md"), CARD, pin.subject),
        ])  # fmt: skip
        await _config(ctx, pin)
    except ReachError as error:
        drafts = [Draft(name="same_as", outcome="unknown", reason=error.message, level="claimed")]
        ctx.record(drafts, subject=subject_of(repo, "main"))


CHECKPOINT_TASKS: Final = (
    ReconTask(name="checkpoint.resolve", run=resolve, reads_intent=()),
    ReconTask(name="checkpoint.files", run=files, reads_intent=()),
    ReconTask(name="checkpoint.config", run=config, reads_intent=()),
    ReconTask(name="checkpoint.card", run=card, reads_intent=()),
    ReconTask(name="checkpoint.headers", run=headers, reads_intent=()),
    ReconTask(name="checkpoint.siblings", run=siblings, reads_intent=("wanted_format",)),
)
