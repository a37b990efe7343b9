"""The alternatives to a checkpoint: siblings that declare the wanted format, as options with their consequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recon.agent.api import Effects, Json, Option, Read, View, bytes_text
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
        """The format of its routed experts."""
        return str(self.experts.value)


def siblings_in(view: View, wanted: str) -> list[Sibling]:
    """The siblings whose routed experts are declared (or proved) in the wanted format, in the order listed."""
    rows = view.value("checkpoint.siblings", [])
    found = []
    for number, row in enumerate(rows if isinstance(rows, (list, tuple)) else ()):
        if not isinstance(row, Mapping) or not isinstance(row.get("repo"), str):
            continue
        sibling = _look(view, number, row["repo"])
        if sibling.experts.known and satisfies(sibling.format, wanted):
            found.append(sibling)
    return found


def _look(view: View, number: int, repo: str) -> Sibling:
    # A role of its own, so that what was read of it does not pass for a read of the checkpoint.
    role = f"sibling{number}"
    other = view.rebound(role, f"hf:{repo}@main")
    proved = other.read(f"{role}.routed_experts.format")
    attention = other.read(f"{role}.attention.format")
    mtp = other.read(f"{role}.mtp.presence")
    declared = other.read(f"{role}.declared")
    components = f"{role}.declared.components"
    return Sibling(
        repo=repo,
        experts=proved if proved.known else other.read(f"{components}.routed_experts.format"),
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
            consequence="; ".join(_consequences(sibling, sm)),
            effort="hours",
            effects=Effects(intent={"model": sibling.repo, "revision": "main"}),
        )


def _consequences(sibling: Sibling, sm: str) -> Iterator[str]:
    level = "headers" if sibling.proved else "declared, not proved"
    attention = f", attention {shown(str(sibling.attention.value))}" if sibling.attention.known else ""
    yield f"experts {shown(sibling.format)}{attention} ({level})"
    if sibling.size.known and isinstance(sibling.size.value, int):
        yield bytes_text(sibling.size.value)
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
