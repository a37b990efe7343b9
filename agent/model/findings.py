"""Requests, raw answers, observations and findings."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field

from recon.agent.model.base import Frozen, Json, canonical_json, content_id
from recon.agent.model.errors import ReachError
from recon.agent.model.words import Connector, JudgementVerdict, Level, Origin, Outcome, ProbeState


class Request(Frozen):
    """One read-only question to a connector.

    `connector`, `target`, `probe`, `argv`, `path`, `revision`, `query` identify it (a replay looks it up by them);
    `timeout_s` (seconds) and `cap_bytes` do not.
    """

    connector: Connector
    target: str  # host: its name; hub: ORG/NAME; web: scheme://authority
    probe: str  # stable id: gpu.query, hub.tree, web.page
    argv: tuple[str, ...] = ()  # host: the allow-listed argument vector
    path: str = ""  # hub: file in the repository; web: path of the address
    revision: str = ""  # hub: commit or branch
    query: tuple[tuple[str, str], ...] = ()  # hub, web: ordered query arguments
    timeout_s: float = 20.0
    cap_bytes: int = 1 << 20

    def identity(self) -> str:
        """Canonical JSON of what was asked, without limits: the look-up key of a replay."""
        return canonical_json(
            {
                "argv": list(self.argv), "connector": self.connector, "path": self.path, "probe": self.probe,
                "query": [list(q) for q in self.query], "revision": self.revision, "target": self.target,
            }
        )  # fmt: skip


class Raw(Frozen):
    """The bytes of one answer as a parser gets them: already redacted, capped, with how the probe ended.

    `exit_code` is the process's for hosts and the HTTP status for hub and web. `reason` says why a state is not ok.
    """

    state: ProbeState
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    reason: str = ""
    revision: str = ""  # the commit the answer belongs to, where the source names one
    duration_s: float = 0.0
    origin: Origin = "captured"
    observed_at: float = 0.0  # UTC seconds
    host_boot_id: str = ""

    @property
    def text(self) -> str:
        """stdout as text; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", errors="replace")


UNREACHED = "unreached: "  # begins the reason of an answer that never came


def unreached(error: ReachError, at: float) -> Raw:
    """What is kept of a question whose source could not be reached at `at` (UTC seconds): a replay fails the same way."""
    told = {"hint": error.hint, "operation": error.operation, "target": error.target}
    return Raw(
        state="lost",
        reason=f"{UNREACHED}{error.message}",
        stderr=canonical_json(told).encode(),
        observed_at=at,
    )


def reach_error(raw: Raw) -> ReachError | None:
    """The error that an answer kept by `unreached` stands for; None for any other answer."""
    if raw.state != "lost" or not raw.reason.startswith(UNREACHED):
        return None
    told = json.loads(raw.stderr or b"{}")
    return ReachError(
        raw.reason.removeprefix(UNREACHED), target=str(told.get("target", "")), operation=str(told.get("operation", "")),
        hint=str(told.get("hint", "")),
    )  # fmt: skip


class Observation(Frozen):
    """Who asked what, when, and how it ended. The bytes are blobs named by their sha256."""

    id: str
    request: Request
    state: ProbeState
    exit_code: int | None
    revision: str
    observed_at: float
    duration_s: float
    host_boot_id: str
    stdout_sha: str
    stderr_sha: str
    truncated: bool
    reason: str
    origin: Origin
    attempt_id: int | None = None


class Draft(Frozen):
    """What a parser or judge says about a subject, before it becomes a finding.

    `unit` is `bytes`, `MiB`, `GiB`, `s`, `count` or None. Inside a dict value, keys ending in `_bytes`, `_mib`, `_s`
    carry their unit in their name. An `unknown` or `absent` needs a reason.
    """

    name: str
    value: Json = None
    outcome: Outcome = "known"
    unit: str | None = None
    reason: str = ""
    level: Level = "proved"
    locator: str = ""  # where in the evidence: a line, a JSON pointer, a tensor name pattern
    subject: str = ""  # empty: the subject the fact was asked about
    lifetime_s: float | None = None  # None: does not age
    valid_while: tuple[tuple[str, str], ...] = ()  # (path of an identity finding on the same subject, value)


