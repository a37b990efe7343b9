"""Bundles: the same bytes out as in, nothing accepted that is not sound, and a replay that answers as the source did."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recon.agent.connectors.replay import (
    Bundle,
    ReplaySource,
    bundle_bytes,
    bundle_of,
    bundle_realm,
    read_bundle,
    read_bundle_bytes,
    write_bundle,
)
from recon.agent.model.base import sha256_hex
from recon.agent.model.errors import MissionError, UsageError
from recon.agent.model.findings import Observation, Raw, Request, observation_id

EMPTY = sha256_hex(b"")


def observed(
    request: Request, *, stdout: bytes, at: float = 100.0, took: float = 0.0, state: str = "ok"
) -> tuple[Observation, dict[str, bytes]]:
    raw = Raw(state=state, exit_code=0, stdout=stdout, observed_at=at)  # type: ignore[arg-type]
    sha = sha256_hex(stdout)
    row = Observation(
        id=observation_id(request, raw, stdout_sha=sha, stderr_sha=EMPTY), request=request, state=raw.state, exit_code=0, revision="r1",
        observed_at=at, duration_s=took, host_boot_id="b1", stdout_sha=sha, stderr_sha=EMPTY, truncated=False, reason="", origin="composed",
        attempt_id=7,
    )  # fmt: skip
    return row, {sha: stdout, EMPTY: b""}


def host(*argv: str) -> Request:
    return Request(connector="host", target="ct200", probe="p", argv=argv)


def sample() -> Bundle:
    rows, blobs = [], {}
    for n, request in enumerate(
        (
            host("uname", "-a"),
            host("lscpu"),
            Request(connector="web", target="https://x.io", probe="web.page", path="/é"),
        )
    ):
        row, more = observed(request, stdout=f"answer {n} \x00\n".encode(), at=100.0 + n, took=0.2)
        rows.append(row)
        blobs |= more
    return bundle_of({"as_of": 200.0, "origin": "composed", "text": "directive “é”"}, rows, blobs)


def test_a_bundle_comes_back_as_it_was_and_is_byte_equal_whatever_the_order(tmp_path: Path) -> None:
    bundle = sample()
    first, second = tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"
    write_bundle(first, bundle)
    read = read_bundle(first)
    time.sleep(1.1)  # a time stamp in the file would differ by now
    write_bundle(
        second,
        Bundle(
            dict(reversed(read.manifest.items())), read.observations[::-1], dict(reversed(read.blobs.items()))
        ),
    )
    assert first.read_bytes() == second.read_bytes()
    assert read.manifest == bundle.manifest
    assert sorted(read.observations, key=str) == sorted(bundle.observations, key=str)
    assert read.blobs == bundle.blobs
    assert all("attempt_id" not in row for row in read.observations)
    assert bundle_realm(read) == bundle_realm(bundle) and bundle_realm(read).startswith("bundle:")
    assert first.stat().st_mode & 0o777 == 0o600


def test_other_content_is_another_realm() -> None:
    bundle = sample()
    assert bundle_realm(bundle) != bundle_realm(
        Bundle({**bundle.manifest, "as_of": 201.0}, bundle.observations, bundle.blobs)
    )


def test_the_archive_holds_plain_names_in_order_without_times() -> None:
    with tarfile.open(fileobj=io.BytesIO(bundle_bytes(sample()))) as tar:
        members = tar.getmembers()
    names = [m.name for m in members]
    assert names == sorted(names) and {"manifest.json", "observations.jsonl"} <= set(names)
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {(0, 0, 0, "", "", 0o644)}


def test_a_bundle_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(b"old")
    broken = sample()
    broken.blobs["0" * 64] = b"other bytes"
    with pytest.raises(MissionError, match="has other bytes than its name says"):
        write_bundle(path, broken)
    assert path.read_bytes() == b"old"
    with pytest.raises(UsageError, match="cannot write"):
        write_bundle(tmp_path / "no folder" / "x.tar.gz", sample())
    with pytest.raises(UsageError, match="cannot read"):
        read_bundle(tmp_path / "nothing")
    assert os.listdir(tmp_path) == ["x.tar.gz"]


def packed(members: list[tuple[str, bytes]], kind: bytes = tarfile.REGTYPE) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, body in members:
            info = tarfile.TarInfo(name)
            info.size = len(body) if kind == tarfile.REGTYPE else 0
            info.type = kind
            info.linkname = "/etc/passwd"
            tar.addfile(info, io.BytesIO(body) if kind == tarfile.REGTYPE else None)
    return out.getvalue()


GOOD = [("manifest.json", b'{"format":"recon-bundle/1","as_of":1.0}'), ("observations.jsonl", b"")]


def row(**changes: object) -> bytes:
    made, _ = observed(host("id", "-un"), stdout=b"x")
    return json.dumps({**made.model_dump(mode="json", exclude={"attempt_id"}), **changes}).encode()


UNSOUND: dict[str, tuple[Callable[[], bytes], str]] = {
    "not an archive": (lambda: b"hello", "not a readable tar.gz"),
    "empty": (lambda: b"", "not a readable tar.gz|manifest.json is missing"),
    "cut": (lambda: bundle_bytes(sample())[:-200], "not a readable tar.gz|is cut"),
    "a bit turned": (lambda: _turned(bundle_bytes(sample())), "not a readable tar.gz|other bytes|cut"),
    "no manifest": (lambda: packed(GOOD[1:]), "manifest.json is missing"),
    "no observations": (lambda: packed(GOOD[:1]), "observations.jsonl is missing"),
    "another format": (lambda: packed([("manifest.json", b'{"format":"x/9","as_of":1}'), GOOD[1]]), "its format is 'x/9'"),
    "no time": (lambda: packed([("manifest.json", b'{"format":"recon-bundle/1"}'), GOOD[1]]), "no as_of"),
    "manifest is a list": (lambda: packed([("manifest.json", b"[]"), GOOD[1]]), "not a JSON object"),
    "a way out": (lambda: packed([*GOOD, ("../../etc/cron.d/x", b"x")]), "does not belong in it"),
    "an absolute path": (lambda: packed([*GOOD, ("/etc/x", b"x")]), "does not belong in it"),
    "a blob in a folder": (lambda: packed([*GOOD, ("blobs/../x", b"x")]), "does not belong in it"),
    "a link": (lambda: packed([("manifest.json", b"")], tarfile.SYMTYPE), "not a plain file"),
    "a device": (lambda: packed([("manifest.json", b"")], tarfile.CHRTYPE), "not a plain file"),
    "twice": (lambda: packed([*GOOD, GOOD[0]]), "in it twice"),
    "a blob of other bytes": (lambda: packed([*GOOD, (f"blobs/{'a' * 64}", b"x")]), "other bytes"),
    "a blob that lacks": (lambda: packed([GOOD[0], ("observations.jsonl", row())]), "which is not in it"),
    "a row of another shape": (lambda: packed([GOOD[0], ("observations.jsonl", row(state="fine"))]), "observation 'o-.*: state"),
    "a row with more": (lambda: packed([GOOD[0], ("observations.jsonl", row(secret=1))]), "secret"),
    "a row that is no object": (lambda: packed([GOOD[0], ("observations.jsonl", b"7\n")]), "not a JSON object"),
    "deep JSON": (lambda: packed([("manifest.json", b"[" * 200_000), GOOD[1]]), "not a readable"),
    "a bomb": (lambda: gzip.compress(_zeros_tar(2 << 30), 1), "unpacks to more|bytes"),
}  # fmt: skip


def _turned(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]


def _zeros_tar(size: int) -> bytes:
    """The head of an archive whose second member claims `size` bytes, with 300 MiB of them."""
    info = tarfile.TarInfo("observations.jsonl")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(300 << 20)


@pytest.mark.parametrize("name", sorted(UNSOUND))
def test_an_unsound_bundle_is_refused_with_what_is_wrong(name: str) -> None:
    make, says = UNSOUND[name]
    with pytest.raises(MissionError, match=says) as caught:
        read_bundle_bytes(make(), name="b.tar.gz")
    assert caught.value.message.startswith("b.tar.gz is not a recon-bundle/1: ")


async def test_a_replay_answers_as_recorded_and_says_what_was_not() -> None:
    source = ReplaySource(sample())
    raw = await source.fetch(
        host("lscpu").model_copy(update={"timeout_s": 1.0, "cap_bytes": 5})
    )  # limits are not part of the question
    assert raw == Raw(
        state="ok",
        exit_code=0,
        stdout=b"answer 1 \x00\n",
        revision="r1",
        duration_s=0.2,
        origin="composed",
        observed_at=101.0,
        host_boot_id="b1",
    )
    for other in (
        host("lscpu", "-J"),
        host("lscpu").model_copy(update={"target": "x"}),
        host("lscpu").model_copy(update={"probe": "q"}),
    ):
        assert await source.fetch(other) == Raw(state="lost", reason="not recorded")
    await source.close()


async def test_of_two_answers_the_later_counts_whatever_the_order() -> None:
    old, blobs = observed(host("free", "-b"), stdout=b"old", at=10.0)
    new, more = observed(host("free", "-b"), stdout=b"new", at=20.0)
    for rows in ([old, new], [new, old]):
        raw = await ReplaySource(bundle_of({"as_of": 30.0}, rows, {**blobs, **more})).fetch(
            host("free", "-b")
        )
        assert (raw.stdout, raw.observed_at) == (b"new", 20.0)


async def test_pace_takes_the_recorded_time() -> None:
    begun = time.monotonic()
    await ReplaySource(sample(), pace=2.0).fetch(host("lscpu"))
    assert 0.35 < time.monotonic() - begun < 2.0


async def test_a_secret_in_a_bundle_from_elsewhere_does_not_come_out() -> None:
    made, blobs = observed(host("dmesg"), stdout=b"HF_TOKEN=abc def\n")
    raw = await ReplaySource(bundle_of({"as_of": 1.0}, [made], blobs)).fetch(host("dmesg"))
    assert raw.stdout == b"HF_TOKEN=***\n"
