"""Answers of a model hub: which commit a name stands for, which files it has, which quantized siblings exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.card import clean_line
from recon.tasks.facts.engine_download import engine_download
from recon.tasks.knowledge.format_words import formats_in

_SHA: Final = re.compile(r"^[0-9a-f]{40}$")
_SHARD: Final = re.compile(r"^(?P<stem>.*)-(?P<n>\d{5,6})-of-(?P<of>\d{5,6})\.safetensors$")
_REPO: Final = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}$")
# Never loaded by an engine that serves the safetensors layout: other runtimes' copies, training state, pictures.
_EXCLUDED: Final = ("original/*", "metal/*", "onnx/*", "openvino/*", "*.gguf", "*.pth", "*.pt", "*.ot", "*.h5",
                    "*.msgpack", "*.onnx", "*.png", "*.jpg", "*.jpeg", "*.gif", "*.mp4", "*.pdf")  # fmt: skip


def subject_of(repo: str, revision: str) -> str:
    """The subject of a checkpoint: a pointer where `revision` is a name, the thing itself where it is a commit."""
    return f"hf:{repo}@{revision}"


# A branch moves when its owner uploads again: once a day is looked whether it still is the same commit.
POINTER_S: Final = 86400.0


def revision_fact(repo: str, revision: str) -> Fact:
    """Pins a name to a commit: `same_as` and `commit`, and what the hub says about the repository. A branch or tag is
    believed for a day, a commit for ever."""
    lifetime = None if _SHA.match(revision) else POINTER_S

    def parse(raw: Raw) -> list[Draft]:
        return [
            draft.model_copy(update={"lifetime_s": lifetime}) if draft.name == "same_as" else draft
            for draft in parse_revision(raw, repo=repo)
        ]

    return Fact(id="hub.revision", parse=parse)


def parse_revision(raw: Raw, *, repo: str) -> list[Draft]:
    """`same_as` on the pointer; `commit`, `last_modified`, `card.tags`, `card.base_model` on the pinned subject."""
    if raw.state != "ok":
        return [
            Draft(
                name="same_as", outcome="unknown", reason=raw.reason or f"revision not resolved: {raw.state}"
            )
        ]
    info = _json(raw)
    sha = str(info.get("sha") or "") if isinstance(info, Mapping) else ""
    if not isinstance(info, Mapping) or not _SHA.match(sha):
        return [Draft(name="same_as", outcome="unknown", reason="the hub's answer names no commit")]
    pinned = subject_of(repo, sha)
    drafts = [
        Draft(name="same_as", value=pinned, locator="/sha"),
        Draft(name="commit", value=sha, locator="/sha", subject=pinned),
        Draft(name="repo", value=repo, locator="/id", subject=pinned),
    ]
    if modified := _text(info.get("lastModified")):
        drafts.append(
            Draft(
                name="last_modified", value=modified, subject=pinned, level="claimed", locator="/lastModified"
            )
        )
    for key, name in (("metadataOnly", "metadata_only"), ("partialConfig", "config_partial"), ("folder", "in_folder"),
                      ("commitNoted", "commit_noted")):  # fmt: skip
        if info.get(key) is True:  # said by a folder on this machine, never by a hub
            drafts.append(Draft(name=name, value=True, subject=pinned, locator=f"/{key}"))
    now_called = info.get("id")
    if isinstance(now_called, str) and _REPO.match(now_called) and now_called.lower() != repo.lower():
        drafts.append(Draft(name="renamed_to", value=now_called, subject=pinned, locator="/id"))
    if info.get("gated"):
        drafts.append(Draft(name="gated", value=True, subject=pinned, locator="/gated"))
    tags = [clean_line(str(tag)) for tag in _list(info.get("tags"))][:100]
    drafts.append(Draft(name="tags", value=tags, subject=pinned, level="claimed", locator="/tags"))
    if base := base_of(tags):
        drafts.append(Draft(name="base_model", value=base, subject=pinned, level="claimed", locator="/tags"))
    return drafts


def base_of(tags: Iterable[str]) -> str:
    """The base model a hub's tags name: `base_model:quantized:ORG/BASE` before `base_model:ORG/BASE`."""
    for prefix in ("base_model:quantized:", "base_model:finetune:", "base_model:"):
        for tag in tags:
            rest = tag.removeprefix(prefix)
            if tag.startswith(prefix) and _REPO.match(rest):
                return rest
    return ""


