"""Read-only tasks about a host. Parameter: `host`, `[user@]name[:port]` as the mission names it.

Each task asks the boot id first: everything else about a host holds only while it stays the same. Findings are recorded
on `host:NAME`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Final

from recon.agent.api import (
    Draft,
    Fact,
    Finding,
    Json,
    ReconContext,
    ReconTask,
    Seen,
    bytes_text,
)
from recon.tasks.deployment import gpu_text, host_name
from recon.tasks.facts import (
    cpu,
    cuda,
    disk,
    files,
    gpu,
    identity,
    numa,
    ports,
    process,
    rdma,
    service,
    topology,
)
from recon.tasks.facts.host_text import VOLATILE_S
from recon.tasks.recon.host_talk import HostTalk, finding_of, talk

MAX_PIDS: Final = 64  # owners asked for; a host with more GPU processes still says that it is busy
MAX_UNITS: Final = 4


# ---- who it is


async def read_identity(ctx: ReconContext) -> str:
    """Boot id, kernel, operating system."""
    host = await talk(ctx)
    seen = await host.ask_all(
        [
            (identity.UNAME, identity.UNAME_ARGV),
            (identity.OS_RELEASE, identity.OS_ARGV),
            (identity.KERNEL_CMDLINE, identity.CMDLINE_ARGV),
        ]
    )
    who, system = seen[0].value("identity", {}), seen[1].value("os", {})
    named = f"{who.get('hostname', host_name(host.host))}, {system.get('name') or 'system unknown'}, kernel {who.get('kernel', 'unknown')}"
    return named if host.boot_id else f"{named}; no boot id: findings cannot be tied to this boot"


# ---- GPUs and who holds them


async def read_gpus(ctx: ReconContext) -> str:
    """GPUs, free memory, processes on them and the units that own these."""
    host = await talk(ctx)
    seen = await ask_gpus(host)
    processes = await ask_processes(host, finding_of(seen, "gpus"))
    value = seen.value("gpus")
    if value is None:
        return next((f.reason for f in seen.findings if f.name == "gpus"), "no answer")
    busy = "processes unknown" if processes is None else f"{len(processes.value or [])} processes on them"
    return f"{value['count']}x {value['name']}, {busy}"


async def ask_gpus(host: HostTalk) -> Seen:
    """The GPU table; with the fields every driver knows where this one refuses one of ours."""
    seen = await host.ask(gpu.QUERY, gpu.QUERY_ARGV)
    finding = finding_of(seen, "gpus")
    if finding is not None and finding.outcome == "unknown" and "does not know the field" in finding.reason:
        return await host.ask(gpu.QUERY_BASIC, gpu.BASIC_ARGV)
    return seen


async def ask_processes(host: HostTalk, gpus: Finding | None) -> Finding | None:
    """`gpu_processes`: joined from the process table, the GPU table and the control group of each process."""
    apps = finding_of(await host.ask(gpu.APPS, gpu.APPS_ARGV), "compute_apps")
    if apps is None or apps.outcome != "known":
        why = apps.reason if apps is not None else "no answer"
        absent = apps is not None and apps.outcome == "absent"
        draft = Draft(
            name="gpu_processes", outcome="absent" if absent else "unknown", reason=why, lifetime_s=VOLATILE_S
        )
        host.record([draft], [apps] if apps is not None else [])
        return None
    pids = sorted({app["pid"] for app in apps.value if isinstance(app["pid"], int)})[:MAX_PIDS]
    owners = await host.ask_all([(process.cgroup_fact(pid), process.cgroup_argv(pid)) for pid in pids])
    found = {pid: finding_of(seen, f"process.{pid}.owner") for pid, seen in zip(pids, owners, strict=True)}
    inputs = [apps, *([gpus] if gpus is not None else []), *(f for f in found.values() if f is not None)]
    value = process_rows(
        apps.value, gpus.value if gpus is not None and gpus.outcome == "known" else None, found
    )
    return host.record([Draft(name="gpu_processes", value=value, lifetime_s=VOLATILE_S)], inputs)[0]


def process_rows(
    apps: Sequence[Mapping[str, Json]], gpus: Json, owners: Mapping[int, Finding | None]
) -> list[dict[str, Json]]:
    """A row a process: GPU index by UUID (None where it is not in the table), unit by control group."""
    index = {item["uuid"]: item["index"] for item in (gpus or {}).get("items", []) if item.get("uuid")}
    rows = []
    for app in apps:
        owner = owners.get(app["pid"]) if isinstance(app["pid"], int) else None
        held = owner.value if owner is not None and owner.outcome == "known" else {}
        rows.append(
            {
                "gpu": index.get(app["gpu_uuid"]), "pid": app["pid"], "name": app["name"], "used_mib": app["used_mib"],
                "unit": held.get("unit"), "container": held.get("container"),
            }
        )  # fmt: skip
    return rows


# ---- links, NUMA, CPUs, memory


async def read_topology(ctx: ReconContext) -> str:
    """Links between GPUs, the NUMA node of each, CPUs and memory."""
    host = await talk(ctx)
    gpus = host.known("gpus") or finding_of(await ask_gpus(host), "gpus")
    items = gpus.value["items"] if gpus is not None and gpus.outcome == "known" else []
    bus_ids = [str(item["bus_id"]) for item in items if _is_bus_id(item.get("bus_id"))]
    asks: list[tuple[Fact, Sequence[str]]] = [
        (topology.TOPO, topology.TOPO_ARGV), (topology.P2P, topology.P2P_ARGV), (cpu.LSCPU, cpu.LSCPU_ARGV),
        (numa.NUMACTL, numa.NUMACTL_ARGV), (cpu.FREE, cpu.FREE_ARGV), (identity.KERNEL_CMDLINE, identity.CMDLINE_ARGV),
    ]  # fmt: skip
    if bus_ids:
        asks.append((numa.PCI_NUMA, numa.pci_numa_argv(bus_ids)))
    seen = await host.ask_all(asks)
    memory = finding_of(seen[4], "memory")
    if memory is not None and memory.outcome == "unknown":
        await host.ask(cpu.MEMINFO, cpu.MEMINFO_ARGV)
    node_of = finding_of(seen[6], "pci_numa") if bus_ids else None
    nodes = _record_numa(
        host, gpus, node_of, finding_of(seen[0], "links"), finding_of(seen[5], "kernel_cmdline")
    )
    if nodes.outcome != "known":
        return f"NUMA nodes of the GPUs: {nodes.reason}"
    return ", ".join(f"NUMA {node}: GPUs {gpu_text(members)}" for node, members in nodes.value.items())


def _is_bus_id(text: Json) -> bool:
    try:
        numa.kernel_bus_id(str(text))
    except ValueError:
        return False
    return True


def _record_numa(host: HostTalk, gpus: Finding | None, *others: Finding | None) -> Finding:
    inputs = [f for f in (gpus, *others) if f is not None]
    node_of, links, cmdline = (f.value if f is not None and f.outcome == "known" else None for f in others)
    if gpus is None or gpus.outcome != "known":
        draft = Draft(name="gpu_numa", outcome="unknown", reason="the GPUs themselves are not known")
    else:
        draft = numa.gpu_numa_draft(
            gpus.value["items"], node_of, links, numa_off=bool((cmdline or {}).get("numa_off"))
        )
    used = [f for f in inputs if f.outcome == "known"] if draft.outcome == "known" else inputs
    return host.record([draft], used)[0]


# ---- disks


async def read_disk(ctx: ReconContext) -> str:
    """Mounts, inodes, where models lie and what else is large."""
    host = await talk(ctx)
    extra = named_roots(ctx, host)
    asks: list[tuple[Fact, Sequence[str]]] = [
        (disk.DF, disk.DF_ARGV),
        (disk.INODES, disk.INODES_ARGV),
        (disk.EXISTING, disk.ls_argv([*disk.MODEL_ROOTS, *disk.SPACE_DIRS])),
    ]
    # asked apart, so that the question about the usual places stays the same whatever a mission names
    asks += [(disk.NAMED, disk.ls_argv(extra))] if extra else []
    mounts, _, *there = await host.ask_all(asks)
    existing = [path for seen in there for f in seen.findings if f.outcome == "known" for path in f.value]
    roots = [*disk.MODEL_ROOTS, *extra]
    held = [path for path in roots if path in existing]
    asks = [(disk.du_fact(p), disk.du_argv(p, children=True)) for p in held]
    # the space directories that hold a model root show what lies beside it
    asks += [
        (disk.du_fact(p), disk.du_argv(p, children=any(r.startswith(f"{p}/") for r in held)))
        for p in disk.SPACE_DIRS
        if p in existing and p not in held
    ]
    if held:
        asks.append((disk.FINDMNT, disk.findmnt_argv(held[0])))
    measured = await host.ask_all(asks)
    _record_sizes(host, held, [f for seen in measured for f in seen.findings if f.name.startswith("du.")])
    root = mounts.value("fs", {}).get("/")
    return (
        f"/ has {bytes_text(root['avail_bytes'])} free"
        if root and root.get("avail_bytes") is not None
        else "free bytes of / unknown"
    )


def named_roots(ctx: ReconContext, host: HostTalk) -> list[str]:
    """Directories beside the usual ones that may hold models: where the mission wants them, where the service has its own."""
    wanted = ctx.intent.target_dir or ""
    serving = host.known("service")
    path = serving.value.get("model_path") if serving is not None and serving.outcome == "known" else None
    named = [wanted.rstrip("/"), posixpath.dirname(str(path or "").rstrip("/"))]
    return [n for n in dict.fromkeys(named) if n not in ("", "/", *disk.MODEL_ROOTS) and disk.safe_path(n)]


def _record_sizes(host: HostTalk, roots: Sequence[str], found: Sequence[Finding]) -> None:
    """`models` (what lies directly in the model roots) and `disk_usage` (everything else that was measured)."""
    known = {f.name.removeprefix("du."): f for f in found if f.outcome == "known"}
    models: dict[str, int] = {}
    for root in roots:
        if root in known:
            models |= disk.children_of(root, known[root].value)
    usage = {
        path: size for f in known.values() for path, size in f.value["sizes"].items() if path not in models
    }
    partial_paths = sorted(path for path, f in known.items() if not f.value["complete"])
    note = f"not measured to the end: {', '.join(partial_paths)}" if partial_paths else ""
    inputs = list(known.values())
    if not inputs:
        reason = "no directory where models or large data usually lie could be measured"
        host.record(
            [Draft(name=n, outcome="unknown", reason=reason) for n in ("models", "disk_usage")], list(found)
        )
        return
    ordered = dict(sorted(usage.items(), key=lambda item: (-item[1], item[0])))
    host.record(
        [
            Draft(name="models", value=models, locator=note),
            Draft(name="disk_usage", value=ordered, locator=note),
        ],
        inputs,
    )


# ---- the running service


async def read_service(ctx: ReconContext) -> str:
    """The unit that holds the GPUs: its state, launch line, limits, interpreter."""
    host = await talk(ctx)
    found = await ask_service(host)
    await _look_at_engine_files(host)
    if found.outcome != "known":
        return f"no running engine: {found.reason}" if found.outcome == "absent" else found.reason
    value = found.value
    held = f"GPUs {gpu_text(value['gpus'])}" if value["gpus"] else "no GPU"
    return f"{value['unit']} {value['active_state']}, {held}, port {value['port'] or 'unknown'}"


async def _look_at_engine_files(host: HostTalk) -> None:
    """Looks again whether the folder of the engine's packages was changed, where it is known by now."""
    held = host.ctx.view.findings(host.subject).get(files.ENGINE_FILES)
    path = held.value.get("path") if held is not None and held.outcome == "known" else None
    if isinstance(path, str) and disk.safe_path(path):
        await host.ask(files.identity_fact(files.ENGINE_FILES), files.stat_argv(path))


