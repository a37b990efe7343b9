"""How the KV cache gets from prefill to decode: which transfer backends this host and engine offer."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Effects, Json, Judged, Judgement, JudgeTask, Option, Read, View
from recon.tasks.deployment import at_least_version
from recon.tasks.judge.reading import judged, judgement, not_known, plain, sides
from recon.tasks.knowledge import engine_tables as tables
from recon.tasks.releases import BACKENDS, has_package, installed

KEY: Final = "kv.transfer"
NAMES: Final = {"mooncake": "Mooncake", "mooncake_tcp": "Mooncake over TCP", "nixl": "NIXL"}
_CARE: Final = {
    "mooncake": "KV goes over RDMA; memory is pinned",
    "mooncake_tcp": "KV is copied through host memory: slow, and single-host failures are reported; measure it",
    "nixl": "UCX picks CUDA IPC or TCP; crashes with two engines on one host are reported; measure it",
}


def judge(view: View) -> Judged:
    """Installed packages, RDMA devices and the engine's release, for layouts that split prefill from decode."""
    if view.intent.layout.mode != "pd":
        return judged()
    packages, rdma, version = (
        view.read("engine.transfer_backends"),
        view.read("host.rdma"),
        view.read("engine.version"),
    )
    if not packages.known or not all(read.known or read.state == "absent" for read in (rdma, version)):
        what = "the engine's release" if packages.known and not version.known else "what is installed here"
        return judged(
            not_known(KEY, f"KV transfer: {what} is not known", packages, rdma, version, about=KEY),
        )
    usable = [name for name in BACKENDS if why_not(name, packages.value, rdma, installed(view)) == ""]
    chosen = view.intent.transfer_backend
    cites = [tables.transfer_backend(name) for name in ([chosen] if chosen else BACKENDS)]
    if chosen is not None:
        return judged(_chosen(view, chosen, packages, rdma, version), cites=cites)
    if usable:
        return judged(_usable(usable[0], packages, rdma, version), cites=cites)
    return judged(_block(view, packages, rdma, version), cites=cites)


def why_not(backend: str, packages: Json, rdma: Read, version: str) -> str:
    """Why a backend cannot be used as things are; "" where it can."""
    row = tables.transfer_backend(backend)
    if row is None:
        return f"{backend} is no transfer backend that recon knows"
    if row.needs_rdma and not rdma_devices(rdma):
        return "no RDMA device"
    if row.min_release and not version:
        return f"{backend} needs {row.min_release}, what is installed is not known"
    if row.min_release and not at_least_version(version, row.min_release):
        return f"{backend} needs {row.min_release}, installed is {version}"
    if not has_package(packages, backend):
        return f"{row.package} is not installed"
    return ""


def rdma_devices(rdma: Read) -> list[str]:
    """The RDMA devices of a host, empty for none."""
    devices = rdma.value.get("devices") if rdma.known and isinstance(rdma.value, dict) else None
    return [str(d) for d in devices] if isinstance(devices, (list, tuple)) else []


def _chosen(view: View, backend: str, packages: Read, rdma: Read, version: Read) -> Judgement:
    reason = why_not(backend, packages.value, rdma, installed(view))
    name = NAMES.get(backend, plain(backend))
    if not reason:
        return _usable(backend, packages, rdma, version)
    row = tables.transfer_backend(backend)
    lasting = row is None or (row.needs_rdma and not rdma_devices(rdma))
    title = f"KV transfer: {name} chosen, " + (reason if lasting else "to come with the engine's install")
    return judgement(
        KEY, "block" if lasting else "warn", title, about=KEY, observed=packages.value, expected=backend,
        detail=["" if lasting else reason, _CARE.get(backend, "")],
        options=_options(view, rdma) if lasting else (), sides=sides(packages, rdma, version),
    )  # fmt: skip


def _usable(backend: str, packages: Read, rdma: Read, version: Read) -> Judgement:
    verdict, devices = "pass" if backend == "mooncake" else "warn", rdma_devices(rdma)
    where = f" over {plain(', '.join(devices))}" if backend == "mooncake" and devices else ""
    return judgement(
        KEY, "pass" if verdict == "pass" else "warn", f"KV transfer: {NAMES.get(backend, backend)}{where} can be used", about=KEY,
        observed=packages.value, expected=backend, detail=[] if verdict == "pass" else [_CARE[backend]],
        sides=sides(packages, rdma, version),
    )  # fmt: skip


def _block(view: View, packages: Read, rdma: Read, version: Read) -> Judgement:
    missing = [f"no {NAMES[name]}" for name in ("mooncake", "nixl") if not has_package(packages.value, name)]
    devices = rdma_devices(rdma)
    row, now = tables.transfer_backend("mooncake_tcp"), installed(view)
    needs = f"mooncake_tcp needs {row.min_release}" if row is not None and row.min_release else ""
    old = needs and now and row is not None and not at_least_version(now, row.min_release or "0")
    head = ", ".join([*missing, *([] if devices else ["no RDMA"])]) + (f"; {needs}" if old else "")
    return judgement(
        KEY, "block", f"KV transfer: {head}", about=KEY, observed={"packages": packages.value, "rdma": devices},
        expected="one usable transfer backend", options=_options(view, rdma),
        consequence="prefill and decode would start, warm up and look ready; the first request through the router fails",
        detail=[f"{needs}; installed is {now}" if old else needs], sides=sides(packages, rdma, version),
    )  # fmt: skip


def _options(view: View, rdma: Read) -> list[Option]:
    options = []
    for backend in BACKENDS:
        row = tables.transfer_backend(backend)
        if row is None or (row.needs_rdma and not rdma_devices(rdma)):
            continue
        release = f"needs SGLang {row.min_release}; " if row.min_release else ""
        options.append(
            Option(
                id=backend, title=f"{NAMES[backend]}: install {row.package}", consequence=release + _CARE[backend],
                effort="hours", effects=Effects(intent={"transfer_backend": backend}),
            )
        )  # fmt: skip
    tp = view.intent.layout.prefill_tp or view.intent.layout.decode_tp
    if tp is not None:
        effects = Effects(intent={"layout.mode": "single", "layout.tp": tp})
        text = "nothing is transferred; the other GPUs stay free for a second, separate instance"
        options.append(
            Option(
                id="single",
                title=f"one instance of TP{tp}, no split",
                consequence=text,
                effort="minutes",
                effects=effects,
            )
        )
    options.append(
        Option(id="stop", title="stop here", consequence="nothing is changed", effects=Effects(stop=True))
    )
    return options


TRANSFER = JudgeTask("judge.transfer", judge=judge)
