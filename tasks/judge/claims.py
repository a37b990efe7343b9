"""Name, tags and declarations against one another and against the tensors: every disagreement is a line with both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from recon.agent.api import Json, Judged, Judgement, JudgeTask, Read, View
from recon.tasks.judge.components import NAMES, Part, parts
from recon.tasks.judge.reading import fit, judgement, not_known, plain, sides
from recon.tasks.knowledge.format_words import shown
from recon.tasks.knowledge.name_words import Promise, algorithms, promises, promises_draft

KEY: Final = "checkpoint.claims"
NAME: Final = "checkpoint.name"
_FP4: Final = frozenset({"mxfp4", "nvfp4", "nvfp4-w4a16"})
_TAGS: Final = ("checkpoint.tags", "checkpoint.card.tags")
_FP8_SCALES: Final = ("weight_scale", "weight_scale_inv")


@dataclass(frozen=True)
class Known:
    """What the lines of this judge are made of."""

    view: View
    parts: Mapping[str, Part]
    declared: Read
    name: str
    named: Read  # the finding that carries the repository's name

    @property
    def value(self) -> Mapping[str, Json]:
        """The declaration; empty where none is known."""
        return self.declared.value if self.declared.known and isinstance(self.declared.value, Mapping) else {}

    @property
    def method(self) -> str:
        """The declared `quant_method`; `none` where the files declare nothing, "" where that is not known."""
        return str(self.value.get("quant_method") or "")

    @property
    def formats(self) -> frozenset[str]:
        """Every format that any component has."""
        return frozenset(fmt for part in self.parts.values() for fmt in part.formats)


def judge(view: View) -> Judged:
    """All that contradicts; one line that nothing does, where all of it was read."""
    known = look(view)
    lines = [
        *_name(known), *_tags(known), *_silent(known), *_method(known), *_w4a16(known), *_disagreement(known), *_abridged(known),
        *_exclusions(known), *_scales(known), *_kv_cache(known),
    ]  # fmt: skip
    return Judged(judgements=(*lines, _whole(known, lines)))


def look(view: View) -> Known:
    """The components, the declaration and the name of the checkpoint that is bound."""
    named = view.read("checkpoint.repo")
    name = (
        str(named.value) if named.known else view.subject("checkpoint").removeprefix("hf:").rpartition("@")[0]
    )
    return Known(view, parts(view), view.read("checkpoint.declared"), name, named)


def _whole(known: Known, lines: list[Judgement]) -> Judgement:
    """The line for the rest: agreed, or not known because something was not read."""
    view = known.view
    main = [view.read(f"checkpoint.{name}") for name in ("routed_experts", "attention", "mtp")]
    config = view.read("checkpoint.architecture")
    reads = [known.named, known.declared, config, view.read("checkpoint.scale_names"), *main]
    unread = [read for read in reads if not read.known]
    if unread:
        title = "whether name, files and tensors agree is not known"
        return not_known(KEY, title, *unread, who="nothing waits for it")
    told = ", ".join(f"{part.words} {shown(part.format)}" for part in known.parts.values() if part.quantized)
    detail = [*_dtype(known), f"tensors: {told}" if told else "nothing is quantized"]
    said = f"{len(lines)} thing{'s' * (len(lines) != 1)} above apart, " if lines else ""
    return judgement(
        KEY, "pass", f"{said}name, files and tensors agree{_beyond(known)}", observed=sorted(known.formats), detail=detail,
        sides=sides(*main, expected=(known.named, known.declared)),
    )  # fmt: skip


def _dtype(known: Known) -> Iterator[str]:
    """`torch_dtype` is what an engine computes in, not what is stored."""
    read = known.view.read("checkpoint.plain_dtype")
    if read.known and read.value != "unknown" and any(part.quantized for part in known.parts.values()):
        yield f"torch_dtype {shown(str(read.value))} is what it computes in, not what is stored"


def _beyond(known: Known) -> str:
    layers = known.value.get("ignore_beyond_layers")
    count = known.view.value("checkpoint.architecture.layers")
    if not isinstance(layers, list) or not layers:
        return ""
    span = f"layer {layers[0]}" if len(layers) == 1 else f"layers {layers[0]}-{layers[-1]}"
    return f"; exclusions name {span} of {count}" if isinstance(count, int) else f"; exclusions name {span}"


# ---- the name and the tags


def _name(known: Known) -> Iterator[Judgement]:
    """Formats and algorithms that the name promises, against components and declaration; one line for all of it."""
    promised = promises(known.name.rpartition("/")[2])
    broken = [p for p in promised if known.formats and not (p.formats & known.formats)]
    wrong = [f"{p.word} in the name, but {_told(known)}" for p in broken]
    containers = [*_containers(known)]
    silent = [] if broken else [*_unsaid(known, promised)]
    draft = promises_draft(known.name) and known.view.value("checkpoint.mtp.presence") == "absent"
    notes = [
        *wrong,
        *(["MTP in the name, but no MTP tensor is there"] if draft else []),
        *containers,
        *silent,
    ]
    if not notes:
        return
    proof = sides(*(p.read for p in known.parts.values()), expected=(known.named, known.declared))
    yield judgement(
        NAME, "conflict" if wrong or draft else "warn", fit(notes[0]), observed=sorted(known.formats),
        expected=[p.word for p in promised], detail=notes, sides=proof,
    )  # fmt: skip


def _told(known: Known) -> str:
    """The main components with their formats: `routed experts INT4 W4A16, attention BF16`."""
    order = ("routed_experts", "dense_mlp", "attention", "linear_attention")
    found = [f"{known.parts[n].words} {shown(known.parts[n].format)}" for n in order if n in known.parts]
    return ", ".join(found[:3]) or "nothing of the kind is there"


def _containers(known: Known) -> Iterator[str]:
    """An algorithm in the name under another `quant_method`: the flag of that name fails."""
    tagged = {str(tag).lower() for tag in _tags_of(known)}
    method = known.method or (
        "compressed-tensors" if "compressed-tensors" in tagged else ""
    )  # a tag only where no file was read
    if method in ("", "none", "unknown"):
        return
    for word, methods in algorithms(known.name.rpartition("/")[2]):
        if method not in methods:
            yield f"{word} names the algorithm, the files are {plain(method)}: --quantization {word.lower()} fails"


def _unsaid(known: Known, promised: list[Promise]) -> Iterator[str]:
    """Quantized components in a format of which a name that speaks of formats says nothing."""
    covered = frozenset(fmt for p in promised for fmt in p.formats)
    if not covered:
        return
    quiet: dict[str, list[str]] = {}
    for part in known.parts.values():
        if part.quantized and part.format not in covered:
            quiet.setdefault(part.format, []).append(part.words)
    for fmt, words in quiet.items():
        yield f"{', '.join(words)} {shown(fmt)}, which the name does not say"


def _tags(known: Known) -> Iterator[Judgement]:
    """Format words among the tags that no component keeps. A tag names an algorithm as often as a format: a warning."""
    reads = [known.view.read("checkpoint.tags"), known.view.read("checkpoint.card.tags")]
    tags = [
        str(t)
        for r in reads
        if r.known and isinstance(r.value, (list, tuple))
        for t in r.value
        if ":" not in str(t)
    ]
    broken = [p for tag in dict.fromkeys(tags) for p in promises(tag) if not (p.formats & known.formats)]
    if not known.formats or not broken:
        return
    words = list(dict.fromkeys(p.word.lower() for p in broken))
    yield judgement(
        "checkpoint.tags", "warn", fit(f"tagged {plain(', '.join(words))}; {_told(known)}"), observed=sorted(known.formats),
        expected=words, sides=sides(*(p.read for p in known.parts.values()), expected=reads),
    )  # fmt: skip


def _tags_of(known: Known) -> list[str]:
    """Tags of the hub and of the card, each once; those with a colon (`base_model:...`) name something else."""
    reads = [known.view.read(path) for path in _TAGS]
    tags = [str(t) for r in reads if r.known and isinstance(r.value, (list, tuple)) for t in r.value]
    return [tag for tag in dict.fromkeys(tags) if ":" not in tag]


# ---- the declarations


def promised_but_silent(known: Known) -> list[str]:
    """Quantized formats that name or tags promise of a checkpoint whose files declare none; empty otherwise."""
    if known.method != "none":
        return []
    texts = [known.name.rpartition("/")[2], *map(str, known.view.value("checkpoint.card.tags", []) or [])]
    found = [p.word for text in texts for p in promises(text) if not (p.formats <= {"bf16", "fp16", "fp32"})]
    return list(dict.fromkeys([*found, *(w for text in texts for w, _ in algorithms(text))]))


def _silent(known: Known) -> Iterator[Judgement]:
    """No file declares a quantization, and name or tensors say that there is one."""
    if known.method != "none":
        return
    proved = [part for part in known.parts.values() if part.proved and part.quantized]
    words = promised_but_silent(known)
    if proved:
        told = f"{proved[0].words} {shown(proved[0].format)}"
        yield judgement(
            "checkpoint.declared.silent", "conflict", f"no file declares a quantization; {told}", observed=proved[0].format,
            expected="none", sides=sides(*(p.read for p in proved), expected=(known.declared,)),
            consequence="an engine builds plain layers and cannot load these tensors into them",
            detail=["a copy whose quantization block was removed looks like this: take the original, or restore the block"],
        )  # fmt: skip
    elif words and not any(part.proved for part in known.parts.values()):
        yield judgement(
            "checkpoint.declared.silent", "unknown", fit(f"name or tags say {words[0]}, no file declares it: read the headers"),
            observed="none", expected=words, sides=sides(known.declared, expected=(known.named,)),
        )  # fmt: skip


def _method(known: Known) -> Iterator[Judgement]:
    """`fp8` as the method of a checkpoint whose experts are FP4: twice the size, or the wrong loader, if believed."""
    experts = known.parts.get("routed_experts")
    if known.method != "fp8" or experts is None or experts.format not in _FP4:
        return
    keys = [
        f"{key} {plain(known.value[key])}"
        for key in ("expert_dtype", "moe_quant_algo", "store_dtype")
        if known.value.get(key)
    ]
    yield judgement(
        "checkpoint.declared.method", "warn", f"quant_method is fp8, the routed experts are {shown(experts.format)}",
        observed=experts.format, expected="fp8", detail=[f"said by {', '.join(keys)}, beside the block" if keys else "no key says so"],
        consequence="sizes and kernels follow the experts, not the method's name", sides=sides(experts.read, expected=(known.declared,)),
    )  # fmt: skip


def _w4a16(known: Known) -> Iterator[Judgement]:
    """`W4A16` of NVFP4 weights: the same word as for INT4."""
    found = [part for part in known.parts.values() if "nvfp4-w4a16" in part.formats]
    if found:
        names = ", ".join(part.words for part in found)
        yield judgement(
            "checkpoint.w4a16", "warn", fit(f"W4A16 means NVFP4 weights here, not INT4: {names}"), observed="nvfp4-w4a16",
            sides=sides(*(p.read for p in found), known.declared), consequence="INT4 tools and kernels do not apply",
        )  # fmt: skip


def _disagreement(known: Known) -> Iterator[Judgement]:
    """Two files of one commit that declare different things."""
    said = known.view.read("checkpoint.declared.disagreement")
    config = known.view.read("checkpoint.config.declared")
    others = [known.view.read(f"checkpoint.{name}.declared") for name in ("hf_quant", "quantize")]
    apart = {other.path: list(_differences(config, other)) for other in others}
    differences = [text for texts in apart.values() for text in texts]
    proof = sides(config, expected=[other for other in others if apart[other.path]])
    if not differences and said.known and said.value:
        differences, proof = _rows(said.value) or [plain(said.value)], sides(said, config)
    if differences:
        yield judgement(
            "checkpoint.declared.disagreement", "conflict", fit(f"its files disagree: {differences[0]}"), detail=differences,
            observed=differences, sides=proof,
            consequence="engines believe config.json; another branch's file may lie beside it: headers decide",
        )  # fmt: skip


def _differences(one: Read, other: Read) -> Iterator[str]:
    a = one.value if one.known and isinstance(one.value, Mapping) else {}
    b = other.value if other.known and isinstance(other.value, Mapping) else {}
    for key in ("bits", "group_size", "quant_algo", "kv_cache_quant_algo", "desc_act", "sym"):
        first, second = a.get(key), b.get(key)
        if first is not None and second is not None and first != second:
            files = (
                str(a.get("source") or "config.json").partition("/")[0],
                str(b.get("source") or "the other file"),
            )
            yield f"{key} {plain(first)} in {files[0]}, {plain(second)} in {files[1]}"


def _abridged(known: Known) -> Iterator[Judgement]:
    """A ModelOpt file that excludes nothing: its exporter always leaves the head or the router out, so entries are missing."""
    read = known.view.read("checkpoint.hf_quant.declared")
    value = read.value if read.known and isinstance(read.value, Mapping) else {}
    per_layer = value.get("by_module") or value.get("quantized_layers")
    if known.value.get("source") != "hf_quant_config.json" or value.get("ignore_count") != 0 or per_layer:
        return
    proved = [part for part in known.parts.values() if part.proved]
    yield judgement(
        "checkpoint.declared.abridged", "warn", "hf_quant_config.json excludes no module: an abridged copy, or a wrong one",
        observed=0, sides=sides(read, *(p.read for p in proved), expected=(known.declared,)),
        detail=["which modules stay plain is not known from it: formats are not verified until headers are read" if not proved else ""],
    )  # fmt: skip


def _exclusions(known: Known) -> Iterator[Judgement]:
    """Entries of the exclusion list that match nothing, and modules that are excluded and quantized all the same."""
    read = known.view.read("checkpoint.exclusions")
    value = read.value if read.known and isinstance(read.value, Mapping) else {}
    dead = [str(e) for e in value.get("dead") or ()] if isinstance(value.get("dead"), (list, tuple)) else []
    beyond = {str(n) for n in known.value.get("ignore_beyond_layers") or ()}
    odd = [entry for entry in dead if not beyond & set(entry.replace("[", ".").split("."))]
    clash = [
        row for key in ("excluded_but_quantized", "mismatched", "conflicts") for row in _rows(value.get(key))
    ]
    plain_ones = _rows(value.get("plain_but_covered"))
    if not odd and not clash and not plain_ones:
        return
    said = (
        f"{len(odd)} exclusion entr{'y matches' if len(odd) == 1 else 'ies match'} no module: {plain(odd[0])}"
        if odd
        else ""
    )
    bare = f"not excluded, but plain: {plain_ones[0]}" if plain_ones else ""
    first = f"excluded, but quantized all the same: {clash[0]}" if clash else bare or said
    yield judgement(
        "checkpoint.exclusions", "warn", fit(first), observed={"dead": odd[:50], "clash": clash[:50], "plain": plain_ones[:50]},
        expected=value.get("entries"), detail=[said if clash or bare else "", bare if clash else "", *(plain(e) for e in odd[1:6])],
        consequence="what an entry was meant for is not excluded: an engine may build that layer quantized", sides=sides(read, known.declared),
    )  # fmt: skip


def _rows(value: Json) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{plain(k)} {plain(v)}" for k, v in value.items()]
    return [plain(row) for row in value] if isinstance(value, (list, tuple)) else []


# ---- names of scales, KV cache


def _scales(known: Known) -> Iterator[Judgement]:
    """FP8 block scales under the other loader's name: `fp8` reads `weight_scale_inv`, compressed-tensors `weight_scale`."""
    blocks = [p for p in known.parts.values() if p.proved and p.format == "fp8-block128"]
    expected = {"fp8": "weight_scale_inv", "compressed-tensors": "weight_scale"}.get(known.method)
    read = known.view.read("checkpoint.scale_names")
    names = read.value if read.known and isinstance(read.value, Mapping) else {}
    other = next((n for n in _FP8_SCALES if expected and n != expected and names.get(n)), "")
    if not blocks or not expected or not other or names.get(expected) or not _holds(blocks, other):
        return
    yield judgement(
        "checkpoint.scales", "warn", f"FP8 scales are named {other}; loaders of {known.method} look for {expected}", observed=other,
        expected=expected, sides=sides(read, *(p.read for p in blocks), expected=(known.declared,)),
        consequence="scales that are not found are left out: wrong output without an error, or a refusal",
    )  # fmt: skip


