"""Judges of host x engine: for each the verdict it gives on good, bad, missing and stale facts."""

from __future__ import annotations

from typing import Any

import pytest
from support.views import GB, UNIT, absent, changed, flagship, intent_of, stale, unknown, view_of

from recon.agent.api import Intent, Judgement, Layout
from recon.tasks.judge import (
    disk,
    docs,
    engine_source,
    engine_support,
    host,
    kernels,
    launch,
    placement,
    service,
    transfer,
)  # fmt: skip
from recon.tasks.register import definitions
from recon.tasks.releases import needed_release

SPLIT_NODES = {"0": [0, 1], "1": [2, 3, 4, 5, 6, 7]}
ODD_NODES = {"0": [0, 2, 4, 6], "1": [1, 3, 5, 7]}
OTHERS = [{"gpu": 2, "pid": 77, "name": "python", "used_mib": 900, "unit": None}]
RDMA = {"devices": ["mlx5_0"]}
BOTH = {"mooncake": "0.3.13", "nixl": None}
TWO_DISKS = {
    "/": {"avail_bytes": 23 * GB, "use_percent": 98, "fstype": "ext4"},
    "/data": {"avail_bytes": 900 * GB, "use_percent": 10, "fstype": "xfs"},
}
ROOMY = {"/": {"avail_bytes": 400 * GB, "use_percent": 10, "fstype": "ext4"}}
NO_INODES = {"/": {"inode_use_percent": 99}}
NEWEST = "0.5.13"
V4 = ["DeepseekV4ForCausalLM", "LlamaForCausalLM"]
HYBRID = {"quant_method": "fp8", "moe_quant_algo": "NVFP4"}
MIXED = {"quant_method": "compressed-tensors", "format": "mixed-precision"}


def several(*changes: tuple[str, Any]) -> dict[str, dict[str, Any]]:
    facts = flagship()
    for path, value in changes:
        facts = changed(path, value, facts)
    return facts


