"""What a task's code gets to work with: the recon context and the act context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from recon.agent.api import Fact, Seen
from recon.agent.engine.view import View
from recon.agent.model.base import Json
from recon.agent.model.findings import Draft, Finding, Request
from recon.agent.model.missions import Intent
from recon.agent.model.tasks import PlannedTask
from recon.agent.runner.evidence import Interviewer, Knowledge, derive


class TaskContext:
    """One attempt's hands: questions go through the interviewer, findings into the knowledge (stateful: the log)."""

    def __init__(
        self, planned: PlannedTask, *, intent: Intent, knowledge: Knowledge, interviewer: Interviewer,
        producer_version: str, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._planned = planned
        self._intent = intent
        self._knowledge = knowledge
        self._interviewer = interviewer
        self._producer_version = producer_version
        self._say = say
        self.lines: list[str] = []

    @property
    def view(self) -> View:
        """What is known now, this task's own findings included."""
        return self._knowledge.view

    @property
    def intent(self) -> Intent:
        """The intent of the mission's current revision."""
        return self._intent

    @property
    def params(self) -> Mapping[str, Json]:
        """The parameters the task was planned with."""
        return self._planned.params

    async def ask(self, request: Request, fact: Fact, *, subject: str) -> Seen:
        """One question: stored, parsed, recorded."""
        self._say(f"{request.probe} {request.path}".strip())
        return await self._interviewer.ask(request, fact, subject=subject)

    async def ask_all(self, asks: Sequence[tuple[Request, Fact, str]]) -> list[Seen]:
        """Several questions side by side. The first ReachError cancels the rest and is raised as it is."""
        self._say(f"{len(asks)} questions: {asks[0][0].probe}" if asks else "nothing to ask")
        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(self._interviewer.ask(r, f, subject=s)) for r, f, s in asks]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in running]

    def record(
        self, drafts: Sequence[Draft], *, subject: str, inputs: Sequence[Finding] = ()
    ) -> tuple[Finding, ...]:
        """Records findings derived from others."""
        return self._knowledge.add(
            derive(
                drafts, subject=subject, inputs=inputs, producer=self._planned.key,
                producer_version=self._producer_version,
            )
        )  # fmt: skip

    def progress(self, text: str) -> None:
        """Says in a few words what it is doing."""
        self._say(text)

    def log(self, text: str) -> None:
        """A line for the attempt's log."""
        self.lines.append(text)
        self._say(text)

    async def sleep(self, seconds: float) -> None:
        """Waits between two looks at the host."""
        await asyncio.sleep(seconds)
