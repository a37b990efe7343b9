"""What the board needs of a session; the command line's session gives it."""

from __future__ import annotations

from typing import Protocol

from recon.agent.model.changes import Change
from recon.agent.model.missions import Mission
from recon.agent.model.records import Approval, Decision
from recon.agent.model.state import MissionState


class Versioned(Protocol):
    """A store that says when another process wrote to it."""

    def data_version(self) -> int: ...


class BoardSession(Protocol):
    """One process's work on one state.db. Every method may raise a ReconError."""

    @property
    def store(self) -> Versioned: ...
    def current(self) -> Mission: ...
    def state(self, mission_id: str | None = None) -> MissionState: ...
    def decide(
        self,
        mission: Mission,
        key: str,
        option: str,
        *,
        because: str,
        value: str = "",
        via: str = "cli",
        shown: str = "",
    ) -> Decision: ...
    def approve(
        self, mission: Mission, key: str, *, confirm: str = "", message: str = "", via: str = "cli",
        shown: Change | None = None,
    ) -> Approval: ...  # fmt: skip
    def deny(self, mission: Mission, key: str, *, message: str = "", via: str = "cli") -> Approval: ...
    def retry(self, mission: Mission, key: str) -> None: ...
    def cancel(self, mission: Mission, key: str) -> None: ...
