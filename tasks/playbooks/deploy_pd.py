"""Deploys a checkpoint on the GPUs of one host: prefill and decode apart, or one instance (`layout.mode` single)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from recon.agent.api import GateSpec, Intent, Plan, PlannedTask, PlannedUnknown, View
from recon.tasks.deployment import (
    DISK_MARGIN,
    download_bytes,
    is_count,
    latest,
    mapping_at,
    target_mount,
)
from recon.tasks.environment import present_python
from recon.tasks.judge.engine_support import needs_port
from recon.tasks.judge.kernels import TUNING
from recon.tasks.judge.service import holders_of, wanted_gpus
from recon.tasks.playbooks.common import (
    act_task,
    answered,
    bindings,
    gate,
    host_question,
    model_question,
    question,
    wants,
)  # fmt: skip
from recon.tasks.playbooks.reads import checkpoint_reads, host_reads, judges
from recon.tasks.releases import architecture, installed, listed_architectures

_KNOWN_ARCHITECTURE: Final = "subset(set(checkpoint.architecture.architectures), set(engine.architectures))"
_FREE_GPUS: Final = gate('answered("service.stop") or done("service.stop")', "the GPUs are free")
# What findings may add later: a mission file may put its own gates in front of these before they are there.
BRINGS: Final = (
    "archive", "service.stop", "disk.free", "download", "engine.install", "tracker.search", "port", "kernels.build", "launch.serve",
    "launch.prefill", "launch.decode", "launch.router", "verify", "benchmark",
)  # fmt: skip


class DeployPd:
    """The playbook. Stateless: everything follows from the intent and what is known."""

    name: Final = "deploy_pd"
    version: Final = "1"
    about: Final = "deploy a model with prefill and decode apart, each on its own GPUs, behind a router"
    needs: Final = ("model", "host", "layout")
    brings: Final = BRINGS

    def bindings(self, intent: Intent, directive_subject: str) -> dict[str, str]:
        """Which subject each role stands for."""
        return bindings(intent, directive_subject)

    def plan(self, intent: Intent, view: View) -> Plan:
        """The todo items and questions as of now."""
        reads = [*checkpoint_reads(intent, view), *host_reads(intent)]
        judging = judges(intent, [task.key for task in reads])
        return Plan(tasks=(*reads, *judging, *_acts(intent, view)), unknowns=tuple(questions(intent)))


# ---- what is asked


def questions(intent: Intent) -> Iterator[PlannedUnknown]:
    """The questions of a deployment."""
    if not intent.model:
        yield model_question()
    if not intent.host:
        yield host_question()
    yield question(
        "checkpoint.format",
        "Are the weights in the wanted format?",
        finding_ref="checkpoint.routed_experts.format",
    )
    yield question("checkpoint.fits_memory", "Do the weights fit the GPUs?")
    yield question("checkpoint.mtp", "Are the draft (MTP) layers there?", required=False)
    yield question("disk.room", "Is there room for the download?")
    yield question(
        "placement.isolated",
        "Does each instance stay inside one NUMA node?",
        required=intent.layout.one_node_per_instance,
    )
    yield question("service.stop", "Are the GPUs free?")
    yield question("engine.supports", "Does the installed engine know this checkpoint?")
    yield question("engine.source", "Where does the engine come from?", person=bool(intent.host))
    yield question("kernels.needed", "Do kernels have to be built or tuned?", required=False, options=TUNING)
    if intent.layout.mode == "pd":
        yield question("kv.transfer", "How does the KV cache get from prefill to decode?")


# ---- what is changed


def _acts(intent: Intent, view: View) -> Iterator[PlannedTask]:
    stops = _has_to_stop(intent, view)
    stop = ["service.stop"] if stops else []
    if stops:
        yield from _stop_acts(intent, view)
    if because := _full_disk(intent, view):
        yield act_task(
            "disk.free", "act.disk_free", "make room for the download", effect="destructive", order=62, needs=stop,
            gates=[gate('decided("disk.room")', "a person chose what goes")], because=because, discovered_from="judge.disk",
            settles=["disk.room"],
        )  # fmt: skip
    if intent.model and not intent.model.startswith("/") and wants(intent, "download"):
        yield _download(intent, view)
    if because := _wants_engine(intent, view):
        yield _install(intent, view, "" if because == "asked" else because)
    yield from _port_acts(intent, view)
    if wants(intent, "kernels") and intent.extra.get("tune") is not False:
        opens = gate('decided("kernels.needed", "tune")', "only where a person asks for tuning")
        yield act_task(
            "kernels.build", "act.kernels_build", "tune kernels for this GPU", effect="mutating", order=68, needs=stop, gates=[opens],
            settles=["kernels.needed"], priority="low",
        )  # fmt: skip
    yield from _launch_acts(intent, view, stop)


def _asked_first(intent: Intent) -> list[GateSpec]:
    """Nothing on the host is touched before these are settled: a stopped service is an outage."""
    keys = ["checkpoint.format", "checkpoint.fits_memory", "disk.room", "engine.source"]
    keys += ["kv.transfer"] if intent.layout.mode == "pd" else []
    keys += ["placement.isolated"] if intent.layout.one_node_per_instance else []
    return [answered(key) for key in keys]


def _has_to_stop(intent: Intent, view: View) -> bool:
    """Whether a service stands in the way, or may do as long as nobody has looked."""
    processes = latest(view, "host.gpu_processes")
    if processes is None:
        return "stop" in intent.verbs
    return bool(holders_of(processes, wanted_gpus(view)))


def _stop_acts(intent: Intent, view: View) -> Iterator[PlannedTask]:
    unit = latest(view, "host.service.unit") or "the running service"
    because = "" if "stop" in intent.verbs else f"added because the GPUs are held by {unit}"
    gates = [gate("known(host.service.unit)", "the service is known"), *_asked_first(intent)]
    yield act_task(
        "archive", "act.archive", f"archive {unit}: unit, launch line, packages", effect="mutating", order=60, gates=gates,
        because=because, discovered_from="judge.service" if because else "",
    )  # fmt: skip
    yield act_task(
        "service.stop", "act.service_stop", f"stop {unit}", effect="mutating", order=61, needs=["archive"], gates=gates,
        because=because, discovered_from="judge.service" if because else "", settles=["service.stop"],
    )  # fmt: skip


def _room(view: View) -> GateSpec:
    mount = target_mount(view).replace("\\", "").replace('"', "")
    path = f'host.fs["{mount}"].avail_bytes'
    return gate(
        f"{path} >= {DISK_MARGIN} * checkpoint.download_bytes", f"{mount} has room for the download plus 5 %"
    )


def _full_disk(intent: Intent, view: View) -> str:
    if intent.extra.get("free_path"):
        return "added because a person chose what goes"
    need, entry = download_bytes(view), mapping_at(view, "host.fs").get(target_mount(view))
    avail = entry.get("avail_bytes") if isinstance(entry, Mapping) else None
    if not need or not is_count(avail) or avail >= DISK_MARGIN * need:
        return ""
    return f"added because {need / 10**9:.1f} GB do not fit the {avail / 10**9:.1f} GB free on {target_mount(view)}"


def _download(intent: Intent, view: View) -> PlannedTask:
    # where no engine was found, the tool that downloads comes with the new one
    looked = view.read("engine.version").finding is not None
    first = looked and not present_python(view) and _wants_engine(intent, view)
    # the bytes are the condition; the question beside it names who can make room
    gates = [_room(view), answered("disk.room", "there is room, or a person said where it comes from")]
    gates += [answered("checkpoint.format"), answered("checkpoint.fits_memory")]
    return act_task(
        "download", "act.download", "download the checkpoint", effect="mutating", order=63, gates=gates,
        needs=["engine.install"] if first else [],
    )  # fmt: skip


def _wants_engine(intent: Intent, view: View) -> str:
    """Why the engine is to be installed: `asked`, or what was found; "" where the installed one will do."""
    if wants(intent, "install") or "port" in intent.verbs:
        return "asked"
    arch, listed = architecture(view), listed_architectures(view)
    if not arch or not listed or arch in listed:
        return ""
    return f"added because SGLang {installed(view)} has no {arch}"


def _install(intent: Intent, view: View, because: str) -> PlannedTask:
    gates = [answered("engine.source", "a person chose where the engine comes from")]
    if intent.layout.mode == "pd":
        gates.append(answered("kv.transfer"))
    if intent.engine_source == "venv-update" and _has_to_stop(intent, view):
        gates.append(gate('done("service.stop")', "the service that runs from this environment is stopped"))
    return act_task(
        "engine.install", "act.engine_install", "install the engine", effect="mutating", order=64, gates=gates, because=because,
        settles=["engine.supports"],
    )  # fmt: skip


def _port_acts(intent: Intent, view: View) -> Iterator[PlannedTask]:
    why = needs_port(view).why
    if not why and "port" not in intent.verbs:
        return
    after = ["engine.install"] if _wants_engine(intent, view) else []
    found = (
        f"added because {why[0].lower() + why[1:] if not why.startswith('SGLang') else why}" if why else ""
    )
    yield act_task(
        "tracker.search", "act.tracker_search", "look whether somebody has ported it already", effect="read_only", order=65,
        because=found, discovered_from="judge.engine_support" if found else "", priority="low",
    )  # fmt: skip
    yield act_task(
        "port", "act.port", "port what the engine lacks" + ("" if why else ", if anything"), effect="mutating", order=66, needs=after,
        because=found, discovered_from="judge.engine_support" if found else "", settles=["engine.supports"],
    )  # fmt: skip


def _launch_acts(intent: Intent, view: View, stop: list[str]) -> Iterator[PlannedTask]:
    if not wants(intent, "launch"):
        return
    needs = [*stop]
    needs += (
        ["download"]
        if intent.model and not intent.model.startswith("/") and wants(intent, "download")
        else []
    )
    needs += ["engine.install"] if _wants_engine(intent, view) else []
    gates = [
        gate(_KNOWN_ARCHITECTURE, "the installed engine has the architecture"),
        answered("checkpoint.fits_memory"),
        *_ported(view),
        _FREE_GPUS,
    ]  # fmt: skip
    if intent.extra.get("tune"):
        gates.append(gate('done("kernels.build")', "the kernels are tuned"))
    if intent.layout.one_node_per_instance:
        gates.append(answered("placement.isolated"))
    yield from _servers(intent, needs, gates)
    entrance = "launch.router" if intent.layout.mode == "pd" else "launch.serve"
    yield act_task(
        "verify",
        "act.verify",
        "prove that it answers rightly",
        effect="read_only",
        order=73,
        needs=[entrance],
    )
    if wants(intent, "benchmark"):
        yield act_task(
            "benchmark", "act.benchmark", "measure it", effect="read_only", order=74, needs=["verify"]
        )


def _ported(view: View) -> list[GateSpec]:
    """What the launch waits for where the engine lacks something, or may do as long as nobody has looked."""
    port = needs_port(view)
    if port.why:
        return [gate('done("port")', "what the engine lacks is ported")]
    return [answered("engine.supports", "the engine is known to load this checkpoint")] if port.unread else []


def _servers(intent: Intent, needs: list[str], gates: list[GateSpec]) -> Iterator[PlannedTask]:
    tp = intent.layout
    if tp.mode != "pd":
        yield _server("serve", f"TP{tp.tp}" if tp.tp else "", 70, needs, gates)
        return
    gates = [*gates, answered("kv.transfer")]
    yield _server("prefill", f"TP{tp.prefill_tp}" if tp.prefill_tp else "", 70, needs, gates)
    yield _server("decode", f"TP{tp.decode_tp}" if tp.decode_tp else "", 71, ["launch.prefill"], gates)
    yield act_task(
        "launch.router", "act.router", "launch the router", effect="mutating", order=72, needs=["launch.prefill", "launch.decode"]
    )  # fmt: skip


def _server(role: str, size: str, order: int, needs: list[str], gates: list[GateSpec]) -> PlannedTask:
    title = f"launch {role} {size}".strip()
    return act_task(
        f"launch.{role}", "act.server", title, effect="mutating", order=order, needs=needs, gates=gates, params={"role": role}
    )  # fmt: skip


playbook: Final = DeployPd()
