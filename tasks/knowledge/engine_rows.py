"""The kinds of rows in our tables about the engine, and the release they were read up to.

Every row says where it comes from, which release it was read from, and how sure it is: `source` (read in the released
package), `run` (its code was run on a CPU), `report` (a public thread says so), `inferred` (follows from source that was
not run).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Final, Literal

from recon.agent.api import Draft, Json

TABLE_VERSION: Final = "0.5.23"
SUBJECT: Final = "knowledge:sglang"

Proof = Literal["source", "run", "report", "inferred"]


@dataclass(frozen=True)
class Row:
    """What all rows share. `read_from` is the release (or range) the statement was read from."""

    row: str
    source: str
    read_from: str = TABLE_VERSION
    proof: Proof = "source"
    note: str = ""

    @property
    def table(self) -> str:
        """The table's name in a locator."""
        return type(self).__name__.lower()

    def draft(self) -> Draft:
        """The row as a finding on SUBJECT, level declared; its locator names table, row, source and release."""
        locator = f"{self.table}, {self.row}: {self.source}; read from sglang {self.read_from} ({self.proof})"
        name = re.sub(r"[^A-Za-z0-9_.]+", "_", f"{self.table}.{self.row}")
        return Draft(name=name, value=asdict(self), level="declared", locator=locator)


@dataclass(frozen=True, kw_only=True)
class Milestone(Row):
    """The first release that has something. `exact`: false where an older one, not read, may have it too."""

    release: str
    exact: bool = True


@dataclass(frozen=True, kw_only=True)
class Transfer(Row):
    """One KV transfer backend. `min_release` is None where every release read has it."""

    backend: str
    min_release: str | None
    needs_rdma: bool
    package: str  # what pip installs; "" for none
    packages: tuple[str, ...] = ()  # distributions that bring it
    hardware: str = "NVIDIA"


@dataclass(frozen=True, kw_only=True)
class Backend(Row):
    """The kernel backend that runs a format on a GPU generation, by the engine's own choice unless `forced`."""

    backend: str
    formats: tuple[str, ...]
    sms: tuple[str, ...]
    since: str | None = None
    reads_tuning: bool = False


@dataclass(frozen=True, kw_only=True)
class Limit(Row):
    """A trap: what the engine does, and for which releases it was seen."""

    says: str
    first: str | None = None
    last: str | None = TABLE_VERSION


@dataclass(frozen=True, kw_only=True)
class Flag(Row):
    """One command-line flag: the releases read that have it, its default and choices in the newest of them."""

    first: str
    last: str
    default: Json = None
    choices: tuple[str, ...] = ()
    alias_of: str | None = None
    deprecated_from: str | None = None

    def in_release(self, release: str) -> bool:
        """Whether a release has the flag. A release newer than the tables is taken to be like the newest."""
        newest = version_key(self.last) >= version_key(TABLE_VERSION)
        return version_key(self.first)[:3] <= version_key(release)[:3] and (
            newest or version_key(release)[:3] <= version_key(self.last)[:3]
        )


@dataclass(frozen=True, kw_only=True)
class Release(Row):
    """One release: its day and what it pins; "" where it says nothing new."""

    release: str
    date: str
    torch: str = ""
    flashinfer: str = ""
    kernel: str = ""
    python: str = ">=3.10"


def version_key(version: str) -> tuple[int, ...]:
    """A release to compare by; what follows a plus sign does not count."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))
