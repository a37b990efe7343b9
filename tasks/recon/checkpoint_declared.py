"""What the small files of a commit declare: formats per component, disagreements, exclusions against the tensor names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recon.agent.api import Draft, Fact, Finding, Json, Level, ParseError, ReconContext, Seen
from recon.tasks.facts.config import CONFIG, read_object
from recon.tasks.facts.declared import declare, declared_drafts, statements_of
from recon.tasks.facts.exclusion_report import Module, exclusion_draft, list_fact, named_modules
from recon.tasks.facts.hub import INDEX, TREE
from recon.tasks.facts.index_names import index_names, modules_of, stored
from recon.tasks.facts.kv import element_of, kv_per_token, why_not
from recon.tasks.facts.module_names import Names, component_at, real_names
from recon.tasks.facts.side_files import HF_QUANT, LISTED, QUANTIZE
from recon.tasks.recon.checkpoint_pin import INDEX_CAP, INDEX_FILE, SMALL_CAP, Pin, file_request, tree_request


async def read_config(ctx: ReconContext, pin: Pin) -> str:
    """Reads and records what the files of the commit declare; says the architecture in a line."""
    seen = await _declaring(ctx, pin)
    if drafts := _declared_drafts(seen):
        ctx.record(drafts, subject=pin.subject, inputs=_told(seen))
    value = seen["config.json"].value("architecture")
    return str(value.get("summary")) if isinstance(value, Mapping) else "config.json is not readable"


def _told(seen: Mapping[str, Seen]) -> list[Finding]:
    return [f for s in seen.values() for f in s.findings if f.outcome != "unknown"]


async def _declaring(ctx: ReconContext, pin: Pin) -> dict[str, Seen]:
    """The files that may declare formats: those that engines ask for, and of the others what the commit lists."""
    listed = await _listed(ctx, pin)
    facts: dict[str, Fact] = {
        "config.json": CONFIG,
        "hf_quant_config.json": HF_QUANT,
        "quantize_config.json": QUANTIZE,
    }
    facts |= {path: fact for path, fact in LISTED.items() if path in listed}
    asks = [
        (file_request(pin.repo, pin.sha, path, cap_bytes=_cap(path)), fact, pin.subject)
        for path, fact in facts.items()
    ]
    return dict(zip(facts, await ctx.ask_all(asks), strict=True))


def _cap(path: str) -> int:
    """ModelSlim's file has a line for every tensor."""
    return SMALL_CAP * 4 if path == "quant_model_description.json" else SMALL_CAP


async def _listed(ctx: ReconContext, pin: Pin) -> set[str]:
    """The paths of the commit; empty where the list cannot be read."""
    if "files" not in ctx.view.findings(pin.subject):
        await ctx.ask(tree_request(pin.repo, pin.sha), TREE, subject=pin.subject)
    found = ctx.view.findings(pin.subject).get("files")
    rows = (
        found.value
        if found is not None and found.outcome == "known" and isinstance(found.value, list)
        else []
    )
    return {str(row["path"]) for row in rows if isinstance(row, Mapping) and "path" in row}


def _declared_drafts(
    seen: Mapping[str, Seen], *, real: Names | None = None, stored: Mapping[str, dict[str, Json]] | None = None
) -> list[Draft]:  # fmt: skip
    """`declared` of all the files together, where they disagree, and what follows for the KV cache."""
    architecture = seen["config.json"].value("architecture")
    known = architecture if isinstance(architecture, Mapping) else {}
    plain = str(seen["config.json"].value("plain_dtype", "unknown"))
    value = declare(_objects(seen), known, plain=plain, real=real, stored=stored)
    if value is None:
        return []
    kv = value["components"].get("kv_cache")
    drafts = [*declared_drafts(value), Draft(name="kv_cache", value=kv, level="declared")]
    if not known:
        return drafts
    per_token = kv_per_token(known, tp=1, element_bytes=element_of(kv))
    said = Draft(
        name="kv_per_token", value=per_token, level="declared", locator="SGLang 0.5.23 pool formulas"
    )
    unsaid = Draft(name="kv_per_token", outcome="unknown", reason=why_not(known), level="declared")
    return [*drafts, unsaid if per_token is None else said]


def _objects(seen: Mapping[str, Seen]) -> dict[str, dict[str, Json]]:
    """The files that are JSON objects, by path."""
    found = {}
    for path, one in seen.items():
        try:
            found[path] = read_object(one.raw)
        except ParseError:
            continue
    return found


async def exclusions(
    ctx: ReconContext, pin: Pin, modules: Sequence[Module], *, level: Level, inputs: Sequence[Finding]
) -> None:  # fmt: skip
    """What the exclusion list of the declaration that engines believe covers of the modules that are there."""
    declared = ctx.view.findings(pin.subject).get("declared")
    source = (
        declared.value.get("source") if declared is not None and isinstance(declared.value, Mapping) else None
    )
    path = str(source or "").partition("/")[0]
    if declared is None or not path.endswith(".json") or declared.value.get("quant_method") == "none":
        return
    request = file_request(pin.repo, pin.sha, path, cap_bytes=_cap(path))
    seen = await ctx.ask(request, list_fact(path), subject=pin.subject)
    if statements := statements_of(_objects({path: seen})):
        layers = count_of(await architecture_of(ctx, pin), "layers")
        draft = exclusion_draft(statements[0], modules, layers=layers, level=level)
        ctx.record([draft], subject=pin.subject, inputs=[*inputs, *_told({path: seen})])


async def by_names(ctx: ReconContext, pin: Pin) -> str:
    """Where no header can be read: what the tensor names of the index tell, level declared. "" where there is no index."""
    if INDEX_FILE not in await _listed(ctx, pin):
        return ""
    seen = await ctx.ask(
        file_request(pin.repo, pin.sha, INDEX_FILE, cap_bytes=INDEX_CAP), INDEX, subject=pin.subject
    )
    names = [] if seen.raw.truncated else index_names(_objects({INDEX_FILE: seen}).get(INDEX_FILE, {}))
    if not names:
        return ""
    architecture = await architecture_of(ctx, pin)
    layers, files = count_of(architecture, "layers"), await _declaring(ctx, pin)
    modules = modules_of(names)
    components = stored(modules, layers=layers)
    drafts = _declared_drafts(files, real=real_names(modules, layers=layers), stored=components)
    drafts.append(Draft(name="index_components", value=components, level="declared", locator="/weight_map"))
    ctx.record(drafts, subject=pin.subject, inputs=[*seen.findings, *_told(files)])
    named = named_modules(modules, {name: component_at(name, layers=layers) for name in modules})
    await exclusions(ctx, pin, named, level="declared", inputs=seen.findings)
    return f"{len(names):,} tensor names in the index, no header read"


async def architecture_of(ctx: ReconContext, pin: Pin) -> Mapping[str, Json]:
    """The declared architecture; read now where the config task has not run."""
    if "architecture" not in ctx.view.findings(pin.subject):
        await read_config(ctx, pin)
    found = ctx.view.findings(pin.subject).get("architecture")
    return found.value if found is not None and isinstance(found.value, Mapping) else {}


def count_of(architecture: Mapping[str, Json], name: str) -> int | None:
    """A whole number of an architecture; None where it has none of that name."""
    value = architecture.get(name)
    return value if isinstance(value, int) else None
