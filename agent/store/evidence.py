"""Blobs, observations and findings: written once, never updated, latest wins."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import bindparam, func, select

from recon.agent.model.base import canonical_json, sha256_hex
from recon.agent.model.errors import StoreError
from recon.agent.model.findings import Finding, Observation, Raw, Request, observation_id
from recon.agent.store.events import Events
from recon.agent.store.lookups import pick
from recon.agent.store.schema import blob, finding, finding_input, observation
from recon.agent.store.sql import Sql, all_of, insert_of

BLOB_CAP_BYTES: Final = (
    64 << 20
)  # a checkpoint header is at most 25 MB; a request caps its own answer far lower
FILE_CAP_BYTES: Final = 8 << 30  # evidence in all; far above what a mission reads (some 10 MB)

_INSERT_BLOB = insert_of(blob, ignore=True)
_BLOB = Sql(all_of(blob).where(blob.c.sha256 == bindparam("wanted")))
_HAS_BLOB = Sql(select(blob.c.size).where(blob.c.sha256 == bindparam("wanted")))
_INSERT_OBSERVATION = insert_of(observation, ignore=True)
_OBSERVATIONS = Sql(
    all_of(observation).where(observation.c.realm == bindparam("in_realm")).order_by(observation.c.seq)
)
_OBSERVATION = Sql(
    all_of(observation).where(
        observation.c.realm == bindparam("in_realm"), observation.c.id == bindparam("wanted")
    )
)
_OBSERVATION_IDS = Sql(select(observation.c.id).where(observation.c.realm == bindparam("in_realm")))
_NEXT_OBSERVATION = Sql(select(func.count() + 1).select_from(observation))

_INSERT_FINDING = insert_of(finding, ignore=True)
_INSERT_INPUT = insert_of(finding_input, ignore=True)
_LAST_SEQ = Sql(select(func.coalesce(func.max(finding.c.seq), 0)))
_FINDING = Sql(
    all_of(finding).where(finding.c.realm == bindparam("in_realm"), finding.c.id == bindparam("wanted"))
)
_FINDING_IDS = Sql(select(finding.c.id).where(finding.c.realm == bindparam("in_realm")))
_INPUTS = Sql(
    select(finding_input.c.finding_id, finding_input.c.input_id)
    .where(finding_input.c.realm == bindparam("in_realm"))
    .order_by(finding_input.c.finding_id, finding_input.c.n)
)
_INPUTS_OF = Sql(
    select(finding_input.c.finding_id, finding_input.c.input_id)
    .where(finding_input.c.realm == bindparam("in_realm"), finding_input.c.finding_id == bindparam("wanted"))
    .order_by(finding_input.c.n)
)
_later = finding.alias("later")
_LATEST = (
    all_of(finding)
    .where(
        finding.c.realm == bindparam("in_realm"),
        ~select(_later.c.seq)
        .where(
            _later.c.realm == finding.c.realm,
            _later.c.subject == finding.c.subject,
            _later.c.name == finding.c.name,
            _later.c.seq > finding.c.seq,
        )
        .exists(),
    )
    .order_by(finding.c.subject, finding.c.name)
)
_ALL_LATEST = Sql(_LATEST)
_LATEST_OF = Sql(_LATEST.where(finding.c.subject == bindparam("about")))
_HISTORY = Sql(
    all_of(finding)
    .where(
        finding.c.realm == bindparam("in_realm"),
        finding.c.subject == bindparam("about"),
        finding.c.name == bindparam("named"),
    )
    .order_by(finding.c.seq)
)
_LATEST_SEQ = Sql(
    select(func.max(finding.c.seq)).where(
        finding.c.realm == bindparam("in_realm"),
        finding.c.subject == bindparam("about"),
        finding.c.name == bindparam("named"),
    )
)
_SET_SEQ = Sql(
    finding.update().where(finding.c.realm == bindparam("in_realm"), finding.c.id == bindparam("wanted")),
    columns=["seq"],
)


class Evidence(Events):
    """Holds one connection to state.db: what was seen, and what was made of it. `realm`: see schema."""

    def keep_blob(self, data: bytes) -> str:
        """Stores bytes (already redacted) once; their sha256. Raises StoreError where they are too many."""
        sha = sha256_hex(data)
        with self.transaction():
            if self.one(_HAS_BLOB, wanted=sha) is None:
                self._insert_blob(sha, data)
        return sha

    def blob(self, sha: str) -> bytes:
        """The bytes of a blob. Raises StoreError where there is no such blob."""
        row = self.one(_BLOB, wanted=sha)
        if row is None:
            raise StoreError(f"{self.path}: no blob {sha}")
        body = bytes(row["body"])
        return zlib.decompress(body) if row["encoding"] == "zlib" else body

    def record(self, request: Request, raw: Raw, *, realm: str, attempt_id: int | None) -> Observation:
        """Stores one answer: the bytes as blobs, who asked what and how it ended as an observation.

        The same answer to the same question at the same time is one observation.
        """
        with self.transaction():
            stdout_sha, stderr_sha = self.keep_blob(raw.stdout), self.keep_blob(raw.stderr)
            found = observation_id(request, raw, stdout_sha=stdout_sha, stderr_sha=stderr_sha)
            seq = self.rows(_NEXT_OBSERVATION)[0][0]
            self.run(
                _INSERT_OBSERVATION,
                realm=realm, id=found, connector=request.connector, target=request.target, probe=request.probe,
                request_json=request.model_dump_json(), revision=raw.revision, observed_at=raw.observed_at,
                duration_s=raw.duration_s, host_boot_id=raw.host_boot_id, exit_code=raw.exit_code, state=raw.state,
                reason=raw.reason, stdout_sha=stdout_sha, stderr_sha=stderr_sha, truncated=int(raw.truncated),
                origin=raw.origin, attempt_id=attempt_id, seq=seq,
            )  # fmt: skip
            return self.observation(realm, found)

    def observation(self, realm: str, id_or_prefix: str) -> Observation:
        """An observation by id or the beginning of it. Raises UsageError for an unknown one."""
        row = self.one(_OBSERVATION, in_realm=realm, wanted=id_or_prefix)
        if row is None:
            ids = [str(r[0]) for r in self.rows(_OBSERVATION_IDS, in_realm=realm)]
            wanted = pick(
                id_or_prefix, ids, what="observation", see="recon show finding ID names its observation"
            )
            row = self.one(_OBSERVATION, in_realm=realm, wanted=wanted)
        assert row is not None
        return _observation(row)

    def observations(self, realm: str, ids: Iterable[str] | None = None) -> list[Observation]:
        """Observations of a realm in the order they were stored: all, or those with these ids."""
        if ids is None:
            return [_observation(row) for row in self.rows(_OBSERVATIONS, in_realm=realm)]
        wanted = set(ids)
        return [_observation(row) for row in self.rows(_OBSERVATIONS, in_realm=realm) if row["id"] in wanted]

    def put_findings(self, realm: str, findings: Sequence[Finding]) -> list[Finding]:
        """Stores findings in this order; each later one supersedes an earlier one of the same subject and name.

        A finding that is there already stays as and where it is. One exception: a derived finding (one of no single
        observation) that is concluded again after another conclusion has superseded it becomes the latest again,
        because then what it was derived from is how it was before.
        """
        if not findings:
            return []
        with self.transaction():
            seq = int(self.rows(_LAST_SEQ)[0][0])
            stored = []
            for one in findings:
                held = self.one(_FINDING, in_realm=realm, wanted=one.id)
                if held is None:
                    seq += 1
                    stored.append(self._insert_finding(realm, one, seq=seq))
                elif one.observation_id is None and self._superseded(realm, held):
                    seq += 1
                    self.run(_SET_SEQ, in_realm=realm, wanted=one.id, seq=seq)
                    stored.append(one.model_copy(update={"seq": seq}))
                else:
                    stored.append(one.model_copy(update={"seq": held["seq"]}))
        return stored

    def findings(self, realm: str, subjects: Iterable[str] | None = None) -> list[Finding]:
        """The latest finding of every subject and name, in that order: of all subjects or of these."""
        with self.snapshot():
            inputs = self._inputs(realm)
            if subjects is None:
                return [_finding(row, inputs) for row in self.rows(_ALL_LATEST, in_realm=realm)]
            return [
                _finding(row, inputs)
                for subject in sorted(set(subjects))
                for row in self.rows(_LATEST_OF, in_realm=realm, about=subject)
            ]

    def finding(self, realm: str, id_or_prefix: str) -> Finding:
        """A finding by id or the beginning of it, superseded ones too. Raises UsageError for an unknown one."""
        row = self.one(_FINDING, in_realm=realm, wanted=id_or_prefix)
        if row is None:
            ids = [str(r[0]) for r in self.rows(_FINDING_IDS, in_realm=realm)]
            wanted = pick(id_or_prefix, ids, what="finding", see="recon report --format json lists them")
            row = self.one(_FINDING, in_realm=realm, wanted=wanted)
        assert row is not None
        inputs = tuple(str(r["input_id"]) for r in self.rows(_INPUTS_OF, in_realm=realm, wanted=row["id"]))
        return _finding(row, {row["id"]: inputs})

    def finding_history(self, realm: str, subject: str, name: str) -> list[Finding]:
        """Every finding about a subject under a name, the latest last."""
        inputs = self._inputs(realm)
        return [
            _finding(row, inputs) for row in self.rows(_HISTORY, in_realm=realm, about=subject, named=name)
        ]

    def _insert_blob(self, sha: str, data: bytes) -> None:
        if len(data) > BLOB_CAP_BYTES:
            raise StoreError(f"{len(data)} bytes of evidence in one piece: at most {BLOB_CAP_BYTES} are kept")
        pages, page_size = (
            int(self._raw.execute(f"PRAGMA {p}").fetchone()[0]) for p in ("page_count", "page_size")
        )
        if pages * page_size > FILE_CAP_BYTES:
            raise StoreError(
                f"{self.path}: holds {pages * page_size} bytes; no more evidence is added",
                hint="recon export keeps a mission; then start another state with --db OTHER.db",
            )
        packed = zlib.compress(data, 6)
        encoding, body = ("zlib", packed) if len(packed) < len(data) else ("raw", data)
        self.run(_INSERT_BLOB, sha256=sha, size=len(data), encoding=encoding, body=body)

    def _insert_finding(self, realm: str, one: Finding, *, seq: int) -> Finding:
        self.run(
            _INSERT_FINDING,
            realm=realm, id=one.id, subject=one.subject, name=one.name, outcome=one.outcome,
            value_json=canonical_json(one.value), unit=one.unit, reason=one.reason, level=one.level,
            observation_id=one.observation_id, locator=one.locator, producer=one.producer,
            producer_version=one.producer_version, lifetime_s=one.lifetime_s,
            valid_while_json=canonical_json([list(pair) for pair in one.valid_while]), observed_at=one.observed_at,
            origin=one.origin, seq=seq,
        )  # fmt: skip
        for n, input_id in enumerate(one.inputs):
            self.run(_INSERT_INPUT, realm=realm, finding_id=one.id, n=n, input_id=input_id)
        return one.model_copy(update={"seq": seq})

    def _superseded(self, realm: str, held: sqlite3.Row) -> bool:
        latest = self.rows(_LATEST_SEQ, in_realm=realm, about=held["subject"], named=held["name"])[0][0]
        return bool(latest > held["seq"])

    def _inputs(self, realm: str) -> dict[str, tuple[str, ...]]:
        inputs: dict[str, tuple[str, ...]] = {}
        for row in self.rows(_INPUTS, in_realm=realm):
            inputs[row["finding_id"]] = (*inputs.get(row["finding_id"], ()), row["input_id"])
        return inputs


def _observation(row: sqlite3.Row) -> Observation:
    return Observation(
        id=row["id"], request=Request.model_validate_json(row["request_json"]), state=row["state"],
        exit_code=row["exit_code"], revision=row["revision"], observed_at=row["observed_at"],
        duration_s=row["duration_s"], host_boot_id=row["host_boot_id"], stdout_sha=row["stdout_sha"],
        stderr_sha=row["stderr_sha"], truncated=bool(row["truncated"]), reason=row["reason"], origin=row["origin"],
        attempt_id=row["attempt_id"],
    )  # fmt: skip


def _finding(row: sqlite3.Row, inputs: dict[str, tuple[str, ...]]) -> Finding:
    return Finding(
        id=row["id"], subject=row["subject"], name=row["name"], outcome=row["outcome"],
        value=json.loads(row["value_json"]), unit=row["unit"], reason=row["reason"], level=row["level"],
        observation_id=row["observation_id"], locator=row["locator"], producer=row["producer"],
        producer_version=row["producer_version"], lifetime_s=row["lifetime_s"],
        valid_while=tuple((str(a), str(b)) for a, b in json.loads(row["valid_while_json"])),
        inputs=inputs.get(row["id"], ()), observed_at=row["observed_at"], origin=row["origin"], seq=row["seq"],
    )  # fmt: skip
