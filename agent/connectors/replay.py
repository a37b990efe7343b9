"""Evidence without its sources: bundles (`recon-bundle/1`), written and read, and the source that replays them."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from recon.agent.connectors.redact import redact
from recon.agent.model.base import Json, canonical_json, sha256_hex
from recon.agent.model.errors import MissionError, UsageError
from recon.agent.model.findings import Observation, Raw, Request, reach_error

FORMAT: Final = "recon-bundle/1"
_MANIFEST: Final = "manifest.json"
_OBSERVATIONS: Final = "observations.jsonl"
_BLOB: Final = re.compile(r"^blobs/([0-9a-f]{64})$")
_MAX_MEMBERS: Final = 200_000
_MAX_MEMBER_BYTES: Final = 256 << 20
_MAX_TOTAL_BYTES: Final = 1 << 30  # what a bundle may unpack to: stops a compression bomb


@dataclass(frozen=True)
class Bundle:
    """A mission's evidence: what was asked and answered, and the bytes.

    `observations`: rows of `Observation` without `attempt_id`. `blobs`: sha256 (hex) -> redacted bytes. The manifest has at
    least `format`, `as_of` (UTC seconds) and `origin`.
    """

    manifest: dict[str, Json]
    observations: list[dict[str, Json]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)


def bundle_of(
    manifest: Mapping[str, Json], observations: Iterable[Observation], blobs: Mapping[str, bytes]
) -> Bundle:
    """A bundle of typed observations, with the format filled in."""
    rows = [o.model_dump(mode="json", exclude={"attempt_id"}) for o in observations]
    return Bundle({"format": FORMAT, **manifest}, rows, dict(blobs))


def bundle_realm(bundle: Bundle) -> str:
    """The realm that keeps a bundle's subjects apart from real ones of the same name: `bundle:<12 hex>` of its content."""
    rows = sorted(bundle.observations, key=canonical_json)
    return f"bundle:{sha256_hex(canonical_json([bundle.manifest, rows]))[:12]}"


# ---- writing


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Writes the bundle; the same content gives the same bytes. Appears under its name only when it is whole.

    Raises UsageError where the file cannot be written, MissionError where the bundle contradicts itself.
    """
    data = bundle_bytes(bundle)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                temporary.chmod(0o600)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="choose another folder or free space"
        ) from None


def bundle_bytes(bundle: Bundle) -> bytes:
    """The bundle as bytes: tar in gzip, sorted names, zero times."""
    check_bundle(bundle)
    rows = sorted(bundle.observations, key=lambda row: (str(row.get("id")), canonical_json(row)))
    members = {f"blobs/{sha}": body for sha, body in bundle.blobs.items()}
    members[_MANIFEST] = (canonical_json(bundle.manifest) + "\n").encode()
    members[_OBSERVATIONS] = "".join(canonical_json(row) + "\n" for row in rows).encode()
    out = io.BytesIO()
    # mtime 0 and no file name in the gzip header; level 9: bundles are shipped and mailed
    with (
        gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0, compresslevel=9) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name in sorted(members):
            tar.addfile(_member(name, len(members[name])), io.BytesIO(members[name]))
    return out.getvalue()


def _member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o644
    return info


# ---- reading


def read_bundle(path: Path) -> Bundle:
    """Reads a bundle file. Raises UsageError where there is none, MissionError where it is not a sound bundle."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="recon export PATH writes a bundle"
        ) from None
    return read_bundle_bytes(data, name=str(path))