CASES: list[tuple[str, Any, str, dict[str, dict[str, Any]], Intent, str, str]] = [
    # name, module, key, facts, intent, verdict, words of the title
    ("full disk", disk, "disk.room", flagship(), intent_of(), "block", "168.3 GB to download, 23.1 GB free on /"),
    ("room", disk, "disk.room", changed("host.fs", ROOMY), intent_of(), "pass", "168.3 GB fits the 400.0 GB free on /"),
    ("no inodes", disk, "disk.room", several(("host.fs", ROOMY), ("host.fs_inodes", NO_INODES)), intent_of(), "warn", "fits"),
    ("disk not read", disk, "disk.room", changed("host.fs", ...), intent_of(), "unknown", "not known"),
    ("old disk reading", disk, "disk.room", changed("host.fs", stale(ROOMY)), intent_of(), "unknown", "not known"),
    ("size not known", disk, "disk.room", changed("checkpoint.download_bytes", unknown()), intent_of(), "unknown", "not known"),
    ("other disk chosen", disk, "disk.room", changed("host.fs", TWO_DISKS), intent_of(target_dir="/data/models"), "pass", "free on /data"),
    ("already there", disk, "disk.room", changed("host.models", {"/root/models/model": 170 * GB}), intent_of(), "warn", "looks complete: verify"),
    ("inodes unread", disk, "disk.room", several(("host.fs", ROOMY), ("host.fs_inodes", unknown())), intent_of(), "warn", "fits"),
    ("a mount that counts no inodes", disk, "disk.room", several(("host.fs", ROOMY), ("host.fs_inodes", {"/": {"inode_use_percent": None}})), intent_of(), "pass", "fits"),
    ("nodes hold", placement, "placement.isolated", flagship(), intent_of(), "pass", "GPUs 0-3/4-7 = NUMA 0/1: the asked placement holds"),
    ("other numbering", placement, "placement.isolated", changed("host.gpu_numa", ODD_NODES), intent_of(), "block", "spans NUMA nodes"),
    ("not asked", placement, "placement.isolated", changed("host.gpu_numa", ODD_NODES), intent_of(layout=Layout(mode="pd", prefill_tp=4, decode_tp=4)), "warn", "spans"),
    ("six and two", placement, "placement.isolated", changed("host.gpu_numa", SPLIT_NODES), intent_of(), "block", "prefill (GPUs 0-3)"),
    ("too few GPUs", placement, "placement.isolated", changed("host.gpus", {"count": 4}), intent_of(), "block", "takes 8 GPUs, the host has 4"),
    ("no GPU", placement, "placement.isolated", changed("host.gpus", absent("the driver offers no GPU")), intent_of(), "block", "offers no GPU"),
    ("map hidden", placement, "placement.isolated", changed("host.gpu_numa", unknown("all -1")), intent_of(), "unknown", "not known"),
    ("map hidden, not asked", placement, "placement.isolated", changed("host.gpu_numa", unknown("all -1")), intent_of(layout=Layout(mode="single", tp=8)), "warn", "not asked for"),
    ("no sizes", placement, "placement.isolated", flagship(), intent_of(layout=Layout(mode="pd")), "unknown", "was not said"),
    ("no GPUs read", placement, "placement.isolated", changed("host.gpus", unknown()), intent_of(), "unknown", "not known"),
    ("all held", service, "service.stop", flagship(), intent_of(), "block", f"all eight GPUs held by {UNIT}"),
    ("free", service, "service.stop", changed("host.gpu_processes", []), intent_of(), "pass", "GPUs 0-7 are free"),
    ("free with proof", service, "service.stop", changed("host.gpu_processes", absent("no line")), intent_of(), "pass", "are free"),
    ("a loose process", service, "service.stop", changed("host.gpu_processes", OTHERS), intent_of(), "block", "GPUs 2 held by processes of no unit"),
    ("held elsewhere", service, "service.stop", changed("host.gpu_processes", [{**OTHERS[0], "gpu": 7}]), intent_of(layout=Layout(mode="single", tp=4)), "pass", "GPUs 0-3 are free"),
    ("own servers", service, "service.stop", changed("host.gpu_processes", [{**OTHERS[0], "unit": "recon-prefill.service"}]), intent_of(), "pass", "free"),
    ("hidden memory", service, "service.stop", several(("host.gpu_processes", []), ("host.gpus", {"count": 8, "items": [{"index": 3, "memory_used_mib": 40000}]})), intent_of(), "warn", "GPUs 3 hold memory of no visible process"),
    ("no process, GPUs unread", service, "service.stop", several(("host.gpu_processes", []), ("host.gpus", unknown())), intent_of(), "unknown", "memory in use is not known"),
    ("no process, memory not said", service, "service.stop", several(("host.gpu_processes", []), ("host.gpus", {"count": 8, "items": [{"index": 3, "memory_used_mib": None}]})), intent_of(), "unknown", "GPUs 3"),
    ("not asked yet", service, "service.stop", changed("host.gpu_processes", ...), intent_of(), "unknown", "not known"),
    ("old list", service, "service.stop", changed("host.gpu_processes", stale([])), intent_of(), "unknown", "not known"),
    ("no architecture", engine_support, "engine.supports", flagship(), intent_of(), "block", "SGLang 0.5.11 has no DeepseekV4ForCausalLM"),
    ("no path on the GPU", engine_support, "engine.supports", several(("engine.version", "0.5.12"), ("engine.architectures", V4)), intent_of(), "block", "no sm_120 path"),
    ("supported", engine_support, "engine.supports", several(("engine.version", NEWEST), ("engine.architectures", V4)), intent_of(), "pass", "SGLang 0.5.13 knows DeepseekV4ForCausalLM"),
    ("GPU unread", engine_support, "engine.supports", several(("engine.version", NEWEST), ("engine.architectures", V4), ("host.gpus", unknown())), intent_of(), "unknown", "on this GPU is not known"),
    ("no architecture, GPU unread", engine_support, "engine.supports", changed("host.gpus", unknown()), intent_of(), "block", "(0.5.12+, this GPU: not known)"),
    ("declaration unread", engine_support, "engine.supports.layout", changed("checkpoint.declared", unknown()), intent_of(), "unknown", "this layout of tensors is not known"),
    ("scale names unread", engine_support, "engine.supports.layout", changed("checkpoint.scale_names", unknown()), intent_of(), "unknown", "this layout of tensors is not known"),
    ("headers unread, layout declared", engine_support, "engine.supports.mixed", several(("checkpoint.declared", {**MIXED, "components": {"routed_experts": {"format": "w4a16-int4"}}}), ("checkpoint.routed_experts", unknown())), intent_of(), "block", "refuses mixed-precision"),
    ("hybrid, experts unread", engine_support, "engine.supports.layout", several(("checkpoint.declared", HYBRID), ("checkpoint.routed_experts", unknown())), intent_of(), "unknown", "this layout of tensors is not known"),
    ("no engine", engine_support, "engine.supports", changed("engine.version", absent("no dist-info")), intent_of(), "block", "no sglang is installed"),
    ("scan failed", engine_support, "engine.supports", changed("engine.architectures", unknown("timed out")), intent_of(), "unknown", "not known"),
    ("scale names", engine_support, "engine.supports.scales", flagship(), intent_of(), "warn", "without its scales"),
    ("mixed with INT", engine_support, "engine.supports.mixed", changed("checkpoint.declared", MIXED), intent_of(), "block", "refuses mixed-precision"),
    ("mixed, newer engine", engine_support, "engine.supports.mixed", several(("checkpoint.declared", MIXED), ("engine.version", "0.9.0")), intent_of(), "warn", "refuses mixed-precision"),
    ("hybrid NVFP4", engine_support, "engine.supports.moe", several(("checkpoint.declared", HYBRID), ("checkpoint.routed_experts", {"format": "nvfp4"})), intent_of(), "warn", "--moe-runner-backend"),
    ("newer than the tables", engine_support, "engine.tables", changed("engine.version", "0.9.0"), intent_of(), "warn", "newer than recon's tables"),
    ("source open", engine_source, "engine.source", flagship(), intent_of(), "unknown", "0.5.11 is installed, at least 0.5.13 is needed"),
    ("source chosen", engine_source, "engine.source", flagship(), intent_of(engine_source="venv-wheel"), "pass", "venv-wheel"),
    ("will do", engine_source, "engine.source", several(("engine.version", NEWEST), ("engine.architectures", V4), ("checkpoint.scale_names", {})), intent_of(verbs=("launch",)), "pass", "will do"),
    ("asked for a fresh one", engine_source, "engine.source", several(("engine.version", NEWEST), ("engine.architectures", V4), ("checkpoint.scale_names", {})), intent_of(), "unknown", "is installed"),
    ("will do, GPU unread", engine_source, "engine.source", several(("engine.version", NEWEST), ("engine.architectures", V4), ("checkpoint.scale_names", {}), ("host.gpus", unknown())), intent_of(verbs=("launch",)), "unknown", "0.5.13 is installed, needed: not known until the GPU is"),
    ("will do, scales unread", engine_source, "engine.source", several(("engine.version", NEWEST), ("engine.architectures", V4), ("checkpoint.scale_names", unknown())), intent_of(verbs=("launch",)), "unknown", "is installed"),
    ("version unread", engine_source, "engine.source", changed("engine.version", unknown("no python")), intent_of(), "unknown", "not known"),
    ("no transfer", transfer, "kv.transfer", flagship(), intent_of(), "block", "no Mooncake, no NIXL, no RDMA; mooncake_tcp needs 0.5.13"),
    ("RDMA and Mooncake", transfer, "kv.transfer", several(("host.rdma", RDMA), ("engine.transfer_backends", BOTH)), intent_of(), "pass", "Mooncake over mlx5_0"),
    ("Mooncake, too old for TCP", transfer, "kv.transfer", changed("engine.transfer_backends", BOTH), intent_of(), "block", "no NIXL, no RDMA"),
    ("Mooncake over TCP", transfer, "kv.transfer", several(("engine.version", NEWEST), ("engine.transfer_backends", BOTH)), intent_of(), "warn", "Mooncake over TCP can be used"),
    ("NIXL", transfer, "kv.transfer", changed("engine.transfer_backends", {"mooncake": None, "nixl": "1.5.2"}), intent_of(), "warn", "NIXL can be used"),
    ("chosen, to come", transfer, "kv.transfer", flagship(), intent_of(transfer_backend="mooncake_tcp"), "warn", "chosen"),
    ("chosen without a device", transfer, "kv.transfer", flagship(), intent_of(transfer_backend="mooncake"), "block", "no RDMA device"),
    ("chosen nonsense", transfer, "kv.transfer", flagship(), intent_of(transfer_backend="pigeon"), "block", "pigeon"),
    ("packages unread", transfer, "kv.transfer", changed("engine.transfer_backends", unknown("no python")), intent_of(), "unknown", "not known"),
    ("version unread", transfer, "kv.transfer", several(("engine.version", unknown()), ("engine.transfer_backends", BOTH)), intent_of(), "unknown", "the engine's release is not known"),
    ("RDMA unread", transfer, "kv.transfer", changed("host.rdma", unknown("permission denied")), intent_of(), "unknown", "not known"),
    ("docs against here", docs, "docs.backends", flagship(), intent_of(), "warn", "needs Mooncake and NIXL: neither is here"),
    ("docs and here", docs, "docs.backends", changed("engine.transfer_backends", BOTH), intent_of(), "pass", "installed here: Mooncake"),
    ("docs read, packages not", docs, "docs.backends", changed("engine.transfer_backends", unknown()), intent_of(), "unknown", "is not known"),
    ("docs unread", docs, "docs.backends", changed("docs.backends", unknown("503")), intent_of(), "unknown", "not read"),
    ("no tuning", kernels, "kernels.needed", flagship(), intent_of(), "pass", "not needed"),
    ("formats unread", kernels, "kernels.needed", several(("checkpoint.routed_experts", unknown()), ("checkpoint.attention", unknown())), intent_of(), "unknown", "not known"),
    ("attention unread", kernels, "kernels.needed", changed("checkpoint.attention", unknown()), intent_of(), "unknown", "not known"),
    ("attention without a row", kernels, "kernels.needed", changed("checkpoint.attention", {"format": "unknown", "presence": "present"}), intent_of(), "unknown", "no backend known for attention on sm_120"),
    ("no attention", kernels, "kernels.needed", changed("checkpoint.attention", {"presence": "absent"}), intent_of(), "pass", "marlin read no files"),
    ("release unread", kernels, "kernels.needed", changed("engine.version", unknown()), intent_of(), "unknown", "not known"),
    ("GPU unread", kernels, "kernels.needed", changed("host.gpus", unknown()), intent_of(), "unknown", "not known"),
    ("numa flag", launch, "launch.numa_flag", flagship(), intent_of(), "warn", "--numa-node 1 1 1 1 with --base-gpu-id 4 would crash"),
    ("own port", launch, "launch.ports", flagship(), intent_of(), "pass", f"free once {UNIT} is stopped"),
    ("free ports", launch, "launch.ports", changed("host.ports", {}), intent_of(), "pass", "launch ports: free"),
    ("taken port", launch, "launch.ports", changed("host.ports", {"8000": {"pid": 5, "process": "nginx"}}), intent_of(), "warn", "port 8000 (router) is taken by nginx"),
    ("ports unread", launch, "launch.ports", changed("host.ports", unknown()), intent_of(), "unknown", "not known"),
    ("little memlock", host, "host.memlock", changed("host.rdma", RDMA), intent_of(), "warn", "limited to 8 MiB"),
    ("login memlock", host, "host.memlock", several(("host.rdma", RDMA), ("host.service", absent("none"))), intent_of(), "warn", "limited to 8 MiB"),
    ("memlock unlimited", host, "host.memlock", several(("host.rdma", RDMA), ("host.service", {"memlock_bytes": 2**64 - 1})), intent_of(), "pass", "unlimited"),
    ("memlock unread", host, "host.memlock", several(("host.rdma", RDMA), ("host.service", absent("none")), ("host.memlock_kib", unknown())), intent_of(), "unknown", "not known"),
    ("silent host", host, "host.target", changed("host.boot_id", unknown("no answer")), intent_of(), "unknown", "did not answer"),
]  # fmt: skip


