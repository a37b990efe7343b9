"""What was asked: directive, intent, claims; and the revisions that decisions make of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recon.agent.model.base import Frozen, Json
from recon.agent.model.words import MissionOrigin, Strength


class Wish(Frozen):
    """A wanted property and how strongly it was wanted."""

    value: str
    strength: Strength = "mentioned"
    words: str = ""  # the words of the directive it was read from


class Layout(Frozen):
    """How the engine is to be spread over GPUs. Counts are GPUs; None means not said."""

    mode: Literal["pd", "single"] = "single"
    tp: int | None = None  # single
    prefill_tp: int | None = None
    decode_tp: int | None = None
    one_node_per_instance: bool = False  # "comms stay on 1 cpu": each instance on the GPUs of one NUMA node

    @property
    def gpus(self) -> int | None:
        """GPUs the layout takes in all."""
        if self.mode == "pd":
            return (
                None
                if self.prefill_tp is None or self.decode_tp is None
                else self.prefill_tp + self.decode_tp
            )
        return self.tp

    def instances(self) -> tuple[tuple[str, int, int], ...]:
        """(role, first GPU, GPUs) of each engine instance, filled from GPU 0 on; empty where a size was not said."""
        if self.mode == "pd":
            if self.prefill_tp is None or self.decode_tp is None:
                return ()
            return (("prefill", 0, self.prefill_tp), ("decode", self.prefill_tp, self.decode_tp))
        return () if self.tp is None else (("serve", 0, self.tp),)


class Intent(Frozen):
    """The typed intent taken from a directive, a mission file or flags."""

    model: str | None = None  # ORG/NAME, or an absolute directory on the host
    revision: str = "main"
    host: str | None = None  # [user@]name[:port], or localhost
    engine: str = "sglang"
    engine_source: str | None = None  # venv-update, venv-wheel, git-ref, git-prs (decided)
    wanted_format: Wish | None = None
    layout: Layout = Layout()
    verbs: tuple[str, ...] = ()  # stop download install port launch benchmark, in the order asked
    docs: tuple[str, ...] = ()
    target_dir: str | None = None  # where the weights go on the host; None: the playbook's default
    transfer_backend: str | None = None
    extra: dict[str, Json] = Field(default_factory=dict)


class Claim(Frozen):
    """A statement of fact found in words."""

    name: str
    value: Json
    words: str  # quoted from the source
    locator: str = ""


class Triage(Frozen):
    """What was read from a directive: the intent, the claims, and the words that found no place."""

    text: str
    intent: Intent
    claims: tuple[Claim, ...] = ()
    unplaced: tuple[str, ...] = ()
    playbook: str = "deploy"


class Mission(Frozen):
    """A stored mission. `as_of`: in a replay the time that counts as now; None when live."""

    id: str
    key: str  # hash of the normalised intent and text
    text: str
    origin: MissionOrigin
    as_of: float | None = None
    head: int = 1
    created_at: float = 0.0
    realm: str = ""  # "" for what was really observed, bundle:<sha12> for what a bundle recorded


class Revision(Frozen):
    """One state of a mission's intent. `bindings` maps a role (checkpoint, host, engine, docs, mission) to a subject."""

    mission_id: str
    n: int
    parent_n: int | None
    decision_id: int | None
    intent: Intent
    bindings: dict[str, str]
    playbook: str
    playbook_hash: str
