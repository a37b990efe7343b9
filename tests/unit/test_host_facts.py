"""How host parsers treat what is not a plain good answer: states, sentinels, broken and hostile text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from recon.agent.api import Draft, ProbeState, Raw
from recon.tasks.facts import (
    cpu,
    cuda,
    disk,
    docs_page,
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
from recon.tasks.facts.host_text import plain_text, trouble, whole_lines

Parser = Callable[[Raw], Sequence[Draft]]

PARSERS: dict[str, Parser] = {
    "boot id": identity.parse_boot_id, "uname": identity.parse_uname, "os": identity.parse_os_release,
    "kernel line": identity.parse_kernel_cmdline, "gpus": gpu.parse_query, "old gpus": gpu.parse_basic, "apps": gpu.parse_apps,
    "topo": topology.parse_topo, "p2p": topology.parse_p2p, "pci numa": numa.parse_pci_numa, "numactl": numa.parse_numactl,
    "lscpu": cpu.parse_lscpu, "free": cpu.parse_free, "meminfo": cpu.parse_meminfo, "df": disk.parse_df, "inodes": disk.parse_inodes,
    "findmnt": disk.parse_findmnt, "existing": disk.parse_existing, "du": partial(disk.parse_du, path="/x"), "units": service.parse_units,
    "show": service.parse_show, "cmdline": partial(process.parse_cmdline, pid=7), "cgroup": partial(process.parse_cgroup, pid=7),
    "limits": partial(process.parse_limits, pid=7), "own limits": process.parse_self_limits, "maps": partial(process.parse_site_packages, pid=7),
    "ss": ports.parse_ports, "infiniband": rdma.parse_infiniband, "ibv": rdma.parse_devinfo, "rdma link": rdma.parse_link,
    "nvcc": cuda.parse_nvcc, "nvcc in path": cuda.parse_nvcc_path, "module": cuda.parse_module,
    "pip": partial(engine.parse_pip_list, engine="sglang"), "site": partial(engine.parse_site_listing, engine="sglang"),
    "python": engine.parse_python_version, "scan": engine.parse_architectures, "page": docs_page.parse_page,
}  # fmt: skip
BROKEN: dict[ProbeState, Raw] = {
    "timeout": Raw(state="timeout", exit_code=124),
    "lost": Raw(state="lost", reason="not recorded"),
    "denied": Raw(state="denied", exit_code=1, stderr=b"x: Permission denied"),
    "unparsable": Raw(state="unparsable", reason="bad framing"),
    "failed": Raw(state="failed", exit_code=3, stderr=b"something odd happened"),
}


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("state", BROKEN)
def test_an_answer_without_data_is_unknown_with_a_reason(name: str, state: ProbeState) -> None:
    drafts = PARSERS[name](BROKEN[state])
    assert drafts
    assert {(d.outcome, bool(d.reason)) for d in drafts} == {("unknown", True)}


@pytest.mark.parametrize("name", PARSERS)
def test_a_missing_command_is_never_a_value(name: str) -> None:
    drafts = PARSERS[name](Raw(state="missing", exit_code=127, stderr=b"sh: 1: tool: not found"))
    assert all(d.outcome != "known" and d.reason for d in drafts)


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "data", [b"", b"\0" * 50, b"\xff\xfe\x80 odd", b"[1, 2", b"=\n=\n:::\n", b"a" * 200_000, b"/ " * 50_000]
)
def test_hostile_text_neither_raises_nor_takes_long(name: str, data: bytes) -> None:
    before = time.process_time()
    PARSERS[name](Raw(state="ok", exit_code=0, stdout=data))
    assert time.process_time() - before < 2.0


def test_a_denied_question_is_not_an_absence() -> None:
    raw = Raw(
        state="failed",
        exit_code=2,
        stderr=b"ls: cannot open directory '/sys/class/infiniband': Permission denied",
    )
    assert rdma.parse_infiniband(raw)[0].outcome == "unknown"


def test_an_empty_device_folder_is_an_absence_with_proof() -> None:
    draft = rdma.parse_infiniband(Raw(state="ok", exit_code=0))[0]
    assert (draft.outcome, draft.reason) == ("absent", "/sys/class/infiniband is empty: no RDMA device")


def test_devices_are_listed() -> None:
    draft = rdma.parse_infiniband(Raw(state="ok", exit_code=0, stdout=b"mlx5_0\nmlx5_1\n"))[0]
    assert draft.value == {"devices": ["mlx5_0", "mlx5_1"]}


def row(**cells: str) -> bytes:
    good = {
        "index": "0", "name": "NVIDIA X", "uuid": "GPU-1", "pci.bus_id": "00000000:01:00.0", "memory.total": "97887", "memory.used": "10",
        "memory.free": "97000", "compute_cap": "12.0", "driver_version": "580.1",
    }  # fmt: skip
    return ", ".join(
        {**dict.fromkeys(gpu.QUERY_FIELDS, "[N/A]"), **good, **cells}[f] for f in gpu.QUERY_FIELDS
    ).encode()


def gpus(data: bytes) -> dict[str, Draft]:
    return {d.name: d for d in gpu.parse_query(Raw(state="ok", exit_code=0, stdout=data))}


def test_sentinels_are_unknown_and_never_zero() -> None:
    found = gpus(
        row(**{"memory.total": "[N/A]", "memory.free": "[Not Supported]", "power.draw": "[Unknown Error]"})
    )
    item = found["gpus"].value["items"][0]
    assert (item["memory_total_mib"], item["memory_free_mib"], item["power_draw_w"]) == (None, None, None)
    assert item["faults"] == ["power.draw"]
    assert found["gpus"].value["memory_total_mib"] is None
    assert found["gpu_memory_free_mib"].value == {"0": None}


def test_unlike_gpus_share_no_capability() -> None:
    found = gpus(
        row() + b"\n" + row(index="1", name="NVIDIA Y", compute_cap="9.0", **{"memory.total": "80000"})
    )
    value = found["gpus"].value
    assert (value["count"], value["name"], value["sm"], value["memory_total_mib"]) == (
        2,
        "NVIDIA X + NVIDIA Y",
        None,
        80000,
    )


def test_a_row_with_too_few_cells_makes_the_table_unknown() -> None:
    found = gpus(row() + b"\n1, NVIDIA X, GPU-2")
    assert found["gpus"].outcome == "unknown" and "wrong number of cells" in found["gpus"].reason


def test_a_cut_table_is_unknown() -> None:
    drafts = gpu.parse_query(Raw(state="ok", exit_code=0, stdout=row(), truncated=True))
    assert drafts[0].outcome == "unknown"


def test_a_process_whose_name_holds_commas_and_a_hidden_one() -> None:
    data = b"GPU-1, 12, python, -c, x, 345\nGPU-2, [N/A], [Insufficient Permissions], [N/A]\n"
    draft = gpu.parse_apps(Raw(state="ok", exit_code=0, stdout=data))[0]
    assert draft.value == [
        {"gpu_uuid": "GPU-1", "pid": 12, "name": "python, -c, x", "used_mib": 345},
        {"gpu_uuid": "GPU-2", "pid": None, "name": None, "used_mib": None},
    ]


def test_no_process_is_an_empty_list() -> None:
    assert gpu.parse_apps(Raw(state="ok", exit_code=0))[0].value == []


def test_a_damaged_row_of_the_matrix_is_named() -> None:
    text = b"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-3\t0\nGPU1\tSYS\n"
    value = topology.parse_topo(Raw(state="ok", exit_code=0, stdout=text))[0].value
    assert (value["damaged_rows"], value["missing_rows"], value["matrix_complete"]) == (
        ["GPU1"],
        ["GPU1"],
        False,
    )


def test_an_asymmetric_matrix_is_not_complete() -> None:
    text = b"\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tNODE\tX\n"
    assert topology.parse_topo(Raw(state="ok", exit_code=0, stdout=text))[0].value["matrix_complete"] is False


def items(*buses: str) -> list[dict[str, object]]:
    return [{"index": i, "bus_id": f"00000000:{bus}:00.0"} for i, bus in enumerate(buses)]


def test_numa_nodes_follow_the_bus_ids_and_not_the_order() -> None:
    pci = {"0000:01:00.0": 1, "0000:a1:00.0": 0, "0000:c1:00.0": 0}
    draft = numa.gpu_numa_draft(items("01", "A1", "C1"), pci, None, numa_off=False)
    assert (draft.value, draft.level) == ({"0": [1, 2], "1": [0]}, "proved")


def test_sources_that_disagree_leave_the_nodes_unknown() -> None:
    links = {"gpus": [{"index": 0, "numa": 1}]}
    draft = numa.gpu_numa_draft(items("01"), {"0000:01:00.0": 0}, links, numa_off=False)
    assert draft.outcome == "unknown" and "kernel 0, nvidia-smi 1" in draft.reason


def test_numa_off_makes_node_zero_worthless() -> None:
    assert numa.gpu_numa_draft(items("01"), {"0000:01:00.0": 0}, None, numa_off=True).outcome == "unknown"


def test_the_tool_alone_only_declares_the_nodes() -> None:
    links = {"gpus": [{"index": 0, "numa": 0}, {"index": 1, "numa": 1}]}
    draft = numa.gpu_numa_draft(items("01", "02"), {"0000:01:00.0": None}, links, numa_off=False)
    assert (draft.value, draft.level) == ({"0": [0], "1": [1]}, "declared")


@pytest.mark.parametrize(
    ("text", "sysfs"),
    [
        ("00000000:A1:00.0", "0000:a1:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("00008ED0:00:00.0", "8ed0:00:00.0"),
    ],
)
def test_bus_ids_as_the_kernel_spells_them(text: str, sysfs: str) -> None:
    assert numa.kernel_bus_id(text) == sysfs


def test_a_cut_listing_drops_its_broken_last_line() -> None:
    raw = Raw(state="ok", exit_code=0, stdout=b"10\t/a/b\n2000\t/a/tru", truncated=True)
    assert disk.parse_du(raw, path="/a")[0].value == {"sizes": {"/a/b": 10}, "complete": False}


def test_du_that_ran_out_of_time_keeps_what_it_had() -> None:
    raw = Raw(state="timeout", exit_code=124, stdout=b"10\t/a/b\n")
    assert disk.parse_du(raw, path="/a")[0].value == {"sizes": {"/a/b": 10}, "complete": False}


def test_df_that_stumbles_over_a_dead_mount_keeps_the_others() -> None:
    out = b"Filesystem 1B-blocks Used Available Capacity Mounted on\n/dev/sda1 100 40 50 45% /\nnas:/x 9 1 8 2% /my data\n"
    draft = disk.parse_df(
        Raw(state="failed", exit_code=1, stdout=out, stderr=b"df: /mnt: Stale file handle")
    )[0]
    assert draft.value["/"]["avail_bytes"] == 50
    assert (draft.value["/my data"]["kind"], draft.lifetime_s) == ("network", 60.0)


def test_a_unit_shows_the_names_of_its_environment_and_no_values() -> None:
    text = b"Id=a.service\nLoadState=loaded\nEnvironment=API=hidden CUDA_VISIBLE_DEVICES=0,1 X='a b'\nLimitMEMLOCK=infinity\nMainPID=0\n"
    value = service.parse_show(Raw(state="ok", exit_code=0, stdout=text))[0].value
    assert value["environment_names"] == ["API", "CUDA_VISIBLE_DEVICES", "X"]
    assert value["environment"] == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert (value["memlock_bytes"], value["main_pid"]) == ("unlimited", None)
    assert "hidden" not in str(value)


@pytest.mark.parametrize(
    ("line", "unit", "container"),
    [
        ("0::/system.slice/x.service", "x.service", None),
        ("0::/system.slice/docker-" + "a" * 64 + ".scope", None, "a" * 12),
        ("0::/user.slice/user-0.slice/session-3.scope", None, None),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/llm.service", "llm.service", None),
        ("1:name=systemd:/system.slice/y.service\n0::/", "y.service", None),
    ],
)
def test_who_owns_a_process(line: str, unit: str | None, container: str | None) -> None:
    draft = process.parse_cgroup(Raw(state="ok", exit_code=0, stdout=line.encode()), pid=1)[0]
    assert draft.value == {"unit": unit, "container": container}


def test_a_process_that_has_ended_is_absent() -> None:
    raw = Raw(state="failed", exit_code=1, stderr=b"cat: /proc/9/cgroup: No such file or directory")
    assert process.parse_cgroup(raw, pid=9)[0].outcome == "absent"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            ["/v/bin/python3", "-m", "sglang.launch_server", "--model=/m", "--tp=4"],
            ("sglang", "/m", 4, 30000),
        ),
        (
            ["/v/bin/vllm", "serve", "--model", "/m", "--tensor-parallel-size", "2", "--port", "9"],
            ("vllm", "/m", 2, 9),
        ),
        (["sglang::scheduler_TP0"], (None, None, None, None)),
        (["python", "x.py", "--port"], (None, None, None, None)),
    ],
)
def test_what_a_launch_line_says(argv: list[str], expected: tuple[object, ...]) -> None:
    value = process.launch_value(argv)
    assert (value["engine"], value["model_path"], value["tp"], value["port"]) == expected


@pytest.mark.parametrize(
    "path", ["python", "/v/../bin/python", "/v/bin/python -c", "/v/bin/bash", "/v/bin/python\n"]
)
def test_what_is_no_plain_interpreter_is_not_run(path: str) -> None:
    assert not process.safe_python(path)


@pytest.mark.parametrize("unit", ["-a.service", "a b.service", "a;b.service", "a.service\nb", "a"])
def test_odd_unit_names_stay_out_of_commands(unit: str) -> None:
    assert not process.safe_unit(unit)


def test_packages_without_pip_come_from_their_metadata_folders() -> None:
    listing = b"sglang\nsglang-0.5.13.dist-info\nflashinfer_python-0.6.8.post1.dist-info\nmooncake_transfer_engine-0.3.13.dist-info\n"
    drafts = {
        d.name: d
        for d in engine.parse_site_listing(Raw(state="ok", exit_code=0, stdout=listing), engine="sglang")
    }
    assert drafts["version"].value == "0.5.13"
    assert drafts["transfer_backends"].value == {"mooncake": "0.3.13", "nixl": None}
    assert drafts["packages"].value["flashinfer-python"] == "0.6.8.post1"


def test_an_environment_without_the_engine_says_so() -> None:
    raw = Raw(state="ok", exit_code=0, stdout=b'WARNING: old pip\n[{"name": "torch", "version": "2"}]')
    drafts = {d.name: d for d in engine.parse_pip_list(raw, engine="sglang")}
    assert (drafts["version"].outcome, drafts["version"].reason) == ("absent", "no sglang among 1 packages")


def test_entry_classes_in_every_spelling() -> None:
    scan = """/s/a.py:EntryClass = A1
