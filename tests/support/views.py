"""Views out of a few facts: `view_of({"host": {"boot_id": "b-1"}, ...}, model="org/name")`.

A fact is a plain value (known, proved), or one of `absent(...)`, `unknown(...)`, `stale(...)`, `fact(...)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recon.agent.api import Draft, Finding, Intent, Layout, View, Wish
from recon.agent.model.findings import make_finding
from recon.agent.model.records import Decision

NOW = 1_778_578_900.0  # 2026-05-12T09:41:40Z
BINDINGS = {
    "mission": "directive:0123456789ab", "knowledge": "knowledge:sglang", "checkpoint": "hf:org/model@main",
    "host": "host:gpu01", "engine": "engine:gpu01", "docs": "web:https://docs.example/pd",
}  # fmt: skip


def fact(value: Any, **fields: Any) -> dict[str, Any]:
    """A known value with other fields of a draft: level, lifetime_s, valid_while, unit."""
    return {"__fact__": True, "value": value, **fields}


def absent(reason: str = "looked: not there") -> dict[str, Any]:
    """Absent with proof."""
    return fact(None, outcome="absent", reason=reason)


def unknown(reason: str = "timed out") -> dict[str, Any]:
    """Asked, but not learned."""
    return fact(None, outcome="unknown", reason=reason)


def stale(value: Any) -> dict[str, Any]:
    """Known an hour ago, good for a minute."""
    return fact(value, lifetime_s=60.0, observed_at=NOW - 3600)


def finding(subject: str, name: str, value: Any) -> Finding:
    """A finding of a fact."""
    fields = dict(value) if isinstance(value, Mapping) and "__fact__" in value else {"value": value}
    fields.pop("__fact__", None)
    observed_at = fields.pop("observed_at", NOW)
    return make_finding(
        Draft(name=name, **fields), subject=subject, producer="test", producer_version="1", observation_id="o-000000000000",
        inputs=(), observed_at=observed_at, origin="captured",
    )  # fmt: skip


def intent_of(**fields: Any) -> Intent:
    """A PD 4+4 mission on gpu01, with other fields on top."""
    base: dict[str, Any] = {
        "model": "org/model", "host": "gpu01", "docs": ("https://docs.example/pd",),
        "layout": Layout(mode="pd", prefill_tp=4, decode_tp=4, one_node_per_instance=True),
        "wanted_format": Wish(value="nvfp4", strength="prefer"),
        "verbs": ("stop", "download", "install", "port", "kernels", "launch", "benchmark"),
    }  # fmt: skip
    return Intent(**{**base, **fields})


def view_of(
    facts: Mapping[str, Mapping[str, Any]], *, intent: Intent | None = None, decided: Mapping[str, str] | None = None,
    answered: Iterable[str] = (), done: Iterable[str] = (), bindings: Mapping[str, str] | None = None,
) -> View:  # fmt: skip
    """A view of facts by role and name."""
    bound = dict(BINDINGS if bindings is None else bindings)
    findings = [
        finding(bound[role], name, value) for role, named in facts.items() for name, value in named.items()
    ]
    decisions = {
        key: decision(n, key, option) for n, (key, option) in enumerate((decided or {}).items(), start=1)
    }
    return View.of(
        findings,
        bindings=bound,
        intent=intent or intent_of(),
        now=NOW,
        decisions=decisions,
        answered=answered,
        done=done,
    )


def decision(number: int, key: str, option: str) -> Decision:
    """A recorded choice."""
    return Decision(
        id=number, mission_id="m-1", about_key=key, option=option, value="", because="because", by="me", via="cli", at=NOW,
        shown_sha="", from_n=1, to_n=1,
    )  # fmt: skip


UNIT = "sglang-old.service"
GB = 10**9


def flagship() -> dict[str, dict[str, Any]]:
    """Facts like those of a full disk, a busy eight-GPU host without RDMA, and an INT4 checkpoint."""
    pids = {gpu: 4100 + gpu for gpu in range(8)}
    return {
        "checkpoint": {
            "commit": "a" * 40, "download_bytes": fact(168_300_000_000, unit="bytes"),
            "routed_experts": {"format": "w4a16-int4", "presence": "present", "group_size": 128},
            "attention": {"format": "fp8-block128", "presence": "present"}, "scale_names": {"weight_scale": 33239},
            "architecture": {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4"},
            "declared": fact({"quant_method": "compressed-tensors", "format": "pack-quantized"}, level="declared"),
        },
        "host": {
            "boot_id": "6f1c2a34-0000-4000-8000-000000000001",
            "gpus": {"count": 8, "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "sm": "sm_120", "items": []},
            "gpu_numa": {"0": [0, 1, 2, 3], "1": [4, 5, 6, 7]},
            "fs": fact(
                {
                    "/": {"avail_bytes": 23_085_449_216, "total_bytes": 1_146_713_980_928, "use_percent": 98, "fstype": "ext4"},
                    "/dev/shm": {"avail_bytes": 359_610_441_728, "total_bytes": 405_747_785_728, "fstype": "tmpfs"},
                },
                lifetime_s=60.0,
            ),
            "fs_inodes": fact({"/": {"inode_use_percent": 4, "inodes_free": 69_088_861}}, lifetime_s=60.0),
            "models": {"/root/models/Kimi-K2.6": 548_031_651_840, "/root/models/Qwen3-0.6B": 1_519_239_168},
            "disk_usage": {
                "/root/.cache": 118_247_985_152, "/root/venvs": 38_654_705_664, "/root/ckpt-old": 64_424_509_440,
                "/root": 770_882_293_760, "/root/models": 549_550_895_104, "/var/lib/docker": 261_993_005_056, "/swap.img": 8_589_934_592,
            },
            "gpu_processes": [{"gpu": g, "pid": p, "name": f"sglang::scheduler_TP{g}", "used_mib": 89_824, "unit": UNIT} for g, p in pids.items()],
            "service": {
                "unit": UNIT, "load_state": "loaded", "active_state": "active", "main_pid": 41732, "restart": "always",
                "fragment_path": f"/etc/systemd/system/{UNIT}", "unit_file_state": "enabled", "gpus": list(range(8)),
                "model_path": "/root/models/Kimi-K2.6", "port": 30000, "tp": 8, "memlock_bytes": 8_388_608,
                "interpreter": "/root/venvs/sglang/bin/python",
            },
            "ports": {"30000": {"pid": 41732, "process": "python", "address": "0.0.0.0"}, "22": {"pid": 1544, "process": "sshd"}},
            "rdma": absent("no /sys/class/infiniband"), "memlock_kib": 8192,
        },
        "engine": {
            "name": "sglang", "version": "0.5.11", "architectures": ["DeepseekV3ForCausalLM", "LlamaForCausalLM"],
            "transfer_backends": {"mooncake": None, "nixl": None}, "python": "/root/venvs/sglang/bin/python",
        },
        "docs": {"backends": fact(["Mooncake", "NIXL"], level="claimed")},
    }  # fmt: skip


def changed(
    path: str, value: Any, base: dict[str, dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """The flagship facts with one finding replaced: `changed("host.rdma", {...})`; `...` removes it."""
    facts = {role: dict(named) for role, named in (base or flagship()).items()}
    role, _, name = path.partition(".")
    if value is ...:
        facts[role].pop(name, None)
    else:
        facts[role][name] = value
    return facts
