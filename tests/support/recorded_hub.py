"""Runs recon tasks against recorded answers, with the real recorder's steps and a real View; no store, no network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recon.agent.api import (
    Draft,
    Fact,
    Finding,
    Intent,
    Observation,
    Raw,
    ReconTask,
    Request,
    Seen,
    View,
    observation_id,
    sha256_hex,
)
from recon.agent.model.findings import make_finding
from recon.agent.runner.evidence import derive, parse


class RecordedContext:
    """A recon context over (observations, blobs); collects findings (stateful). A question not recorded is `lost`."""

    def __init__(
        self, observations: Iterable[Observation], blobs: Mapping[str, bytes], *, intent: Intent,
        bindings: Mapping[str, str] | None = None, now: float = 0.0,
    ) -> None:  # fmt: skip
        self._answers = {o.request.identity(): o for o in observations}
        self._blobs = blobs
        self.intent = intent
        self.bindings = dict(bindings or {})
        self.now = now
        self.found: list[Finding] = []
        self.asked: list[Request] = []
        self.params: Mapping[str, Any] = {}

    @property
    def view(self) -> View:
        return View.of(self.found, bindings=self.bindings, intent=self.intent, now=self.now)

    async def ask(self, request: Request, fact: Fact, *, subject: str) -> Seen:
        self.asked.append(request)
        observation, raw = self._answer(request)
        findings = [
            make_finding(
                draft, subject=subject, producer=fact.id, producer_version=fact.version,
                observation_id=observation.id, inputs=(), observed_at=observation.observed_at, origin=raw.origin,
            )
            for draft in parse(fact, raw)
        ]  # fmt: skip
        return Seen(observation, raw, self._keep(findings))

    async def ask_all(self, asks: Sequence[tuple[Request, Fact, str]]) -> list[Seen]:
        return [await self.ask(request, fact, subject=subject) for request, fact, subject in asks]

    def record(
        self, drafts: Sequence[Draft], *, subject: str, inputs: Sequence[Finding] = ()
    ) -> tuple[Finding, ...]:
        return self._keep(
            derive(drafts, subject=subject, inputs=inputs, producer="test", producer_version="1")
        )

    def progress(self, text: str) -> None: ...

    def run(self, task: ReconTask, **params: Any) -> str:
        """Runs one task to its end."""
        self.params = params
        return asyncio.run(task.run(self))

    def _keep(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        kept = tuple(
            f.model_copy(update={"seq": len(self.found) + n}) for n, f in enumerate(findings, start=1)
        )
        self.found.extend(kept)
        return kept

    def _answer(self, request: Request) -> tuple[Observation, Raw]:
        held = self._answers.get(request.identity())
        if held is None:
            raw = Raw(state="lost", reason="not recorded")
            none = sha256_hex(b"")
            held = Observation(
                id=observation_id(request, raw, stdout_sha=none, stderr_sha=none), request=request, state="lost",
                exit_code=None, revision="", observed_at=0.0, duration_s=0.0, host_boot_id="", stdout_sha=none,
                stderr_sha=none, truncated=False, reason="not recorded", origin="captured",
            )  # fmt: skip
            return held, raw
        raw = Raw(
            state=held.state, exit_code=held.exit_code, stdout=self._blobs[held.stdout_sha], reason=held.reason,
            revision=held.revision, origin=held.origin, observed_at=held.observed_at, truncated=held.truncated,
        )  # fmt: skip
        return held, raw
