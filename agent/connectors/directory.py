"""A folder on this machine as a hub: the same questions, answered from its files. Nothing is contacted.

Three kinds of folder: a download (`config.json`, weights), a snapshot in the Hub's cache (`models--ORG--NAME`), and one that
holds only metadata (`config.json` or what is known of it, `card.md`, an index). The commit is the one the Hub's own tools
noted, where they did; else an id made of the folder's names, sizes and small files, which is no commit.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from recon.agent.connectors.base import cut_reason
from recon.agent.connectors.gguf import MAX_HEADER_BYTES, Short, read_gguf
from recon.agent.connectors.safetensors import PREFIX_BYTES, BadHeader, check_header, header_length
from recon.agent.model.base import Json, canonical_json
from recon.agent.model.errors import HubError, UsageError
from recon.agent.model.findings import Raw, Request

_COMMIT: Final = re.compile(r"^[0-9a-f]{40}$")
_CACHE: Final = re.compile(r"^models--([A-Za-z0-9][\w.-]*?)--([\w.-]+)$")
_TWO_PARTS: Final = re.compile(r"^([A-Za-z0-9][\w.-]*?)__([\w.-]+)$")
_WEIGHTS: Final = (".safetensors", ".gguf", ".bin", ".pth", ".pt", ".npz")
# A folder of metadata alone may hold part of a config, and a card under its own name.
_SERVED_AS: Final = {
    "card.md": "README.md",
    "config.abridged.json": "config.json",
    "config.partial.json": "config.json",
}
_MOST_FILES: Final = 20_000
# Files that count in the id with their bytes; of the others name and size.
_READ: Final = re.compile(
    r"^(config|hf_quant_config|quantize_config|quant_metadata|quant_model_description|adapter_config|params|tensors)\.json$|^README\.md$"
)
_HASHED: Final = 4 << 20


class DirectorySource:
    """Answers hub.revision, hub.tree, hub.file and hub.header from a folder; siblings are not known here.

    Raises UsageError where the folder does not exist or is not one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, commit = _snapshot(folder)
        self.repo = repo_of(folder)
        self._root = self.folder.resolve()
        self._blobs = (self.folder.parent.parent / "blobs").resolve()
        self._files = dict(self._listed())
        self.partial = (
            not any(p.name == "config.json" for p in self._files.values()) and "config.json" in self._files
        )
        self.metadata_only = not any(name.endswith(_WEIGHTS) for name in self._files)
        self.commit = commit or self._noted_commit()
        self.sha = self.commit or self._content_id()

    async def fetch(self, request: Request) -> Raw:
        """The answer of one probe. Raises HubError for another repository, UsageError for another probe."""
        if request.target != self.repo and request.probe != "hub.siblings":
            raise HubError(
                f"{self.folder} is {self.repo}, not {request.target}",
                target=request.target,
                operation=request.probe,
            )
        match request.probe:
            case "hub.revision":
                return self._revision(request)
            case "hub.tree":
                rows: list[Json] = [
                    {"path": name, "size": path.stat().st_size, "type": "file"}
                    for name, path in self._files.items()
                ]
                return self._json(rows)
            case "hub.file":
                return await asyncio.to_thread(self._file, request)
            case "hub.header":
                return await asyncio.to_thread(self._header, request)
            case "hub.gguf":
                return await asyncio.to_thread(self._gguf, request)
            case "hub.siblings":
                return Raw(
                    state="missing",
                    exit_code=404,
                    reason="a folder knows no siblings: name the repository instead",
                )
        raise UsageError(f"a folder is not asked for {request.probe!r}")

    async def close(self) -> None:
        """Nothing is held open."""

    # ---- probes

    def _revision(self, request: Request) -> Raw:
        if request.revision not in ("main", self.sha):
            raise HubError(
                f"{self.folder} is {self.commit or 'of no known commit'}, not {request.revision}",
                target=request.target, operation="hub.revision", hint="leave --revision out",
            )  # fmt: skip
        info: dict[str, Json] = {"id": self.repo, "sha": self.sha, "tags": [], "folder": True}
        if self.commit:
            info["commitNoted"] = True
        if self.metadata_only:
            info["metadataOnly"] = True
        if self.partial:
            info["partialConfig"] = True
        return self._json(info)

    def _file(self, request: Request) -> Raw:
        path = self._files.get(request.path)
        if path is None:
            return self._missing(request.path)
        with path.open("rb") as handle:
            body = handle.read(request.cap_bytes + 1)
        cut = len(body) > request.cap_bytes
        reason = cut_reason(path.stat().st_size, request.cap_bytes) if cut else ""
        return Raw(
            state="ok",
            exit_code=200,
            stdout=body[: request.cap_bytes],
            truncated=cut,
            reason=reason,
            revision=self.sha,
        )

    def _header(self, request: Request) -> Raw:
        path = self._files.get(request.path)
        if path is None:
            return self._missing(request.path)
        try:
            with path.open("rb") as handle:
                length = header_length(handle.read(PREFIX_BYTES))
                size = path.stat().st_size
                if PREFIX_BYTES + length > min(size, request.cap_bytes):
                    raise BadHeader(f"its header would need {length} bytes of {min(size, request.cap_bytes)}")
                header = handle.read(length)
            check_header(header, file_bytes=size)
        except BadHeader as bad:
            return Raw(state="unparsable", exit_code=206, reason=f"{request.path}: {bad}", revision=self.sha)
        return Raw(state="ok", exit_code=206, stdout=header, revision=self.sha)

    def _gguf(self, request: Request) -> Raw:
        path = self._files.get(request.path)
        if path is None:
            return self._missing(request.path)
        with path.open("rb") as handle:
            data = handle.read(min(MAX_HEADER_BYTES, request.cap_bytes))
        try:
            header = read_gguf(data)
        except (BadHeader, Short) as bad:
            return Raw(state="unparsable", exit_code=206, reason=f"{request.path}: {bad}", revision=self.sha)
        return Raw(state="ok", exit_code=206, stdout=canonical_json(header).encode(), revision=self.sha)

    def _json(self, value: Json) -> Raw:
        return Raw(state="ok", exit_code=200, stdout=canonical_json(value).encode(), revision=self.sha)

    def _missing(self, path: str) -> Raw:
        return Raw(state="missing", exit_code=404, reason=f"{path} is not in the folder", revision=self.sha)

    # ---- the folder

    def _listed(self) -> Iterator[tuple[str, Path]]:
        """(name in the repository, file); a file under its own name wins over one that stands in for it."""
        held: dict[str, Path] = {}
        count = 0
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if name.startswith(".cache/") or not self._inside(path):
                continue
            count += 1
            if count > _MOST_FILES:
                raise UsageError(
                    f"{self.folder}: more than {_MOST_FILES} files", hint="name the checkpoint's own folder"
                )
            held[name] = path
        for own, served in _SERVED_AS.items():
            if own in held and served not in held:
                held[served] = held.pop(own)
        yield from sorted(held.items())

    def _inside(self, path: Path) -> bool:
        """A regular file of the folder, or a link into the cache's blobs; links that lead elsewhere are left out."""
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        return real.is_file() and (real.is_relative_to(self._root) or real.is_relative_to(self._blobs))

    def _noted_commit(self) -> str:
        """The commit that the Hub's own download noted beside each file, where all files agree on one."""
        noted = set()
        for note in (self.folder / ".cache" / "huggingface" / "download").rglob("*.metadata"):
            try:
                noted.add(note.read_text(encoding="utf-8").split("\n", 1)[0].strip())
            except (OSError, UnicodeDecodeError):
                return ""
        one = noted.pop() if len(noted) == 1 else ""
        return one if _COMMIT.match(one) else ""

    def _content_id(self) -> str:
        digest = hashlib.sha1(usedforsecurity=False)
        for name, path in self._files.items():
            size = path.stat().st_size
            digest.update(f"{name}\0{size}\0".encode())
            if _READ.match(name) and size <= _HASHED:
                digest.update(path.read_bytes())
        return digest.hexdigest()