def judge(module: Any, facts: dict[str, dict[str, Any]], intent: Intent) -> dict[str, Judgement]:
    found = module.judge(view_of(facts, intent=intent)).judgements
    keys = [j.key for j in found]
    assert len(keys) == len(set(keys))
    return {j.key: j for j in found}


@pytest.mark.parametrize(
    ("name", "module", "key", "facts", "intent", "verdict", "words"), CASES, ids=[c[0] for c in CASES]
)
def test_verdict(
    name: str,
    module: Any,
    key: str,
    facts: dict[str, dict[str, Any]],
    intent: Intent,
    verdict: str,
    words: str,
) -> None:
    found = judge(module, facts, intent)[key]
    assert (found.verdict, words in found.title) == (verdict, True), found.title


@pytest.mark.parametrize(
    ("name", "module", "key", "facts", "intent", "verdict", "words"), CASES, ids=[c[0] for c in CASES]
)
def test_every_judgement_fits_the_screen_and_says_why(
    name: str,
    module: Any,
    key: str,
    facts: dict[str, dict[str, Any]],
    intent: Intent,
    verdict: str,
    words: str,
) -> None:
    for found in judge(module, facts, intent).values():
        assert len(found.title) <= 76
        assert all(line == " ".join(line.split()) and line.isprintable() for line in found.detail)
        assert found.verdict != "unknown" or found.detail, "an unknown says why"
        assert found.verdict != "block" or found.sides, "a block has proof"
        assert all(option.consequence for option in found.options)
        ids = [option.id for option in found.options]
        assert len(ids) == len(set(ids))


