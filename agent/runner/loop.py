"""The loop of one run: settle what ended, take what is ready, look for more when idle, until nothing is left to do."""

from __future__ import annotations

import asyncio
import gc
import heapq
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from recon.agent.api import ActTask, JudgeTask, ReconTask
from recon.agent.engine.assemble import Renderer, make_view
from recon.agent.engine.gates import parse_gate
from recon.agent.engine.retry import decide_retry
from recon.agent.engine.schedule import Schedule
from recon.agent.engine.view import View
from recon.agent.model.base import Json
from recon.agent.model.changes import Change
from recon.agent.model.errors import ReachError, ReconError
from recon.agent.model.findings import Finding, Side
from recon.agent.model.missions import Mission, Revision
from recon.agent.model.records import Run
from recon.agent.model.tasks import Task
from recon.agent.model.words import Cause
from recon.agent.runner.act import carry_out
from recon.agent.runner.contexts import TaskContext
from recon.agent.runner.evidence import Answers, Interviewer, Knowledge, derive
from recon.agent.runner.host_lock import HostLock, Locking
from recon.agent.runner.messages import (
    Message,
    MissionChanged,
    ReadAgain,
    Reopened,
    TakenOver,
    TaskEnded,
    TaskProgress,
    TasksAdded,
    TaskStarted,
    Waiting,
)
from recon.agent.runner.planning import Planner, StartGate
from recon.agent.runner.ports import Clock, Options, Registry, Sources
from recon.agent.runner.process import is_dead, lives_here, this_process
from recon.agent.runner.records import load_records
from recon.agent.runner.unknowns import note_unknowns
from recon.agent.store import Finish, FinishStatus, Store, Take, TakenAttempt

_TRACEBACK_LINES = 12
_FREEZE_ABOVE = 1000  # tasks
_MAX_SIDES = 12  # findings a judgement names when its judge named none
_MAX_REFUSALS = 3  # of one change in one run: a gate that flickers must not spin the loop


