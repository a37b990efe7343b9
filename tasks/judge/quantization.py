"""Formats: what was wanted, what the files declare, what the tensors are. And what the checkpoint is, in a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from recon.agent.api import Effects, Json, Judged, Judgement, JudgeTask, Option, Read, Side, View
from recon.tasks.judge.claims import draft_format, look, promised_but_silent
from recon.tasks.judge.reading import fit, judgement, not_known, plain, sides
from recon.tasks.judge.siblings import compared, options, siblings_in
from recon.tasks.knowledge.format_paths import path_for
from recon.tasks.knowledge.format_words import satisfies, shown
from recon.tasks.knowledge.name_words import promises

FORMAT: Final = "checkpoint.format"
MTP: Final = "checkpoint.mtp"
_RENAMED: Final = "an engine that renames the draft block (mtp.* to model.layers.N) misses exclusions of mtp.* and may load it in the other format"
_NAMES: Final = {"routed_experts": "routed experts", "dense_mlp": "MLP layers", "attention": "attention"}


@dataclass(frozen=True)
class Main:
    """The component that decides what a checkpoint is called: routed experts, or the MLP of a dense model."""

    name: str
    read: Read
    format: str
    group_size: int | None = None

    @property
    def text(self) -> str:
        """As people read it: `routed experts INT4 W4A16 g128`."""
        group = f" g{self.group_size}" if self.group_size else ""
        return f"{_NAMES[self.name]} {shown(self.format)}{group}"


def judge(view: View) -> Judged:
    """The wish against the tensors; attention, draft block and architecture; declarations against the tensors."""
    main = main_component(view)
    lines = [_format(view, main), *_attention(view, main), _mtp(view), *_architecture(view), *_declared(view)]
    derived = tuple((view.subject("checkpoint"), draft) for draft in compared(view))
    return Judged(judgements=tuple(lines), derived=derived)


def main_component(view: View) -> Main | Read:
    """The main component: from headers, else as declared; the read that failed where neither is known."""
    failed: Read | None = None
    declared = view.value("checkpoint.declared.components")
    for name in _NAMES:
        read = view.read(f"checkpoint.{name}")
        if read.known and isinstance(read.value, Mapping) and read.value.get("presence") == "absent":
            continue
        if not read.known:
            failed = failed or read
            read = view.read(f"checkpoint.declared.components.{name}")
            if not read.known and not isinstance(declared, Mapping):
                return failed  # what comes after it is the main component only where this one is known not to be there
        if read.known and isinstance(read.value, Mapping) and isinstance(read.value.get("format"), str):
            size = read.value.get("group_size")
            return Main(name, read, read.value["format"], size if isinstance(size, int) else None)
    return failed if failed is not None else view.read("checkpoint.routed_experts")


def wanted_format(view: View) -> tuple[str, str, Read]:
    """(format, strength, the claim's read): the intent decides, the directive's claim is what it was read from."""
    claim = view.read("mission.wanted_format")
    if (wish := view.intent.wanted_format) is not None:
        return wish.value, wish.strength, claim
    return "", "", claim


def _format(view: View, main: Main | Read) -> Judgement:
    wanted, strength, claim = wanted_format(view)
    if isinstance(main, Read):
        return _unread(view, main, wanted)
    proof = sides(main.read, expected=(claim,))
    level = "by headers" if main.read.level == "proved" else "declared only"
    if main.format == "unknown":
        return judgement(
            FORMAT, "unknown", f"{_NAMES[main.name]}: a format that recon has no word for", about=FORMAT, sides=proof,
            observed=main.read.value, expected=wanted or None, detail=[_signature(main)],
        )  # fmt: skip
    if main.read.level != "proved" and (words := promised_but_silent(look(view))):
        return judgement(
            FORMAT, "unknown", fit(f"no file declares a quantization, name or tags say {plain(words[0])}"), about=FORMAT, sides=proof,
            observed=main.format, expected=words, detail=["only the tensor headers tell: plain tensors, or a stripped config.json"],
        )  # fmt: skip
    if not wanted or satisfies(main.format, wanted):
        title = f"{main.text}, as wanted" if wanted else main.text
        return judgement(
            FORMAT, "pass" if main.read.level == "proved" else "warn", f"{title} ({level})", about=FORMAT, sides=proof,
            observed=main.format, expected=wanted or None,
        )  # fmt: skip
    return _mismatch(view, main, wanted, strength, proof)


def _unread(view: View, main: Read, wanted: str) -> Judgement:
    """Nothing but words: what the name claims is said, and that it is a claim."""
    line = not_known(
        FORMAT, "the format of the weights is not known", main, about=FORMAT,
        who="recon reads tensor headers; a private repository needs HF_TOKEN",
    )  # fmt: skip
    said = promises(look(view).name.rpartition("/")[2])
    if not said:
        return line
    claimed = ", ".join(p.word for p in said)
    detail = (*line.detail, f"its name claims {claimed}: a claim raises a question, it answers none")
    if not wanted or any(satisfies(fmt, wanted) for p in said for fmt in p.formats):
        return line.model_copy(update={"detail": detail})
    title = f"wanted {shown(wanted)}; the name says {plain(claimed)}, no tensor was read"
    return line.model_copy(update={"title": fit(title), "detail": detail})


def _mismatch(view: View, main: Main, wanted: str, strength: str, proof: tuple[Side, ...]) -> Judgement:
    sm = str(view.value("host.gpus.sm", ""))
    found = siblings_in(view, wanted)
    proof = (*proof, *sides(*[s.experts for s in found]))
    listed = view.read("checkpoint.siblings")
    named = f"{len(found)} sibling{'s' * (len(found) != 1)} declare {shown(wanted)}"
    if not found:
        none = f"no sibling in {shown(wanted)} was found"
        named = none if listed.known else f"siblings: {listed.reason}"
    choices = [_keep(view, main, wanted, sm), *options(view, found, sm), _stop()]
    return judgement(
        FORMAT, "block" if strength == "must" else "conflict",
        f"wanted {shown(wanted)}; {main.text}", about=FORMAT, observed=main.format, expected=wanted, sides=proof,
        detail=[_signature(main), named], options=choices,
        consequence=f"work on {shown(wanted)} kernels would be of no use to this checkpoint",
    )  # fmt: skip


def _signature(main: Main) -> str:
    value = main.read.value if isinstance(main.read.value, Mapping) else {}
    tensors, text = value.get("tensors"), value.get("signature")
    if isinstance(tensors, int) and isinstance(text, str):
        return f"{tensors:,} tensors, {text.partition(': ')[2]}"[:150]
    return f"declared in {plain(main.read.finding.locator if main.read.finding else '')}"


def _keep(view: View, main: Main, wanted: str, sm: str) -> Option:
    path = path_for(main.format, sm)
    on_gpu = f"on {sm}: {path.words}; " if path is not None else ""
    declared = view.value("checkpoint.declared", {})
    method = declared.get("quant_method") if isinstance(declared, Mapping) else None
    return Option(
        id="keep",
        title=f"keep {shown(main.format)}",
        consequence=f"{on_gpu}nothing is learned about {shown(wanted)}",
        effort="days" if method == "compressed-tensors" else "hours",
    )


def _stop() -> Option:
    return Option(
        id="stop", title="stop here", consequence="nothing is changed on the host", effects=Effects(stop=True)
    )


def _attention(view: View, main: Main | Read) -> Iterator[Judgement]:
    """One line for attention, where headers told it and it is not the main component itself."""
    read, scales = view.read("checkpoint.attention"), view.read("checkpoint.scale_names")
    if not read.known and isinstance(main, Main) and main.read.level == "proved":
        yield not_known("checkpoint.attention", "the format of the attention is not known", read)
        return
    value = read.value if read.known and isinstance(read.value, Mapping) else {}
    if value.get("presence") != "present" or not isinstance(value.get("format"), str):
        return
    names = list(scales.value) if scales.known and isinstance(scales.value, Mapping) else []
    said = f", scales named {names[0]}" if len(names) == 1 else ""
    mixed = value.get("mixed")
    if isinstance(mixed, list) and len(mixed) > 1:
        shares = ", ".join(f"{shown(str(row.get('format')))} {row.get('modules')}" for row in mixed)
        yield judgement(
            "checkpoint.attention",
            "warn",
            f"attention is mixed: {shares} modules",
            observed=mixed,
            sides=sides(read),
        )
        return
    title = f"attention {shown(value['format'])}{said}"
    yield judgement(
        "checkpoint.attention", "pass", title, observed=value["format"], sides=sides(read, scales)
    )


def _mtp(view: View) -> Judgement:
    """The draft block: config promises, headers prove. What the index does not name is not loaded."""
    promised, read = view.read("checkpoint.architecture.mtp_layers"), view.read("checkpoint.mtp")
    count = promised.value if promised.known and isinstance(promised.value, int) else 0
    if not read.known or not isinstance(read.value, Mapping):
        return _mtp_unread(view, read, promised, count)
    said = promised.known or promised.state == "absent" or _says_nothing(promised)
    if read.value.get("presence") == "present":
        return _mtp_there(view, read, promised, count if said else None)
    if (beside := _mtp_not_loaded(view)) is not None:
        name = plain(next(str(path) for path in beside.value if _is_draft_file(path)))
        return _no_draft(
            fit(f"{name} holds MTP layers, the index does not name it: not loaded"), read, promised, beside, observed=name,
            why="SGLang drops files that the index does not name; it adds mtp.safetensors by itself for GLM-4-MoE only",
        )  # fmt: skip
    if count:
        return _no_draft(
            f"config.json promises {count} MTP layer{'s' * (count > 1)}, no tensor is there", read, promised, observed="absent",
            expected=count, why="speculative flags would fail at load, or draft garbage",
        )  # fmt: skip
    if not said:
        return not_known(MTP, "no MTP layers; whether any were promised is not known", promised, about=MTP)
    return judgement(
        MTP, "pass", "no MTP layers, and none promised", about=MTP, observed="absent", sides=sides(read)
    )


def _mtp_there(view: View, read: Read, promised: Read, count: int | None) -> Judgement:
    """Draft layers that are there; a warning where they are quantized otherwise than the model they draft for."""
    fmt, tensors = shown(str(read.value.get("format"))), _count_text(read.value.get("tensors"))
    proof = sides(read, expected=(promised,))
    other = draft_format(view)
    if other is None:
        return judgement(
            MTP, "pass", f"MTP present: {tensors} tensors, {fmt}", about=MTP, observed=read.value, expected=count, sides=proof
        )  # fmt: skip
    draft, main = other
    return judgement(
        MTP, "warn", f"MTP present: {tensors} tensors, {fmt}; {main.words} {shown(main.format)}", about=MTP, observed=read.value,
        expected=count, sides=(*proof, *sides(draft.read, expected=(main.read,))),
        detail=[_RENAMED],
        consequence="drafts are then garbage and none is accepted: measure the acceptance rate before speculative flags are kept",
    )  # fmt: skip


def _mtp_not_loaded(view: View) -> Read | None:
    """The reading that names a file of draft layers beside the index; None where there is none."""
    read = view.read("checkpoint.not_loaded")
    held = read.value if read.known and isinstance(read.value, (list, tuple)) else ()
    return read if any(_is_draft_file(path) for path in held) else None


def _is_draft_file(path: Json) -> bool:
    return re.search(r"(?<![a-z0-9])(mtp|nextn)(?![a-z0-9])", str(path).lower()) is not None


def _no_draft(
    title: str, read: Read, promised: Read, *more: Read, observed: Json, why: str, expected: Json = None
) -> Judgement:  # fmt: skip
    return judgement(
        MTP, "conflict", title, about=MTP, observed=observed, expected=expected, detail=[why],
        sides=sides(read, *more, expected=(promised,)),
        options=[Option(id="without", title="serve without speculative decoding", effort="minutes",
                        consequence="decoding is slower by the draft's share", effects=Effects(waive=True))],
    )  # fmt: skip


def _mtp_unread(view: View, read: Read, promised: Read, count: int) -> Judgement:
    """Headers were not read: what the index and the card say of the draft block."""
    declared, card = view.read("checkpoint.declared.components.mtp"), view.read("checkpoint.card.mtp")
    value = declared.value if declared.known and isinstance(declared.value, Mapping) else {}
    if count and value.get("presence") == "absent":
        return _no_draft(
            f"config.json promises {count} MTP layer{'s' * (count > 1)}, the index names none", declared, promised, observed="absent",
            expected=count, why="speculative flags would fail at load, or draft garbage",
        )  # fmt: skip
    says = card.value.get("says") if card.known and isinstance(card.value, Mapping) else None
    if (other := draft_format(view)) is not None:
        title = f"MTP declared {shown(other[0].format)}, {other[1].words} {shown(other[1].format)}; not read"
        return not_known(MTP, title, read, promised, about=MTP, who=_RENAMED)
    if says in ("dropped", "kept"):
        title = f"MTP layers {says}, says the card; no header was read"
        return not_known(MTP, title, read, promised, about=MTP, who=f'"{plain_long(card.value.get("text"))}"')
    return not_known(MTP, "whether draft (MTP) layers are there is not known", read, about=MTP)


def _says_nothing(read: Read) -> bool:
    """Whether a source was read and does not speak of it."""
    return (
        read.state in ("missing", "unknown") and read.finding is not None and read.finding.outcome == "known"
    )


def _count_text(value: Json) -> str:
    return f"{value:,}" if isinstance(value, int) else plain(value)


def _architecture(view: View) -> Iterator[Judgement]:
    read = view.read("checkpoint.architecture")
    if not read.known or not isinstance(read.value, Mapping):
        yield not_known("checkpoint.architecture", "the architecture is not known", read)
        return
    names = read.value.get("architectures")
    name = plain(names[0]) if isinstance(names, (list, tuple)) and names else "architecture not named"
    summary = plain_long(read.value.get("summary")) or name
    yield judgement(
        "checkpoint.architecture", "pass", _in_short(summary), observed=name, detail=[name], sides=sides(read)
    )


def _in_short(summary: str) -> str:
    """A summary that fits one line: the context in thousands or millions of tokens where the whole number does not."""
    match = re.search(r"([\d,]+) context$", summary)
    if len(summary) <= 70 or match is None:
        return summary
    tokens = int(match[1].replace(",", "") or 0)
    return f"{summary[: match.start()]}{f'{tokens >> 20}M' if tokens >= 1 << 20 else f'{tokens >> 10}k'} ctx"


def plain_long(value: Json) -> str:
    """Outside text as one printable line of at most 170 characters."""
    text = "".join(c for c in str(value or "") if c.isprintable())
    return text if len(text) <= 170 else f"{text[:167]}..."


def _declared(view: View) -> Iterator[Judgement]:
    """A declaration that the tensors contradict; nothing where they agree."""
    declared = view.read("checkpoint.declared.components")
    if not declared.known and not _says_nothing(declared) and view.read("checkpoint.architecture").known:
        yield not_known("checkpoint.declared", "what the files declare of formats is not known", declared)
    if not declared.known or not isinstance(declared.value, Mapping):
        return
    for name, value in sorted(declared.value.items()):
        said = value.get("format") if isinstance(value, Mapping) else None
        read = view.read(f"checkpoint.{name}.format")
        if said in (None, "unknown") or not read.known or read.level != "proved" or read.value == "unknown":
            continue
        if not satisfies(str(read.value), str(said)):
            yield judgement(
                f"checkpoint.declared.{name}", "conflict",
                f"{name.replace('_', ' ')}: declared {shown(str(said))}, tensors are {shown(str(read.value))}",
                observed=read.value, expected=said, sides=sides(read, expected=(declared,)),
                detail=["engines build the layer as declared and then load other tensors into it"],
            )  # fmt: skip


QUANTIZATION: Final = JudgeTask(name="judge.quantization", judge=judge)