MODULES = [disk, placement, service, engine_support, engine_source, transfer, docs, kernels, launch, host]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
@pytest.mark.parametrize(
    "layout",
    [
        Layout(mode="pd", prefill_tp=4, decode_tp=4, one_node_per_instance=True),
        Layout(mode="single", tp=8),
        Layout(),
    ],
)
def test_with_nothing_known_no_judge_passes(module: Any, layout: Layout) -> None:
    found = module.judge(view_of({}, intent=intent_of(layout=layout))).judgements
    assert {j.verdict for j in found} <= {"unknown"}


ODD: list[Any] = [
    None,
    "",
    "x",
    -1,
    3.5,
    [],
    {},
    [None],
    {"a": None},
    {"/": "full"},
    {"/": None},
    [{"pid": "x"}],
    True,
]


@pytest.mark.parametrize("path", [f"{role}.{name}" for role, named in flagship().items() for name in named])
def test_odd_values_never_crash_a_judge(path: str) -> None:
    for odd in ODD:
        view = view_of(changed(path, odd))
        for module in MODULES:
            module.judge(view)


def test_disk_options_name_what_is_lost_and_never_the_parents() -> None:
    found = judge(disk, flagship(), intent_of())["disk.room"]
    assert [o.id for o in found.options] == [
        "free:/root/models/Kimi-K2.6",
        "free:/root/.cache+/root/ckpt-old",
        "stop",
    ]
    assert "cannot be started again" in found.options[0].consequence
    assert found.options[1].effects.intent == {"extra.free_path": ["/root/.cache", "/root/ckpt-old"]}
    assert found.is_discrepancy


