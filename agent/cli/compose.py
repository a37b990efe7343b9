"""Wires everything: state.db, definitions, sources, clocks. With looking.py the only place that reads clock and environment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Final

from recon import __version__
from recon.agent.cli import approvals, deciding
from recon.agent.cli.choices import (
    confirm_name,
    shown_change,
)
from recon.agent.cli.identity import who_asks
from recon.agent.cli.items import Items
from recon.agent.cli.plugins import load_plugins
from recon.agent.connectors.base import Source
from recon.agent.connectors.redact import redact_text
from recon.agent.connectors.replay import Bundle, bundle_realm, read_bundle, read_bundle_bytes, write_bundle
from recon.agent.engine.assemble import active_decisions
from recon.agent.engine.consequence import Consequence
from recon.agent.engine.verdict import exit_code
from recon.agent.mission import directive_drafts, directive_subject, mission_key, with_bindings
from recon.agent.model.base import Json, canonical_json, sha256_hex
from recon.agent.model.changes import Change
from recon.agent.model.findings import Raw, Request, make_finding
from recon.agent.model.missions import Intent, Mission, Revision, Triage
from recon.agent.model.records import Approval, Decision
from recon.agent.report.standing import RunState
from recon.agent.runner.evidence import Knowledge
from recon.agent.runner.host_lock import Locking
from recon.agent.runner.loop import Loop
from recon.agent.runner.messages import Message
from recon.agent.runner.planning import Planner
from recon.agent.runner.ports import Clock, Options, Registry, Sources
from recon.agent.runner.process import is_dead, lives_here, this_process
from recon.agent.runner.records import load_records
from recon.agent.runner.unknowns import note_unknowns
from recon.agent.store import Store

BUNDLED: Final = "flagship.tar.gz"  # in recon.tasks.recordings


def load_registry() -> Registry:
    """Every installed definition and playbook, ours and plug-ins' alike; ConfigError where a plug-in is broken."""
    return load_plugins().whole()


@contextmanager
def open_session(db: Path, *, create: bool = True, read_only: bool = False) -> Iterator[Session]:
    """A session on a state.db. Raises StoreError and its kinds."""
    with Store.open(db, create=create, read_only=read_only) as store:
        yield Session(store)


