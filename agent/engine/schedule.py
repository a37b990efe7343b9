"""Which task may start next: an in-memory index over the todo graph (the one stateful object of this room).

Every status change costs the number of edges it touches, and a ready task one heap operation, so the cost per task
does not grow with the size of the graph.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial

from recon.agent.model.tasks import Task
from recon.agent.model.words import FINAL_STATUSES, PRIORITY_RANK, StoredStatus

_STARTABLE = frozenset({"pending", "interrupted"})
_FAILS = frozenset({"failed", "cancelled"})
_SATISFIES = frozenset({"succeeded", "skipped"})


class Schedule:
    """Statuses, unmet dependencies and the heap of ready tasks of one mission revision."""

    def __init__(self, tasks: Iterable[Task], edges: Iterable[tuple[int, int, str]]) -> None:
        self.tasks: dict[int, Task] = {}
        self.status: dict[int, StoredStatus] = {}
        self._dependents: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        self._needs: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        self._unmet: dict[int, int] = {}
        self._doomed: dict[int, int] = {}  # how many of its needs failed, or are doomed themselves
        self._heaps: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)  # by limit name
        self._queued: set[int] = set()
        self._held: set[int] = set()
        for task in tasks:
            self.tasks[task.id] = task
            self.status[task.id] = task.status
        for task_id, needs_id, on_end in edges:
            if task_id in self.tasks:
                self._needs[task_id].append((needs_id, on_end))
                self._dependents[needs_id].append((task_id, on_end))
        for task_id in self.tasks:
            self._unmet[task_id] = sum(not self._met(n, on) for n, on in self._needs[task_id])
        for task_id, status in self.status.items():
            if status in _FAILS:  # the same consequences as if it failed now
                self.status[task_id] = "pending"
                self._unmet.update(
                    {d: self._unmet[d] + 1 for d, on in self._dependents[task_id] if on == "settled"}
                )
                self._apply(task_id, partial(self.status.__setitem__, task_id, status))
        for task_id in self.tasks:
            self._offer(task_id)

    def _met(self, needs_id: int, on_end: str) -> bool:
        status = self.status.get(needs_id)  # a dependency outside the graph is never satisfied
        if on_end == "settled":
            return status in FINAL_STATUSES or self._doomed.get(needs_id, 0) > 0
        return status in _SATISFIES

    def _dead(self, task_id: int) -> bool:
        """Whether what needs this task's success waits in vain for now."""
        return self.status.get(task_id) in _FAILS or self._doomed.get(task_id, 0) > 0

    def _offer(self, task_id: int) -> None:
        startable = self._unmet[task_id] == 0 and self.status[task_id] in _STARTABLE
        if startable and task_id not in self._queued and task_id not in self._held:
            planned = self.tasks[task_id].planned
            lane = "act" if planned.kind == "act" else planned.limit
            heapq.heappush(self._heaps[lane], (PRIORITY_RANK[planned.priority], planned.order, task_id))
            self._queued.add(task_id)

    def set_status(self, task_id: int, status: StoredStatus) -> None:
        """Applies a status; dependents become ready, wait again, or can never start while this one has failed."""
        if self.status[task_id] != status:
            self._apply(task_id, lambda: self.status.__setitem__(task_id, status))
        self._offer(task_id)

    def _apply(self, task_id: int, change: Callable[[], None]) -> None:
        """Makes one change and carries its consequences along the edges, without recursion."""
        pending = [(task_id, change)]
        while pending:
            changed, make = pending.pop()
            met = {on: self._met(changed, on) for on in ("succeeded", "settled")}
            dead = self._dead(changed)
            make()
            doom = int(self._dead(changed)) - int(dead)
            for dependent, on_end in self._dependents[changed]:
                self._unmet[dependent] += int(met[on_end]) - int(self._met(changed, on_end))
                if doom and on_end == "succeeded":
                    pending.append((dependent, partial(self._doom, dependent, doom)))
                self._offer(dependent)

    def _doom(self, task_id: int, by: int) -> None:
        self._doomed[task_id] = self._doomed.get(task_id, 0) + by

    def pop(self, *, full: Collection[str] = ("act",)) -> int | None:
        """The next ready task outside the lanes that are full, or None. Give it a status, or `put_back` it.

        A lane is a task's limit name; changes have the lane `act`, which is full unless the caller says otherwise:
        they start after their gates were evaluated, not merely because their dependencies are met.
        """
        while True:
            lanes = [lane for lane, heap in self._heaps.items() if heap and lane not in full]
            if not lanes:
                return None
            task_id = heapq.heappop(self._heaps[min(lanes, key=lambda lane: self._heaps[lane][0])])[2]
            self._queued.discard(task_id)
            if self._unmet[task_id] == 0 and self.status[task_id] in _STARTABLE and task_id not in self._held:
                return task_id

    def hold(self, task_id: int) -> None:
        """Keeps a task from being popped until it is put back: it waits for its time."""
        self._held.add(task_id)

    def put_back(self, task_id: int) -> None:
        """Returns a popped or held task to the heap."""
        self._held.discard(task_id)
        self._offer(task_id)

    def running(self) -> list[int]:
        """The tasks that run now, here or in another process."""
        return [task_id for task_id, status in self.status.items() if status == "running"]
