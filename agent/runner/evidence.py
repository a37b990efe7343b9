"""From a question to findings: fetch, keep the bytes, parse, keep the findings. In this order, always."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final

from recon.agent.api import Fact, Seen
from recon.agent.engine.view import View
from recon.agent.model.errors import ParseError, ReachError
from recon.agent.model.findings import Draft, Finding, Observation, Raw, Request, make_finding, unreached
from recon.agent.model.words import LEVEL_RANK, Level, Origin
from recon.agent.runner.ports import Sources
from recon.agent.store import Store

_COMMIT: Final = re.compile(r"^[0-9a-f]{40}$")
_THREAD_ABOVE: Final = (
    1 << 18
)  # bytes: a longer answer is parsed off the event loop, so that progress stays live


class Knowledge:
    """The findings of a mission's realm in memory, kept equal to state.db (stateful: one per run)."""

    def __init__(self, store: Store, realm: str, make_view: Callable[[Sequence[Finding]], View]) -> None:
        self._store = store
        self._realm = realm
        self._make_view = make_view
        self._view: View | None = None

    @property
    def view(self) -> View:
        """What is known now. A snapshot: later findings do not show in it."""
        if self._view is None:
            self._view = self._make_view(self._store.findings(self._realm))
        return self._view

    def forget(self) -> None:
        """Reads everything again at the next look: another process, a decision or a revision changed it."""
        self._view = None

    def add(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Stores findings, then shows them."""
        stored = tuple(self._store.put_findings(self._realm, findings))
        if self._view is not None:
            self._view = self._view.with_findings(stored)
        return stored


Answers = dict[Request, tuple[Observation, Raw]]


class Interviewer:
    """Asks on behalf of one attempt (stateful only in what it was given).

    `answers`: what this run was told of files at a commit. They never change, so two tasks that read one file in a run
    read one observation: in a replay there is only one, and the evidence must be the same.
    """

    def __init__(
        self, *, store: Store, sources: Sources, knowledge: Knowledge, realm: str, attempt_id: int, producer: str,
        gates: dict[str, asyncio.Semaphore], now: Callable[[], float], answers: Answers | None = None,
    ) -> None:  # fmt: skip
        self._answers: Answers = {} if answers is None else answers
        self._store = store
        self._sources = sources
        self._knowledge = knowledge
        self._realm = realm
        self._attempt_id = attempt_id
        self._producer = producer
        self._gates = gates
        self._now = now

    async def ask(self, request: Request, fact: Fact, *, subject: str) -> Seen:
        """Fetches, records, parses, records. Raises ReachError from the source."""
        observation, raw = self._answers.get(request) or await self._told(request)
        if len(raw.stdout) > _THREAD_ABOVE:
            drafts = await asyncio.to_thread(parse, fact, raw)
        else:
            drafts = parse(fact, raw)
        findings = [
            make_finding(
                draft, subject=subject, producer=self._producer, producer_version=fact.version,
                observation_id=observation.id, inputs=(), observed_at=observation.observed_at, origin=raw.origin,
            )
            for draft in drafts
        ]  # fmt: skip
        return Seen(observation, raw, self._knowledge.add(findings))

    async def _told(self, request: Request) -> tuple[Observation, Raw]:
        """The answer of the source, recorded."""
        try:
            async with self._gates.get(request.connector) or nullcontext():
                raw = await self._sources.fetch(request)
        except ReachError as error:
            self._store.record(
                request, unreached(error, self._now()), realm=self._realm, attempt_id=self._attempt_id
            )
            raise
        observation = self._store.record(request, raw, realm=self._realm, attempt_id=self._attempt_id)
        if _is_fixed(request) and raw.state in ("ok", "missing") and len(raw.stdout) <= _THREAD_ABOVE:
            self._answers[request] = (observation, raw)
        return observation, raw


def _is_fixed(request: Request) -> bool:
    """A file at a commit."""
    return request.probe == "hub.file" and _COMMIT.match(request.revision) is not None


def parse(fact: Fact, raw: Raw) -> Sequence[Draft]:
    """Runs a parser. What it cannot read becomes one unknown finding named like the fact; the bytes are kept."""
    try:
        return fact.parse(raw)
    except ParseError as error:
        reason = error.message
    except Exception as error:  # noqa: BLE001 - third-party parser: a bug there must not cost the other findings
        reason = f"{type(error).__name__}: {error}"
    return [Draft(name=fact.id, outcome="unknown", reason=f"seen, not understood: {reason}"[:400])]


def derive(
    drafts: Sequence[Draft], *, subject: str, inputs: Sequence[Finding], producer: str, producer_version: str
) -> list[Finding]:
    """Findings computed from findings: level and origin are never better than the weakest input's."""
    levels = sorted((f.level for f in inputs), key=LEVEL_RANK.__getitem__)
    origin: Origin = "composed" if any(f.origin == "composed" for f in inputs) else "captured"
    observed_at = min((f.observed_at for f in inputs), default=0.0)  # as old as the oldest thing it rests on
    return [
        make_finding(
            draft.model_copy(update={"level": _weaker(draft.level, levels[0] if levels else draft.level)}),
            subject=subject, producer=producer, producer_version=producer_version, observation_id=None,
            inputs=tuple(dict.fromkeys(f.id for f in inputs)), observed_at=observed_at, origin=origin,
        )
        for draft in drafts
    ]  # fmt: skip


def _weaker(a: Level, b: Level) -> Level:
    return a if LEVEL_RANK[a] <= LEVEL_RANK[b] else b
