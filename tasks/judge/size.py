"""Bytes as they are said and as they are: a card's sizes and an index's total against tensor headers and the file list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from recon.agent.api import Json, Judged, Judgement, JudgeTask, Read, View, bytes_text
from recon.tasks.judge.reading import judged, judgement, not_known, plain, sides

CLAIMS: Final = "checkpoint.size_claims"
INDEX: Final = "checkpoint.index_size"
_TOLERANCE: Final = 0.02


def judge_size(view: View) -> Judged:
    """What the weights take: measured, and as the card and the index say it."""
    return judged(*_claims(view), *_index(view))


def _claims(view: View) -> Iterator[Judgement]:
    """The sizes a card claims, in whichever unit it may have meant, against the tensors; against the files to fetch
    where no header was read."""
    weights, claims = view.read("checkpoint.weights_bytes"), view.read("checkpoint.card.sizes")
    measured, what = weights, "tensors"
    if not weights.known and (files := view.read("checkpoint.download_bytes")).known:
        measured, what = files, "files"
    if not measured.known or not isinstance(measured.value, int):
        yield not_known(CLAIMS, "the size of the weights is not known", weights)
        return
    fact = f"{bytes_text(measured.value)} of {what}"
    if not claims.known and claims.state != "absent":
        title = f"{fact}; what the card says is not known"
        yield not_known(CLAIMS, title, claims, measured, who="nothing waits for it")
        return
    rows = claims.value if claims.known and isinstance(claims.value, list) else []
    rows = [row for row in rows if isinstance(row, Mapping)]
    observed = {f"{what}_bytes": measured.value}
    wrong = [row for row in rows if not _as_written(row, measured.value)]
    if not wrong and measured is not weights:
        yield not_known(CLAIMS, f"{fact}; the tensors were not read", weights, who="nothing waits for it")
        return
    if not wrong:
        title = f"{fact}, as the card says" if rows else fact
        yield judgement(CLAIMS, "pass", title, observed=observed, sides=sides(measured, claims))
        return
    said = " and ".join(plain(row.get("text")) for row in rows[:3])
    whole = view.read("checkpoint.repo_bytes")
    yield judgement(
        CLAIMS, "warn", f"{fact}; the card says {said}", observed=observed, expected=said,
        detail=[_meaning(row, measured.value, whole) for row in wrong[:2]], sides=sides(measured, expected=(claims,)),
        consequence="plan disk and memory with the file sizes, not with the card",
    )  # fmt: skip


def _as_written(row: Mapping[str, Json], size: int) -> bool:
    unit = str(row.get("text", "")).rsplit(" ", 1)[-1]
    return _near(row.get("bytes_if_gib" if unit in ("GiB", "TiB") else "bytes_if_gb"), size)


def _near(claimed: Json, size: int) -> bool:
    return isinstance(claimed, int) and abs(claimed - size) <= _TOLERANCE * size


def _meaning(row: Mapping[str, Json], size: int, whole: Read) -> str:
    text = plain(row.get("text"))
    if _near(row.get("bytes_if_gib"), size):
        return f'"{text}" is right within 2 % only as GiB'
    if _near(row.get("bytes_if_gb"), size):
        return f'"{text}" is right within 2 % only as GB'
    both = (row.get("bytes_if_gb"), row.get("bytes_if_gib"))
    if whole.known and isinstance(whole.value, int) and any(_near(n, whole.value) for n in both):
        return f'"{text}" is everything in the repository, {bytes_text(whole.value)}, not what is loaded'
    return f'"{text}" is not within 2 % in either unit'


def _index(view: View) -> Iterator[Judgement]:
    """`metadata.total_size` of the index against the tensors. Writers may leave it out or count logical bytes; readers
    that plan memory with it are then wrong."""
    weights, total = view.read("checkpoint.weights_bytes"), view.read("checkpoint.index_total_size")
    if not weights.known or not isinstance(weights.value, int):
        return
    if total.state == "absent":
        yield judgement(
            INDEX, "warn", "the index gives no total size", observed=None, expected=weights.value, sides=sides(total, weights),
            consequence="tools that read it there show nothing or stop; the headers have the sum",
        )  # fmt: skip
    elif total.known and isinstance(total.value, int) and not _near(total.value, weights.value):
        yield judgement(
            INDEX, "warn", f"the index says {bytes_text(total.value)}, tensors are {bytes_text(weights.value)}",
            observed=total.value, expected=weights.value, sides=sides(total, expected=(weights,)),
            consequence="plan disk and memory with the headers, not with the index",
        )  # fmt: skip


SIZE: Final = JudgeTask(name="judge.size", judge=judge_size)