/s/b.py:EntryClass = [B1, B2]  # NotMe
/s/c.py:    NotThisOne,
/s/c.py:EntryClass: list[type] = [
/s/c.py:    C1,
/s/c.py:    C2,  # NorMe
/s/c.py:]
/s/c.py:    NotThatOne,
/s/d.py:EntryClass = (D1,)
/s/e.py:EntryClass = [
/s/f.py:    Other,
"""
    assert engine.entry_classes(scan.split("\n")) == {"A1", "B1", "B2", "C1", "C2", "D1"}


def test_a_page_is_claims_without_markup_or_scripts() -> None:
    html = b"<h1>T <b>x</b></h1><script>--not-a-flag</script><p>Use --tp-size 4 [bold]nixl[/bold]\x1b[31m</p><table><tr><th>A</th></tr><tr><td>1</td></tr></table>"
    drafts = {d.name: d for d in docs_page.parse_page(Raw(state="ok", exit_code=200, stdout=html))}
    assert {d.level for d in drafts.values()} == {"claimed"}
    assert (drafts["title"].value, drafts["flags"].value, drafts["backends"].value) == (
        "T x",
        ["--tp-size"],
        ["NIXL"],
    )
    assert drafts["tables"].value == [{"header": ["A"], "rows": [["1"]]}]


def test_terminal_escapes_and_direction_marks_vanish() -> None:
    assert plain_text(b"\x1b[4mGPU0\x1b[0m\r\n\x1b]0;title\x07x\xe2\x80\xaey") == "GPU0\nxy"


def test_reasons_are_short_and_name_the_exit_code() -> None:
    reason = trouble(Raw(state="failed", exit_code=7, stderr=b"boom \x1b[31m" + b"x" * 900), "tool")
    assert reason.startswith("tool ended with exit code 7: boom xxx") and len(reason) < 220
    assert whole_lines(Raw(state="ok", stdout=b"a\n\nb\n")) == ["a", "b"]


@pytest.mark.parametrize(
    ("block", "size"),
    [("1-blocks", 1), ("1B-blocks", 1), ("1024-blocks", 1024), ("1K-块", 1024), ("1048576-blocks", 1 << 20)],
)
def test_df_says_in_its_header_how_large_a_block_is(block: str, size: int) -> None:
    out = f"Filesystem {block} Used Available Capacity Mounted on\n/dev/vda 100 40 50 45% /\n"
    draft = disk.parse_df(Raw(state="ok", exit_code=0, stdout=out.encode()))[0]
    assert draft.value["/"]["avail_bytes"] == 50 * size
