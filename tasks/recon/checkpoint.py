"""Read-only tasks about a checkpoint: pin the commit, list files, read config, card and tensor headers, find siblings.

Parameters of all: `repo` (ORG/NAME) and `revision` (a branch, tag or commit; `main` where not said). Everything but the
pin is asked of one commit and recorded on the subject `hf:ORG/NAME@<commit>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from recon.agent.api import (
    Draft,
    Finding,
    Json,
    ParseError,
    ReachError,
    ReconContext,
    ReconTask,
    Seen,
    bytes_text,
)
from recon.tasks.facts.card import CARD
from recon.tasks.facts.config import summary
from recon.tasks.facts.declared import formats_of
from recon.tasks.facts.exclusion_report import Module
from recon.tasks.facts.headers import Merge, dims_of, read_header, shard_fact
from recon.tasks.facts.hub import (
    INDEX,
    TREE,
    complete_series,
    missing_shards,
    siblings_fact,
    subject_of,
)
from recon.tasks.knowledge.format_words import satisfies
from recon.tasks.recon.checkpoint_declared import (
    architecture_of,
    by_names,
    count_of,
    exclusions,
    read_config,
)
from recon.tasks.recon.checkpoint_gguf import by_gguf
from recon.tasks.recon.checkpoint_pin import (
    INDEX_CAP,
    INDEX_FILE,
    Pin,
    file_request,
    header_request,
    pin_now,
    pinned,
    repo_of,
    siblings_request,
    tree_request,
)

PROVED: Final = ("routed_experts", "shared_experts", "dense_mlp", "attention", "mtp", "lm_head", "embeddings")
MAX_SIBLINGS: Final = 8


async def resolve(ctx: ReconContext) -> str:
    """Pins the name to a commit; asks also where it was pinned before, for a branch moves."""
    pin = await pin_now(ctx, *repo_of(ctx.params))
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
    return pin.why or await read_config(ctx, pin)


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
        if said := await by_gguf(ctx, pin):
            return said
        ctx.record(_unproved(paths), subject=subject)
        return await by_names(ctx, pin) or paths
    ctx.progress(f"{len(paths)} headers")
    seen = await ctx.ask_all([(header_request(pin.repo, pin.sha, p), shard_fact(p), subject) for p in paths])
    shards = [f for s in seen for f in s.findings if f.name.startswith("shard.")]
    unread = [p for p, s in zip(paths, seen, strict=True) if not _readable(s)]
    if unread:
        reason = f"{len(unread)} of {len(paths)} headers not read: {_why(seen) or unread[0]}"
        ctx.record(_unproved(reason), subject=subject, inputs=shards)
        await by_names(ctx, pin)
        return reason
    architecture = await architecture_of(ctx, pin)
    merge = _merge(seen, architecture, ctx.view.findings(subject).get("declared"))
    drafts = merge.drafts()
    ctx.record([*drafts, *_with_parameters(architecture, drafts)], subject=subject, inputs=shards)
    modules = [Module(*row) for row in merge.modules()]
    await exclusions(ctx, pin, modules, level="proved", inputs=shards)
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
    request = file_request(pin.repo, pin.sha, INDEX_FILE, cap_bytes=INDEX_CAP)
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


def _merge(seen: Sequence[Seen], architecture: Mapping[str, Json], declared: Finding | None) -> Merge:
    """All shards together. Raises ParseError where two shards of one commit hold a header that is none."""
    merge = Merge(
        layers=count_of(architecture, "layers"), kv_heads=count_of(architecture, "kv_heads"), dims=dims_of(architecture),
        declared=formats_of(declared.value if declared is not None else None),
    )  # fmt: skip
    for one in seen:
        merge.add(read_header(one.raw.stdout), header_bytes=len(one.raw.stdout))
    if not merge.tensors:
        raise ParseError("the headers of this checkpoint name no tensor")
    return merge


def _with_parameters(architecture: Mapping[str, Json], drafts: Sequence[Draft]) -> list[Draft]:
    """The architecture with parameter counts: total from the headers; active: the experts a token takes, no look-ups."""
    counts = next((d.value for d in drafts if d.name == "parameters"), None)
    if not architecture or not isinstance(counts, Mapping):
        return []
    value = {**architecture, "parameters": counts["total"]}
    experts, top = count_of(architecture, "experts"), count_of(architecture, "experts_per_token")
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
    chosen = _chosen(rows, wanted)
    for row in chosen:
        await _sibling(ctx, str(row["repo"]))
    return (
        f"{len(rows)} siblings, {len(chosen)} that name the wanted format"
        if wanted
        else f"{len(rows)} siblings"
    )


def _chosen(rows: Sequence[Mapping[str, Json]], wanted: str) -> list[Mapping[str, Json]]:
    """The siblings to read: those that name the wanted format; without a wish those that an engine may load."""
    if wanted:
        return [row for row in rows if any(satisfies(f, wanted) for f in row["formats"])][:MAX_SIBLINGS]
    return [row for row in rows if not {"gguf", "mlx"} & set(row["formats"])][:MAX_SIBLINGS]


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
        pin = await pin_now(ctx, repo, "main")
        if pin.why:
            return
        await ctx.ask_all([
            (tree_request(repo, pin.sha), TREE, pin.subject),
            (file_request(repo, pin.sha, "README.md"), CARD, pin.subject),
        ])  # fmt: skip
        await read_config(ctx, pin)
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
