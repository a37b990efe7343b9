"""Missions, plans and findings for tests of the store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recon.agent.model.findings import Draft, Finding, Raw, Request, make_finding
from recon.agent.model.missions import Intent, Mission, Triage
from recon.agent.model.records import Run
from recon.agent.model.tasks import Edge, Plan, PlannedTask
from recon.agent.store import Store

NOW = 1_750_000_000.0
BINDINGS = {"host": "host:ct200", "checkpoint": "hf:acme/tiny@main"}


def planned(key: str, *, needs: Sequence[str] = (), **fields: object) -> PlannedTask:
    """A todo item of kind recon."""
    edges = tuple(Edge(key=need) for need in needs)
    return PlannedTask.model_validate(
        {"key": key, "definition": "noop", "title": f"do {key}", "kind": "recon", "needs": edges, **fields}
    )


def plan_of(*keys: str) -> Plan:
    """Todo items that need nothing."""
    return Plan(tasks=tuple(planned(key, order=i) for i, key in enumerate(keys)))


def new_mission(store: Store, *, key: str = "k1", realm: str = "") -> Mission:
    """A mission with its first revision."""
    triage = Triage(text="deploy acme/tiny", intent=Intent(model="acme/tiny", host="ct200"))
    made = store.add_mission(
        triage, key=key, origin="replay" if realm else "live", realm=realm, as_of=None, now=NOW, actor="test"
    )
    add_revision(store, made.id)
    return store.mission(made.id)


def add_revision(store: Store, mission_id: str, *, parent_n: int | None = None) -> int:
    """The next revision with the same bindings; its number."""
    made = store.add_revision(
        mission_id, intent=Intent(model="acme/tiny"), bindings=BINDINGS, playbook="deploy", playbook_hash="p",
        parent_n=parent_n, decision_id=None, now=NOW, actor="test",
    )  # fmt: skip
    return made.n


def put(store: Store, mission_id: str, plan: Plan, *, n: int = 1) -> dict[str, int]:
    """Lays a plan; task ids by key."""
    tasks = store.put_plan(mission_id, n, plan, definition_hashes={"noop": "d1"}, now=NOW, actor="test")
    return {task.key: task.id for task in tasks}


def start(store: Store, mission_id: str, *, pid: int = 1, now: float = NOW) -> Run:
    """A run of a made-up process."""
    return store.start_run(
        mission_id, host="here", boot_id="b", pid=pid, pid_started=1.0, version="0", now=now
    )


def answer(text: str = "hello", *, at: float = NOW, probe: str = "gpu.query") -> tuple[Request, Raw]:
    """A question to a host and its answer."""
    request = Request(connector="host", target="ct200", probe=probe, argv=("nvidia-smi", "-q"))
    return request, Raw(state="ok", exit_code=0, stdout=text.encode(), observed_at=at)


def finding_of(
    name: str, value: object, *, subject: str = "host:ct200", at: float = NOW, observation_id: str | None = None,
    inputs: tuple[str, ...] = (),
) -> Finding:  # fmt: skip
    """A finding by a made-up producer."""
    return make_finding(
        Draft(name=name, value=value), subject=subject, producer="test", producer_version="1",
        observation_id=observation_id, inputs=inputs, observed_at=at, origin="captured",
    )  # fmt: skip


def open_store(folder: Path) -> Store:
    """A state.db in a folder."""
    return Store.open(folder / "state.db")
