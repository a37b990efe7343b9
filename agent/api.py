"""What a task definition may use. Everything in `tasks/` (and in anybody's plug-in) imports from here only.

A definition is one of three kinds:

* `ReconTask`: an async function that asks read-only facts and records findings;
* `JudgeTask`: a pure function of a `View` that returns judgements (and derived findings);
* `ActTask`: renders a `Change`, checks whether it is already so, and verifies it after the runner has applied it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from recon.agent.engine.gates import parse_gate as _parse_gate
from recon.agent.engine.units import GB, GIB, bytes_text, gib_text, join_argv
from recon.agent.engine.view import Read, View
from recon.agent.mission.patterns import BoundedPattern, bounded_pattern
from recon.agent.mission.values import git_ref, pull_numbers
from recon.agent.mission.vocabulary import Action, Term, Vocabulary
from recon.agent.model.base import Frozen, Json, canonical_json, content_id, sha256_hex
from recon.agent.model.changes import Change, CheckResult, FileChange, Rendered
from recon.agent.model.errors import (
    ConfigError,
    HostError,
    HubError,
    MissionError,
    ParseError,
    PlanError,
    ReachError,
    ReconError,
    RefusedError,
    UsageError,
    WebError,
)
from recon.agent.model.findings import (
    Draft,
    Effects,
    Finding,
    Judgement,
    Observation,
    Option,
    Raw,
    Request,
    Side,
    observation_id,
)
from recon.agent.model.missions import Claim, Intent, Layout, Triage, Wish
from recon.agent.model.tasks import Edge, GateSpec, Plan, PlannedTask, PlannedUnknown, RetryPolicy
from recon.agent.model.words import (
    Effect,
    Effort,
    JudgementVerdict,
    Level,
    Outcome,
    Priority,
    ProbeState,
    TaskKind,
)

Parser = Callable[[Raw], Sequence[Draft]]


@dataclass(frozen=True)
class Fact:
    """A pure parser under a stable id. The request that goes with it is built by the recon task.

    `parse` gets redacted bytes and how the probe ended, and returns drafts: known, absent with proof, or unknown with
    a reason. It may raise ParseError (any other exception is a bug and becomes one too). Raise `version` when its
    output changes for the same bytes.
    """

    id: str
    parse: Parser
    version: str = "1"


@dataclass(frozen=True)
class Seen:
    """One answered question: the observation and the findings made of it."""

    observation: Observation
    raw: Raw
    findings: tuple[Finding, ...]

    def value(self, name: str, default: Json = None) -> Json:
        """The value of one of these findings where it is known."""
        return next((f.value for f in self.findings if f.name == name and f.outcome == "known"), default)


class ReconContext(Protocol):
    """What a recon task gets. Every question goes through the recorder: bytes are kept before they are parsed."""

    @property
    def view(self) -> View:
        """What is known now, this task's own findings included."""

    @property
    def intent(self) -> Intent:
        """The intent of the mission's current revision."""

    @property
    def params(self) -> Mapping[str, Json]:
        """The parameters the task was planned with."""

    async def ask(self, request: Request, fact: Fact, *, subject: str) -> Seen:
        """Asks one question, stores the answer, parses it, records the findings about `subject`.

        Raises ReachError when the source as a whole cannot be reached; a failed command or a missing file is an
        answer. The parser is always called, with the state in `Raw`.
        """

    async def ask_all(self, asks: Sequence[tuple[Request, Fact, str]]) -> list[Seen]:
        """Several questions (request, fact, subject) side by side, answers in the order asked."""

    def record(
        self, drafts: Sequence[Draft], *, subject: str, inputs: Sequence[Finding] = ()
    ) -> tuple[Finding, ...]:
        """Records findings derived from others. Level and origin are never better than the weakest input."""

    def progress(self, text: str) -> None:
        """Says in a few words what it is doing."""


ReconFunction = Callable[[ReconContext], Awaitable[str]]  # returns one line: what was found


class Judged(Frozen):
    """What a judge returns. `derived`: (subject, draft) findings computed from what the view was asked for."""

    judgements: tuple[Judgement, ...] = ()
    derived: tuple[tuple[str, Draft], ...] = ()


JudgeFunction = Callable[[View], Judged]


@dataclass(frozen=True)
class CommandResult:
    """How one command of a change or of its check ended."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool = False


class ActContext(Protocol):
    """What check and verify of an act task get. `ask` is the same recorded, read-only path as in recon."""

    @property
    def view(self) -> View: ...
    @property
    def intent(self) -> Intent: ...
    @property
    def params(self) -> Mapping[str, Json]: ...
    async def ask(self, request: Request, fact: Fact, *, subject: str) -> Seen: ...
    def log(self, text: str) -> None:
        """A line for the attempt's log."""

    async def sleep(self, seconds: float) -> None:
        """Waits between two looks at the host."""