def test_a_second_disk_with_room_is_an_option_and_memory_is_not() -> None:
    found = judge(
        disk,
        changed("host.fs", {**TWO_DISKS, "/dev/shm": {"avail_bytes": 900 * GB, "fstype": "tmpfs"}}),
        intent_of(),
    )
    other = [o for o in found["disk.room"].options if o.id.startswith("other-mount:")]
    assert [(o.id, o.effects.intent) for o in other] == [
        ("other-mount:/data", {"target_dir": "/data/models"})
    ]


def test_placement_offers_the_assignment_that_keeps_each_instance_inside_a_node() -> None:
    found = judge(placement, changed("host.gpu_numa", ODD_NODES), intent_of())["placement.isolated"]
    assert found.options[0].effects.intent == {
        "extra.gpus": {"prefill": [0, 2, 4, 6], "decode": [1, 3, 5, 7]}
    }
    taken = intent_of(extra={"gpus": found.options[0].effects.intent["extra.gpus"]})
    assert (
        judge(placement, changed("host.gpu_numa", ODD_NODES), taken)["placement.isolated"].verdict == "pass"
    )


def test_placement_without_any_such_assignment_offers_the_waiver_alone() -> None:
    found = judge(placement, changed("host.gpu_numa", SPLIT_NODES), intent_of())["placement.isolated"]
    assert [o.id for o in found.options] == ["accept"] and found.options[0].effects.waive