def repo_of(folder: Path) -> str:
    """The name a folder goes by: ORG/NAME where it says it (`models--ORG--NAME`, `ORG__NAME`), else `local/NAME`."""
    parts = folder.resolve().parts
    for part in reversed(parts[-4:]):
        match = _CACHE.match(part) or _TWO_PARTS.match(part)
        if match is not None:
            return f"{match[1]}/{match[2]}"
    name = re.sub(r"[^\w.-]", "-", parts[-1] if parts else "folder").lstrip("-.") or "folder"
    return f"local/{name}"


def _snapshot(folder: Path) -> tuple[Path, str]:
    """(the folder with the files, the commit its name says). A cache folder stands for what `main` points to there."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder", hint="name a folder, or a repository as ORG/NAME")
    if (folder / "snapshots").is_dir() and (folder / "refs").is_dir():
        main = folder / "refs" / "main"
        commit = main.read_text(encoding="utf-8", errors="replace").strip() if main.is_file() else ""
        found = sorted(p.name for p in (folder / "snapshots").iterdir() if p.is_dir())
        commit = commit if commit in found else (found[0] if len(found) == 1 else "")
        if not commit:
            raise UsageError(
                f"{folder}: {len(found)} snapshots, and refs/main names none of them",
                hint="name one of snapshots/*",
            )
        return folder / "snapshots" / commit, commit
    named = folder.resolve().name
    return folder, named if _COMMIT.match(named) and folder.resolve().parent.name == "snapshots" else ""
