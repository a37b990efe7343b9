"""How our judges speak: sides of a judgement, lines of detail, and the honest `unknown`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recon.agent.api import Json, Judged, Judgement, JudgementVerdict, Option, Read, Side
from recon.tasks.knowledge.engine_tables import SUBJECT, Row

_COUNTS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def judged(*judgements: Judgement, cites: Iterable[Row | None] = ()) -> Judged:
    """The judgements, and the rows of our tables that they rest on as findings about the knowledge itself."""
    rows = {row.draft().name: row for row in cites if row is not None}
    return Judged(judgements=judgements, derived=tuple((SUBJECT, row.draft()) for row in rows.values()))


def sides(*reads: Read, expected: Sequence[Read] = ()) -> tuple[Side, ...]:
    """The findings a judgement rests on, each once."""
    found: dict[str, Side] = {}
    for read in reads:
        if read.finding is not None:
            found.setdefault(read.finding.id, Side(finding_id=read.finding.id))
    for read in expected:
        if read.finding is not None:
            found.setdefault(read.finding.id, Side(finding_id=read.finding.id, side="expected"))
    return tuple(found.values())


def lines(*texts: str) -> tuple[str, ...]:
    """Texts as one line each, however long: reports wrap. An empty text gives none."""
    return tuple(line for text in texts if (line := " ".join(text.split())))


def judgement(
    key: str, verdict: JudgementVerdict, title: str, *, about: str = "", observed: Json = None, expected: Json = None,
    detail: Iterable[str] = (), consequence: str = "", options: Iterable[Option] = (), sides: tuple[Side, ...] = (),
) -> Judgement:  # fmt: skip
    """A judgement; each text of `detail` is one line."""
    return Judgement(
        key=key, about=about, verdict=verdict, title=title, observed=observed, expected=expected,
        detail=lines(*detail), consequence=consequence, options=tuple(options), sides=sides,
    )  # fmt: skip


def not_known(
    key: str, title: str, *reads: Read, about: str = "", who: str = "", options: Iterable[Option] = ()
) -> Judgement:
    """The judgement `unknown`: why each missing thing is not known, and who can say."""
    open_reads = [read for read in reads if not read.known]
    reasons = dict.fromkeys(f"{read.path}: {read.reason or read.state}" for read in open_reads)
    return judgement(
        key, "unknown", title, about=about, detail=[*reasons, who], options=options, sides=sides(*reads),
        observed={read.path: read.state for read in open_reads},
    )  # fmt: skip


def count_text(count: int) -> str:
    """A count as people say it: `eight`, 13."""
    return _COUNTS[count] if 0 <= count < len(_COUNTS) else str(count)


def plain(value: Json, default: str = "unknown") -> str:
    """A value from outside as one short printable line."""
    text = "".join(c if c.isprintable() else " " for c in str(value)).strip()
    return (text if len(text) <= 60 else f"{text[:57]}...") or default


def fit(title: str) -> str:
    """A title that stays on one line of 80 columns with its verdict; what was cut stands in full in the detail."""
    return title if len(title) <= 78 else f"{title[:75].rstrip(', ')}..."