CheckFunction = Callable[[ActContext, Change], Awaitable[CheckResult]]
RenderFunction = Callable[[View, Mapping[str, Json]], Rendered]


@dataclass(frozen=True)
class TaskDefinition:
    """What all three kinds share. `name` is stable (`checkpoint.headers`); raise `version` when its meaning changes."""

    name: str
    version: str = "1"


@dataclass(frozen=True)
class ReconTask(TaskDefinition):
    """Read-only: asks facts, records findings.

    `reads_intent`: the fields of the intent it looks at beside its parameters; another mission that agrees in them takes
    its findings over while they hold. None: not said, so only a mission of the same intent does.
    """

    run: ReconFunction = field(kw_only=True)
    reads_intent: tuple[str, ...] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class JudgeTask(TaskDefinition):
    """Pure: findings x claims -> judgements."""

    judge: JudgeFunction = field(kw_only=True)


@dataclass(frozen=True)
class ActTask(TaskDefinition):
    """A change. Without check and verify it is rendered for a person to carry out."""

    render: RenderFunction = field(kw_only=True)
    check: CheckFunction | None = field(default=None, kw_only=True)
    verify: CheckFunction | None = field(default=None, kw_only=True)


Definition = ReconTask | JudgeTask | ActTask


class Playbook(Protocol):
    """Which tasks, unknowns and gates a mission gets. Called again whenever findings or the intent have changed.

    It may also have `about` (one line), `needs` (what has to be named) and `brings` (keys of items that only findings add),
    which `recon playbooks` shows and mission files are checked against.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...

    def bindings(self, intent: Intent, directive_subject: str) -> dict[str, str]:
        """Which subject each role stands for."""

    def plan(self, intent: Intent, view: View) -> Plan:
        """The todo items and unknowns as of now. Items that findings brought say so in `because`."""


class Inspection(Playbook, Protocol):
    """A playbook whose result is one document: `recon inspect NAME`. Registered under the entry point `recon.inspections`."""

    def document(self, view: View, judgements: Sequence[Judgement]) -> dict[str, Json]:
        """What was found, as JSON values; `schema` names its form."""

    def text(self, document: Mapping[str, Json], *, width: int) -> list[str]:
        """The same for people, at most `width` columns; outside text cleaned."""


def gate_result(text: str, view: View) -> tuple[str, tuple[str, ...]]:
    """What a predicate evaluates to on a view (`true`, `false`, `unknown`, `stale`, `error`), and why."""
    result = _parse_gate(text).evaluate(view)
    return result.truth, result.reasons


__all__ = [
    "GB",
    "GIB",
    "ActContext",
    "ActTask",
    "Action",
    "BoundedPattern",
    "Change",
    "CheckFunction",
    "CheckResult",
    "Claim",
    "CommandResult",
    "ConfigError",
    "Definition",
    "Draft",
    "Edge",
    "Effect",
    "Effects",
    "Effort",
    "Fact",
    "FileChange",
    "Finding",
    "Frozen",
    "GateSpec",
    "HostError",
    "HubError",
    "Inspection",
    "Intent",
    "Json",
    "JudgeFunction",
    "JudgeTask",
    "Judged",
    "Judgement",
    "JudgementVerdict",
    "Layout",
    "Level",
    "MissionError",
    "Observation",
    "Option",
    "Outcome",
    "ParseError",
    "Parser",
    "Plan",
    "PlanError",
    "PlannedTask",
    "PlannedUnknown",
    "Playbook",
    "Priority",
    "ProbeState",
    "Raw",
    "ReachError",
    "Read",
    "ReconContext",
    "ReconError",
    "ReconFunction",
    "ReconTask",
    "RefusedError",
    "RenderFunction",
    "Rendered",
    "Request",
    "RetryPolicy",
    "Seen",
    "Side",
    "TaskDefinition",
    "TaskKind",
    "Term",
    "Triage",
    "UsageError",
    "View",
    "Vocabulary",
    "WebError",
    "Wish",
    "bounded_pattern",
    "bytes_text",
    "canonical_json",
    "content_id",
    "gate_result",
    "gib_text",
    "git_ref",
    "join_argv",
    "observation_id",
    "pull_numbers",
    "sha256_hex",
]  # fmt: skip
