"""A folder of published metadata answered as a hub would: the tree lists what is in the folder, files are served as they are.

A stand-in for a hub: the commit is made up, there is no header, and `facts.json` (the answer) is never opened. What a
folder holds of a config alone (`config.partial.json`) is served as config.json.
"""

from __future__ import annotations

import hashlib
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

from support.recorded_hub import RecordedContext

from recon.agent.api import (
    Draft,
    Intent,
    Judgement,
    Observation,
    Raw,
    Request,
    View,
    observation_id,
    sha256_hex,
)
from recon.tasks.judge.checkpoint import CHECKPOINT_JUDGES
from recon.tasks.knowledge.signatures import BITS
from recon.tasks.recon.checkpoint import CHECKPOINT_TASKS
from recon.tasks.recon.checkpoint_pin import (
    file_request,
    header_request,
    revision_request,
    tree_request,
)
from recon.tasks.recordings.compose_hub import START, compose

_NEVER = "facts.json"
_AS = {"card.md": "README.md", "config.partial.json": "config.json", "config.abridged.json": "config.json"}
_TASKS = {task.name: task for task in CHECKPOINT_TASKS}
ORDER = ("checkpoint.resolve", "checkpoint.files", "checkpoint.config", "checkpoint.card")


def served(folder: Path) -> dict[str, Path]:
    """Path in the repository -> file in the folder."""
    found = {_AS.get(p.name, p.name): p for p in sorted(folder.iterdir(), reverse=True) if p.name != _NEVER}
    return {name: found[name] for name in sorted(found)}


def read_folder(folder: Path, **intent: Any) -> tuple[View, dict[str, Judgement]]:
    """(what the recon tasks learn of a folder, what the judges say of it); the intent's other fields may be given."""
    repo = folder.name.replace("__", "/", 1)
    sha = hashlib.sha1(folder.name.encode()).hexdigest()
    wish = Intent(model=repo, **intent)
    observations, blobs = _answers(repo, sha, served(folder))
    context = RecordedContext(observations, blobs, intent=wish, bindings={"checkpoint": f"hf:{repo}@main"})
    for name in ORDER:
        context.run(_TASKS[name], repo=repo, revision="main")
    context.record([Draft(name="metadata_only", value=True)], subject=context.view.subject("checkpoint"))
    lines = [j for task in CHECKPOINT_JUDGES for j in task.judge(context.view).judgements]
    return context.view, {line.key: line for line in lines}


def read_made(
    files: dict[str, Any], *, sizes: dict[str, int] | None = None, headers: dict[str, dict[str, tuple[str, list[int]]]] | None = None,
    repo: str = "org/model", tags: tuple[str, ...] = (), host: dict[str, Any] | None = None, **intent: Any,
) -> tuple[View, dict[str, Judgement]]:  # fmt: skip
    """A made-up repository read to its end: `files` path -> text or JSON, `headers` path -> tensor -> (dtype, shape), `sizes` of
    what else is listed; `host`: findings of a host that is bound."""
    bodies = {p: v.encode() if isinstance(v, str) else json.dumps(v).encode() for p, v in files.items()}
    tables = {path: _header(tensors) for path, tensors in (headers or {}).items()}
    listed = {
        **{p: len(b) for p, b in bodies.items()},
        **{p: 8 + len(h) + n for p, (h, n) in tables.items()},
        **(sizes or {}),
    }
    sha = hashlib.sha1(repo.encode()).hexdigest()
    rows = [{"type": "file", "path": path, "size": size} for path, size in listed.items()]
    pairs = [
        (revision_request(repo, "main"), json.dumps({"sha": sha, "tags": list(tags)}).encode()),
        (tree_request(repo, sha), json.dumps(rows).encode()),
        *((file_request(repo, sha, path), body) for path, body in bodies.items()),
        *((header_request(repo, sha, path), head) for path, (head, _) in tables.items()),
    ]
    bound = {"checkpoint": f"hf:{repo}@main", **({"host": "host:gpu01"} if host else {})}
    observations, blobs = _of_pairs(repo, sha, pairs)
    context = RecordedContext(observations, blobs, intent=Intent(model=repo, **intent), bindings=bound)
    for name in (*ORDER, "checkpoint.headers"):
        context.run(_TASKS[name], repo=repo, revision="main")
    context.record(
        [Draft(name=name, value=value) for name, value in (host or {}).items()], subject="host:gpu01"
    )
    view = context.view
    return view, {line.key: line for task in CHECKPOINT_JUDGES for line in task.judge(view).judgements}


