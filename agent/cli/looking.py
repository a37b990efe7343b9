"""Reading a state.db: the current mission, its state, its evidence."""

from __future__ import annotations

import time

from recon.agent.cli.plugins import Plugins, load_plugins
from recon.agent.engine.assemble import assemble
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Finding, Observation
from recon.agent.model.missions import Mission
from recon.agent.model.state import MissionState
from recon.agent.runner.ports import Registry
from recon.agent.runner.records import load_records, renderer
from recon.agent.store import Store


class Looking:
    """One process's view of one state.db (stateful: the open store)."""

    def __init__(self, store: Store, *, registry: Registry | None = None) -> None:
        self.store = store
        plugins = load_plugins() if registry is None else Plugins(registry, {})
        self.plugins = plugins
        self.registry = plugins.registry
        self.render = renderer(self.registry)

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

    def observation(self, id_or_prefix: str) -> Observation:
        """An observation of the current mission by id or the beginning of it. Raises UsageError for an unknown one."""
        return self.store.observation(self.current().realm, id_or_prefix)
