"""What would go wrong with the launch lines: NUMA flags and ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recon.agent.api import Json, Judged, Judgement, JudgeTask, Side, View
from recon.tasks.deployment import PORTS, Instance, instances, latest
from recon.tasks.judge.reading import judged, judgement, not_known, plain, sides
from recon.tasks.knowledge import engine_tables as tables

NUMA: Final = "launch.numa_flag"
PORT: Final = "launch.ports"


def judge(view: View) -> Judged:
    """The obvious command line for each instance, held against what the engine does with it; ports in use."""
    numa = _numa(view)
    return judged(*numa, *_ports(view), cites=[tables.NUMA_NODE] if numa else [])


def _numa(view: View) -> list[Judgement]:
    numa, planned = view.read("host.gpu_numa"), instances(view)
    shifted = [
        i for i in planned if min(i.gpus, default=0) > 0 and len(i.nodes) == 1 and i.nodes[0].isdigit()
    ]
    if not numa.known or not shifted:
        return []
    return [_numa_line(instance, view) for instance in shifted[:1]]


def _numa_line(instance: Instance, view: View) -> Judgement:
    values, base = [int(instance.nodes[0])] * len(instance.gpus), min(instance.gpus)
    flags = f"--numa-node {' '.join(str(v) for v in values)} with --base-gpu-id {base}"
    proof = sides(view.read("host.gpu_numa"))
    if not tables.numa_node_flag_crashes(values, base):
        return judgement(NUMA, "pass", f"{flags} works", observed=flags, sides=proof)
    gpus = ",".join(str(g) for g in instance.gpus)
    return judgement(
        NUMA, "warn", f"{flags} would crash", observed=flags, expected=f"CUDA_VISIBLE_DEVICES={gpus}", sides=proof,
        detail=[f"the list is indexed by GPU number; recon's {instance.role} line sets CUDA_VISIBLE_DEVICES={gpus} instead"],
        consequence="IndexError at start",
    )  # fmt: skip


def needed_ports(view: View) -> dict[int, str]:
    """The ports of the planned servers and what each is for."""
    roles = [i.role for i in instances(view)]
    names = [*roles, *(["bootstrap", "router"] if "prefill" in roles else [])]
    return {PORTS[name]: name for name in names}


def _ports(view: View) -> list[Judgement]:
    ports, needed = view.read("host.ports"), needed_ports(view)
    if not needed:
        return []
    if not ports.known or not isinstance(ports.value, Mapping):
        return [not_known(PORT, "ports: what listens on the host is not known", ports)]
    ours: list[tuple[int, str, Json]] = []
    others: list[tuple[int, str, Json]] = []
    for port, role in needed.items():
        holder = ports.value.get(str(port)) or ports.value.get(port)
        if holder is not None:
            (ours if _goes(view, holder) else others).append((port, role, holder))
    proof = sides(ports, view.read("host.service"))
    if others:
        return [_taken(others, proof)]
    after = f" once {plain(latest(view, 'host.service.unit'))} is stopped" if ours else ""
    return [
        judgement(
            PORT,
            "pass",
            f"launch ports: free{after}",
            observed=[p for p, _, _ in ours],
            expected=sorted(needed),
            sides=proof,
        )
    ]


def _goes(view: View, holder: Json) -> bool:
    """Whether a listener belongs to the service that the mission stops anyway."""
    pid = holder.get("pid") if isinstance(holder, Mapping) else None
    return pid is not None and pid == latest(view, "host.service.main_pid")


def _taken(others: list[tuple[int, str, Json]], proof: tuple[Side, ...]) -> Judgement:
    port, role, holder = others[0]
    who = plain(holder.get("process")) if isinstance(holder, Mapping) else "unknown"
    return judgement(
        PORT, "warn", f"port {port} ({role}) is taken by {who}", observed={str(p): h for p, _, h in others}, expected="free",
        detail=[f"port {p} ({r}) too" for p, r, _ in others[1:]], consequence="the server ends with 'address already in use'", sides=proof,
    )  # fmt: skip


LAUNCH = JudgeTask("judge.launch", judge=judge)
