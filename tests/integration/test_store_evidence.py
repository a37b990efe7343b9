"""Blobs, observations and findings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.missions import NOW, answer, finding_of, open_store

from recon.agent.model.errors import StoreError, UsageError
from recon.agent.model.findings import Draft, Raw, Request, make_finding
from recon.agent.store import Store

DEMO = "bundle:0123456789ab"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as opened:
        yield opened


def count(store: Store, table: str) -> int:
    return int(store._raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.parametrize("data", [b"", b"x", b"hello " * 5000, os.urandom(5000), bytes(range(256))])
def test_bytes_come_back_as_they_were_and_are_kept_once(store: Store, data: bytes) -> None:
    sha = store.keep_blob(data)
    assert store.keep_blob(data) == sha
    assert store.blob(sha) == data
    assert count(store, "blob") == 1


def test_text_is_kept_compressed(store: Store) -> None:
    store.keep_blob(b'{"dtype": "BF16"}' * 10_000)
    assert store._raw.execute("SELECT encoding, size, length(body) < 2000 FROM blob").fetchone()[:] == (
        "zlib",
        170_000,
        1,
    )


def test_more_bytes_than_any_probe_gives_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recon.agent.store.evidence.BLOB_CAP_BYTES", 1000)
    with pytest.raises(StoreError, match="at most 1000"):
        store.keep_blob(b"x" * 1001)
    monkeypatch.setattr("recon.agent.store.evidence.FILE_CAP_BYTES", 1000)
    with pytest.raises(StoreError, match="no more evidence"):
        store.keep_blob(b"x")


def test_a_blob_that_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="no blob abc"):
        store.blob("abc")


def test_an_observation_says_who_asked_what_when_and_how_it_ended(store: Store) -> None:
    request = Request(
        connector="hub",
        target="a/b",
        probe="hub.tree",
        revision="main",
        query=(("filter", "x"),),
        cap_bytes=5,
    )
    raw = Raw(
        state="denied", exit_code=403, stdout=b"no", stderr=b"gated", truncated=True, reason="gated", revision="0a",
        duration_s=0.25, origin="composed", observed_at=NOW, host_boot_id="b1",
    )  # fmt: skip
    made = store.record(request, raw, realm="", attempt_id=None)
    assert made.request == request
    assert (store.blob(made.stdout_sha), store.blob(made.stderr_sha)) == (b"no", b"gated")
    told = made.model_dump(exclude={"id", "request", "stdout_sha", "stderr_sha", "attempt_id"})
    assert told == raw.model_dump(exclude={"stdout", "stderr"})
    assert store.observation("", made.id[:6]) == made


def test_the_same_bytes_at_another_time_are_another_observation_of_one_blob(store: Store) -> None:
    first = store.record(*answer("same"), realm="", attempt_id=None)
    again = store.record(*answer("same"), realm="", attempt_id=None)
    later = store.record(*answer("same", at=NOW + 60), realm="", attempt_id=None)
    assert first == again
    assert first.id != later.id
    assert store.observations("") == [first, later]
    assert store.observations("", [later.id]) == [later]
    assert count(store, "blob") == 2  # the answer, and the empty stderr


def test_a_recorded_host_never_mixes_with_a_real_one_of_the_same_name(store: Store) -> None:
    real, recorded = finding_of("gpus", 8), finding_of("gpus", 2)
    store.put_findings("", [real])
    store.put_findings(DEMO, [recorded, real])
    assert [f.value for f in store.findings("")] == [8]
    assert [f.value for f in store.findings(DEMO)] == [8]
    assert [f.value for f in store.finding_history(DEMO, "host:ct200", "gpus")] == [2, 8]
    seen = store.record(*answer(), realm=DEMO, attempt_id=None)
    assert store.observations("") == []
    with pytest.raises(UsageError):
        store.observation("", seen.id)
    with pytest.raises(UsageError):
        store.finding("", recorded.id)


def test_a_finding_comes_back_as_it_was_made(store: Store) -> None:
    seen = store.record(*answer(), realm="", attempt_id=None)
    base = finding_of("base", 1, observation_id=seen.id)
    draft = Draft(
        name="fs", value={"/": {"avail_bytes": 23_100_000_000, "x": None}}, unit="bytes", reason="r", level="declared",
        locator="line 3", lifetime_s=60.0, valid_while=(("boot_id", "b1"),),
    )  # fmt: skip
    made = make_finding(
        draft, subject="host:ct200", producer="fs", producer_version="2", observation_id=None,
        inputs=(base.id, "f-0"), observed_at=NOW, origin="composed",
    )  # fmt: skip
    stored = store.put_findings("", [base, made])
    assert [f.model_copy(update={"seq": 0}) for f in stored] == [base, made]
    assert store.finding("", made.id[2:9]) == stored[1]
    assert store.findings("") == stored


def test_the_latest_finding_of_a_name_supersedes_and_older_ones_stay_readable(store: Store) -> None:
    old = finding_of("gpus", 8)
    new = finding_of("gpus", 7, at=NOW + 60)
    cpu = finding_of("cpu", 64)
    other = finding_of("gpus", 1, subject="host:other")
    store.put_findings("", [old, cpu, other, new])
    assert [(f.subject, f.name, f.value) for f in store.findings("")] == [
        ("host:ct200", "cpu", 64), ("host:ct200", "gpus", 7), ("host:other", "gpus", 1),
    ]  # fmt: skip
    assert [f.value for f in store.findings("", ["host:other", "host:none"])] == [1]
    assert store.finding("", old.id).value == 8
    assert [f.value for f in store.finding_history("", "host:ct200", "gpus")] == [8, 7]


def test_an_observed_finding_that_is_told_again_does_not_supersede_a_newer_one(store: Store) -> None:
    first, second = (store.record(*answer(at=NOW + i), realm="", attempt_id=None) for i in range(2))
    old = finding_of("gpus", 8, observation_id=first.id)
    new = finding_of("gpus", 7, at=NOW + 1, observation_id=second.id)
    store.put_findings("", [old, new])
    told = store.put_findings("", [old])
    assert told[0].seq == store.finding_history("", "host:ct200", "gpus")[0].seq
    assert [f.value for f in store.findings("")] == [7]
    assert count(store, "finding") == 2


def test_a_derived_finding_that_is_concluded_again_is_the_latest_again(store: Store) -> None:
    at_tp4, at_tp8 = finding_of("fits", True, inputs=("f-1",)), finding_of("fits", False, inputs=("f-2",))
    for one in (at_tp4, at_tp8, at_tp4):
        store.put_findings("", [one])
    assert [f.id for f in store.findings("")] == [at_tp4.id]
    assert count(store, "finding") == 2


def test_a_finding_of_an_observation_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        store.put_findings("", [finding_of("a", 1), finding_of("b", 1, observation_id="o-none")])
    assert store.findings("") == []
