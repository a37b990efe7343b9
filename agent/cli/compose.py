"""Wires everything: state.db, definitions, sources, clocks. The only place that reads clock, environment and randomness."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import metadata, resources
from pathlib import Path
from typing import Final, Literal

from recon import __version__
from recon.agent.api import Definition, Playbook
from recon.agent.cli.choices import (
    changed_intent,
    confirm_name,
    find_option,
    find_unknown,
    shown_change,
    similar,
)
from recon.agent.cli.identity import who_asks
from recon.agent.connectors.redact import redact, redact_text
from recon.agent.connectors.replay import Bundle, bundle_realm, read_bundle, read_bundle_bytes, write_bundle
from recon.agent.engine.assemble import active_decisions, assemble
from recon.agent.engine.verdict import exit_code
from recon.agent.mission import directive_drafts, directive_subject, mission_key
from recon.agent.model.base import Json, canonical_json, sha256_hex
from recon.agent.model.errors import ConfigError, RefusedError, UsageError
from recon.agent.model.findings import Finding, Observation, Raw, Request, make_finding
from recon.agent.model.missions import Intent, Mission, Revision, Triage
from recon.agent.model.records import Approval, Decision
from recon.agent.model.state import MissionState, TaskState
from recon.agent.model.tasks import Task
from recon.agent.model.words import Priority, StoredStatus
from recon.agent.runner.evidence import Knowledge
from recon.agent.runner.loop import Loop
from recon.agent.runner.messages import Message
from recon.agent.runner.planning import Planner
from recon.agent.runner.ports import Clock, Options, Registry, Sources
from recon.agent.runner.process import is_dead, this_process
from recon.agent.runner.records import load_records, renderer
from recon.agent.store import Store

BUNDLED: Final = "flagship.tar.gz"  # in recon.tasks.recordings


def load_registry() -> Registry:
    """Every installed definition and playbook, ours and plug-ins' alike, by entry point."""
    definitions: list[Definition] = []
    for point in sorted(metadata.entry_points(group="recon.tasks"), key=lambda p: p.name):
        definitions += point.load()()
    playbooks: list[Playbook] = [
        point.load() for point in sorted(metadata.entry_points(group="recon.playbooks"), key=lambda p: p.name)
    ]
    if not definitions or not playbooks:
        raise ConfigError(
            "recon is not installed properly: it finds no task definitions", hint="pip install -e ."
        )
    return Registry.of(definitions, playbooks)


@contextmanager
def open_session(db: Path, *, create: bool = True, read_only: bool = False) -> Iterator[Session]:
    """A session on a state.db. Raises StoreError and its kinds."""
    with Store.open(db, create=create, read_only=read_only) as store:
        yield Session(store)