def test_a_held_gpu_is_no_question_with_options_but_a_change_to_approve() -> None:
    found = judge(service, flagship(), intent_of())["service.stop"]
    assert found.options == () and found.about == "service.stop"
    assert any("Restart=always" in line for line in found.detail)


def test_engine_source_options_say_what_each_costs_here() -> None:
    found = judge(engine_source, flagship(), intent_of())["engine.source"]
    assert [o.id for o in found.options] == ["venv-update", "venv-wheel", "git-ref", "git-prs"]
    assert [o.effort for o in found.options] == ["minutes", "minutes", "hours", "days"]
    assert UNIT in found.options[0].consequence


def test_sources_that_need_a_word_more_ask_for_it_and_put_it_into_the_intent() -> None:
    options = {o.id: o for o in judge(engine_source, flagship(), intent_of())["engine.source"].options}
    assert {key: o.needs_value for key, o in options.items() if o.needs_value} == {
        "git-ref": "ref",
        "git-prs": "prs",
    }
    assert options["git-ref"].effects.intent == {"engine_source": "git-ref", "extra.engine_ref": "{value}"}
    assert options["git-prs"].effects.intent == {"engine_source": "git-prs", "extra.engine_prs": "{value}"}


@pytest.mark.parametrize(
    ("extra", "verdict", "words"),
    [
        ({}, "unknown", "it names no pull request"),
        ({"engine_prs": "x"}, "unknown", "it names no pull request"),
        ({"engine_prs": "#12"}, "pass", "git-prs v0.5.13 #12"),
        (
            {"engine_prs": [12, 13, 14], "engine_ref": "f" * 40},
            "pass",
            "git-prs ffffffffffffffff… #12 #13 1 more",
        ),
        ({"engine_prs": [12], "engine_ref": "-b"}, "unknown", "engine_ref is no name"),
    ],
)
def test_a_source_in_a_mission_file_that_does_not_say_what_to_take_stays_a_question(
    extra: dict[str, Any], verdict: str, words: str
) -> None:
    found = judge(engine_source, flagship(), intent_of(engine_source="git-prs", extra=extra))["engine.source"]
    assert found.verdict == verdict and words in f"{found.title} {found.detail}"
    assert bool(found.options) is (verdict == "unknown") and len(found.title) <= 76


def test_transfer_options_leave_out_what_needs_a_device_that_is_not_there() -> None:
    found = judge(transfer, flagship(), intent_of())["kv.transfer"]
    assert [o.id for o in found.options] == ["mooncake_tcp", "nixl", "single", "stop"]
    assert any("mooncake_tcp needs 0.5.13" in line for line in found.detail)
    with_rdma = judge(transfer, changed("host.rdma", RDMA), intent_of())["kv.transfer"]
    assert "mooncake" in [o.id for o in with_rdma.options]