def parse_tree(raw: Raw) -> list[Draft]:
    """`files`, `repo_bytes`, `download_bytes` and `weight_files` of a recursive file list."""
    if raw.state != "ok" or raw.truncated:
        reason = raw.reason or (
            "longer than the limit" if raw.truncated else f"file list not read: {raw.state}"
        )
        return [
            Draft(name=n, outcome="unknown", reason=reason)
            for n in ("files", "download_bytes", "weight_files")
        ]
    rows = [
        row for row in _list(_json(raw)) if isinstance(row, Mapping) and row.get("type", "file") == "file"
    ]
    files = sorted((str(row.get("path")), _size(row)) for row in rows if _safe(str(row.get("path") or "")))
    if not files:
        return [
            Draft(name=n, outcome="unknown", reason="the file list is empty")
            for n in ("files", "download_bytes")
        ]
    wanted, skipped = download_plan(files)
    weights = [path for path in sorted(wanted) if path.endswith(".safetensors")]
    return [
        Draft(name="files", value=[{"path": p, "size_bytes": s} for p, s in files[:5000]]),
        Draft(name="repo_bytes", value=sum(s for _, s in files), unit="bytes"),
        Draft(name="download_bytes", value=sum(s for p, s in files if p in wanted), unit="bytes"),
        Draft(name="skipped", value=[{"path": p, "why": why} for p, why in skipped.items()][:200]),
        *_engine_download(files, wanted),
        _weight_files(weights, files),
    ]


def _engine_download(files: list[tuple[str, int]], wanted: set[str]) -> list[Draft]:
    """`engine_download_bytes`: weights that the engine's own download fetches; `engine_download_extra`: those of them
    that are not needed. Absent where it finds nothing that it could load."""
    found = engine_download(files)
    if not found.loads:
        folders = sorted({p.rpartition("/")[0] for p, _ in found.files})
        named = ", ".join(folders[:3])[:200]
        where = f"weights only in {named}: the engine lists the top folder alone" if named else "no weights"
        return [
            Draft(name=n, outcome="absent", reason=where)
            for n in ("engine_download_bytes", "engine_download_extra")
        ]
    extra = [{"path": path, "size_bytes": size} for path, size in found.beyond(wanted)]
    return [
        Draft(
            name="engine_download_bytes", value=found.bytes, unit="bytes", locator=", ".join(found.patterns)
        ),
        Draft(name="engine_download_extra", value=extra[:500], locator="download rule of SGLang 0.5.23"),
    ]


def _weight_files(weights: list[str], files: list[tuple[str, int]]) -> Draft:
    if weights:
        return Draft(name="weight_files", value=weights)
    other = sorted(
        {p.rsplit(".", 1)[-1] for p, _ in files if p.endswith((".bin", ".gguf", ".pth", ".pt", ".npz"))}
    )
    reason = f"weights only as {', '.join(other)}" if other else "the repository holds no weight file"
    return Draft(name="weight_files", outcome="absent", reason=reason)


def download_plan(files: Iterable[tuple[str, int]]) -> tuple[set[str], dict[str, str]]:
    """(paths to fetch, path -> why it is left out). One layout of the weights, never two."""
    paths = [path for path, _ in files]
    skipped = {
        p: f"{pattern}: not for this engine"
        for p in paths
        for pattern in _EXCLUDED
        if fnmatchcase(p, pattern)
    }
    tensors = [p for p in paths if p.endswith(".safetensors") and p not in skipped]
    top = [p for p in tensors if "/" not in p]
    if top:
        skipped.update({p: "engines load from the top folder alone" for p in tensors if "/" in p})
    if tensors:
        skipped.update(
            {p: "the same weights as safetensors" for p in paths if p.endswith(".bin") and "/" not in p}
        )
    series = [p for p in top if _SHARD.match(p) and not p.startswith("consolidated")]
    indexed = bool(series) and "model.safetensors.index.json" in paths
    if indexed or "model.safetensors" in top:
        skipped.update({p: "a second copy beside the weights" for p in top if p.startswith("consolidated")})
    return {p for p in paths if p not in skipped}, skipped