async def ask_service(host: HostTalk) -> Finding:
    """`service`: known, absent with the reason, or unknown. Uses what is known of the GPU processes, else asks."""
    processes = host.known("gpu_processes")
    if processes is None:
        processes = await ask_processes(host, host.known("gpus") or finding_of(await ask_gpus(host), "gpus"))
    listed = await host.ask(service.UNITS, service.UNITS_ARGV)
    rows = processes.value or [] if processes is not None and processes.outcome == "known" else []
    candidates = _candidates(rows, listed.value("units", []))
    inputs = [f for f in (processes, finding_of(listed, "units")) if f is not None]
    if not candidates:
        return host.record([_no_service(processes, rows, listed)], inputs)[0]
    shown = await host.ask_all([(service.SHOW, service.show_argv(unit)) for unit in candidates])
    units = [
        f for seen in shown if (f := finding_of(seen, "service_unit")) is not None and f.outcome == "known"
    ]
    active = next((f for f in units if f.value.get("active_state") == "active"), units[0] if units else None)
    if active is None:
        reason = next((f.reason for seen in shown for f in seen.findings), "systemd did not say")
        return host.record(
            [Draft(name="service", outcome="unknown", reason=reason, lifetime_s=VOLATILE_S)], inputs
        )[0]
    return await _record_service(host, active, rows, inputs)


