"""Every capture of a probe that recon parses gives the truth written beside it, or an honest unknown."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from recon.agent.api import Draft, Raw
from recon.tasks.facts import (
    cpu,
    cuda,
    disk,
    engine,
    gpu,
    identity,
    numa,
    ports,
    process,
    rdma,
    service,
    topology,
)
from recon.tasks.facts.host_text import plain_text

CORPUS = os.environ.get("RECON_CORPUS", "")
Expected = Mapping[str, Any]
Check = Callable[[bytes, Expected, str], None]

ERRORS = {"err-cannot-communicate", "err-handle-unknown", "err-nvml-mismatch-580", "csv-field-invalid"}
# What a capture says of a whole machine that its own text cannot show (notes for people).
NOTES = {"numa_is_unreliable", "cpu_affinity_truth", "nvlink_hidden_by_flag"}


def ok(data: bytes) -> Raw:
    return Raw(state="ok", exit_code=0, stdout=data)


def only(drafts: list[Draft] | tuple[Draft, ...], name: str) -> Draft:
    return next(d for d in drafts if d.name == name)


def same(found: Any, expected: Expected, keys: Mapping[str, str]) -> None:
    for key, ours in keys.items():
        if key in expected:
            assert found[ours] == expected[key], key


def check_topo(data: bytes, expected: Expected, command: str) -> None:
    draft = only(list(topology.parse_topo(ok(data))), "links")
    if expected.get("topology", 0) is None:
        assert draft.outcome == "unknown" and draft.reason
        return
    assert draft.outcome == "known", draft.reason
    assert {k: draft.value[k] for k in expected if k not in NOTES} == {
        k: v for k, v in expected.items() if k not in NOTES
    }


def check_p2p(data: bytes, expected: Expected, command: str) -> None:
    draft = only(list(topology.parse_p2p(ok(data))), "p2p")
    same(draft.value, expected, {"columns": "columns", "status": "status", "p2p_ok": "ok"})


GPU_KEYS = {
    "index": "index", "name": "name", "uuid": "uuid", "bus_id": "bus_id", "memory_total_mib": "memory_total_mib",
    "memory_used_mib": "memory_used_mib", "memory_free_mib": "memory_free_mib", "compute_cap": "compute_capability",
    "driver_version": "driver_version", "pcie_gen_current": "pcie_gen_current", "pcie_width_current": "pcie_width_current",
    "power_limit_w": "power_limit_w", "mig": "mig",
}  # fmt: skip
RAW_KEYS = {
    "uuid": "uuid", "pci.bus_id": "bus_id", "memory.total": "memory_total_mib", "memory.used": "memory_used_mib",
    "memory.free": "memory_free_mib", "memory.reserved": "memory_reserved_mib", "driver_version": "driver_version",
    "pcie.link.gen.current": "pcie_gen_current", "pcie.link.gen.max": "pcie_gen_max", "power.draw": "power_draw_w",
    "power.limit": "power_limit_w", "compute_cap": "compute_capability", "utilization.gpu": "utilization_percent",
    "temperature": "temperature_c", "mig.mode.current": "mig",
}  # fmt: skip


def fields_of(command: str) -> list[str]:
    found = re.search(r"--query-(?:gpu|compute-apps)=(\S+)", command)
    return found.group(1).split(",") if found else []


def check_query(data: bytes, expected: Expected, command: str) -> None:
    fields = fields_of(command)
    if "..." in fields:  # positions known from the values: index, name, uuid, then total, free, used
        fields = [
            "timestamp",
            "index",
            "name",
            "uuid",
            "a",
            "b",
            "c",
            "memory.total",
            "memory.free",
            "memory.used",
        ]
        fields += [f"x{i}" for i in range(len(plain_text(data).strip().split(", ")) - len(fields))]
    lines = [line for line in plain_text(data).split("\n") if line.strip()]
    rows = gpu.table(lines, fields)
    if "rows" in expected:
        assert [[gpu.number(gpu.cell_value(cell)) for cell in row.values()] for row in rows] == expected[
            "rows"
        ]
        return
    items = [gpu.gpu_item(row) for row in rows]
    assert len(items) == len(expected["gpus"])
    for item, row, truth in zip(items, rows, expected["gpus"], strict=True):
        same(
            item,
            truth,
            {
                k: v
                for k, v in GPU_KEYS.items()
                if not isinstance(truth.get(k), str)
                or k in ("name", "uuid", "bus_id", "mig", "compute_cap", "driver_version")
            },
        )
        for key, value in truth.items():
            if key in RAW_KEYS and RAW_KEYS[key] in item and key not in GPU_KEYS:
                wanted = gpu.cell_value(value) if isinstance(value, str) else value
                ours = item[RAW_KEYS[key]]
                assert ours == (
                    gpu.number(wanted)
                    if isinstance(ours, int | float) and isinstance(wanted, str)
                    else wanted
                ), key
            elif key in row and key not in GPU_KEYS:
                wanted = gpu.cell_value(value) if isinstance(value, str) else value
                seen = gpu.cell_value(row[key])
                assert seen == wanted or gpu.number(seen) == wanted, key


def check_whole_query(data: bytes, expected: Expected, command: str) -> None:
    check_query(data, expected, command)
    if fields_of(command) == list(gpu.QUERY_FIELDS):
        drafts = list(gpu.parse_query(ok(data)))
        assert only(drafts, "gpus").value["count"] == len(expected["gpus"])


def check_gpu_error(data: bytes, expected: Expected, command: str) -> None:
    assert [d.outcome for d in gpu.parse_query(ok(data))] == ["unknown"] * 3
    assert gpu.parse_apps(ok(data))[0].outcome == "unknown"


def check_no_devices(data: bytes, expected: Expected, command: str) -> None:
    assert only(list(gpu.parse_query(ok(data))), "gpus").outcome == "absent"


def check_apps(data: bytes, expected: Expected, command: str) -> None:
    draft = gpu.parse_apps(ok(data))[0]
    truth = expected["processes"]
    assert [p["pid"] for p in draft.value] == [p["pid"] for p in truth]
    for mine, other in zip(draft.value, truth, strict=True):
        assert mine["name"] == other["process_name"]
        used = other.get("used_gpu_memory", other.get("used_mib"))
        assert mine["used_mib"] == (gpu.number(gpu.cell_value(used)) if isinstance(used, str) else used)
        if "gpu_uuid" in other:
            assert mine["gpu_uuid"] == other["gpu_uuid"]


def check_pci_numa(data: bytes, expected: Expected, command: str) -> None:
    assert numa.parse_pci_numa(ok(data))[0].value == expected["numa"]


def check_numactl(data: bytes, expected: Expected, command: str) -> None:
    value = numa.parse_numactl(ok(data))[0].value
    assert value["count"] == expected["nodes"] and value["distances"] == expected["distances"]
    assert {n: v["size_mb"] for n, v in value["nodes"].items()} == expected["node_sizes_mb"]
    if "cpu_239_present" in expected:
        assert (239 in value["nodes"]["1"]["cpus"]) is expected["cpu_239_present"]
        assert len(value["nodes"]["1"]["cpus"]) == expected["node1_cpu_count"]


def check_lscpu(data: bytes, expected: Expected, command: str) -> None:
    draft = cpu.parse_lscpu(ok(data))[0]
    assert draft.outcome == "known", draft.reason
    keys = {
        k: k
        for k in (
            "arch",
            "cpus",
            "sockets",
            "cores_per_socket",
            "threads_per_core",
            "model",
            "numa",
            "numa_nodes",
            "models",
            "online",
            "offline",
        )
    }
    same(
        draft.value,
        expected,
        {**keys, "cores_per_cluster": "cores_per_cluster", "numa_nodes_reported": "numa_nodes"},
    )
    if "numa_nodes_with_cpus" in expected:
        assert len(draft.value["numa"]) == expected["numa_nodes_with_cpus"]


def check_free(data: bytes, expected: Expected, command: str) -> None:
    lines = plain_text(data).split("\n")
    if command == "free -h":
        assert cpu.parse_free(ok(data))[0].outcome == "unknown"
        return
    if expected.get("unit") == "KiB":
        value = cpu.free_value(lines, unit_bytes=1024)
        truth = (
            expected["mem"]["total"] * 1024,
            expected["mem"]["available"] * 1024,
            expected["swap"]["total"] * 1024,
        )
    else:
        value = cpu.parse_free(ok(data))[0].value
        truth = (expected["mem_total"], expected["mem_available"], expected["swap_total"])
    assert (value["total_bytes"], value["available_bytes"], value["swap_total_bytes"]) == truth


def check_meminfo(data: bytes, expected: Expected, command: str) -> None:
    found = cpu.meminfo_bytes(plain_text(data).split("\n"))
    assert {k: found[k] for k in expected} == dict(expected)
    assert cpu.parse_meminfo(ok(data))[0].value["total_bytes"] == expected["MemTotal"]


def check_df(data: bytes, expected: Expected, command: str) -> None:
    rows = disk.df_rows(plain_text(data).split("\n"))
    for mount, truth in expected.items():
        if not mount.startswith("/"):
            continue
        same(
            rows[mount],
            truth,
            {k: k for k in ("filesystem", "total_bytes", "used_bytes", "avail_bytes", "use_percent")},
        )
        if "type" in truth:
            assert rows[mount]["fstype"] == truth["type"]
        if "size" in truth:
            assert rows[mount]["avail_bytes"] is None and rows[mount]["size_text"]["avail"] == truth["avail"]
            assert disk.parse_df(ok(data))[0].outcome == "unknown"
    if "worst_real_filesystem" in expected:
        real = {m: r["use_percent"] or 0 for m, r in rows.items() if r["kind"] == "disk"}
        assert max(real, key=lambda m: real[m]) == expected["worst_real_filesystem"]
    if "full_filesystems_that_do_not_matter" in expected:
        full = [r for r in rows.values() if r["kind"] == "image" and r["use_percent"] == 100]
        assert len(full) == expected["full_filesystems_that_do_not_matter"]


def check_df_inodes(data: bytes, expected: Expected, command: str) -> None:
    value = disk.parse_inodes(ok(data))[0].value
    assert value["/"]["inode_use_percent"] == expected["/"]["inode_use_percent"]


def check_df_human(data: bytes, expected: Expected, command: str) -> None:
    row = disk.df_rows(plain_text(data).split("\n"))["/"]
    assert (
        row["use_percent"] == expected["/"]["use_percent"]
        and row["size_text"]["avail"] == expected["/"]["avail"]
    )


def check_du(data: bytes, expected: Expected, command: str) -> None:
    if "models" in expected:
        draft = disk.parse_du(ok(data), path="/root/models")[0]
        assert disk.children_of("/root/models", draft.value) == expected["models"]
        assert draft.value["sizes"]["/root/models"] == expected["total_bytes"] and draft.value["complete"]
    else:
        sizes = disk.parse_du(ok(data), path="/root")[0].value["sizes"]
        assert {k: sizes[k] for k in expected} == dict(expected)


def check_findmnt(data: bytes, expected: Expected, command: str) -> None:
    value = disk.parse_findmnt(ok(data))[0].value
    same(
        value,
        expected,
        {"target": "target", "fstype": "fstype", "source_device": "source", "source_subpath": "subpath"},
    )


def check_show(data: bytes, expected: Expected, command: str) -> None:
    draft = service.parse_show(ok(data))[0]
    if expected.get("exists") is False:
        assert draft.outcome == "absent"
        return
    keys = {
        "ActiveState": "active_state",
        "SubState": "sub_state",
        "MainPID": "main_pid",
        "UnitFileState": "unit_file_state",
        "NRestarts": "restarts",
        "Restart": "restart",
    }
    same(
        draft.value,
        expected,
        {**keys, "model_path": "model_path", "tp": "tp", "port": "port", "memlock_bytes": "memlock_bytes"},
    )
    if "Environment" in expected:
        assert draft.value["environment_names"] == sorted(expected["Environment"])


def check_units(data: bytes, expected: Expected, command: str) -> None:
    assert [u["unit"] for u in service.parse_units(ok(data))[0].value] == expected["units"]


def check_cmdline(data: bytes, expected: Expected, command: str) -> None:
    assert process.split_cmdline(data) == expected["argv"]


def check_limits(data: bytes, expected: Expected, command: str) -> None:
    value = process.parse_limits(ok(data), pid=1)[0].value
    assert {k: value[k] for k in expected} == dict(expected)


def check_ulimit(data: bytes, expected: Expected, command: str) -> None:
    assert process.parse_ulimit(ok(data))[0].value == expected["memlock_kib"]


def check_cgroup(data: bytes, expected: Expected, command: str) -> None:
    assert process.parse_cgroup(ok(data), pid=1)[0].value == dict(expected)


def check_maps(data: bytes, expected: Expected, command: str) -> None:
    assert process.parse_site_packages(ok(data), pid=1)[0].value == [expected["site_packages"]]


def check_ss(data: bytes, expected: Expected, command: str) -> None:
    sockets = ports.listening(plain_text(data).split("\n"))
    if "listen" in expected and isinstance(expected["listen"][0], dict):
        assert [(s["address"], s["port"], s["pid"]) for s in sockets] == [
            (e["addr"], e["port"], e["pid"]) for e in expected["listen"]
        ]
    elif "listen" in expected:
        assert [[s["address"], s["port"]] for s in sockets] == expected["listen"]
        assert any(s["pid"] for s in sockets) is expected["processes_visible"]
    else:
        assert sorted({s["port"] for s in sockets}) == expected["listening_tcp_ports"]


def check_ibv(data: bytes, expected: Expected, command: str) -> None:
    draft = rdma.parse_devinfo(ok(data))[0]
    if not expected["hcas"]:
        assert draft.outcome == "absent"
        return
    assert draft.value["adapters"] == expected["hcas"]


def check_rdma_link(data: bytes, expected: Expected, command: str) -> None:
    assert rdma.parse_link(ok(data))[0].value == expected["links"]


def check_infiniband(data: bytes, expected: Expected, command: str) -> None:
    raw = Raw(state="failed", exit_code=expected["exit_code"], stderr=data)
    assert rdma.parse_infiniband(raw)[0].outcome == "absent"


def check_nvcc(data: bytes, expected: Expected, command: str) -> None:
    if "status" in expected:
        raw = Raw(state="missing", exit_code=127, stderr=data) if "exit_status" in expected else ok(data)
        assert cuda.parse_nvcc_path(raw)[0].outcome in ("absent", "unknown")
        return
    draft = cuda.parse_nvcc(ok(data))[0]
    assert (draft.value, draft.locator) == (expected["version"], f"release {expected['release']}")


def check_module(data: bytes, expected: Expected, command: str) -> None:
    assert cuda.parse_module(ok(data))[0].value == {
        "version": expected["kernel_module"],
        "open": expected["open_module"],
    }


def check_kernel_cmdline(data: bytes, expected: Expected, command: str) -> None:
    value = identity.parse_kernel_cmdline(ok(data))[0].value
    same(
        value,
        expected,
        {"iommu": "iommu", "numa_off": "numa_off", "mitigations": "mitigations", "tokens": "words"},
    )


def check_grub(data: bytes, expected: Expected, command: str) -> None:
    assert numa.parse_proc_numa_off(ok(data)) is expected["numa_off"]


def check_os(data: bytes, expected: Expected, command: str) -> None:
    value = identity.parse_os_release(ok(data))[0].value
    assert (value["id"], value["version_id"]) == (expected["id"], expected["version_id"])


def check_uname(data: bytes, expected: Expected, command: str) -> None:
    value = identity.parse_uname(ok(data))[0].value
    assert {k: value[k] for k in expected} == dict(expected)


def check_boot(data: bytes, expected: Expected, command: str) -> None:
    assert identity.parse_boot_id(ok(data))[0].value == expected["boot_id"]


def check_pip(data: bytes, expected: Expected, command: str) -> None:
    drafts = list(engine.parse_pip_list(ok(data), engine="sglang"))
    found = only(drafts, "packages").value
    assert found == expected["packages"]
    assert not set(found) & set(expected["absent"])
    assert only(drafts, "transfer_backends").value == {"mooncake": None, "nixl": None}


def check_python(data: bytes, expected: Expected, command: str) -> None:
    assert engine.parse_python_version(ok(data))[0].value == expected["python"]


CHECKS: dict[str, Check] = {
    "nvidia-smi topo -m": check_topo, "nvidia-smi topo -mp": check_topo, "nvidia-smi topo -m -i 0": check_topo,
    "nvidia-smi topo -p2p rw": check_p2p, "nvidia-smi --query-gpu": check_whole_query, "nvidia-smi --query-compute-apps": check_apps,
    "/sys numa_node": check_pci_numa, "numactl -H": check_numactl, "lscpu": check_lscpu, "lscpu -J": check_lscpu,
    "free": check_free, "free -b": check_free, "/proc/meminfo": check_meminfo, "df -P -B1": check_df, "df -iP": check_df_inodes,
    "df -h": check_df_human, "du models": check_du, "du": check_du, "findmnt": check_findmnt, "findmnt -J": check_findmnt,
    "systemctl list-units": check_units, "/proc/PID/cmdline": check_cmdline, "/proc/PID/limits": check_limits, "ulimit -l": check_ulimit,
    "/proc/PID/cgroup": check_cgroup, "/proc/PID/maps": check_maps, "ss": check_ss, "ibv_devinfo": check_ibv, "rdma link": check_rdma_link,
    "rdma": check_infiniband, "nvcc --version": check_nvcc, "/proc/driver/nvidia/version": check_module,
    "kernel command line": check_kernel_cmdline, "kernel command line (configured)": check_grub, "os-release": check_os,
    "uname -a": check_uname, "boot": check_boot, "pip list --format json": check_pip, "python --version": check_python,
}  # fmt: skip


def check_for(host: str, probe: str, command: str) -> Check | None:
    if probe in CHECKS:
        return CHECKS[probe]
    if host in ERRORS:
        return check_gpu_error
    if host == "err-no-devices":
        return check_no_devices
    if probe == "nvidia-smi" and "--query-gpu=" in command:
        return check_whole_query
    if probe.startswith("df"):
        return check_df
    return check_show if probe.startswith("systemctl") and " show" in probe else None


def cases() -> list[Any]:
    found = []
    for facts in sorted(Path(CORPUS, "hosts").glob("*/facts.json")) if CORPUS else []:
        for name, meta in json.loads(facts.read_text())["files"].items():
            check = check_for(facts.parent.name, str(meta.get("probe")), str(meta.get("command")))
            if check is not None:
                found.append(pytest.param(facts.parent / name, meta, check, id=f"{facts.parent.name}/{name}"))
    return found


@pytest.mark.skipif(not CORPUS, reason="RECON_CORPUS names no folder of captures")
@pytest.mark.parametrize(("path", "meta", "check"), cases())
def test_a_capture_gives_its_truth_or_an_honest_unknown(path: Path, meta: Expected, check: Check) -> None:
    check(path.read_bytes(), meta["expected"], str(meta.get("command")))


@pytest.mark.skipif(not CORPUS, reason="RECON_CORPUS names no folder of captures")
def test_the_corpus_exercises_most_of_what_we_parse() -> None:
    assert len(cases()) >= 115