class Session:
    """One process's work on one state.db: what CLI and board call (stateful: the open store)."""

    def __init__(self, store: Store, *, registry: Registry | None = None) -> None:
        self.store = store
        self.registry = registry or load_registry()
        self.render = renderer(self.registry)

    # ---- looking

    def now(self) -> float:
        """UTC seconds."""
        return time.time()

    def known_now(self, mission: Mission) -> float:
        """The time that counts for freshness: a replay's is the bundle's."""
        return mission.as_of if mission.as_of is not None else self.now()

    def current(self) -> Mission:
        """The current mission; UsageError where there is none."""
        mission = self.store.current_mission()
        if mission is None:
            raise UsageError("there is no mission in this state yet", hint="recon run starts one")
        return mission

    def state(self, mission_id: str | None = None) -> MissionState:
        """The mission as a reader sees it now."""
        mission = self.current() if mission_id is None else self.store.mission(mission_id)
        records = load_records(self.store, mission.id, attempts=True)
        return assemble(records, now=self.known_now(mission), render=self.render)

    def evidence(self, finding: Finding, realm: str | None = None) -> tuple[Observation | None, bytes]:
        """The observation a finding rests on and its stdout; for a derived finding None and nothing."""
        if finding.observation_id is None:
            return None, b""
        observation = self.store.observation(
            self.current().realm if realm is None else realm, finding.observation_id
        )
        return observation, self.store.blob(observation.stdout_sha)

    # ---- beginning

    def begin(self, triage: Triage, *, new: bool = False) -> Mission:
        """A live mission for what was asked; the one that exists already where it was asked before."""
        clean = triage.model_copy(update={"text": redact_text(triage.text)})
        now = self.now()
        mission = self.store.add_mission(
            clean,
            key=mission_key(clean),
            origin="live",
            realm="",
            as_of=None,
            now=now,
            actor=who_asks(),
            new=new,
        )
        if not mission.head:
            self._first_revision(mission, clean, observed_at=now)
        return self.store.mission(mission.id)

    def begin_bundled(self) -> Mission:
        """The mission recon ships: a recorded host, nothing is contacted."""
        source = resources.files("recon.tasks.recordings").joinpath(BUNDLED)
        return self._begin_bundle(read_bundle_bytes(source.read_bytes()), kept_as="bundled")

    def begin_replay(self, path: Path) -> Mission:
        """A mission from a bundle. The bundle is kept in state.db, so that resume does not need the file."""
        bundle = read_bundle(path)
        with self.store.transaction():
            sha = self.store.keep_blob(path.read_bytes())
        return self._begin_bundle(bundle, kept_as=f"blob:{sha}")

    def _begin_bundle(self, bundle: Bundle, *, kept_as: str) -> Mission:
        realm = bundle_realm(bundle)
        triage = Triage.model_validate(bundle.manifest["triage"])
        as_of = float(bundle.manifest["as_of"])
        now = self.now()
        with self.store.transaction():
            self.store.put_setting(f"bundle:{realm}", kept_as)
            mission = self.store.add_mission(
                triage,
                key=mission_key(triage),
                origin="replay",
                realm=realm,
                as_of=as_of,
                now=now,
                actor=who_asks(),
            )
            if not mission.head:
                self._first_revision(mission, triage, observed_at=as_of)
        return self.store.mission(mission.id)

    def _first_revision(self, mission: Mission, triage: Triage, *, observed_at: float) -> None:
        subject = directive_subject(triage)
        request = Request(connector="person", target="directive", probe="directive", path=subject)
        raw = Raw(state="ok", exit_code=0, stdout=triage.text.encode(), observed_at=observed_at)
        with self.store.transaction():
            observation = self.store.record(request, raw, realm=mission.realm, attempt_id=None)
            claims = [
                make_finding(
                    draft, subject=subject, producer="triage", producer_version="1", observation_id=observation.id,
                    inputs=(), observed_at=observed_at, origin="captured",
                )
                for draft in directive_drafts(triage)
            ]  # fmt: skip
            self.store.put_findings(mission.realm, claims)
            self._add_revision(
                mission, triage.intent, playbook=triage.playbook, parent_n=None, decision_id=None
            )

    def _add_revision(
        self,
        mission: Mission,
        intent: Intent,
        *,
        playbook: str,
        parent_n: int | None,
        decision_id: int | None,
    ) -> Revision:
        book = self.registry.playbook(playbook)
        subject = directive_subject(self.store.triage(mission.id))
        return self.store.add_revision(
            mission.id, intent=intent, bindings=book.bindings(intent, subject), playbook=playbook,
            playbook_hash=sha256_hex(f"{book.name} {book.version}")[:12], parent_n=parent_n, decision_id=decision_id,
            now=self.now(), actor=who_asks(),
        )  # fmt: skip

    def _repeat_decision(self, mission: Mission) -> bool:
        """In a replay, makes the next decision that the bundle recorded; whether there was one.

        One at a time, each after its revision has run: so the same evidence is read as when it was made.
        """
        if mission.origin != "replay":
            return False
        manifest = self._bundle(mission).manifest
        recorded = [Decision.model_validate(row) for row in manifest.get("decisions", [])]
        held = self.store.decisions(mission.id)
        if len(held) >= len(recorded) or any(
            a.about_key != b.about_key for a, b in zip(held, recorded, strict=False)
        ):
            return False
        decision = recorded[len(held)]
        numbers = {
            old.id: new.id for old, new in zip(recorded, held, strict=False)
        }  # numbered anew in each state.db
        head = self.store.revision(mission.id)
        with self.store.transaction():
            made = self.store.decide(
                mission.id, about_key=decision.about_key, option=decision.option, value=decision.value,
                because=decision.because, by=decision.by, via=decision.via, shown_sha=decision.shown_sha,
                now=decision.at, from_n=head.n, to_n=head.n + (decision.to_n != decision.from_n),
                undoes=None if decision.undoes is None else numbers[decision.undoes],
            )  # fmt: skip
            if decision.to_n != decision.from_n:
                intents = {r.n: r.intent for r in map(_revision_row, manifest["revisions"])}
                self._new_revision(mission, intents[decision.to_n], head, decision_id=made.id)
        return True

    def _new_revision(
        self, mission: Mission, intent: Intent, head: Revision, *, decision_id: int
    ) -> Revision:
        """Another intent: the mission is planned anew; what the old revision judged shows until it is judged again."""
        revision = self._add_revision(
            mission, intent, playbook=head.playbook, parent_n=head.n, decision_id=decision_id
        )
        self.store.carry_judgements(mission.id, head.n, revision.n, now=self.now())
        self._plan(self.store.mission(mission.id), revision)
        return revision

    # ---- running

    def run(
        self, mission: Mission, *, listen: Callable[[Message], None], hub: str | None = None, pace: float = 0.0,
        concurrency: int = 16,
    ) -> int:  # fmt: skip
        """Runs or resumes a mission until nothing can go on without a person; returns the exit code."""
        return asyncio.run(self._run(mission, listen=listen, hub=hub, pace=pace, concurrency=concurrency))

    async def _run(
        self,
        mission: Mission,
        *,
        listen: Callable[[Message], None],
        hub: str | None,
        pace: float,
        concurrency: int,
    ) -> int:
        me = this_process()
        now = self.now()
        self.store.reclaim(now, lambda run: is_dead(run, me))
        row = self.store.start_run(
            mission.id, host=me.host, boot_id=me.boot_id, pid=me.pid, pid_started=me.started, version=__version__,
            now=now,
        )  # fmt: skip
        code: int | None = None
        sources = self._sources(mission, hub=hub, pace=pace)
        try:
            while True:
                loop = Loop(
                    store=self.store, mission=mission, registry=self.registry, sources=sources,
                    clock=self.clock(mission), options=Options(concurrency=concurrency), listen=listen, run_row=row,
                    render=self.render,
                )  # fmt: skip
                with _signals(loop.stop):
                    await loop.run()
                if loop.stopping or not self._repeat_decision(mission):
                    break
            state = self.state(mission.id)
            code = 130 if loop.stopping else exit_code(state.verdict, state.tasks)
            return code
        finally:
            await sources.close()
            self.store.end_run(row.id, self.now(), code)

    def clock(self, mission: Mission) -> Clock:
        """Real time; what counts as now for freshness is the bundle's time in a replay."""
        return Clock(
            wall=time.time,
            known=lambda: self.known_now(mission),
            monotonic=time.monotonic,
            jitter=random.random,
        )

    def _sources(self, mission: Mission, *, hub: str | None, pace: float) -> Sources:
        from recon.agent.connectors.replay import ReplaySource
        from recon.agent.connectors.router import Sources as Router
        from recon.agent.connectors.router import live_sources

        if mission.origin == "live":
            endpoint = hub or os.environ.get("HF_ENDPOINT")
            host = self.store.revision(mission.id).intent.host
            return live_sources(
                hub_endpoint=endpoint, hub_token=os.environ.get("HF_TOKEN"), clock=time.time, host=host
            )
        replay = ReplaySource(self._bundle(mission), pace=pace)
        return Router(host=lambda _: replay, hub=replay, web=replay)

    def _bundle(self, mission: Mission) -> Bundle:
        kept_as = self.store.setting(f"bundle:{mission.realm}") or ""
        if kept_as.startswith("blob:"):
            return read_bundle_bytes(self.store.blob(kept_as.removeprefix("blob:")))
        return read_bundle_bytes(resources.files("recon.tasks.recordings").joinpath(BUNDLED).read_bytes())

    # ---- deciding

    def decide(
        self, mission: Mission, key: str, option: str, *, because: str, value: str = "", via: str = "cli",
        by: str | None = None,
    ) -> Decision:  # fmt: skip
        """Records a choice; where it changes the intent, the mission gets a new revision and is planned anew.

        Raises UsageError for an unknown question or option, RefusedError where the question is not open to a person.
        """
        state = self.state(mission.id)
        unknown = find_unknown(state, key)
        option, _, given = option.partition("=") if not value else (option, "", value)
        chosen = find_option(unknown, option, given)
        if not because.strip():
            raise UsageError("a decision needs its reason", hint='--because "..."')
        intent = changed_intent(state.revision.intent, chosen, given)
        shown = "\n".join(
            (unknown.planned.question, *(f"{o.id}: {o.title}. {o.consequence}" for o in unknown.options))
        )
        from_n = state.revision.n
        changes = intent != state.revision.intent
        with self.store.transaction():
            sha = self.store.keep_blob(redact(shown.encode()))
            decision = self.store.decide(
                mission.id, about_key=key, option=chosen.id, value=redact_text(given), because=redact_text(because),
                by=by or who_asks(), via=via, shown_sha=sha, now=self.now(), from_n=from_n,
                to_n=from_n + 1 if changes else from_n,
            )  # fmt: skip
            if changes:
                revision = self._add_revision(
                    mission,
                    intent,
                    playbook=state.revision.playbook,
                    parent_n=from_n,
                    decision_id=decision.id,
                )
                self.store.carry_judgements(mission.id, from_n, revision.n, now=self.now())
                self._plan(self.store.mission(mission.id), revision)
        return decision

    def _plan(self, mission: Mission, revision: Revision) -> None:
        from recon.agent.engine.assemble import make_view

        known = self.known_now(mission)
        knowledge = Knowledge(
            self.store, mission.realm,
            lambda findings: make_view(load_records(self.store, mission.id, findings=findings), now=known),
        )  # fmt: skip
        Planner(self.store, mission, self.registry, knowledge, self.clock(mission), run_id=None).extend(
            revision
        )

    def approve(
        self, mission: Mission, key: str, *, confirm: str = "", message: str = "", via: str = "cli",
        by: str | None = None,
    ) -> Approval:  # fmt: skip
        """Records consent to exactly the change a task renders now. `confirm`: the target's name, for destructive ones."""
        task = self._task(mission, key)
        if mission.origin == "replay":
            raise RefusedError(
                f"{key}: this is a replay; nothing can be changed in it", hint="recon run --rehearse"
            )
        if task.rendered is None or task.rendered.change is None:
            missing = ", ".join(task.rendered.missing) if task.rendered else "not a change"
            raise RefusedError(f"{key} cannot be approved yet: {missing}", hint=f"recon why {key}")
        if task.status not in ("awaiting_approval", "awaiting_decision", "blocked"):
            raise RefusedError(
                f"{key} is {task.status}; there is nothing to approve", hint=f"recon show task {key}"
            )
        if task.task.planned.effect == "destructive" and confirm != confirm_name(task):
            raise RefusedError(
                f"{key} destroys something; its name must be typed", hint=f"--confirm {confirm_name(task)}"
            )
        return self._consent(task, "approve", message=message, via=via, by=by)

    def deny(
        self, mission: Mission, key: str, *, message: str = "", via: str = "cli", by: str | None = None
    ) -> Approval:
        """Records a refusal; it stands until somebody approves."""
        return self._consent(self._task(mission, key), "deny", message=message, via=via, by=by)

    def _consent(
        self, task: TaskState, verdict: Literal["approve", "deny"], *, message: str, via: str, by: str | None
    ) -> Approval:
        change = task.rendered.change if task.rendered else None
        with self.store.transaction(durable=True):
            sha = self.store.keep_blob(redact(shown_change(task).encode()))
            if change is not None:  # its sha256 is the change hash: what an interrupted task goes on with
                self.store.keep_blob(canonical_json(change.model_dump(mode="json")).encode())
            return self.store.approve(
                task.task.id, change_hash=change.change_hash if change else "",
                exact_hash=change.exact_hash if change else "", shown_sha=sha, verdict=verdict,
                message=redact_text(message), via=via, by=by or who_asks(), now=self.now(),
            )  # fmt: skip

    # ---- the todo list

    def retry(self, mission: Mission, key: str) -> None:
        """A failed, cancelled or interrupted task becomes pending again."""
        task = self._task(mission, key).task
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

    # ---- bundles

    def export(self, mission: Mission, path: Path) -> None:
        """Writes mission and evidence as `recon-bundle/1`. Approvals and leases are never exported."""
        rows = self.store.export_rows(mission.id)
        latest = max((o.observed_at for o in rows.observations), default=self.now())
        manifest = {
            "format": "recon-bundle/1", "as_of": mission.as_of if mission.as_of is not None else latest,
            "origin": "composed" if any(o.origin == "composed" for o in rows.observations) else "captured",
            "recon_version": __version__, "triage": self.store.triage(mission.id).model_dump(mode="json"),
            "revisions": [r.model_dump(mode="json") for r in self.store.revisions(mission.id)],
            "decisions": [d.model_dump(mode="json") for d in self.store.decisions(mission.id)],
            "playbook_hash": self.store.revision(mission.id).playbook_hash,
        }  # fmt: skip
        observations = [o.model_dump(mode="json", exclude={"attempt_id"}) for o in rows.observations]
        blobs = {sha: self.store.blob(sha) for sha in rows.blobs}
        write_bundle(path, Bundle(manifest, observations, blobs))


def _revision_row(row: Json) -> Revision:
    return Revision.model_validate(row)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the run cleanly; the second one kills as usual."""
    loop = asyncio.get_running_loop()
    handled = (signal.SIGINT, signal.SIGTERM)

    def once() -> None:
        for number in handled:
            loop.remove_signal_handler(number)
        stop()

    try:
        for number in handled:
            loop.add_signal_handler(number, once)
    except (
        NotImplementedError,
        RuntimeError,
        ValueError,
    ):  # not the main thread: the board runs it in a worker
        yield
        return
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


__all__ = [
    "Session",
    "active_decisions",
    "canonical_json",
    "confirm_name",
    "load_registry",
    "open_session",
    "shown_change",
]