def _candidates(rows: Sequence[Mapping[str, Json]], units: Sequence[Mapping[str, Json]]) -> list[str]:
    """Units that own GPU processes, most processes first; without any, units that are named after an engine."""
    count: dict[str, int] = {}
    for row in rows:
        if row.get("unit"):
            count[str(row["unit"])] = count.get(str(row["unit"]), 0) + 1
    owners = sorted(count, key=lambda unit: (-count[unit], unit))
    return [u for u in owners or service.engine_units(units) if process.safe_unit(u)][:MAX_UNITS]


def _no_service(processes: Finding | None, rows: Sequence[Mapping[str, Json]], listed: Seen) -> Draft:
    units = finding_of(listed, "units")
    if processes is None or processes.outcome == "unknown" or units is None or units.outcome != "known":
        reasons = [f.reason for f in (processes, units) if f is not None and f.outcome == "unknown"]
        return Draft(
            name="service",
            outcome="unknown",
            reason="; ".join(reasons) or "GPU processes are not known",
            lifetime_s=VOLATILE_S,
        )
    loose = f"{len(rows)} GPU processes belong to no unit" if rows else "no unit owns a GPU process"
    return Draft(
        name="service",
        outcome="absent",
        reason=f"{loose} and none is named after an engine",
        lifetime_s=VOLATILE_S,
    )