def _first(group: BaseExceptionGroup[ReconError]) -> ReconError:
    """The first of a group's errors, however deep it lies."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


@dataclass(frozen=True)
class End:
    """How one attempt ended, before it is written down."""

    status: FinishStatus
    summary: str = ""
    error: dict[str, Json] | None = None
    input_hash: str = ""
    reads: tuple[str, ...] = ()
    delay_s: float = 0.0
    log: str = ""


@dataclass
class Loop:
    """One run over one mission (stateful: the schedule, what runs, what has ended but is not yet written)."""

    store: Store
    mission: Mission
    registry: Registry
    sources: Sources
    clock: Clock
    options: Options
    listen: Callable[[Message], None]
    run_row: Run
    render: Renderer
    locking: Locking | None = None  # None: changes lock nothing (tests that need no host)
    schedule: Schedule = field(init=False)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.me = this_process()
        self.knowledge = Knowledge(self.store, self.mission.realm, self._make_view)
        self.planner = Planner(
            self.store, self.mission, self.registry, self.knowledge, self.clock, self.run_row.id
        )
        self._has_acts = False
        self.start_gate = StartGate(self.store, self.mission, self.clock, self.render)
        self.revision: Revision | None = None
        self._active: dict[int, tuple[asyncio.Task[None], TakenAttempt]] = {}
        self._lanes: Counter[str] = Counter()
        self._ended: list[tuple[int, TakenAttempt, End, float]] = []
        self._delayed: list[tuple[float, int]] = []
        self._refusals: Counter[int] = Counter()
        self._tries: Counter[int] = Counter()  # of each task in this run: a person's retry begins anew
        self._causes: dict[int, Cause] = {}
        self._answers: Answers = {}
        self._wake = asyncio.Event()
        self._fetch_gates = {name: asyncio.Semaphore(n) for name, n in self.options.fetches.items()}
        self._last_event = 0
        self._data_version = 0
        self.started = 0

    # ---- the loop

    async def run(self) -> None:
        """Runs until nothing can be started, or `stop` was called. Every child is gone when it returns."""
        if again := self.planner.refresh_at_start(self.head):
            self._announce_again(again)
            self.knowledge.forget()
        self.reload()
        told: ExceptionGroup[ReconError] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                heart = group.create_task(self._heartbeat())
                try:
                    await self._turns(group)
                finally:
                    heart.cancel()
                    for task, _ in self._active.values():
                        task.cancel()
        except* ReconError as failed:
            told = failed
        if told is not None:  # one error with a message and a hint, as everywhere else
            raise _first(told) from None
        self._write_ends()

    def stop(self) -> None:
        """Ends the run soon: running tasks are cancelled and become `interrupted`."""
        self.stopping = True
        for task, _ in self._active.values():
            task.cancel()
        self._wake.set()

    async def _turns(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._settle(group)
            if self.stopping and not self._active:
                return
            if self._active:
                await self._rest(self.options.poll_s)
            elif self._delayed:
                self.listen(Waiting(f"{len(self._delayed)} to be tried again"))
                await self._rest(max(0.0, self._delayed[0][0] - self.clock.monotonic()))
            elif self.stopping or not (self._extend() or await self._others_work()):
                return

    async def _rest(self, seconds: float) -> None:
        """Waits for an end, at most `seconds`; then looks whether another process wrote."""
        if not self._ended:
            self._wake.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                self._follow_others()

    # ---- settle: one transaction for all that ended and all that starts

    def _settle(self, group: asyncio.TaskGroup) -> None:
        now = self.clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            self.schedule.put_back(heapq.heappop(self._delayed)[1])
        ended, self._ended = self._ended, []
        finishes = [self._finish_row(*row) for row in ended]
        takes = [] if self.stopping else self._choose(ended)
        if not finishes and not takes:
            return
        durable = any(self.schedule.tasks[t.task_id].planned.effect == "destructive" for t in takes)
        try:
            result = self.store.step(
                self.run_row.id, finishes=finishes, takes=takes, now=self.clock.wall(), lease_s=self.options.lease_s,
                durable=durable,
            )  # fmt: skip
        except BaseException:
            self._ended = ended + self._ended  # nothing was written: the ends are still to be told
            raise
        fenced = set(result.fenced)
        for task_id, _, end, seconds in ended:
            self._announce_end(task_id, end, seconds, fenced=task_id in fenced)
        for task_id in result.refused:
            self._refused(task_id)
        for task_id, taken in result.taken.items():
            self._launch(group, task_id, taken)

    def _choose(self, ended: Sequence[tuple[int, TakenAttempt, End, float]]) -> list[Take]:
        # What just ended unlocks its dependents in the same transaction that writes the end.
        for task_id, _, end, _ in ended:
            self._lanes[self._lane(task_id)] -= 1
            if end.status != "pending":
                self.schedule.set_status(task_id, end.status)
        takes: list[Take] = []
        full = {"act", *(lane for lane, limit in self.options.per_lane.items() if self._lanes[lane] >= limit)}
        while len(self._active) + len(takes) < self.options.concurrency:
            ready = self.schedule.pop(full=full)
            if ready is None:
                break
            takes.append(Take(ready, self._cause(ready), None))
            lane = self._lane(ready)
            self._lanes[lane] += 1
            if self._lanes[lane] >= self.options.per_lane.get(lane, self.options.concurrency):
                full.add(lane)
        if not takes and not self._active:
            takes = self._choose_act()
            self._lanes["act"] += len(takes)
        return takes

    def _choose_act(self) -> list[Take]:
        """One change whose gates hold and whose approval stands; asked again inside the transaction that starts it."""
        if not self._has_acts:
            return []
        for task_id in self.start_gate.startable():
            startable = self.schedule.status.get(task_id) in ("pending", "interrupted")
            if startable and self._refusals[task_id] < _MAX_REFUSALS:
                return [Take(task_id, self._cause(task_id), self.start_gate.guard(task_id))]
        return []

    def _lane(self, task_id: int) -> str:
        planned = self.schedule.tasks[task_id].planned
        return "act" if planned.kind == "act" else planned.limit

    def _cause(self, task_id: int) -> Cause:
        if self.schedule.status[task_id] == "interrupted":
            return "resume"
        if task_id not in self._causes and self.schedule.tasks[task_id].lease_token:  # it ran before this run
            last = self.store.attempts(task_id)[-1:]
            return "refresh" if last and last[0].outcome == "succeeded" else "retry"
        earlier: Cause = "retry" if self.schedule.tasks[task_id].lease_token else "first"
        return self._causes.pop(task_id, earlier)

    def _refused(self, task_id: int) -> None:
        self._refusals[task_id] += 1
        self._lanes[self._lane(task_id)] -= 1
        self.knowledge.forget()
        self._follow_others(always=True)

    def _finish_row(self, task_id: int, taken: TakenAttempt, end: End, seconds: float) -> Finish:
        del seconds
        return Finish(
            task_id, taken.attempt_id, taken.token, end.status, self.clock.wall(), summary=end.summary,
            error=end.error, input_hash=end.input_hash, reads=end.reads,
        )  # fmt: skip

    def _announce_end(self, task_id: int, end: End, seconds: float, *, fenced: bool) -> None:
        task = self.schedule.tasks[task_id]
        if fenced:
            self.listen(TaskProgress(task.key, "another process took it over"))
            self._follow_others(always=True)
            return
        if end.status == "pending":
            self._causes[task_id] = "retry"
            self.schedule.status[task_id] = "pending"
            heapq.heappush(self._delayed, (self.clock.monotonic() + end.delay_s, task_id))
        self.listen(
            TaskEnded(task.key, end.status, end.summary or str((end.error or {}).get("message", "")), seconds)
        )

    def _write_ends(self) -> None:
        ended, self._ended = self._ended, []
        if ended:
            finishes = [self._finish_row(*row) for row in ended]
            self.store.step(self.run_row.id, finishes=finishes, takes=[], now=self.clock.wall(), lease_s=0.0)
            for task_id, _, end, seconds in ended:
                self._announce_end(task_id, end, seconds, fenced=False)

    # ---- one attempt

    def _launch(self, group: asyncio.TaskGroup, task_id: int, taken: TakenAttempt) -> None:
        task = self.schedule.tasks[task_id]
        self.schedule.set_status(task_id, "running")
        self.started += 1
        self._tries[task_id] += 1
        self.listen(TaskStarted(task.key, task.planned.title, self.clock.wall()))
        self._active[task_id] = (group.create_task(self._attempt(task, taken)), taken)

    async def _attempt(self, task: Task, taken: TakenAttempt) -> None:
        began = self.clock.monotonic()
        try:
            end = await self._perform(task, taken)
        except asyncio.CancelledError:
            end = End("interrupted", "stopped before it ended")
        self._active.pop(task.id, None)
        self._ended.append((task.id, taken, end, self.clock.monotonic() - began))
        self._wake.set()

    async def _perform(self, task: Task, taken: TakenAttempt) -> End:
        planned = task.planned
        try:
            definition = self.registry.definition(planned.definition)
            async with asyncio.timeout(planned.timeout_s):
                match definition:
                    case ReconTask():
                        summary = await definition.run(self._context(task, taken, definition.version))
                        return End("succeeded", summary)
                    case JudgeTask():
                        return self._judge(task, definition)
                    case ActTask():
                        return await self._act(task, taken, definition)
        except TimeoutError:
            return self._failure(
                task,
                taken,
                {"kind": "timeout", "message": f"did not end within {planned.timeout_s:g} s"},
                retryable=True,
            )
        except ReachError as error:
            what = {"kind": "reach", "message": error.message, "hint": error.hint, "target": error.target}
            return self._failure(
                task, taken, what, retryable=error.retryable, retry_after_s=error.retry_after_s
            )
        except ReconError as error:
            return self._failure(
                task, taken, {"kind": "recon", "message": error.message, "hint": error.hint}, retryable=False
            )
        except Exception as error:  # noqa: BLE001 - a task's own code: a bug becomes a recorded failure
            lines = traceback.format_exception(error)[-_TRACEBACK_LINES:]
            what = {"kind": "bug", "message": f"{type(error).__name__}: {error}", "traceback": "".join(lines)}
            return self._failure(task, taken, what, retryable=False)

    def _failure(
        self, task: Task, taken: TakenAttempt, error: dict[str, Json], *, retryable: bool,
        retry_after_s: float | None = None,
    ) -> End:  # fmt: skip
        again = decide_retry(
            task.planned.retry, attempts=self._tries[task.id], retryable=retryable and task.planned.kind != "act",
            jitter=self.clock.jitter(), retry_after_s=retry_after_s,
        )  # fmt: skip
        if again.again:
            return End(
                "pending", f"{error['message']}; again in {again.delay_s:.1f} s", error, delay_s=again.delay_s
            )
        return End("failed", str(error["message"]), error)

    def _context(self, task: Task, taken: TakenAttempt, version: str) -> TaskContext:
        interviewer = Interviewer(
            store=self.store, sources=self.sources, knowledge=self.knowledge, realm=self.mission.realm,
            attempt_id=taken.attempt_id, producer=task.key, gates=self._fetch_gates, now=self.clock.wall,
            answers=self._answers,
        )  # fmt: skip
        return TaskContext(
            task.planned, intent=self.head.intent, knowledge=self.knowledge, interviewer=interviewer,
            producer_version=version, say=lambda text: self.listen(TaskProgress(task.key, text)),
        )  # fmt: skip

    def _judge(self, task: Task, definition: JudgeTask) -> End:
        view = self.knowledge.view.tracking()
        judged = definition.judge(view)
        by_id = {f.id: f for f in view.all_findings()}
        read = [by_id[i] for i in dict.fromkeys(view.seen.values()) if i in by_id]
        input_hash, reads = view.input_hash(), (*view.seen, f"revision:{self.head.n}")
        derived: list[Finding] = []
        for subject, draft in judged.derived:
            derived += derive(
                [draft], subject=subject, inputs=read, producer=task.key, producer_version=definition.version
            )
        self.knowledge.add(derived)
        sides = tuple(Side(finding_id=f.id) for f in read[:_MAX_SIDES])
        cited = tuple(Side(finding_id=f.id, side="supports") for f in derived[:_MAX_SIDES])
        rows = [
            j.model_copy(update={"input_hash": input_hash, "sides": (*(j.sides or sides), *cited)})
            for j in judged.judgements
        ]
        self.store.put_judgements(
            self.mission.id, self.head.n, rows, now=self.clock.wall(), actor=f"run:{self.run_row.id}",
            run_id=self.run_row.id, producer=task.key,
        )  # fmt: skip
        return End("succeeded", "; ".join(j.title for j in judged.judgements)[:200], None, input_hash, reads)

    async def _act(self, task: Task, taken: TakenAttempt, definition: ActTask) -> End:
        change = self.start_gate.admitted[task.id]  # what the guard saw inside the transaction
        context = self._context(task, taken, definition.version)
        keys = sorted({key for gate in task.planned.gates for key in parse_gate(gate.text).keys})
        try:
            ended = await carry_out(
                definition, change, context, self.sources.executor(change.host),
                phase=lambda phase: self.store.set_phase(taken.attempt_id, phase, self.clock.wall(), keys=keys),
                why_not=lambda: self.start_gate.why_not_apply(task.id),
                lock=self._host_lock(task, taken, change, context),
            )  # fmt: skip
        finally:
            self.store.attach_log(taken.attempt_id, "\n".join(context.lines).encode())
        return End("succeeded", ended.summary)

    def _host_lock(
        self, task: Task, taken: TakenAttempt, change: Change, context: TaskContext
    ) -> HostLock | None:
        """The lock on the host that a change holds; none where nothing real is changed."""
        if self.locking is None or self.mission.origin != "live" or task.planned.effect == "read_only":
            return None
        me = self.locking.holder(
            task=task.key, attempt=taken.attempt_id, change=change.change_hash, token=taken.token,
            at=self.clock.wall(), me=self.me,
        )  # fmt: skip
        return HostLock(
            self.sources.executor(change.host), me, path=self.locking.path, host=change.host,
            wait_s=self.locking.wait_s, log=context.log, ended=self.store.attempt_ended,
        )  # fmt: skip

    # ---- more to do, others, life signs

    @property
    def head(self) -> Revision:
        """The revision this run works on."""
        if self.revision is None:
            self.revision = self.store.revision(self.mission.id)
        return self.revision

    def reload(self) -> None:
        """Reads the graph again; what this run has in its hands stays running."""
        self.revision = self.store.revision(self.mission.id)
        tasks = [t for t in self.store.tasks(self.mission.id) if t.in_head]
        self.schedule = Schedule(tasks, self.store.dependencies(self.mission.id))
        self._has_acts = any(t.planned.kind == "act" for t in tasks)
        if len(tasks) > _FREEZE_ABOVE:
            gc.freeze()  # the graph lives as long as the run: looking through it at every collection costs the square
        delayed = {task_id for _, task_id in self._delayed}
        for task_id in delayed & set(self.schedule.tasks):
            self.schedule.hold(task_id)
        self._last_event = self.store.last_event()
        self._data_version = self.store.data_version()

    def _make_view(self, findings: Sequence[Finding]) -> View:
        return make_view(load_records(self.store, self.mission.id, findings=findings), now=self.clock.known())

    def _extend(self) -> bool:
        """New todo items by rule, judges and facts to run again. Whether there is something to do now."""
        self._note_unknowns()
        added = self.planner.extend(self.head)
        for key, because in added.brought:
            self.listen(TasksAdded((key,), because))
        for taken in added.taken:
            self.listen(TakenOver(taken.task.key, taken.mission_id, taken.read_at))
        if added.changed:
            self.knowledge.forget()
            self._note_unknowns()  # new questions
        judges = self.planner.judges_to_repeat(self.head)
        self._causes.update({task.id: "refresh" for task in judges})
        facts = self.planner.facts_to_refresh(self.head)
        self._announce_again(facts)
        if added.changed or judges or facts:
            self.knowledge.forget()
            self.reload()
            return True
        return bool(self._choose_act())

    def _announce_again(self, again: Sequence[tuple[Task, str]]) -> None:
        for task, because in again:
            self._causes[task.id] = "refresh"
            self.listen(ReadAgain(task.key, because))

    def _note_unknowns(self) -> None:
        """Writes down which questions are answered, open or contradicted by now, and says which were opened again."""
        turned = note_unknowns(
            self.store, self.mission.id, known_now=self.clock.known(), at=self.clock.wall(),
            actor=f"run:{self.run_row.id}", run_id=self.run_row.id,
        )  # fmt: skip
        for one in turned:
            if one.reopened:
                self.listen(Reopened(one.key, one.new, one.reason))

    async def _others_work(self) -> bool:
        """Whether another live run works on this mission; waits a moment for it. Dead ones are taken over."""
        running = self.schedule.running()
        if not running:
            return False
        taken_over = self.store.reclaim(
            self.clock.wall(), lambda run: run.id != self.run_row.id and is_dead(run, self.me),
            lives=lambda run: lives_here(run, self.me),
        )  # fmt: skip
        if not taken_over:
            self.listen(Waiting(f"{len(running)} tasks run in another process"))
            await self._rest(self.options.poll_s)
        self._follow_others(always=True)
        return True

    def _follow_others(self, *, always: bool = False) -> None:
        """Applies what other processes wrote since the last look."""
        version = self.store.data_version()
        if version == self._data_version and not always:
            return
        self._data_version = version
        events = self.store.events_after(self.mission.id, self._last_event)
        foreign = [e for e in events if e.run_id != self.run_row.id]
        self._last_event = events[-1].seq if events else self._last_event
        if foreign or always:
            self.knowledge.forget()
            self.reload()
            for task_id, (running, _) in list(self._active.items()):
                status = self.schedule.status.get(task_id)
                if status in (None, "cancelled", "skipped"):
                    running.cancel()  # a person took it back while it ran here
                else:
                    self.schedule.set_status(task_id, "running")
            self.listen(MissionChanged(self.mission.id))

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self.options.lease_s / 3)
            now = self.clock.wall()
            self.store.heartbeat(self.run_row.id, now, now + self.options.lease_s)