def _header(tensors: dict[str, tuple[str, list[int]]]) -> tuple[bytes, int]:
    """(header JSON, bytes of data) of tensors that lie one after another."""
    table, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        end = at + BITS[dtype] * math.prod(shape) // 8
        table[name], at = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}, end
    return json.dumps(table).encode(), at


_recording = cache(compose)


def read_recorded(repo: str, **intent: Any) -> tuple[View, dict[str, Judgement]]:
    """The same of a repository of the recording that recon ships, its headers and its siblings read too."""
    observations, blobs = _recording()
    context = RecordedContext(
        observations, blobs, intent=Intent(model=repo, **intent), bindings={"checkpoint": f"hf:{repo}@main"}, now=START
    )  # fmt: skip
    for name in (*ORDER, "checkpoint.headers", "checkpoint.siblings"):
        context.run(_TASKS[name], repo=repo, revision="main")
    view = context.view
    return view, {line.key: line for task in CHECKPOINT_JUDGES for line in task.judge(view).judgements}


def _answers(repo: str, sha: str, files: dict[str, Path]) -> tuple[list[Observation], dict[str, bytes]]:
    rows = [{"type": "file", "path": name, "size": path.stat().st_size} for name, path in files.items()]
    named = _named_by(files.get("model.safetensors.index.json"))
    rows += [{"type": "file", "path": name, "size": 0} for name in named]
    pairs = [
        (revision_request(repo, "main"), json.dumps({"sha": sha}).encode()),
        (tree_request(repo, sha), json.dumps(rows).encode()),
    ]
    pairs += [(file_request(repo, sha, name), path.read_bytes()) for name, path in files.items()]
    return _of_pairs(repo, sha, pairs)


def _of_pairs(
    repo: str, sha: str, pairs: list[tuple[Request, bytes]]
) -> tuple[list[Observation], dict[str, bytes]]:
    """Observations of what is there, and the answer 404 for the small files that are asked for and are not."""
    asked = {request.path for request, _ in pairs}
    blobs = {sha256_hex(b""): b""}
    observations = [
        _observation(request, Raw(state="ok", exit_code=200, stdout=body), blobs) for request, body in pairs
    ]
    for name in ("config.json", "hf_quant_config.json", "quantize_config.json", "README.md"):
        if name not in asked:
            raw = Raw(state="missing", exit_code=404, reason="no such file at this commit")
            observations.append(_observation(file_request(repo, sha, name), raw, blobs))
    return observations, blobs


def _named_by(index: Path | None) -> list[str]:
    """The shards that an index names: they are there in the repository, though not in the folder."""
    return sorted(set(json.loads(index.read_text())["weight_map"].values())) if index is not None else []


def _observation(request: Request, raw: Raw, blobs: dict[str, bytes]) -> Observation:
    blobs[sha := sha256_hex(raw.stdout)] = raw.stdout
    none = sha256_hex(b"")
    return Observation(
        id=observation_id(request, raw, stdout_sha=sha, stderr_sha=none), request=request, state=raw.state, exit_code=raw.exit_code,
        revision="", observed_at=1.0, duration_s=0.1, host_boot_id="", stdout_sha=sha, stderr_sha=none, truncated=False,
        reason=raw.reason, origin="captured",
    )  # fmt: skip
