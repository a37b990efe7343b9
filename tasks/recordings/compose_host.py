"""Composes the host's part of the bundled recording: what `ct200`, its engine and one documentation page answer.

The answers lie in `ct200/`. Requests are made by the functions that the tasks use, so a recording asks what they ask.
Deterministic: the same files give the same observations. The files hold planted fake secrets; `redact` removes them
before anything is hashed or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recon.agent.api import Observation, ProbeState, Raw, Request, observation_id, sha256_hex
from recon.tasks.facts import (
    cpu,
    cuda,
    disk,
    engine,
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
from recon.tasks.recon.docs import page_request
from recon.tasks.recon.host_talk import host_request

HOST: Final = "ct200"
START: Final = 1794476467.0  # 2026-11-12T09:41:07Z: after every date that the cards and release tables name
DOCS_URL: Final = "https://docs.sglang.io/docs/advanced_features/pd_disaggregation"

_FOLDER: Final = Path(__file__).with_name("ct200")
_UNIT: Final = "sglang-k26-ddtree.service"
_FRAGMENT: Final = "/etc/systemd/system/sglang-k26-ddtree.service"
_MAIN_PID: Final = 41732
_WORKER_PIDS: Final = tuple(range(41871, 41879))
_BUS_IDS: Final = tuple(f"00000000:{bus}:00.0" for bus in ("01", "21", "41", "61", "81", "A1", "C1", "E1"))
_PYTHON: Final = "/root/venvs/sglang/bin/python"
_SITE: Final = "/root/venvs/sglang/lib/python3.12/site-packages"

Redact = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Answer:
    """One recorded answer: the files of its streams ("" for silence), how it ended, seconds it took."""

    request: Request
    stdout: str = ""
    stderr: str = ""
    took: float = 0.05
    state: ProbeState = "ok"
    exit_code: int = 0


def _asked(probe: str, argv: Sequence[str], stdout: str = "", **ended: object) -> Answer:
    return Answer(host_request(HOST, probe, argv), stdout, **ended)  # type: ignore[arg-type]


def answers() -> Iterator[Answer]:
    """Every answer of the recording, in the order of time."""
    yield _asked(identity.BOOT_ID.id, identity.BOOT_ID_ARGV, "boot_id.txt", took=0.03)
    yield _asked(identity.UNAME.id, identity.UNAME_ARGV, "uname.txt", took=0.02)
    yield _asked(identity.OS_RELEASE.id, identity.OS_ARGV, "os-release.txt", took=0.02)
    yield _asked(identity.KERNEL_CMDLINE.id, identity.CMDLINE_ARGV, "proc-cmdline.txt", took=0.02)
    yield from _gpu_answers()
    yield from _disk_answers()
    yield from _service_answers()
    yield from _network_answers()
    yield from _engine_answers()
    yield Answer(page_request(DOCS_URL), "pd_disaggregation.html", took=0.41, exit_code=200)


def _gpu_answers() -> Iterator[Answer]:
    yield _asked(gpu.QUERY.id, gpu.QUERY_ARGV, "query-gpu.csv", took=0.62)
    yield _asked(gpu.APPS.id, gpu.APPS_ARGV, "compute-apps.csv", took=0.48)
    for pid in _WORKER_PIDS:  # all workers belong to one unit
        yield _asked("process.cgroup", process.cgroup_argv(pid), "proc-41871-cgroup.txt", took=0.03)
    yield _asked(topology.TOPO.id, topology.TOPO_ARGV, "topo.txt", took=1.1)
    yield _asked(topology.P2P.id, topology.P2P_ARGV, "topo-p2p-rw.txt", took=0.9)
    yield _asked(cpu.LSCPU.id, cpu.LSCPU_ARGV, "lscpu.json", took=0.07)
    yield _asked(numa.NUMACTL.id, numa.NUMACTL_ARGV, "numactl.txt", took=0.04)
    yield _asked(cpu.FREE.id, cpu.FREE_ARGV, "free.txt", took=0.02)
    yield _asked(numa.PCI_NUMA.id, numa.pci_numa_argv(_BUS_IDS), "pci-numa.txt", took=0.03)


def _disk_answers() -> Iterator[Answer]:
    yield _asked(disk.DF.id, disk.DF_ARGV, "df.txt", took=0.04)
    yield _asked(disk.INODES.id, disk.INODES_ARGV, "df-i.txt", took=0.03)
    yield _asked(
        disk.EXISTING.id, disk.ls_argv([*disk.MODEL_ROOTS, *disk.SPACE_DIRS]), "ls-dirs.txt", stderr="ls-dirs.stderr.txt",
        state="failed", exit_code=2, took=0.03,
    )  # fmt: skip
    yield _asked(disk.FINDMNT.id, disk.findmnt_argv("/root/models"), "findmnt.json", took=0.03)
    yield _asked("disk.du", disk.du_argv("/root/models", children=True), "du-models.txt", took=0.12)
    yield _asked("disk.du", disk.du_argv("/root", children=True), "du-root.txt", took=1.9)
    for path, file, took in (
        ("/home", "du-home.txt", 0.03), ("/var/lib/docker", "du-docker.txt", 1.7), ("/var/log", "du-log.txt", 0.2), ("/swap.img", "du-swap.txt", 0.03),
    ):  # fmt: skip
        yield _asked("disk.du", disk.du_argv(path, children=False), file, took=took)


def _service_answers() -> Iterator[Answer]:
    yield _asked(service.UNITS.id, service.UNITS_ARGV, "systemctl-units.txt", took=0.06)
    yield _asked(service.SHOW.id, service.show_argv(_UNIT), "systemctl-show.txt", took=0.05)
    yield _asked("process.cmdline", process.cmdline_argv(_MAIN_PID), "proc-41732-cmdline.bin", took=0.02)
    yield _asked("process.limits", process.limits_argv(_MAIN_PID), "proc-41732-limits.txt", took=0.02)
    yield _asked(f"file.{files.UNIT_FILE}", files.stat_argv(_FRAGMENT), "stat-unit.txt", took=0.02)


def _network_answers() -> Iterator[Answer]:
    yield _asked(ports.PORTS.id, ports.PORTS_ARGV, "ss-ltnp.txt", took=0.05)
    yield _asked(
        rdma.INFINIBAND.id,
        rdma.INFINIBAND_ARGV,
        stderr="infiniband-ls.txt",
        state="failed",
        exit_code=2,
        took=0.02,
    )
    yield _asked(rdma.LINKS.id, rdma.LINK_ARGV, "rdma-link.txt", took=0.03)
    yield _asked(
        rdma.DEVINFO.id, rdma.DEVINFO_ARGV, stderr="ibv_devinfo.txt", state="failed", exit_code=255, took=0.04
    )
    yield _asked(process.SELF_LIMITS.id, process.SELF_LIMITS_ARGV, "proc-self-limits.txt", took=0.02)
    yield _asked(cuda.NVCC.id, cuda.NVCC_ARGV, "nvcc.txt", took=0.09)
    yield _asked(
        cuda.NVCC_PATH.id,
        cuda.NVCC_PATH_ARGV,
        stderr="nvcc-path.txt",
        state="missing",
        exit_code=127,
        took=0.02,
    )
    yield _asked(cuda.MODULE.id, cuda.MODULE_ARGV, "proc-driver-nvidia-version.txt", took=0.02)


def _engine_answers() -> Iterator[Answer]:
    yield _asked(
        engine.PYTHON_VERSION.id, engine.python_version_argv(_PYTHON), "python-version.txt", took=0.06
    )
    yield _asked(f"file.{files.ENGINE_FILES}", files.stat_argv(_SITE), "stat-site-packages.txt", took=0.02)
    yield _asked("engine.pip_list", engine.pip_list_argv(_PYTHON), "pip-list.json", took=1.3)
    pid = _WORKER_PIDS[0]
    yield _asked(
        "process.site_packages",
        process.site_packages_argv(pid),
        "proc-41871-maps-sitepackages.txt",
        took=0.04,
    )
    yield _asked(
        engine.ARCHITECTURES.id, engine.architectures_argv(_SITE, "sglang"), "architectures.txt", took=0.35
    )


def compose(redact: Redact, *, start: float = START) -> tuple[list[Observation], dict[str, bytes]]:
    """The observations, in the order of their times (UTC seconds from `start`), and the redacted blobs by sha256."""
    boot_id = (_FOLDER / "boot_id.txt").read_text().strip()
    observations: list[Observation] = []
    blobs: dict[str, bytes] = {}
    clock = start
    for answer in answers():
        # side by side over one connection: the recording's clock moves a tenth of what the answer took
        clock = round(clock + answer.took / 10, 3)
        streams = [
            redact((_FOLDER / name).read_bytes()) if name else b"" for name in (answer.stdout, answer.stderr)
        ]
        shas = [sha256_hex(data) for data in streams]
        blobs |= dict(zip(shas, streams, strict=True))
        boot = boot_id if answer.request.connector == "host" else ""
        raw = Raw(
            state=answer.state, exit_code=answer.exit_code, stdout=streams[0], stderr=streams[1], duration_s=answer.took,
            origin="composed", observed_at=clock, host_boot_id=boot,
        )  # fmt: skip
        observations.append(
            Observation(
                id=observation_id(answer.request, raw, stdout_sha=shas[0], stderr_sha=shas[1]), request=answer.request,
                state=raw.state, exit_code=raw.exit_code, revision="", observed_at=clock, duration_s=answer.took,
                host_boot_id=boot, stdout_sha=shas[0], stderr_sha=shas[1], truncated=False, reason="", origin="composed",
            )
        )  # fmt: skip
    return observations, blobs
