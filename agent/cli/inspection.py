"""`recon inspect`: one subject looked at once, without a mission that stays. The loop, sources and findings are the ordinary ones.

The state lives in a temporary folder and goes with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from recon.agent.api import Inspection
from recon.agent.cli.compose import Session
from recon.agent.cli.plugins import load_plugins
from recon.agent.connectors.base import Source
from recon.agent.engine.assemble import make_view
from recon.agent.engine.view import View
from recon.agent.model.errors import ConfigError
from recon.agent.model.missions import Intent, Triage
from recon.agent.model.state import MissionState
from recon.agent.runner.messages import Message
from recon.agent.runner.ports import Registry
from recon.agent.runner.records import load_records
from recon.agent.store import Store

GROUP: Final = "recon.inspections"


@dataclass(frozen=True)
class Looked:
    """What an inspection saw: the view its document is made from, the mission's state, the exit code of the run."""

    view: View
    state: MissionState
    code: int


def load_inspection(name: str) -> Inspection:
    """An inspection by name, from the installed packages. Raises ConfigError where none brings it."""
    point = next(iter(metadata.entry_points(group=GROUP, name=name)), None)
    if point is None:
        raise ConfigError(f"no package brings the inspection {name}", hint="pip install -e .")
    found: Inspection = point.load()
    return found


def look(
    inspection: Inspection, intent: Intent, *, listen: Callable[[Message], None], hub: str | None = None,
    source: Source | None = None,
) -> Looked:  # fmt: skip
    """Runs an inspection to its end. `source` takes the place of the Hub. Raises ReachError's kinds only as task failures."""
    plain = load_plugins().whole()
    registry = Registry(plain.definitions, {**plain.playbooks, inspection.name: inspection})
    with (
        tempfile.TemporaryDirectory(prefix="recon-") as folder,
        Store.open(Path(folder) / "state.db") as store,
    ):
        session = Session(store, registry=registry)
        session.hub_source = source
        triage = Triage(
            text=f"inspect {intent.model or intent.host}", intent=intent, playbook=inspection.name
        )
        mission = session.begin(triage)
        code = session.run(mission, listen=listen, hub=hub)
        state = session.state(mission.id)
        view = make_view(load_records(store, mission.id), now=session.known_now(mission))
        return Looked(view, state, code)