def test_a_release_is_not_named_while_what_it_depends_on_was_not_read() -> None:
    assert needed_release(view_of(flagship())).release == "0.5.13"
    unread = needed_release(view_of(changed("host.gpus", unknown())))
    assert (unread.release, unread.unsettled) == (None, "not known until the GPU is")
    unread = needed_release(view_of(changed("checkpoint.architecture", unknown())))
    assert (unread.release, unread.unsettled) == (None, "not known until the architecture is")
    other = {"architectures": ["NeverSeenForCausalLM"]}
    unread = needed_release(
        view_of(several(("checkpoint.architecture", other), ("engine.architectures", unknown())))
    )
    assert (unread.release, unread.unserved, unread.unsettled) == (None, "", "not known until it is scanned")
    assert "NeverSeen" in needed_release(view_of(changed("checkpoint.architecture", other))).unserved


def test_a_port_is_not_ruled_out_by_what_was_not_read() -> None:
    assert "without its scales" in engine_support.needs_port(view_of(flagship())).why
    plain = changed("checkpoint.declared", {"quant_method": "fp8"})
    assert engine_support.needs_port(view_of(plain)) == engine_support.Port()
    for name in ("checkpoint.declared", "checkpoint.attention", "checkpoint.scale_names"):
        port = engine_support.needs_port(view_of(changed(name, unknown())))
        assert (port.why, bool(port.unread)) == ("", True), name
    # without a declaration nothing else has to be known of plain tensors
    bare = several(("checkpoint.declared", unknown()), ("checkpoint.routed_experts", {"format": "bf16"}), ("checkpoint.attention", {"format": "bf16"}))  # fmt: skip
    assert engine_support.needs_port(view_of(bare)) == engine_support.Port()


def test_a_backend_with_a_first_release_needs_the_release_to_be_known() -> None:
    rdma = view_of(flagship()).read("host.rdma")
    assert "is not known" in transfer.why_not("mooncake_tcp", BOTH, rdma, "")
    assert transfer.why_not("mooncake_tcp", BOTH, rdma, NEWEST) == ""


def test_the_parts_of_a_mixture_are_its_experts_first_and_of_a_dense_model_its_mlp() -> None:
    unread = several(("checkpoint.attention", unknown()), ("checkpoint.routed_experts", unknown()))
    found = judge(kernels, unread, intent_of())["kernels.needed"]
    assert [line.partition(":")[0] for line in found.detail] == [
        "checkpoint.routed_experts.format",
        "checkpoint.attention.format",
    ]
    dense = changed("checkpoint.routed_experts", {"presence": "absent"})
    assert kernels.parts(view_of(dense)) == ("dense_mlp", "attention")
    layers = changed("checkpoint.dense_mlp", {"presence": "present", "format": "bf16"})
    assert kernels.parts(view_of(layers)) == ("routed_experts", "dense_mlp", "attention")


def test_a_detail_is_one_line_however_long_it_is() -> None:
    found = judge(disk, flagship(), intent_of())["disk.room"]
    assert max(len(line) for line in found.detail) > 76


def test_one_instance_transfers_nothing() -> None:
    assert judge(transfer, flagship(), intent_of(layout=Layout(mode="single", tp=4))) == {}


def test_outside_text_is_shown_without_control_characters() -> None:
    evil = [{"gpu": 0, "pid": 9, "name": "x\x1b[31m\nname", "unit": "a\x1b]0;t\x07.service"}]
    found = judge(service, changed("host.gpu_processes", evil), intent_of())["service.stop"]
    assert "".join([found.title, *found.detail]).isprintable()


def test_judgements_hang_on_what_was_read() -> None:
    view = view_of(flagship())
    before = disk.judge(view) and view.input_hash()
    other = view_of(changed("host.fs", ROOMY))
    after = disk.judge(other) and other.input_hash()
    assert before != after


def test_register_names_each_definition_once() -> None:
    names = [d.name for d in definitions()]
    assert len(names) == len(set(names)) and "judge.disk" in names
