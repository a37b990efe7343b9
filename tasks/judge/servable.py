"""Whether a repository can be served as it is: yes, no or unknown, each with its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from recon.agent.api import Effects, Json, Judged, Judgement, JudgeTask, Option, Read, Side, View
from recon.tasks.judge.components import parts
from recon.tasks.judge.engine_support import LAYOUT, layout_traps
from recon.tasks.judge.layout import Weights, judge_layout, weights
from recon.tasks.judge.reading import count_text, fit, judged, judgement, not_known, plain, sides
from recon.tasks.knowledge import engine_tables as tables
from recon.tasks.knowledge.engine_rows import TABLE_VERSION
from recon.tasks.knowledge.format_words import shown
from recon.tasks.knowledge.quant_loaders import Loader, loader, too_old

KEY: Final = "checkpoint.servable"
ABOUT: Final = "checkpoint.format"  # what a checkpoint that cannot be served bears on
_GGUF_WORDS: Final = frozenset({"gguf", "llama.cpp"})

Answer = Literal["no", "port", "if", "note", "unknown"]


@dataclass(frozen=True)
class Reason:
    """One thing that decides: `no`, `port` (the engine's loader has to be changed first), `if` (a flag or a check), `note`,
    or `unknown`; with the reading it rests on."""

    answer: Answer
    text: str
    read: Read
    row: Loader | None = None
    proof: tuple[Side, ...] = ()


def judge(view: View) -> Judged:
    """The answer with its reasons, and which of several layouts counts."""
    files, held = view.read("checkpoint.files"), weights(view)
    reasons = [
        *_by_files(view, files, held), *_by_declaration(view), *_by_engine(view), *_by_code(view), *_by_gpu(view),
    ]  # fmt: skip
    layout = list(judge_layout(view, held, files)) if isinstance(held, Weights) else []
    return judged(_answer(view, files, held, reasons), *layout, cites=[reason.row for reason in reasons])


def _answer(view: View, files: Read, held: Weights | Read, reasons: list[Reason]) -> Judgement:
    declared, architecture = view.read("checkpoint.declared"), view.read("checkpoint.architecture")
    said = {
        word: [r for r in reasons if r.answer == word] for word in ("no", "port", "if", "note", "unknown")
    }
    more_proof = [side for r in reasons for side in r.proof]
    proof = tuple(
        dict.fromkeys([*sides(files, declared, architecture, *(r.read for r in reasons)), *more_proof])
    )
    if said["no"]:
        return judgement(
            KEY, "block", fit(f"not servable as it is: {said['no'][0].text}"), about=ABOUT, observed=_value("no", reasons),
            detail=[r.text for r in [*said["no"], *said["if"]]], options=_ways_out(view), sides=proof,
        )  # fmt: skip
    if said["port"]:  # the block and its options are the engine's: engine.supports has them
        return judgement(
            KEY, "warn", f"no stock SGLang up to {TABLE_VERSION} loads these files", observed=_value("no", reasons),
            detail=[r.text for r in [*said["port"], *said["if"]]], sides=proof,
        )  # fmt: skip
    headers = [view.read(f"checkpoint.{name}") for name in ("routed_experts", "attention")]
    unread = [r for r in (files, declared, architecture, *headers) if not r.known]
    if unread or said["unknown"] or not isinstance(held, Weights):
        first = said["unknown"][0].text if said["unknown"] else "not all was read"
        line = not_known(
            KEY, fit(f"servable or not: not known, {first}"), *unread, who="nothing waits for it"
        )
        more = tuple(r.text for r in said["unknown"])
        return line.model_copy(
            update={"observed": _value("unknown", reasons), "detail": (*more, *line.detail)}
        )
    if said["if"]:
        return judgement(
            KEY, "warn", fit(f"servable, but {said['if'][0].text}"), observed=_value("yes", reasons),
            detail=[r.text for r in [*said["if"], *said["note"]]], sides=proof,
        )  # fmt: skip
    count = f"{count_text(len(held.loaded))} weight file{'s' * (len(held.loaded) != 1)}"
    method = declared.value.get("quant_method") if isinstance(declared.value, Mapping) else None
    kind = "not quantized" if method in (None, "none") else plain(method)
    return judgement(
        KEY, "pass", f"complete and servable: {count}, {kind}", observed=_value("yes", reasons),
        detail=[r.text for r in said["note"]], sides=proof,
    )  # fmt: skip


def _value(answer: str, reasons: Iterable[Reason]) -> dict[str, Json]:
    words = {"no": "", "port": "after a port: ", "if": "only if: ", "note": "", "unknown": "not known: "}
    told = [
        r for r in reasons if answer != "no" or r.answer != "unknown"
    ]  # what is not known changes no refusal
    return {"answer": answer, "reasons": [f"{words[r.answer]}{r.text}" for r in told]}


# ---- what the files say


def _by_files(view: View, files: Read, held: Weights | Read) -> Iterator[Reason]:
    if not isinstance(held, Weights):
        return
    if adapter := _adapter(view, files, held):
        yield adapter
        return
    if custom := _own_loader(view, files, held):
        yield custom
    if not held.any:
        yield _no_weights(view, files, held)
        return
    if not held.loaded:
        yield _nothing_loaded(files, held)
        return
    if gone := held.missing:
        yield Reason(
            "no", f"{len(gone)} weight file(s) missing at this commit, first {plain(gone[0])}", files
        )
    if held.loaded[0].endswith(".bin"):
        yield Reason("note", "weights only as pickled .bin files", files)
    if not held.of("config.json"):
        yield _no_config(files, held)
    if held.sharded_state:
        text = (
            f"cut for TP{held.ranks} before it was saved: --load-format sharded_state at TP{held.ranks} only"
        )
        yield Reason("if", text, files)
    elif held.ranks and custom is None:
        yield Reason(
            "no",
            f"cut into {held.ranks} ranks before it was saved: no stock loader puts them together",
            files,
        )


def _adapter(view: View, files: Read, held: Weights) -> Reason | None:
    """LoRA and its kin: an adapter over a base that has to be there too."""
    if not held.of("adapter_config.json") or held.of("config.json"):
        return None
    base = view.read("checkpoint.adapter")
    value = base.value if base.known and isinstance(base.value, Mapping) else {}
    name = next(
        (str(value[k]) for k in ("base_model_name_or_path", "base_model", "base") if value.get(k)), ""
    )
    name = name or str(
        view.value("checkpoint.card.base_model", "") or view.value("checkpoint.base_model", "")
    )
    where = f" over {plain(name)}" if name else ", its base model is not named"
    if name.startswith(("/", ".", "~")) or "\\" in name:
        where = f" whose base is a path on its author's machine ({plain(name)})"
    return Reason(
        "no", f"an adapter alone{where}: --lora-paths beside the base", base if base.known else files
    )


def _own_loader(view: View, files: Read, held: Weights) -> Reason | None:
    """A format of its own, described in a file that no engine reads."""
    if not held.of("quant_metadata.json"):
        return None
    said = _own_metadata(view)
    value = said.value if said.known and isinstance(said.value, Mapping) else {}
    ranks = next(
        (value[k] for k in ("tp_world_size", "tp", "tensor_parallel_size") if isinstance(value.get(k), int)),
        0,
    )
    name = f" ({plain(value['format'])})" if isinstance(value.get("format"), str) else ""
    cut = f", cut for TP{ranks} before it was saved" if ranks else ""
    return Reason(
        "no",
        f"quant_metadata.json: a format{name} with a loader of its own{cut}",
        said if said.known else files,
    )


def _own_metadata(view: View) -> Read:
    for path in ("checkpoint.quant_metadata.declared", "checkpoint.quant_metadata", "checkpoint.declared"):
        read = view.read(path)
        if read.known and isinstance(read.value, Mapping):
            return read
    return view.read("checkpoint.quant_metadata.declared")


def _no_weights(view: View, files: Read, held: Weights) -> Reason:
    """No weight file in the list. A folder that was never a whole commit says nothing by what it lacks."""
    front = view.read("checkpoint.card.front_matter")
    library = front.value.get("library_name") if front.known and isinstance(front.value, Mapping) else None
    words = {str(w).lower() for w in library} if isinstance(library, (list, tuple)) else set()
    if words & _GGUF_WORDS and not held.of("config.json"):
        return Reason("no", "only GGUF, says its card; no config.json", front)
    commit = view.read("checkpoint.commit")
    if commit.known and not view.read("checkpoint.metadata_only").known:
        what = "config and tokenizer alone" if held.of("config.json") else "no config.json either"
        return Reason("no", f"no weight file at this commit ({what})", files)
    return Reason("unknown", "only metadata is here, no list of weight files", files)


def _nothing_loaded(files: Read, held: Weights) -> Reason:
    kinds = sorted({path.rpartition(".")[2] for path in held.any})
    if "gguf" in kinds and not held.of("*.safetensors"):
        return Reason(
            "no", "only GGUF: alternatives for llama.cpp, one file each, config and tokenizer inside", files
        )
    if nested := [p for p in held.any if p.endswith(".safetensors") and "/" in p]:
        folder = plain(nested[0].rpartition("/")[0])
        return Reason(
            "no", f"safetensors only in {folder}/: engines list the top folder, point them at that one", files
        )
    return Reason("no", f"weights only as {', '.join(kinds)}: no engine's format", files)


def _no_config(files: Read, held: Weights) -> Reason:
    if held.of("params.json"):
        return Reason("if", "config.json is not there, params.json is: --load-format mistral", files)
    return Reason("no", "no config.json: an engine does not know the architecture", files)


# ---- what the declarations say


def _by_declaration(view: View) -> Iterator[Reason]:
    declared = view.read("checkpoint.declared")
    value = declared.value if declared.known and isinstance(declared.value, Mapping) else {}
    method = str(value.get("quant_method") or "none")
    if method == "none" or view.intent.engine.lower() != "sglang":
        return
    row = loader(method)
    where = f"SGLang {TABLE_VERSION}"
    if row is None:
        named = "a quantization that is not named" if method == "unknown" else f"quant_method {plain(method)}"
        yield Reason("unknown" if method == "unknown" else "no", f"{named}: no loader in {where}", declared)
        return
    bits = value.get("bits")
    if not row.loads:
        yield Reason(
            "no", f"{row.says} in {where}" if row.says.startswith("no ") else row.says, declared, row
        )
    elif row.bits and isinstance(bits, int) and bits not in row.bits:
        takes = " or ".join(map(str, row.bits))
        yield Reason(
            "no", f"{bits}-bit {plain(method)}: the loader of {where} takes {takes} bits", declared, row
        )
    else:
        yield Reason(
            "if" if row.says else "note", row.says or f"{plain(method)} is loaded by {where}", declared, row
        )


def _by_engine(view: View) -> Iterator[Reason]:
    """Layouts of tensors that every release read refuses, or loads without their scales."""
    if view.intent.engine.lower() != "sglang":
        return
    declared = view.read("checkpoint.declared")
    for trap in layout_traps(view):
        if trap.key == LAYOUT:
            yield Reason("unknown", trap.title, declared, proof=trap.sides)
        else:
            yield Reason("port" if trap.verdict == "block" else "if", trap.title, declared, proof=trap.sides)


def _by_code(view: View) -> Iterator[Reason]:
    """Custom code on the Hub: needed where the engine has no class of its own for the architecture."""
    read = view.read("checkpoint.architecture")
    value = read.value if read.known and isinstance(read.value, Mapping) else {}
    if not value.get("custom_code"):
        return
    names = (
        [str(n) for n in value.get("architectures") or ()]
        if isinstance(value.get("architectures"), list)
        else []
    )
    own = [name for name in names if tables.first_release_with_architecture(name) is not None]
    if own and view.intent.engine.lower() == "sglang":
        yield Reason("note", f"auto_map names custom code; SGLang has its own {plain(own[0])}", read)
    else:
        yield Reason("if", "it needs its own code (auto_map): --trust-remote-code", read)


def _by_gpu(view: View) -> Iterator[Reason]:
    """Formats whose kernels the host's GPUs lack; nothing where no host is bound."""
    sm = view.read("host.gpus.sm")
    if not sm.known:
        if "host" in view.bindings:
            yield Reason("unknown", "the host's GPUs were not read", sm)
        return
    for part in parts(view).values():
        if why := too_old(part.format, str(sm.value)):
            yield Reason(
                "no" if part.proved else "if",
                f"{part.words} {shown(part.format)} on {plain(sm.value)}: {why}",
                sm,
            )


def _ways_out(view: View) -> Iterator[Option]:
    base = view.value("checkpoint.card.base_model", "") or view.value("checkpoint.base_model", "")
    if isinstance(base, str) and base.count("/") == 1 and not base.startswith(("/", ".", "~")):
        yield Option(
            id="base", title=f"take the base model {base}", effort="hours", effects=Effects(intent={"model": base, "revision": "main"}),
            consequence="not in the format that this repository was made for",
        )  # fmt: skip
    yield Option(
        id="stop", title="stop here", consequence="nothing is changed on the host", effects=Effects(stop=True)
    )


SERVABLE: Final = JudgeTask(name="judge.servable", judge=judge)
