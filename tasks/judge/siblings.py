"""The alternatives to a checkpoint: its siblings with format, size and fit, and those in the wanted format as options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recon.agent.api import Draft, Effects, Json, Option, Read, View, bytes_text, gib_text
from recon.tasks.judge.reading import plain
from recon.tasks.knowledge.format_paths import path_for
from recon.tasks.knowledge.format_words import satisfies, shown


@dataclass(frozen=True)
class Sibling:
    """A checkpoint of the same base: what is known of it, with the reads that say so."""

    repo: str
    experts: Read
    attention: Read
    size: Read
    mtp: Read
    declared: Read
    proved: bool

    @property
    def format(self) -> str:
        """The format of its routed experts, or of the MLP of a dense model."""
        return str(self.experts.value)


def siblings_in(view: View, wanted: str) -> list[Sibling]:
    """The siblings whose main component is declared (or proved) in the wanted format, in the order listed."""
    found = [_look(view, number, repo) for number, repo, _ in _listed(view)]
    return [s for s in found if s.experts.known and satisfies(s.format, wanted)]


def _listed(view: View) -> list[tuple[int, str, Mapping[str, Json]]]:
    """(number, repository, row) of every sibling that the hub named."""
    rows = view.value("checkpoint.siblings", [])
    return [
        (number, row["repo"], row)
        for number, row in enumerate(rows if isinstance(rows, (list, tuple)) else ())
        if isinstance(row, Mapping) and isinstance(row.get("repo"), str)
    ]


def compared(view: View) -> list[Draft]:
    """`siblings_compared`: every sibling `{repo, format?, attention?, level, bytes?, mtp, fits?, claimed}`, as far as it was
    read; `claimed` are the format words of its name and tags. Nothing where no siblings were listed."""
    listed = _listed(view)
    if not listed:
        return []
    rows = [_row(view, _look(view, number, repo), row) for number, repo, row in listed]
    return [
        Draft(
            name="siblings_compared", value=rows, level="claimed", locator="siblings, each by its own files"
        )
    ]


def _row(view: View, sibling: Sibling, listed: Mapping[str, Json]) -> dict[str, Json]:
    words = listed.get("formats")
    row: dict[str, Json] = {
        "repo": sibling.repo, "claimed": [str(w) for w in words][:10] if isinstance(words, (list, tuple)) else [],
        "level": "claimed", "mtp": _mtp(sibling.mtp),
    }  # fmt: skip
    if sibling.experts.known:
        row |= {"format": sibling.format, "level": "proved" if sibling.proved else "declared"}
    if sibling.attention.known:
        row["attention"] = str(sibling.attention.value)
    if sibling.size.known and isinstance(sibling.size.value, int):
        row["bytes"] = sibling.size.value
        if fit := _fit(view, sibling.size.value):
            row["fits"] = fit
    return row


def _fit(view: View, size: int) -> str:
    """Whether files of this size, cut evenly, fit the GPUs of the host at the asked width; "" where none is bound."""
    memory, counts = (
        view.read("host.gpus.memory_total_mib"),
        [c for _, _, c in view.intent.layout.instances() if c],
    )
    if not memory.known or not isinstance(memory.value, (int, float)) or not counts:
        return ""
    each, whole = size // min(counts), int(memory.value * 2**20)
    word = "fits" if each < 0.9 * whole else "fits barely" if each < whole else "does not fit"
    return f"{word}: about {gib_text(each)} of {gib_text(whole)} per GPU at TP{min(counts)}"


def _look(view: View, number: int, repo: str) -> Sibling:
    # A role of its own, so that what was read of it does not pass for a read of the checkpoint.
    role = f"sibling{number}"
    other = view.rebound(role, f"hf:{repo}@main")
    proved = other.read(f"{role}.routed_experts.format")
    attention = other.read(f"{role}.attention.format")
    mtp = other.read(f"{role}.mtp.presence")
    declared = other.read(f"{role}.declared")
    components = f"{role}.declared.components"
    experts = proved if proved.known else other.read(f"{components}.routed_experts.format")
    if not experts.known:  # a dense model is named after its MLP
        experts = next(
            (r for n in ("dense_mlp", "attention") if (r := other.read(f"{components}.{n}.format")).known),
            experts,
        )
    return Sibling(
        repo=repo,
        experts=experts,
        attention=attention if attention.known else other.read(f"{components}.attention.format"),
        size=other.read(f"{role}.download_bytes"),
        mtp=mtp if mtp.known else other.read(f"{role}.card.mtp"),
        declared=declared,
        proved=proved.known,
    )


def options(view: View, siblings: list[Sibling], sm: str) -> Iterator[Option]:
    """One option per sibling; its id is the repository's name, with the owner only where two share a name."""
    names = [s.repo.split("/")[1] for s in siblings]
    for sibling, name in zip(siblings, names, strict=True):
        yield Option(
            id=name if names.count(name) == 1 else sibling.repo,
            title=f"take {sibling.repo}",
            consequence="; ".join(_consequences(view, sibling, sm)),
            effort="hours",
            effects=Effects(intent={"model": sibling.repo, "revision": "main"}),
        )


def _consequences(view: View, sibling: Sibling, sm: str) -> Iterator[str]:
    level = "headers" if sibling.proved else "declared, not proved"
    attention = f", attention {shown(str(sibling.attention.value))}" if sibling.attention.known else ""
    yield f"experts {shown(sibling.format)}{attention} ({level})"
    if sibling.size.known and isinstance(sibling.size.value, int):
        fit = _fit(view, sibling.size.value)
        yield f"{bytes_text(sibling.size.value)}{f', {fit}' if fit else ''}"
    yield _mtp(sibling.mtp)
    if (path := path_for(sibling.format, sm)) is not None:
        yield f"on {sm}: {path.words}"
    if risk := _risk(sibling, sm):
        yield risk


def _mtp(mtp: Read) -> str:
    value: Json = mtp.value
    if value in ("present", "absent"):
        return f"MTP {value}"
    says = value.get("says") if isinstance(value, Mapping) else None
    if says in ("kept", "dropped"):
        return f"MTP {says}, says its card"
    return "MTP not known"


def _risk(sibling: Sibling, sm: str) -> str:
    """The known trap of a layout on a GPU generation, from SGLang's source."""
    declared = sibling.declared.value if isinstance(sibling.declared.value, Mapping) else {}
    method = declared.get("quant_method")
    if method == "fp8" and declared.get("moe_quant_algo") and sm in ("sm_120", "sm_121"):
        return "risk: SGLang picks an SM100-only MoE backend, name another"
    if method == "compressed-tensors":
        return "risk: SGLang may not read its attention scales"
    return f"quantization {plain(method)}" if method else ""
