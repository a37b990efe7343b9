"""All judges: what could not be read never turns a judgement into `pass`, and no judgement vanishes without a word.

Every judge is run on facts where all is known; then each finding it read is made unknown, and made as if it had never
been asked for, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import views
from support.views import BINDINGS, GB, fact, finding, flagship, intent_of, unknown

from recon.agent.api import Finding, Intent, Judgement, JudgeTask, View
from recon.tasks.judge.own import OWN_JUDGES
from recon.tasks.register import definitions

JUDGES = [d for d in definitions() if isinstance(d, JudgeTask) and d not in OWN_JUDGES]

_OWN_TENSORS = (
    "one of several lines of its judge: it rests on its own tensors, the others say what they lack themselves"
)
_RULED_OUT = "what was read rules each trap out without it"
# judgement -> findings without which it may stand or be left out, and why
EXCEPTIONS: dict[str, dict[str, str]] = {
    "checkpoint.architecture": {
        "checkpoint.attention checkpoint.declared checkpoint.mtp checkpoint.routed_experts checkpoint.scale_names "
        "checkpoint.siblings host.gpus mission.wanted_format": "it says what config.json says, and no more",
    },
    "checkpoint.attention": {
        "checkpoint.architecture checkpoint.declared checkpoint.mtp checkpoint.routed_experts checkpoint.siblings "
        "host.gpus mission.wanted_format": _OWN_TENSORS,
        "checkpoint.scale_names": "the names of its scales are an addition, left out where they are not known",
    },
    "checkpoint.format": {
        "checkpoint.architecture checkpoint.attention checkpoint.declared checkpoint.mtp checkpoint.scale_names": _OWN_TENSORS,
        "mission.wanted_format": "the wish is the intent's; the claim is where it was read, for the proof",
        "checkpoint.siblings": "alternatives: what the weights are does not depend on them",
    },
    "checkpoint.mtp": {
        "checkpoint.architecture": "tensors that are there need no promise; that none is there is another test",
        "checkpoint.attention checkpoint.declared checkpoint.routed_experts checkpoint.scale_names checkpoint.siblings "
        "host.gpus mission.wanted_format": _OWN_TENSORS,
    },
    "checkpoint.servable": {"checkpoint.mtp": "a draft block is one more component: the model is served without it"},
    "disk.room": {"host.models host.service": "they say where the download goes: room is judged at the place it goes to"},
    "engine.source": {"checkpoint.attention checkpoint.declared checkpoint.routed_experts": _RULED_OUT},
    "engine.supports": {"checkpoint.attention checkpoint.routed_experts": _RULED_OUT},
    "host.memlock": {
        "host.boot_id": "read for the line that says whether the host answered",
        "host.memlock_kib host.service": "the limits of login and service stand for each other; launch lines set their own",
        "host.rdma": "where nothing is known of RDMA, kv.transfer says so",
    },
    "kernels.needed": {"mission.needs_kernel_work": "a claim of the directive, shown beside what was found"},
    "launch.numa_flag": {"host.gpu_numa": "recon's launch lines leave the flag out where the map is not known"},
    "launch.ports": {"host.gpu_numa": "ports follow from the layout, the map of the GPUs is read for another line"},
    "service.stop": {"host.gpu_numa": "which GPUs are wanted follows from the layout alone"},
    "siblings.advice": {
        "checkpoint.siblings": "siblings that nobody had to look for: the line says that it is about one card alone",
        "checkpoint.routed_experts": "proof of another line, the published lead",
    },
}  # fmt: skip
ALLOWED = {
    (key, name): why for key, names in EXCEPTIONS.items() for listed, why in names.items() for name in listed.split()
}  # fmt: skip


def everything() -> dict[str, dict[str, Any]]:
    """The flagship facts with the rest of what a checkpoint's headers and card say."""
    facts = flagship()
    facts["checkpoint"] |= {
        "mtp": {"presence": "present", "format": "bf16", "tensors": 799}, "split": {"sharded_bytes": 160 << 30, "replicated_bytes": 1 << 30},
        "repo": "org/model-W4A16-FP8-MTP",
        "files": [{"path": p, "size_bytes": 9} for p in ("config.json", "model-00001-of-00001.safetensors")],
        "weights_bytes": 168_276_817_736, "card.engines": fact({"named": ["vllm"]}, level="claimed"),
        "card.sizes": fact([{"text": "159 GB", "bytes_if_gb": 159 * GB, "bytes_if_gib": 159 << 30}], level="claimed"),
        "card.hardware": fact([statement("validated")], level="claimed"), "siblings": fact([], level="claimed"),
        "card.leads": fact([{"text": "corrupts", "sms": ["sm_120"], "settle": "known answers"}], level="claimed"),
        "architecture": {
            "architectures": ["DeepseekV4ForCausalLM"], "attention_heads": 64, "moe_intermediate_size": 2048, "experts": 256,
            "mtp_layers": 1, "summary": "284B total",
        },
        "declared": fact(
            {
                "quant_method": "compressed-tensors", "format": "mixed-precision",
                "components": {"routed_experts": {"format": "w4a16-int4"}, "attention": {"format": "fp8-tensor"}},
            },
            level="declared",
        ),
    }  # fmt: skip
    facts["host"]["gpus"] |= {"memory_total_mib": 97_887}
    facts["mission"] = {
        "wanted_format": fact("nvfp4", level="claimed"),
        "needs_kernel_work": fact("uncertain", level="claimed"),
    }
    return facts


