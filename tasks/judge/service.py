"""Who holds the GPUs that the mission needs, and whether stopping a unit frees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recon.agent.api import Json, Judged, Judgement, JudgeTask, View
from recon.tasks.deployment import gpu_text, instances, is_count, latest
from recon.tasks.judge.reading import count_text, judged, judgement, not_known, plain, sides

KEY: Final = "service.stop"
OWN_UNITS: Final = "recon-"  # the units that this mission starts itself
_FREE_BELOW_MIB: Final = 1024  # a GPU without processes holds a few hundred MiB at most


def judge(view: View) -> Judged:
    """GPU processes on the wanted GPUs x the units that own them."""
    processes = view.read("host.gpu_processes")
    if not processes.known and processes.state != "absent":
        return judged(not_known(KEY, "GPUs: who holds them is not known", processes, about=KEY))
    wanted = wanted_gpus(view)
    holders = [p for p in holders_of(processes.value, wanted) if not _unit(p).startswith(OWN_UNITS)]
    if not holders:
        return judged(_free(view, wanted))
    return judged(_held(view, wanted, holders))


def wanted_gpus(view: View) -> tuple[int, ...]:
    """The GPUs of the layout; every GPU of the host where no layout was said."""
    planned = sorted({gpu for instance in instances(view) for gpu in instance.gpus})
    return tuple(planned) or tuple(range(gpu_count(view)))


def gpu_count(view: View) -> int:
    """GPUs of the host; 0 where that is not known."""
    count = latest(view, "host.gpus.count", 0)
    return int(count) if is_count(count) else 0


def holders_of(processes: Json, gpus: tuple[int, ...]) -> list[Mapping[str, Json]]:
    """The processes on these GPUs; a process whose GPU is not known counts as holding one of them."""
    listed = [p for p in processes if isinstance(p, Mapping)] if isinstance(processes, (list, tuple)) else []
    return [p for p in listed if not gpus or p.get("gpu") is None or p.get("gpu") in gpus]


def _unit(process: Mapping[str, Json]) -> str:
    return str(process.get("unit") or "")


def _free(view: View, wanted: tuple[int, ...]) -> Judgement:
    processes, items = view.read("host.gpu_processes"), view.read("host.gpus.items")
    if not items.known or not isinstance(items.value, (list, tuple)):
        # other containers, other users and MIG hide processes: only the memory in use tells that a GPU is free
        title = "GPUs: no process is visible, their memory in use is not known"
        return not_known(KEY, title, items, about=KEY, who="who can say: nvidia-smi on the host")
    ours = [i for i in items.value if isinstance(i, Mapping) and (not wanted or i.get("index") in wanted)]
    if mute := [i for i in ours if not is_count(i.get("memory_used_mib"))]:
        gpus = gpu_text(i["index"] for i in mute if is_count(i.get("index")))
        title = f"GPUs {gpus}: no process is visible, memory in use is not said"
        return not_known(KEY, title, items, about=KEY, who="who can say: nvidia-smi on the host, as root")
    busy = [i for i in ours if is_count(i.get("index")) and i["memory_used_mib"] > _FREE_BELOW_MIB]
    if busy:
        gpus = gpu_text(int(i["index"]) for i in busy)
        return judgement(
            KEY, "warn", f"GPUs {gpus} hold memory of no visible process", about=KEY, observed=busy,
            detail=["another container or user, a process that is ending, or MIG: nvidia-smi as root shows more"],
            sides=sides(processes, items),
        )  # fmt: skip
    name = f"GPUs {gpu_text(wanted)} are" if wanted else "the GPUs are"
    return judgement(
        KEY,
        "pass",
        f"{name} free: nothing has to be stopped",
        about=KEY,
        observed=[],
        sides=sides(processes, items),
    )


def _held(view: View, wanted: tuple[int, ...], holders: list[Mapping[str, Json]]) -> Judgement:
    units = sorted({_unit(p) for p in holders})
    owners = [u for u in units if u] + (["processes of no unit"] if "" in units else [])
    gpus = {int(p["gpu"]) for p in holders if is_count(p.get("gpu"))}
    total = gpu_count(view)
    much = (
        f"all {count_text(total)} GPUs"
        if total > 1 and len(gpus) == total
        else f"GPUs {gpu_text(gpus)}"
        if gpus
        else "GPUs"
    )
    service = view.read("host.service")
    return judgement(
        KEY, "block", f"{much} held by {plain(', '.join(owners))}", about=KEY, observed=[dict(p) for p in holders],
        expected=f"GPUs {gpu_text(wanted)} free" if wanted else "free GPUs",
        consequence="an engine started beside it would find no memory", detail=_detail(view, holders, units),
        sides=sides(view.read("host.gpu_processes"), service),
    )  # fmt: skip


def _detail(view: View, holders: list[Mapping[str, Json]], units: list[str]) -> list[str]:
    detail = []
    unit = latest(view, "host.service.unit")
    if unit in units:
        model, port = latest(view, "host.service.model_path"), latest(view, "host.service.port")
        detail.append(f"serves {plain(model)} on port {port}" if model and port else "")
        restart, enabled = latest(view, "host.service.restart"), latest(view, "host.service.unit_file_state")
        note = (
            f"Restart={plain(restart)} does not undo `systemctl stop`" if restart not in (None, "no") else ""
        )
        boot = "it is enabled: the next boot starts it again" if enabled == "enabled" else ""
        detail.append("; ".join(part for part in (note, boot) if part))
    loose = [f"{p.get('pid')} ({plain(p.get('name'))})" for p in holders if not _unit(p)]
    if loose:
        detail.append(f"recon stops units only; a person ends: {', '.join(loose)}")
    return detail


SERVICE = JudgeTask("judge.service", judge=judge)
