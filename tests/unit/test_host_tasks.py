"""The host, engine and documentation tasks against the recording that recon ships, whole and with pieces missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.recorded_host import HostContext

from recon.agent.api import Finding, Intent, Observation, Request, sha256_hex
from recon.agent.connectors.allowlist import check_argv
from recon.agent.connectors.redact import redact
from recon.tasks.recon.docs import DOCS_TASKS, page_request
from recon.tasks.recon.engine import ENGINE_TASKS
from recon.tasks.recon.host import HOST_TASKS
from recon.tasks.recordings import compose_host
from recon.tasks.recordings.compose import DIRECTIVE

HOST = "host:ct200"
BINDINGS = {"host": HOST, "engine": "engine:ct200"}
TASKS = {task.name: task for task in (*HOST_TASKS, *ENGINE_TASKS, *DOCS_TASKS)}
ORDER = (
    "host.identity",
    "host.gpus",
    "host.topology",
    "host.disk",
    "host.service",
    "host.network",
    "host.cuda",
    "engine.installed",
    "engine.architectures",
)
Change = Callable[[Observation, bytes], tuple[Observation, bytes]]


def context(change: Change | None = None, *, intent: Intent | None = None) -> HostContext:
    observations, blobs = compose_host.compose(redact)
    if change is not None:
        changed = [change(o, blobs[o.stdout_sha]) for o in observations]
        blobs |= {sha256_hex(body): body for _, body in changed}
        observations = [o.model_copy(update={"stdout_sha": sha256_hex(body)}) for o, body in changed]
    now = max(o.observed_at for o in observations) + 5
    return HostContext(observations, blobs, intent=intent or Intent(host="ct200"), bindings=BINDINGS, now=now)


def answering(probe: str, body: bytes = b"", **fields: Any) -> Change:
    """A recording in which one probe is answered otherwise."""

    def change(observation: Observation, held: bytes) -> tuple[Observation, bytes]:
        if observation.request.probe != probe:
            return observation, held
        return observation.model_copy(update={"state": "ok", "exit_code": 0, **fields}), body

    return change


def run(ctx: HostContext, *names: str) -> list[str]:
    return [ctx.run(TASKS[name], host="ct200") for name in names]


def found(ctx: HostContext, name: str, subject: str = HOST) -> Finding:
    return ctx.view.findings(ctx.view.resolve(subject))[name]


@pytest.fixture(scope="module")
def read() -> HostContext:
    ctx = context()
    run(ctx, *ORDER)
    return ctx


def test_every_question_of_the_tasks_is_recorded_and_allowed(read: HostContext) -> None:
    recorded = {o.request.identity() for o in compose_host.compose(redact)[0]}
    assert {r.identity() for r in read.asked} <= recorded
    for request in read.asked:
        check_argv(request.argv)


def test_the_tasks_say_in_a_line_what_they_found() -> None:
    assert run(context(), *ORDER) == [
        "ct200, Ubuntu 24.04.3 LTS, kernel 6.8.0-85-generic",
        "8x NVIDIA RTX PRO 6000 Blackwell Server Edition, 8 processes on them",
        "NUMA 0: GPUs 0-3, NUMA 1: GPUs 4-7",
        "/ has 23.1 GB (21.5 GiB) free",
        "sglang-k26-ddtree.service active, GPUs 0-7, port 30000",
        "no RDMA device, 4 listening ports",
        "toolkit 13.0.88, driver module 580.95.05",
        "sglang 0.5.11, no KV transfer package",
        "204 model classes",
    ]


def test_what_gates_and_judges_read_is_there(read: HostContext) -> None:
    view = read.view
    paths = {
        "host.gpus.count": 8, "host.gpus.sm": "sm_120", "host.gpus.memory_total_mib": 97887, "host.driver": "580.95.05",
        'host.gpu_numa["0"]': [0, 1, 2, 3], 'host.fs["/"].avail_bytes': 23085449216, 'host.models["/root/models/Kimi-K2.6"]': 548031651840,
        "host.service.unit": "sglang-k26-ddtree.service", "host.service.main_pid": 41732, "host.service.interpreter": "/root/venvs/sglang/bin/python",
        "host.service.model_path": "/root/models/Kimi-K2.6", "host.service.tp": 8, "host.service.memlock_bytes": 8388608,
        "host.service.restart": "always", "host.service.fragment_path": "/etc/systemd/system/sglang-k26-ddtree.service",
        "host.memlock_kib": 8192, "host.cuda_toolkit": "13.0.88", "host.gpu_processes[0].unit": "sglang-k26-ddtree.service",
        'host.ports["30000"].pid': 41732, "engine.version": "0.5.11", "engine.transfer_backends": {"mooncake": None, "nixl": None},
        "engine.python": "/root/venvs/sglang/bin/python", "host.memory.total_bytes": 811560280064,
    }  # fmt: skip
    assert {path: view.value(path) for path in paths} == paths
    assert view.read("host.rdma").state == "absent"
    assert "DeepseekV4ForCausalLM" not in view.value("engine.architectures")
    assert "DeepseekV3ForCausalLM" in view.value("engine.architectures")


def test_everything_about_the_host_ends_with_its_boot(read: HostContext) -> None:
    host = [f for f in read.found if f.subject == HOST and f.name != "boot_id"]
    boot = ("boot_id", "6f2c1b0e-4a57-4c1d-9d83-2b7f5e90a1c4")
    assert host and all(boot in f.valid_while for f in host)
    more = {f.name: f.valid_while[1:] for f in host if len(f.valid_while) > 1}
    assert more == {"service": (("unit_file.stamp", "2026-11-09 22:10:02 UTC, 1187 bytes"),)}


def test_what_changes_by_itself_is_good_for_a_minute(read: HostContext) -> None:
    assert {
        found(read, n).lifetime_s for n in ("fs", "gpu_processes", "gpu_memory_free_mib", "service", "ports")
    } == {60.0}
    assert {found(read, n).lifetime_s for n in ("gpus", "gpu_numa", "cpu", "rdma", "cuda_toolkit")} == {None}


def test_derived_findings_name_what_they_rest_on(read: HostContext) -> None:
    names = {f.id: f.name for f in read.found}
    assert {names[i] for i in found(read, "gpu_numa").inputs} == {
        "gpus",
        "pci_numa",
        "links",
        "kernel_cmdline",
    }
    assert {names[i] for i in found(read, "models").inputs} >= {"du./root/models"}
    assert found(read, "gpu_numa").level_text == "proved (composed)"


def test_planted_secrets_are_nowhere(read: HostContext) -> None:
    observations, blobs = compose_host.compose(redact)
    stored = json.dumps([f.model_dump(mode="json") for f in read.found]) + json.dumps(
        [o.model_dump(mode="json") for o in observations]
    )
    everything = stored.encode() + b"".join(blobs.values())
    assert b"sk-fake" not in everything and b"hf_FAKE" not in everything
    planted = b"".join(p.read_bytes() for p in compose_host._FOLDER.iterdir())
    assert b"sk-fake" in planted and b"hf_FAKE" in planted


def test_reading_without_the_earlier_tasks_asks_for_itself() -> None:
    alone = context()
    run(alone, "engine.installed", "engine.architectures")
    assert alone.view.value("engine.version") == "0.5.11"
    assert len(alone.view.value("engine.architectures")) == 204


def test_a_refused_field_falls_back_to_the_short_table() -> None:
    ctx = context(answering("gpu.query", b'Field "compute_cap" is not a valid field to query.\n'))
    run(ctx, "host.gpus")
    assert [r.probe for r in ctx.asked][:3] == ["host.boot_id", "gpu.query", "gpu.query_basic"]
    assert found(ctx, "gpus").outcome == "unknown"  # the short table is not in this recording


def test_hidden_processes_leave_the_service_unknown_and_the_engine_too() -> None:
    change = answering("gpu.apps", state="denied", exit_code=4, reason="permission denied")
    ctx = context(change)
    run(ctx, "host.gpus", "host.service")
    assert found(ctx, "gpu_processes").outcome == "unknown"
    # a unit named after an engine still runs: the list of units gives it away
    assert found(ctx, "service").value["unit"] == "sglang-k26-ddtree.service"
    assert found(ctx, "service").value["gpus"] == []


def test_idle_gpus_and_no_engine_unit_mean_no_service() -> None:
    idle, units = (
        answering("gpu.apps"),
        answering("service.units", b"ssh.service loaded active running OpenBSD\n"),
    )
    ctx = context(lambda o, b: units(*idle(o, b)))
    lines = run(ctx, "host.gpus", "host.service", "engine.installed", "engine.architectures")
    assert found(ctx, "service").outcome == "absent"
    assert found(ctx, "gpu_processes").value == []
    assert "no running service tells where an engine is installed" in lines[2]
    version = ctx.view.findings("engine:ct200")["version"]
    assert version.outcome == "unknown" and "engine_python" in version.reason
    assert ctx.view.read("engine.architectures").state == "unknown"


def test_a_mission_may_name_the_interpreter() -> None:
    idle, units = (
        answering("gpu.apps"),
        answering("service.units", b"ssh.service loaded active running OpenBSD\n"),
    )
    intent = Intent(host="ct200", extra={"engine_python": "/root/venvs/sglang/bin/python"})
    ctx = context(lambda o, b: units(*idle(o, b)), intent=intent)
    run(ctx, "host.gpus", "engine.installed", "engine.architectures")
    assert ctx.view.value("engine.version") == "0.5.11"
    assert ctx.view.value("engine.site_packages") == "/root/venvs/sglang/lib/python3.12/site-packages"


def test_a_named_interpreter_that_is_no_python_is_not_run() -> None:
    ctx = context(intent=Intent(host="ct200", extra={"engine_python": "/bin/sh -c id"}))
    assert "not an absolute path of a python" in run(ctx, "engine.installed")[0]
    assert not any("/bin/sh" in " ".join(r.argv) for r in ctx.asked)


def test_an_environment_without_the_engine_has_no_subject() -> None:
    ctx = context(answering("engine.pip_list", b'[{"name": "torch", "version": "2"}]'))
    run(ctx, "host.gpus", "host.service", "engine.installed")
    assert ctx.view.subject("engine") == "engine:ct200"
    assert ctx.view.read("engine.version").state == "absent"


def test_a_unit_name_from_the_host_cannot_become_an_option() -> None:
    evil = b"0::/system.slice/--user evil.service\n"
    ctx = context(answering("process.cgroup", evil))
    run(ctx, "host.gpus", "host.service")
    assert all(" evil" not in " ".join(r.argv) for r in ctx.asked)


def test_without_a_boot_id_findings_are_not_tied_to_a_boot() -> None:
    ctx = context(answering("host.boot_id", state="denied", exit_code=1, reason="denied"))
    assert "no boot id" in run(ctx, "host.identity")[0]
    assert found(ctx, "identity").valid_while == ()


def test_a_directory_the_mission_names_is_asked_apart() -> None:
    ctx = context(intent=Intent(host="ct200", target_dir="/nvme/models/"))
    run(ctx, "host.disk")
    named = [r.argv for r in ctx.asked if r.probe == "disk.named"]
    assert named == [("ls", "-d", "--", "/nvme/models")]
    assert found(ctx, "models").value == {
        "/root/models/Kimi-K2.6": 548031651840,
        "/root/models/Qwen3-0.6B": 1519239168,
    }


def test_the_page_is_read_as_claims() -> None:
    ctx = context()
    line = ctx.run(TASKS["docs.page"], url=compose_host.DOCS_URL)
    assert line == "PD Disaggregation: 19 flags, speaks of Mooncake, NIXL"
    page = ctx.view.findings(f"web:{compose_host.DOCS_URL}")
    assert page["flags"].level == "claimed" and "--pd-disaggregation" in page["flags"].value
    assert "Mooncake" in page["headings"].value
    assert page["tables"].value[1]["rows"][0][0] == "SGLANG_DISAGGREGATION_HEARTBEAT_INTERVAL"


def test_an_address_becomes_one_request() -> None:
    assert page_request("https://a.example/x/y?v=1&e=#part") == Request(
        connector="web",
        target="https://a.example",
        probe="web.page",
        path="/x/y",
        query=(("v", "1"), ("e", "")),
        cap_bytes=4 << 20,
    )


def test_the_directive_of_the_bundle_names_no_host() -> None:
    assert "ct200" not in DIRECTIVE