def read_bundle_bytes(data: bytes, *, name: str = "the bundle") -> Bundle:
    """Reads a bundle. Every blob is checked against its sha256; names and sizes are held to what a bundle has.

    Raises MissionError, naming the first thing wrong.
    """
    try:
        bundle = _unpack(data)
        _check(bundle)
    except (tarfile.TarError, OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise _bad(name, f"not a readable tar.gz ({error})") from None
    except _Unsound as error:
        raise _bad(name, str(error)) from None
    return bundle


class _Unsound(Exception):
    """What is wrong with a bundle's content."""


def _bad(name: str, why: str) -> MissionError:
    return MissionError(
        f"{name} is not a {FORMAT}: {why}", hint="export it again, or copy it again if it was cut"
    )


class _Limited(io.RawIOBase):
    """Reads on until the limit of unpacked bytes, then refuses (stateful)."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        self._inner = inner
        self._left = _MAX_TOTAL_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._inner.read(self._left + 1 if size < 0 else size)
        self._left -= len(data)
        if self._left < 0:
            raise _Unsound(f"it unpacks to more than {_MAX_TOTAL_BYTES} bytes")
        return data


def _unpack(data: bytes) -> Bundle:
    members: dict[str, bytes] = {}
    with (
        gzip.GzipFile(fileobj=io.BytesIO(data)) as packed,
        tarfile.open(fileobj=cast(Any, _Limited(packed)), mode="r|") as tar,
    ):
        for info in tar:
            name = _sound_name(info, members)
            members[name] = _body(tar, info)
    return Bundle(
        manifest=_object(members, _MANIFEST),
        observations=[_row(line) for line in _text(members, _OBSERVATIONS).splitlines() if line],
        blobs={
            name.removeprefix("blobs/"): body for name, body in members.items() if name.startswith("blobs/")
        },
    )


def _sound_name(info: tarfile.TarInfo, members: Mapping[str, bytes]) -> str:
    """The name of a member that may be in a bundle: nothing else, so nothing can point outside of it."""
    if not info.isreg():
        raise _Unsound(f"{info.name!r} is not a plain file")
    if info.name not in (_MANIFEST, _OBSERVATIONS) and not _BLOB.match(info.name):
        raise _Unsound(f"{info.name!r} does not belong in it")
    if info.name in members:
        raise _Unsound(f"{info.name} is in it twice")
    if info.size > _MAX_MEMBER_BYTES:
        raise _Unsound(f"{info.name} has {info.size} bytes")
    if len(members) >= _MAX_MEMBERS:
        raise _Unsound(f"more than {_MAX_MEMBERS} files")
    return info.name


def _body(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(info)
    body = file.read() if file is not None else b""
    if len(body) != info.size:
        raise _Unsound(f"{info.name} is cut")
    return body


def _text(members: Mapping[str, bytes], name: str) -> str:
    if name not in members:
        raise _Unsound(f"{name} is missing")
    return members[name].decode("utf-8")


def _object(members: Mapping[str, bytes], name: str) -> dict[str, Json]:
    value = json.loads(_text(members, name))
    if not isinstance(value, dict):
        raise _Unsound(f"{name} is not a JSON object")
    return value


def _row(line: str) -> dict[str, Json]:
    value = json.loads(line)
    if not isinstance(value, dict):
        raise _Unsound(f"a line of {_OBSERVATIONS} is not a JSON object")
    return value


def check_bundle(bundle: Bundle) -> None:
    """Whether format, times, rows and blobs agree with each other. Raises MissionError with the first thing wrong."""
    try:
        _check(bundle)
    except _Unsound as error:
        raise _bad("the bundle", str(error)) from None


def _check(bundle: Bundle) -> None:
    said = bundle.manifest.get("format")
    if said != FORMAT:
        raise _Unsound(f"its format is {said!r}")
    if not isinstance(bundle.manifest.get("as_of"), (int, float)):
        raise _Unsound("the manifest names no as_of time")
    for sha, body in bundle.blobs.items():
        if sha256_hex(body) != sha:
            raise _Unsound(f"blob {sha[:12]} has other bytes than its name says")
    for row in bundle.observations:
        observation = _observation(row)
        for sha in (observation.stdout_sha, observation.stderr_sha):
            if sha and sha not in bundle.blobs and sha != sha256_hex(b""):
                raise _Unsound(f"observation {observation.id} needs blob {sha[:12]}, which is not in it")


def _observation(row: Mapping[str, Json]) -> Observation:
    try:
        return Observation.model_validate(dict(row))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _Unsound(f"observation {row.get('id')!r}: {where}: {first['msg']}") from None


# ---- replaying


class ReplaySource:
    """Answers from a bundle, for every connector. A question that was not recorded is `lost: not recorded`.

    `pace` stretches time: 1.0 takes as long as the recorded answer took, 0.0 no time at all. Of several answers to one
    question the last one counts, so that the order of asking changes nothing.
    """

    def __init__(self, bundle: Bundle, *, pace: float = 0.0) -> None:
        self._blobs = bundle.blobs
        self._pace = pace
        self._answers: dict[str, Observation] = {}
        for observation in sorted(
            map(_observation, bundle.observations), key=lambda o: (o.observed_at, o.id)
        ):
            self._answers[observation.request.identity()] = observation

    async def fetch(self, request: Request) -> Raw:
        """The recorded answer with its recorded time, origin and outcome. Raises ReachError where that was the outcome."""
        held = self._answers.get(request.identity())
        if held is None:
            return Raw(state="lost", reason="not recorded")
        if self._pace > 0:
            await asyncio.sleep(held.duration_s * self._pace)
        # A bundle from elsewhere may hold what ours never would; redacted bytes come out as they are. Tensor headers are
        # names and numbers, and by far the most bytes.
        hide = _as_it_is if request.probe == "hub.header" else redact
        raw = Raw(
            state=held.state, exit_code=held.exit_code, stdout=hide(self._blobs.get(held.stdout_sha, b"")),
            stderr=hide(self._blobs.get(held.stderr_sha, b"")), truncated=held.truncated, reason=held.reason, revision=held.revision,
            duration_s=held.duration_s, origin=held.origin, observed_at=held.observed_at,
            host_boot_id=held.host_boot_id,
        )  # fmt: skip
        if (error := reach_error(raw)) is not None:
            raise error
        return raw

    async def close(self) -> None:
        """Nothing to let go of."""


def _as_it_is(data: bytes) -> bytes:
    return data