def statement(advice: str) -> dict[str, Any]:
    """One sentence of a card about this GPU."""
    return {"text": advice, "sms": ["sm_120"], "advice": advice, "target": "", "date": "2026-05-29"}


def all_well() -> dict[str, dict[str, Any]]:
    """Facts on which each judge has something to pass."""
    facts = everything()
    facts["checkpoint"] |= {
        "routed_experts": {"format": "nvfp4", "presence": "present", "group_size": 16}, "scale_names": {"weight_scale_inv": 9},
        "repo": "org/model-NVFP4-FP8-MTP",
        "card.engines": fact({"named": ["sglang"]}, level="claimed"), "card.leads": fact([], level="claimed"),
        "card.sizes": fact([{"text": "168 GB", "bytes_if_gb": 168 * GB, "bytes_if_gib": 168 << 30}], level="claimed"),
        "declared": fact({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "components": {}}, level="declared"),
    }  # fmt: skip
    facts["host"] |= {
        "fs": {"/": {"avail_bytes": 400 * GB, "fstype": "ext4"}}, "gpu_processes": [], "rdma": {"devices": ["mlx5_0"]}, "memlock_kib": "unlimited",
        "gpus": facts["host"]["gpus"] | {"items": [{"index": n, "memory_used_mib": 4} for n in range(8)]},
        "service": {"unit": "old.service", "memlock_bytes": 2**64 - 1, "model_path": "/root/models/old", "main_pid": 41732},
    }  # fmt: skip
    facts["engine"] |= {
        "version": "0.5.13", "architectures": ["DeepseekV4ForCausalLM"], "transfer_backends": {"mooncake": "0.3.13", "nixl": None},
    }  # fmt: skip
    return facts


def no_draft() -> dict[str, dict[str, Any]]:
    """The same without draft layers, and none promised."""
    facts = all_well()
    facts["checkpoint"]["mtp"] = {"presence": "absent"}
    facts["checkpoint"]["architecture"] |= {"mtp_layers": 0}
    return facts


SCENES: dict[str, tuple[dict[str, dict[str, Any]], Intent]] = {
    "flagship": (everything(), intent_of()),
    "all well": (all_well(), intent_of(verbs=("launch",))),
    "no draft layers": (no_draft(), intent_of(verbs=("launch",))),
}


def judged(judge: JudgeTask, view: View) -> dict[str, Judgement]:
    return {j.key: j for j in judge.judge(view).judgements}


def knocked_out(
    scene: str, judge: JudgeTask
) -> Iterator[tuple[str, dict[str, Judgement], dict[str, Judgement]]]:
    """(finding, judgements with it, judgements without it) for each finding that the judge reads."""
    facts, intent = SCENES[scene]
    view = views.view_of(facts, intent=intent).tracking()
    before = judged(judge, view)
    read = {f.id: f for f in view.all_findings() if f.id in view.seen.values()}
    for gone in read.values():
        for how in (unread(gone), None):
            kept = [f for f in view.all_findings() if f.id != gone.id]
            other = View.of([*kept, *([how] if how else [])], bindings=BINDINGS, intent=intent, now=view.now)
            yield role_of(gone), before, judged(judge, other)


def unread(gone: Finding) -> Finding:
    return finding(gone.subject, gone.name, unknown("timed out"))


def role_of(gone: Finding) -> str:
    role = next(role for role, subject in BINDINGS.items() if subject == gone.subject)
    return f"{role}.{gone.name}"


def trouble(key: str, name: str, after: dict[str, Judgement]) -> str:
    """What is wrong with a judgement once a finding is gone; "" for nothing."""
    now = after.get(key)
    open_ones = [j for j in after.values() if j.verdict == "unknown"]
    if now is None:
        said = any(name in line for j in open_ones for line in j.detail)
        return "" if said else f"{key} vanishes without a word where {name} was not read"
    if now.verdict == "pass" and not (now.about and any(j.about == now.about for j in open_ones)):
        return f"{key} passes though {name} was not read: {now.title}"
    return ""


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("judge", JUDGES, ids=lambda j: j.name)
def test_what_was_not_read_never_passes(judge: JudgeTask, scene: str) -> None:
    found = {
        wrong
        for name, before, after in knocked_out(scene, judge)
        for key, was in before.items()
        if was.verdict != "unknown" and (key, name) not in ALLOWED and (wrong := trouble(key, name, after))
    }
    assert not found, "\n".join(sorted(found))


def test_in_the_good_scene_every_judge_passes_something() -> None:
    facts, intent = SCENES["all well"]
    found = {
        j.name: {k: v.verdict for k, v in judged(j, views.view_of(facts, intent=intent)).items()}
        for j in JUDGES
    }
    assert all("pass" in verdicts.values() for verdicts in found.values()), found


def test_every_exception_is_still_one() -> None:
    used = {
        (key, name)
        for scene in SCENES
        for judge in JUDGES
        for name, before, after in knocked_out(scene, judge)
        for key, was in before.items()
        if was.verdict != "unknown" and trouble(key, name, after)
    }
    assert set(ALLOWED) == used
    assert all(len(reason) > 20 for reason in ALLOWED.values())