async def _record_service(
    host: HostTalk, unit: Finding, rows: Sequence[Mapping[str, Json]], inputs: Sequence[Finding]
) -> Finding:
    value = dict(unit.value)
    used = [*inputs, unit]
    pid = value.get("main_pid")
    if isinstance(pid, int):
        cmdline, limits = await host.ask_all(
            [
                (process.cmdline_fact(pid), process.cmdline_argv(pid)),
                (process.limits_fact(pid), process.limits_argv(pid)),
            ]
        )
        said = cmdline.value(f"process.{pid}.cmdline")
        if said:  # what runs, not what the unit file says now
            value |= {key: said[key] for key in said if said[key] is not None and said[key] != []}
        limit = limits.value(f"process.{pid}.limits")
        if limit and limit["memlock_soft_bytes"] is not None:
            value["memlock_bytes"] = limit["memlock_soft_bytes"]
        used += [f for seen in (cmdline, limits) for f in seen.findings if f.outcome == "known"]
    mine = [row for row in rows if row.get("unit") == value.get("unit")]
    value["gpus"] = sorted({row["gpu"] for row in mine if isinstance(row.get("gpu"), int)})
    value["gpu_pids"] = sorted({row["pid"] for row in mine if isinstance(row.get("pid"), int)})
    holds: tuple[tuple[str, str], ...] = (("boot_id", host.boot_id),) if host.boot_id else ()
    fragment = value.get("fragment_path")
    if isinstance(fragment, str) and disk.safe_path(fragment):
        seen = await host.ask(files.identity_fact(files.UNIT_FILE), files.stat_argv(fragment))
        held = seen.value(files.UNIT_FILE)
        holds += ((f"{files.UNIT_FILE}.stamp", str(held["stamp"])),) if held else ()
    return host.record([Draft(name="service", value=value, lifetime_s=VOLATILE_S, valid_while=holds)], used)[
        0
    ]


