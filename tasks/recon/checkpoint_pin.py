"""What is asked of a hub about a checkpoint, and the commit that all of it is asked of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from recon.agent.api import Json, ReconContext, Request
from recon.tasks.facts.hub import revision_fact, subject_of

GGUF_CAP: Final = 64 << 20  # vocabularies are part of a GGUF header
HEADER_CAP: Final = 25_000_000 + 8  # the length limit that safetensors readers agree on
INDEX_FILE: Final = "model.safetensors.index.json"
INDEX_CAP: Final = 32 << 20  # the index of a 1,000 B-parameter mixture of experts is about 24 MB
SMALL_CAP: Final = 4 << 20


def repo_of(params: Mapping[str, Json]) -> tuple[str, str]:
    """(ORG/NAME, revision) a task was planned with."""
    return str(params["repo"]), str(params.get("revision") or "main")


def revision_request(repo: str, revision: str) -> Request:
    """Which commit a name stands for."""
    return Request(connector="hub", target=repo, probe="hub.revision", revision=revision, cap_bytes=SMALL_CAP)


def tree_request(repo: str, sha: str) -> Request:
    """All files of a commit with their sizes."""
    return Request(connector="hub", target=repo, probe="hub.tree", revision=sha, cap_bytes=SMALL_CAP)


def file_request(repo: str, sha: str, path: str, *, cap_bytes: int = SMALL_CAP) -> Request:
    """One file of a commit."""
    return Request(
        connector="hub", target=repo, probe="hub.file", revision=sha, path=path, cap_bytes=cap_bytes
    )


def header_request(repo: str, sha: str, path: str) -> Request:
    """The header of one safetensors file, without its data."""
    return Request(
        connector="hub",
        target=repo,
        probe="hub.header",
        revision=sha,
        path=path,
        cap_bytes=HEADER_CAP,
        timeout_s=60.0,
    )


def gguf_request(repo: str, sha: str, path: str) -> Request:
    """The header of one GGUF file, without its data."""
    return Request(
        connector="hub",
        target=repo,
        probe="hub.gguf",
        revision=sha,
        path=path,
        cap_bytes=GGUF_CAP,
        timeout_s=120.0,
    )


def siblings_request(base: str) -> Request:
    """Everything that says it was quantized from a base."""
    query = (("filter", f"base_model:quantized:{base}"),)
    return Request(connector="hub", target=base, probe="hub.siblings", query=query, cap_bytes=SMALL_CAP)


@dataclass(frozen=True)
class Pin:
    """A checkpoint at one commit; `why` says what is wrong where the commit is not known."""

    repo: str
    sha: str = ""
    why: str = ""

    @property
    def subject(self) -> str:
        """The subject everything about the commit is recorded on."""
        return subject_of(self.repo, self.sha)


async def pinned(ctx: ReconContext, repo: str = "", revision: str = "main") -> Pin:
    """The commit a name stands for, asked now where nothing has pinned it yet. Without `repo`: the task's own."""
    if not repo:
        repo, revision = repo_of(ctx.params)
    subject = ctx.view.resolve(subject_of(repo, revision))
    if subject != subject_of(repo, revision):
        return Pin(repo, subject.rpartition("@")[2])
    return await pin_now(ctx, repo, revision)


async def pin_now(ctx: ReconContext, repo: str, revision: str) -> Pin:
    """The commit a name stands for, asked now."""
    fact = revision_fact(repo, revision)
    seen = await ctx.ask(revision_request(repo, revision), fact, subject=subject_of(repo, revision))
    found = seen.value("same_as")
    if isinstance(found, str):
        return Pin(repo, found.rpartition("@")[2])
    reason = next((f.reason for f in seen.findings if f.outcome == "unknown"), "no answer")
    return Pin(repo, why=f"the commit of {repo}@{revision} is not known: {reason}")