def complete_series(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """(shards of numbered series, other safetensors files). The others are loaded only where an index names them."""
    numbered = [p for p in paths if _SHARD.match(p)]
    return numbered, [p for p in paths if p not in numbered]


def missing_shards(paths: Iterable[str]) -> list[str]:
    """Numbers that a shard series promises and the file list lacks."""
    seen: dict[tuple[str, int], set[int]] = {}
    for path in paths:
        if (match := _SHARD.match(path)) is not None:
            seen.setdefault((match["stem"], int(match["of"])), set()).add(int(match["n"]))
    return [f"{stem}-{n:05d}-of-{of:05d}.safetensors" for (stem, of), numbers in seen.items()
            for n in range(1, min(of, 10_000) + 1) if n not in numbers]  # fmt: skip


def parse_index(raw: Raw) -> list[Draft]:
    """`index_files`: the weight files a safetensors index names; what it does not name is never loaded. And
    `index_total_size`."""
    if raw.state == "missing":
        return [
            Draft(
                name="index_files", outcome="absent", reason="no model.safetensors.index.json at this commit"
            )
        ]
    content = None if raw.state != "ok" or raw.truncated else _json(raw)
    names = content.get("weight_map") if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(names, Mapping):
        return [
            Draft(name="index_files", outcome="unknown", reason=raw.reason or "the index is not readable")
        ]
    files = sorted({str(f) for f in names.values() if _safe(str(f))})
    return [Draft(name="index_files", value=files, level="declared"), _total_size(content)]


def _total_size(index: Mapping[str, Json]) -> Draft:
    """`index_total_size`: the bytes that a safetensors index says its tensors have; writers may leave it out."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if not isinstance(total, (int, float)) or isinstance(total, bool) or not 0 < total < 1e18:
        reason = "the index has no usable metadata.total_size"
        return Draft(name="index_total_size", outcome="absent", reason=reason, level="declared")
    return Draft(
        name="index_total_size",
        value=int(total),
        unit="bytes",
        level="declared",
        locator="/metadata/total_size",
    )


def parse_siblings(raw: Raw, *, base: str, own: str) -> list[Draft]:
    """`siblings`: repositories that say they are quantized from the same base, with the format words they use."""
    if raw.state != "ok":
        return [
            Draft(
                name="siblings",
                outcome="unknown",
                reason=raw.reason or f"not listed: {raw.state}",
                level="claimed",
            )
        ]
    rows = []
    for info in _list(_json(raw)):
        repo = str(info.get("id") or "") if isinstance(info, Mapping) else ""
        if not _REPO.match(repo) or repo == own:
            continue
        tags = [clean_line(str(tag)) for tag in _list(info.get("tags"))]
        rows.append({
            "repo": repo,
            "sha": sha if _SHA.match(sha := str(info.get("sha") or "")) else None,
            "formats": formats_in(repo.split("/")[1], *tags),
            "base_model": base,
        })  # fmt: skip
    return [
        Draft(name="siblings", value=sorted(rows, key=lambda row: str(row["repo"]))[:200], level="claimed")
    ]


def siblings_fact(*, base: str, own: str) -> Fact:
    """The fact that lists what else was quantized from a base."""
    return Fact(id="hub.siblings", parse=lambda raw: parse_siblings(raw, base=base, own=own))


def _json(raw: Raw) -> Json:
    try:
        return json.loads(raw.stdout)
    except (ValueError, RecursionError):
        return None


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _text(value: Json) -> str:
    return clean_line(value) if isinstance(value, str) else ""


def _size(row: Mapping[str, Json]) -> int:
    size = row.get("size")
    return size if isinstance(size, int) and size >= 0 else 0


def _safe(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/") and path.isprintable()


TREE = Fact(id="hub.tree", parse=parse_tree)
INDEX = Fact(id="checkpoint.index", parse=parse_index)