# ---- network and CUDA


async def read_network(ctx: ReconContext) -> str:
    """Listening ports, RDMA devices, how much memory a login may pin."""
    host = await talk(ctx)
    seen = await host.ask_all(
        [
            (ports.PORTS, ports.PORTS_ARGV), (rdma.INFINIBAND, rdma.INFINIBAND_ARGV), (rdma.LINKS, rdma.LINK_ARGV),
            (rdma.DEVINFO, rdma.DEVINFO_ARGV), (process.SELF_LIMITS, process.SELF_LIMITS_ARGV),
        ]
    )  # fmt: skip
    devices = finding_of(seen[1], "rdma")
    said = "RDMA unknown" if devices is None or devices.outcome == "unknown" else "no RDMA device"
    if devices is not None and devices.outcome == "known":
        said = f"RDMA devices {', '.join(devices.value['devices'][:8])}"
    listening = seen[0].value("ports")
    return f"{said}, {'ports unknown' if listening is None else f'{len(listening)} listening ports'}"


async def read_cuda(ctx: ReconContext) -> str:
    """The CUDA compiler, wherever it is, and the driver's kernel module."""
    host = await talk(ctx)
    seen = await host.ask_all(
        [(cuda.NVCC, cuda.NVCC_ARGV), (cuda.NVCC_PATH, cuda.NVCC_PATH_ARGV), (cuda.MODULE, cuda.MODULE_ARGV)]
    )
    usual, in_path = finding_of(seen[0], "cuda_toolkit_default"), finding_of(seen[1], "cuda_toolkit_in_path")
    found = next((f for f in (usual, in_path) if f is not None and f.outcome == "known"), None)
    inputs = [f for f in (usual, in_path) if f is not None]
    if found is not None:
        drafts = [Draft(name="cuda_toolkit", value=found.value)]
    elif any(f.outcome == "unknown" for f in inputs):
        drafts = [
            Draft(
                name="cuda_toolkit",
                outcome="unknown",
                reason=next(f.reason for f in inputs if f.outcome == "unknown"),
            )
        ]
    else:
        drafts = [
            Draft(
                name="cuda_toolkit",
                outcome="absent",
                reason="no nvcc at /usr/local/cuda/bin and none in PATH",
            )
        ]
    recorded = host.record(drafts, [found] if found is not None else inputs)[0]
    module = seen[2].value("kernel_module", {})
    toolkit = f"toolkit {recorded.value}" if recorded.outcome == "known" else "no CUDA toolkit found"
    return f"{toolkit}, driver module {module.get('version', 'unknown')}"


HOST_TASKS: Final = (
    ReconTask("host.identity", run=read_identity, reads_intent=()),
    ReconTask("host.gpus", run=read_gpus, reads_intent=()),
    ReconTask("host.topology", run=read_topology, reads_intent=()),
    ReconTask("host.disk", run=read_disk, reads_intent=("target_dir",)),
    ReconTask("host.service", run=read_service, reads_intent=()),
    ReconTask("host.network", run=read_network, reads_intent=()),
    ReconTask("host.cuda", run=read_cuda, reads_intent=()),
)