class Session(Items):
    """One process's work on one state.db: what CLI and board call (stateful: the open store).

    `hub_source`: what answers in the Hub's place, such as a folder.
    """

    hub_source: Source | None = None

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
            mission.id, intent=intent, bindings=with_bindings(book.bindings(intent, subject), intent), playbook=playbook,
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
                undoes=None if decision.undoes is None else numbers[decision.undoes], basis=decision.basis,
            )  # fmt: skip
            if decision.to_n != decision.from_n:
                intents = {r.n: r.intent for r in map(_revision_row, manifest["revisions"])}
                self.new_revision(mission, intents[decision.to_n], head, decision_id=made.id)
        return True

    def new_revision(self, mission: Mission, intent: Intent, head: Revision, *, decision_id: int) -> Revision:
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
        """Runs or resumes a mission until nothing can go on without a person; returns the exit code.

        ConfigError where a plug-in is broken: what it would have brought might be what holds something up.
        """
        self.plugins.whole()
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
        self.store.reclaim(now, lambda run: is_dead(run, me), lives=lambda run: lives_here(run, me))
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
                    render=self.render, locking=self._locking(),
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

    def _locking(self) -> Locking:
        """How changes lock their host: by an id that this state file got with its first run."""
        if (state := self.store.setting("state.id")) is None:
            state = uuid.uuid4().hex
            self.store.put_setting("state.id", state)
        return Locking(state=state, by=who_asks())

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
            endpoint = self._hub_of(mission, hub)
            host = self.store.revision(mission.id).intent.host
            return live_sources(
                hub_endpoint=endpoint,
                hub_token=os.environ.get("HF_TOKEN"),
                clock=time.time,
                host=host,
                hub=self.hub_source,
            )
        replay = ReplaySource(self._bundle(mission), pace=pace)
        return Router(host=lambda _: replay, hub=replay, web=replay)

    def _hub_of(self, mission: Mission, hub: str | None) -> str | None:
        """The Hub a mission reads: what --hub says, and said before; else HF_ENDPOINT; None is the public Hub."""
        key = f"hub:{mission.id}"
        if hub:
            self.store.put_setting(key, redact_text(hub))
        return hub or self.store.setting(key) or os.environ.get("HF_ENDPOINT")

    def _bundle(self, mission: Mission) -> Bundle:
        kept_as = self.store.setting(f"bundle:{mission.realm}") or ""
        if kept_as.startswith("blob:"):
            return read_bundle_bytes(self.store.blob(kept_as.removeprefix("blob:")))
        return read_bundle_bytes(resources.files("recon.tasks.recordings").joinpath(BUNDLED).read_bytes())

    # ---- deciding

    def decide(
        self, mission: Mission, key: str, option: str, *, because: str, value: str = "", via: str = "cli",
        by: str | None = None, shown: str = "",
    ) -> Decision:  # fmt: skip
        """Records a choice; where it changes the intent, the mission gets a new revision and is planned anew.

        `shown`: the hash of the question that the person read (or its beginning). Raises UsageError for an unknown
        question or option, RefusedError where the question is not open to a person or is another one by now.
        """
        return deciding.decide(
            self, mission, key, option, because=because, value=value, via=via, by=by, shown=shown
        )

    def foresee_decision(
        self, mission: Mission, key: str, option: str, *, value: str = "", shown: str = ""
    ) -> Consequence:
        """What that decision would change; nothing is recorded."""
        return deciding.foresee(
            self, mission,
            lambda: self.decide(mission, key, option, because="foreseen", value=value, shown=shown),
        )  # fmt: skip

    def undo(
        self, mission: Mission, decision: str, *, because: str, via: str = "cli", by: str | None = None
    ) -> tuple[Decision, tuple[str, ...]]:
        """Takes a decision back; refused once an apply that rests on it has begun. See `deciding.undo`."""
        return deciding.undo(self, mission, decision, because=because, via=via, by=by)

    def foresee_undo(self, mission: Mission, decision: str) -> Consequence:
        """What taking it back would change; nothing is recorded."""
        return deciding.foresee(self, mission, lambda: self.undo(mission, decision, because="foreseen"))

    def refresh(self, mission: Mission, named: str | None) -> list[tuple[str, str, bool]]:
        """Lets facts be read again by the next run. See `deciding.refresh`."""
        return deciding.refresh(self, mission, named)

    def note_unknowns(self, mission: Mission) -> None:
        """Writes down which questions changed their status."""
        note_unknowns(
            self.store, mission.id, known_now=self.known_now(mission), at=self.now(), actor=who_asks()
        )

    def unended_runs(self) -> list[RunState]:
        """The runs of all missions that have not said that they ended, and whether they can be alive."""
        me = this_process()
        return [
            RunState(run, "dead" if is_dead(run, me) else "live" if run.host == me.host else "elsewhere")
            for run in self.store.live_runs()
        ]

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
        by: str | None = None, shown: Change | None = None,
    ) -> Approval:  # fmt: skip
        """Records consent to exactly the change a task renders now. `confirm`: the target's name, for destructive ones.

        `shown`: the change that the person read; RefusedError says what is different where it is another one now.
        """
        with self.store.transaction(durable=True):
            task = self._task(mission, key)
            approvals.refuse_unfit(mission, task)
            approvals.refuse_changed(task, shown)
            approvals.refuse_unconfirmed(task, [confirm])
            return approvals.record(
                self.store, task, "approve", message=message, via=via, by=by, now=self.now()
            )

    def approve_plan(
        self, mission: Mission, shown: Sequence[approvals.PlanItem], *, confirmed: Collection[str] = (), message: str = "",
        via: str = "cli", by: str | None = None,
    ) -> list[Approval]:  # fmt: skip
        """Records consent to every step of the plan that was shown, or to none of them where one is another one now."""
        with self.store.transaction(durable=True):
            return approvals.record_plan(
                self.store, mission, approvals.plan_items(self.state(mission.id)), shown, confirmed=confirmed,
                message=message, via=via, by=by, now=self.now(),
            )  # fmt: skip

    def deny(
        self, mission: Mission, key: str, *, message: str = "", via: str = "cli", by: str | None = None
    ) -> Approval:
        """Records a refusal; it stands until somebody approves."""
        task = self._task(mission, key)
        return approvals.record(self.store, task, "deny", message=message, via=via, by=by, now=self.now())

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
