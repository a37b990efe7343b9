"""A stand-in for a session: it hands out one state and writes down what it was told to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from support.states import NOW, mission_state

from recon.agent.model.changes import Change
from recon.agent.model.errors import RefusedError
from recon.agent.model.missions import Mission
from recon.agent.model.records import Approval, Decision
from recon.agent.model.state import MissionState


@dataclass
class Version:
    """A store whose version a test moves on."""

    version: int = 1

    def data_version(self) -> int:
        return self.version


@dataclass
class Session:
    """Records calls; `now_state` is what state() gives."""

    now_state: MissionState = field(default_factory=mission_state)
    store: Version = field(default_factory=Version)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    refuse: str = ""
    change_hash: str | None = None  # what an approval is recorded for; None: the change as it is rendered

    def current(self) -> Mission:
        return self.now_state.mission

    def state(self, mission_id: str | None = None) -> MissionState:
        return self.now_state

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
    ) -> Decision:
        self._call("decide", key, option, value, because, via)
        return Decision(
            id=1, mission_id=mission.id, about_key=key, option=option, value=value, because=because, by="ada", via=via,
            at=NOW, shown_sha="", from_n=1, to_n=1,
        )  # fmt: skip

    def approve(
        self, mission: Mission, key: str, *, confirm: str = "", message: str = "", via: str = "cli",
        shown: Change | None = None,
    ) -> Approval:  # fmt: skip
        if shown is not None and self.change_hash not in (None, shown.change_hash):
            raise RefusedError(f"{key} changed while you read it; nothing is approved")
        self._call("approve", key, confirm, via)
        return self._approval("approve", key, via)

    def deny(self, mission: Mission, key: str, *, message: str = "", via: str = "cli") -> Approval:
        self._call("deny", key, message, via)
        return self._approval("deny", key, via)

    def retry(self, mission: Mission, key: str) -> None:
        self._call("retry", key)

    def cancel(self, mission: Mission, key: str) -> None:
        self._call("cancel", key)

    def _call(self, *words: str) -> None:
        if self.refuse:
            raise RefusedError(self.refuse, hint="recon why")
        self.calls.append(words)

    def _approval(self, verdict: str, key: str, via: str) -> Approval:
        task = self.now_state.task(key)
        assert task is not None and task.rendered is not None and task.rendered.change is not None
        return Approval(
            id=1, task_id=task.task.id, change_hash=self.change_hash or task.rendered.change.change_hash, exact_hash="",
            shown_sha="", verdict=verdict, message="", by="ada", via=via, at=NOW,
        )  # fmt: skip