def _holds(blocks: Iterable[Part], suffix: str) -> bool:
    """Whether the signature of a block names the suffix; one that names no tensors cannot say otherwise."""
    return any(f"{suffix} " in part.signature or not part.signature for part in blocks)


def _kv_cache(known: Known) -> Iterator[Judgement]:
    """A declared FP8 KV cache: what `--kv-cache-dtype auto` then does (SGLang 0.5.23, `srt/configs/model_config.py`)."""
    read = known.view.read("checkpoint.declared.components.kv_cache.said")
    if not read.known or "8" not in str(read.value) or "int" in str(read.value).lower():
        return
    scales = known.view.read("checkpoint.scale_names")
    names = scales.value if scales.known and isinstance(scales.value, Mapping) else None
    lacks = names is not None and not ({"k_scale", "v_scale"} & set(names))
    yield judgement(
        "checkpoint.kv_cache", "warn", f"KV cache declared {plain(read.value)}: auto makes it FP8 in SGLang", observed=read.value,
        detail=["no k_scale or v_scale tensor is there: scales of 1.0" if lacks else "", "--kv-cache-dtype bfloat16 keeps it at 16 bits"],
        consequence="half the memory per token; accuracy is worth a check with known answers", sides=sides(read, scales),
    )  # fmt: skip


def draft_format(view: View) -> tuple[Part, Part] | None:
    """(draft block, main component) where the draft is quantized in a format of its own; None otherwise."""
    found = parts(view)
    draft, main = found.get("mtp"), found.get("routed_experts") or found.get("dense_mlp")
    if draft is None or main is None or not draft.quantized or draft.format == main.format:
        return None
    return draft, main


CLAIMS: Final = JudgeTask(name="judge.claims", judge=judge)
__all__ = ["CLAIMS", "NAMES", "draft_format", "judge", "look", "promised_but_silent"]