class Finding(Frozen):
    """A typed fact about a subject, with where it comes from and how long it may be believed."""

    id: str
    subject: str
    name: str
    outcome: Outcome
    value: Json
    unit: str | None
    reason: str
    level: Level
    observation_id: str | None
    locator: str
    producer: str
    producer_version: str
    lifetime_s: float | None
    valid_while: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()
    observed_at: float = 0.0
    origin: Origin = "captured"
    seq: int = 0  # set by the store; a later observation of the same subject and name supersedes

    @property
    def level_text(self) -> str:
        """The level as people read it: composed evidence never prints as plain `proved`."""
        return (
            f"{self.level} (composed)" if self.origin == "composed" and self.level == "proved" else self.level
        )


def make_finding(
    draft: Draft, *, subject: str, producer: str, producer_version: str, observation_id: str | None,
    inputs: tuple[str, ...], observed_at: float, origin: Origin,
) -> Finding:  # fmt: skip
    """The finding of a draft; its id is the hash of its content, so the same evidence gives the same id anywhere."""
    about = draft.subject or subject
    identity = [
        about, draft.name, draft.outcome, draft.value, draft.unit, draft.reason, draft.level, observation_id,
        draft.locator, producer, producer_version, sorted(inputs), observed_at,
    ]  # fmt: skip
    return Finding(
        id=content_id("f", identity), subject=about, name=draft.name, outcome=draft.outcome, value=draft.value,
        unit=draft.unit, reason=draft.reason, level=draft.level, observation_id=observation_id, locator=draft.locator,
        producer=producer, producer_version=producer_version, lifetime_s=draft.lifetime_s,
        valid_while=draft.valid_while, inputs=inputs, observed_at=observed_at, origin=origin,
    )  # fmt: skip


def observation_id(request: Request, raw: Raw, *, stdout_sha: str, stderr_sha: str) -> str:
    """The id of an observation: same question, same answer, same time, same id."""
    return content_id(
        "o",
        [
            request.identity(),
            raw.state,
            raw.exit_code,
            raw.revision,
            raw.observed_at,
            stdout_sha,
            stderr_sha,
            raw.reason,
        ],
    )


class Side(Frozen):
    """One finding in a judgement and the part it plays."""

    finding_id: str
    side: Literal["observed", "expected", "supports", "contradicts"] = "observed"


class Effects(Frozen):
    """What choosing an option does to the mission: other intent values, a waiver, or the end of it."""

    intent: dict[str, Json] = Field(default_factory=dict)  # dotted intent field -> new value
    waive: bool = False
    stop: bool = False


class Option(Frozen):
    """One way out of a discrepancy or an answer to an unknown, with its consequence spelled out."""

    id: str
    title: str
    consequence: str = ""
    effort: Literal["minutes", "hours", "days", "weeks"] | None = None
    effects: Effects = Effects()
    needs_value: str = ""  # e.g. "path": `recon decide KEY ID=VALUE`


class Judgement(Frozen):
    """One line of the verdict: what was seen, what it was held against, and what follows.

    `key` is unique in a mission revision; `about` is the unknown it bears on ("" for none).
    """

    key: str
    about: str = ""
    verdict: JudgementVerdict
    title: str  # the line people read, without the glyph, at most ~70 characters
    observed: Json = None
    expected: Json = None
    detail: tuple[str, ...] = ()  # shown for what is not pass; each line at most ~76 characters
    consequence: str = ""
    options: tuple[Option, ...] = ()
    sides: tuple[Side, ...] = ()
    input_hash: str = ""

    @property
    def is_discrepancy(self) -> bool:
        """A judgement with verdict conflict, or block with options."""
        return self.verdict == "conflict" or (self.verdict == "block" and bool(self.options))
