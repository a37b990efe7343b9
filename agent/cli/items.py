"""The todo list in a person's hands: retry, cancel, done, add, edit."""

from __future__ import annotations

from collections.abc import Collection

from recon.agent.cli.choices import (
    similar,
)
from recon.agent.cli.identity import who_asks
from recon.agent.cli.looking import Looking
from recon.agent.connectors.redact import redact_text
from recon.agent.model.base import Json
from recon.agent.model.errors import RefusedError, UsageError
from recon.agent.model.missions import Mission
from recon.agent.model.state import TaskState
from recon.agent.model.tasks import Task
from recon.agent.model.words import Priority, StoredStatus


class Items(Looking):
    """What a person does to todo items."""

    def retry(self, mission: Mission, key: str) -> None:
        """A failed, cancelled or interrupted task becomes pending again."""
        task = self._task(mission, key).task
        if task.status == "succeeded":
            again = {"recon": f"recon refresh {key} reads it again", "act": f"recon show task {key}"}
            raise RefusedError(
                f"{key} has succeeded: there is nothing to retry",
                hint=again.get(task.planned.kind, "recon refresh FACT reads again what it judges"),
            )
        if task.status in ("pending", "interrupted", "running"):
            raise RefusedError(
                f"{key} has not failed (it is {task.status}): there is nothing to retry",
                hint=f"recon why {key}",
            )
        self._move(task, {"failed", "cancelled", "skipped"}, "pending", {"cause": "retry"})

    def cancel(self, mission: Mission, key: str) -> None:
        """A task that has not ended is cancelled; one that runs is stopped by its runner."""
        self._move(self._task(mission, key).task, {"pending", "interrupted", "running"}, "cancelled", {})

    def todo_done(self, mission: Mission, key: str, *, note: str = "") -> None:
        """A person says that a step they carry out themselves is done."""
        task = self._task(mission, key)
        if task.task.planned.kind != "act":
            raise RefusedError(
                f"{key} is {task.task.planned.kind}: only steps for a person can be called done"
            )
        if (
            task.rendered is not None
            and not task.rendered.manual
            and task.task.planned.definition != "manual"
        ):
            raise RefusedError(f"{key} is carried out by recon and proves itself", hint=f"recon why {key}")
        blockers = [b for b in task.blocked_by if b.kind != "manual"]
        if blockers:
            raise RefusedError(f"{key} is blocked: {blockers[0].reason}", hint=f"recon why {key}")
        self._move(
            task.task, {"pending", "interrupted"}, "succeeded", {"note": redact_text(note), "by": who_asks()}
        )

    def todo_add(self, mission: Mission, title: str, *, priority: Priority = "medium") -> Task:
        """A new item for a person."""
        return self.store.add_manual_task(
            mission.id, title=redact_text(title), priority=priority, now=self.now(), actor=who_asks()
        )

    def todo_edit(
        self, mission: Mission, key: str, *, title: str | None = None, priority: Priority | None = None
    ) -> Task:
        """Another title or priority."""
        task = self._task(mission, key).task
        return self.store.edit_task(task.id, now=self.now(), actor=who_asks(), title=title, priority=priority)

    def _move(self, task: Task, old: Collection[StoredStatus], new: StoredStatus, payload: Json) -> None:
        moved = self.store.set_status(
            task.id, old=old, new=new, now=self.now(), actor=who_asks(), payload=payload
        )
        if not moved:
            raise RefusedError(
                f"{task.key} is {task.status}, so it cannot become {new}", hint=f"recon why {task.key}"
            )

    def _task(self, mission: Mission, key: str) -> TaskState:
        state = self.state(mission.id)
        task = state.task(key)
        if task is None:
            raise UsageError(
                f"no todo item is called {key!r}", hint=similar(key, [t.task.key for t in state.tasks])
            )
        return task
