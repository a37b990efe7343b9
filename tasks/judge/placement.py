"""Do the asked engine instances fit the host's GPUs, and does each stay inside one NUMA node."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Effects, Json, Judged, Judgement, JudgeTask, Option, Read, View
from recon.tasks.deployment import Instance, gpu_text, instances, is_count, nodes_of, numa_map
from recon.tasks.judge.reading import judged, judgement, not_known, sides

KEY: Final = "placement.isolated"


def judge(view: View) -> Judged:
    """Instances of the layout x the host's map of GPUs to NUMA nodes."""
    planned = instances(view)
    if not planned:
        who = "a person: --pd 4+4 or --tp 4 says it"
        return judged(
            not_known(KEY, "placement: how many GPUs each instance takes was not said", about=KEY, who=who)
        )
    count, numa = view.read("host.gpus.count"), view.read("host.gpu_numa")
    used = {gpu for instance in planned for gpu in instance.gpus}
    if count.state == "absent":
        return judged(_no_gpu(count))
    if not is_count(count.value):
        return judged(not_known(KEY, "placement: the host's GPUs are not known", count, about=KEY))
    if max(used) >= int(count.value):
        return judged(_too_few(view, len(used), count))
    if not numa.known:
        return judged(_no_map(view, planned, numa))
    split = [i for i in planned if len(nodes_of(i.gpus, numa.value)) != 1]
    return judged(_split(view, planned, split, numa) if split else _holds(view, planned, numa))


def _no_gpu(count: Read) -> Judgement:
    stop = Option(id="stop", title="stop here", consequence="nothing is changed", effects=Effects(stop=True))
    return judgement(
        KEY, "block", "placement: the host offers no GPU", about=KEY, observed=0, detail=[count.reason], options=[stop],
        sides=sides(count),
    )  # fmt: skip


def _holds(view: View, planned: tuple[Instance, ...], numa: Read) -> Judgement:
    gpus = "/".join(gpu_text(i.gpus) for i in planned)
    nodes = "/".join(i.nodes[0] for i in planned)
    asked = ": the asked placement holds" if view.intent.layout.one_node_per_instance else ""
    return judgement(
        KEY, "pass", f"GPUs {gpus} = NUMA {nodes}{asked}", about=KEY, observed=numa.value,
        expected={i.role: list(i.gpus) for i in planned}, sides=sides(numa),
    )  # fmt: skip


def _too_few(view: View, needed: int, count: Read) -> Judgement:
    layout, have = view.intent.layout, int(count.value)
    options = [
        Option(id="stop", title="stop here", consequence="nothing is changed", effects=Effects(stop=True))
    ]
    tp = max((1 << n for n in range(8) if 1 << n <= have), default=0)
    if layout.mode == "pd" and have >= 2:
        half = max(1 << n for n in range(8) if 2 << n <= have)
        effects = Effects(intent={"layout.prefill_tp": half, "layout.decode_tp": half})
        text = "each instance holds all weights on fewer GPUs: whether they fit is judged again"
        options.insert(
            0,
            Option(
                id="smaller", title=f"prefill TP{half}, decode TP{half}", consequence=text, effects=effects
            ),
        )
    if tp:
        effects = Effects(intent={"layout.mode": "single", "layout.tp": tp})
        text = "one instance does prefill and decode: nothing is transferred between instances"
        options.insert(
            0, Option(id="single", title=f"one instance of TP{tp}", consequence=text, effects=effects)
        )
    return judgement(
        KEY, "block", f"placement: the layout takes {needed} GPUs, the host has {have}", about=KEY, observed=have,
        expected=needed, options=options, sides=sides(count),
        consequence="an instance would fail at start for want of a GPU",
    )  # fmt: skip


def _no_map(view: View, planned: tuple[Instance, ...], numa: Read) -> Judgement:
    if view.intent.layout.one_node_per_instance:
        who = "who can say: the host's PCI bus (numa_node of each GPU); a virtual machine may hide it"
        return not_known(
            KEY, "placement: which GPU hangs on which NUMA node is not known", numa, about=KEY, who=who
        )
    gpus = "/".join(gpu_text(i.gpus) for i in planned)
    title = f"placement: GPUs {gpus}; NUMA nodes not known, not asked for"
    return judgement(KEY, "warn", title, about=KEY, detail=[numa.reason], sides=sides(numa))


def _split(view: View, planned: tuple[Instance, ...], split: list[Instance], numa: Read) -> Judgement:
    asked = view.intent.layout.one_node_per_instance
    better = assignment(planned, numa.value)
    what = ", ".join(f"{i.role} (GPUs {gpu_text(i.gpus)})" for i in split)
    options = [
        Option(
            id="accept", title="keep it, across NUMA nodes",
            consequence="tensor-parallel traffic crosses the CPU sockets on every layer", effects=Effects(waive=True),
        )
    ]  # fmt: skip
    if better:
        title = ", ".join(f"{role} on GPUs {gpu_text(gpus)}" for role, gpus in better.items())
        effects = Effects(intent={"extra.gpus": {role: list(gpus) for role, gpus in better.items()}})
        text = "each instance stays inside one NUMA node"
        options.insert(
            0, Option(id="assign", title=title, consequence=text, effort="minutes", effects=effects)
        )
    return judgement(
        KEY, "block" if asked else "warn", f"placement: {what} spans NUMA nodes", about=KEY, observed=numa.value,
        expected={i.role: list(i.gpus) for i in planned}, options=options, sides=sides(numa),
        detail=["" if better else "no other choice of GPUs keeps each instance inside one node"],
        consequence="communication inside an instance crosses CPU sockets, against what was asked" if asked else "",
    )  # fmt: skip


def assignment(planned: tuple[Instance, ...], gpu_numa: Json) -> dict[str, tuple[int, ...]]:
    """GPUs for each instance inside one node each, biggest instance first; empty where that is not possible."""
    left = {node: sorted(gpus) for node, gpus in sorted(numa_map(gpu_numa).items())}
    chosen: dict[str, tuple[int, ...]] = {}
    for instance in sorted(planned, key=lambda i: -len(i.gpus)):
        # the tightest node that is big enough leaves the larger ones to the others
        fitting = sorted(
            (n for n in left if len(left[n]) >= len(instance.gpus)), key=lambda n: (len(left[n]), n)
        )
        if not fitting:
            return {}
        node = fitting[0]
        chosen[instance.role] = tuple(left[node][: len(instance.gpus)])
        left[node] = left[node][len(instance.gpus) :]
    return {i.role: chosen[i.role] for i in planned}


PLACEMENT = JudgeTask("judge.placement", judge=judge)
