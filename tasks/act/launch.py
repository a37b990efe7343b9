"""The servers, the proof that they answer rightly, and the numbers. Rendered here, carried out by a person."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from recon.agent.api import ActTask, Json, Rendered, View
from recon.tasks.act.rendering import LOAD_TROUBLE, Sheet, as_root, detached
from recon.tasks.deployment import (
    PORTS,
    Instance,
    instances,
    model_dir,
    model_root,
)
from recon.tasks.environment import planned_python
from recon.tasks.judge.transfer import rdma_devices
from recon.tasks.knowledge import engine_tables as tables
from recon.tasks.releases import architecture, planned_release

_LOCAL: Final = "http://127.0.0.1"
_QUESTION: Final = "What is 17 times 23? Answer with the number only."
_ANSWER: Final = "391"
# SGLang cookbook for DeepSeek-V4-Flash on RTX PRO 6000, a cell marked verified; read at commit 01c5c03f.
_RECIPES: Final[Mapping[tuple[str, str], tuple[str, int]]] = {("DeepseekV4", "sm_120"): ("0.70", 32)}
_CONCURRENCY: Final = (1, 4, 16, 64)


def render_server(view: View, params: Mapping[str, Json]) -> Rendered:
    """One engine instance as a transient unit. `params.role` is prefill, decode or serve."""
    sheet, role = Sheet(), str(params.get("role", "serve"))
    instance = next((i for i in instances(view) if i.role == role), None)
    if instance is None:
        sheet.gap("GPUs of the instance", "")
        return sheet.manual()
    argv = [
        sheet.gap("interpreter of the new engine", planned_python(view)),
        "-m",
        "sglang.launch_server",
        *_arguments(view, sheet, instance),
    ]
    gpus = ",".join(str(g) for g in instance.gpus)
    pinned = ["LimitMEMLOCK=infinity"] if view.intent.transfer_backend == "mooncake" else []
    sheet.run(detached(view, f"recon-{role}", argv, env=[f"CUDA_VISIBLE_DEVICES={gpus}"], properties=pinned))
    for trouble in flag_troubles(argv, planned_release(view)):
        sheet.note(trouble)
    where = f"GPUs {gpus}, NUMA {'/'.join(instance.nodes)}" if instance.nodes else f"GPUs {gpus}"
    sheet.note(
        f"{where}; ready: curl -fsS {_LOCAL}:{instance.port}/health; log: journalctl -u recon-{role} -f"
    )
    return sheet.manual()


def flag_troubles(argv: Sequence[str], release: str) -> list[str]:
    """What of a launch line a release does not take: flags it does not have, values that are no choice. None where the
    release is not known."""
    found = []
    for word, value in zip(argv, [*argv[1:], ""], strict=True):
        if not word.startswith("--") or not release:
            continue
        flag = tables.flag(word)
        if flag is None or not flag.in_release(release):
            found.append(f"SGLang {release} has no {word}")
        elif flag.choices and value not in flag.choices and not value.startswith("<"):
            found.append(f"{word} {value} is none of {', '.join(flag.choices)}")
    return found


def _arguments(view: View, sheet: Sheet, instance: Instance) -> list[str]:
    words = ["--model-path", model_dir(view), "--tp-size", str(len(instance.gpus)), "--trust-remote-code"]
    words += ["--host", "127.0.0.1", "--port", str(instance.port)]
    if instance.role in ("prefill", "decode"):
        # a name that recon does not know is none: it would end up in a command
        row = tables.transfer_backend(view.intent.transfer_backend or "")
        backend = sheet.gap("transfer backend: kv.transfer", row.backend if row is not None else "")
        words += ["--disaggregation-mode", instance.role, "--disaggregation-transfer-backend", backend]
        words += _network(view)
    if instance.role == "prefill":
        words += ["--disaggregation-bootstrap-port", str(PORTS["bootstrap"])]
    words += [*_backend(view), *_recipe(view, instance)]
    if len(instance.nodes) == 1 and instance.nodes[0].isdigit():
        # indexed by visible GPU number: right together with CUDA_VISIBLE_DEVICES, not with --base-gpu-id
        words += ["--numa-node", *[instance.nodes[0]] * len(instance.gpus)]
    return [*words, "--enable-metrics"]


def _network(view: View) -> list[str]:
    devices = rdma_devices(view.read("host.rdma"))
    return (
        ["--disaggregation-ib-device", ",".join(devices)]
        if view.intent.transfer_backend == "mooncake" and devices
        else []
    )


def _backend(view: View) -> list[str]:
    """The MoE backend by name where our tables know it from source; else the engine chooses."""
    experts, sm = view.value("checkpoint.routed_experts.format"), str(view.value("host.gpus.sm", ""))
    row = tables.moe_backend(str(experts), sm, planned_release(view)) if experts and sm else None
    return ["--moe-runner-backend", row.backend] if row is not None and row.proof in ("source", "run") else []


def _recipe(view: View, instance: Instance) -> list[str]:
    sm, arch = str(view.value("host.gpus.sm", "")), architecture(view)
    recipe = next((r for (prefix, gpu), r in _RECIPES.items() if gpu == sm and arch.startswith(prefix)), None)
    if recipe is None:
        return []
    fraction, batch = recipe
    words = ["--mem-fraction-static", fraction]
    if instance.role != "prefill":
        split = tables.flag("--cuda-graph-max-bs-decode")  # the older name went when it was split by phase
        new = split is not None and split.in_release(planned_release(view) or tables.TABLE_VERSION)
        words += ["--cuda-graph-max-bs-decode" if new else "--cuda-graph-max-bs", str(batch)]
    return words


def render_router(view: View, params: Mapping[str, Json]) -> Rendered:
    """The router in front of prefill and decode; the only address that clients use."""
    del params
    sheet = Sheet()
    argv = [
        sheet.gap("interpreter of the new engine", planned_python(view)),
        "-m",
        "sglang_router.launch_router",
        "--pd-disaggregation",
    ]
    argv += [
        "--prefill",
        f"{_LOCAL}:{PORTS['prefill']}",
        str(PORTS["bootstrap"]),
        "--decode",
        f"{_LOCAL}:{PORTS['decode']}",
    ]
    argv += ["--host", "127.0.0.1", "--port", str(PORTS["router"])]
    sheet.run(detached(view, "recon-router", argv))
    sheet.note("starts after both servers are ready; it waits for them")
    return sheet.manual()


def entrance(view: View) -> int:
    """The port that clients speak to."""
    return PORTS["router"] if view.intent.layout.mode == "pd" else PORTS["serve"]


def render_verify(view: View, params: Mapping[str, Json]) -> Rendered:
    """Proves the path, not the ready line: parity, a known answer through the entrance, four at once, a clean log."""
    del params
    sheet = Sheet()
    roles = [i.role for i in instances(view)] or ["serve"]
    for role in roles:
        sheet.run(["curl", "-fsS", f"{_LOCAL}:{PORTS[role]}/health"])
    if "prefill" in roles:
        query = "prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
        sheet.run(["curl", "-fsS", f"{_LOCAL}:{PORTS['bootstrap']}/route?{query}"])
        sheet.note(f"page size, KV dtype and sizes must be those of {_LOCAL}:{PORTS['decode']}/server_info")
    body = json.dumps(
        {
            "model": view.intent.model or "default",
            "temperature": 0,
            "max_tokens": 512,
            "messages": [{"role": "user", "content": _QUESTION}],
        }
    )
    address = f"{_LOCAL}:{entrance(view)}/v1/chat/completions"
    ask = ["-H", "Content-Type: application/json", "-d", body]
    sheet.run(["curl", "-fsS", address, *ask])
    sheet.note(
        f"the answer must hold {_ANSWER}; then four at once, every one of them: some faults show only side by side"
    )
    sheet.run(["curl", "-fsS", "--parallel", "--parallel-immediate", f"{address}?n=[1-4]", *ask])
    for role in roles:
        sheet.run(["journalctl", "-u", f"recon-{role}", "--no-pager", "-o", "cat", "-g", LOAD_TROUBLE])
    sheet.note("these lines are errors in disguise: any of them fails the item")
    return sheet.manual()


def render_benchmark(view: View, params: Mapping[str, Json]) -> Rendered:
    """Measures through the entrance, one result file a concurrency."""
    del params
    sheet, split = Sheet(), view.intent.layout.mode == "pd"
    python = sheet.gap("interpreter of the new engine", planned_python(view))
    for concurrency in _CONCURRENCY:
        argv = [
            python,
            "-m",
            "sglang.bench_serving",
            "--backend",
            "sglang-oai-chat",
            "--base-url",
            f"{_LOCAL}:{entrance(view)}",
        ]
        argv += ["--tokenizer", model_dir(view), "--dataset-name", "random-ids", "--random-input-len", "1024"]
        argv += [
            "--random-output-len",
            "256",
            "--num-prompts",
            str(8 * concurrency + 24),
            "--max-concurrency",
            str(concurrency),
        ]
        argv += [
            "--seed",
            "1",
            *(["--pd-separated"] if split else []),
            "--output-file",
            f"{model_root(view)}/bench-c{concurrency}.jsonl",
        ]
        sheet.run(
            [
                *as_root(view),
                "systemd-run",
                "--wait",
                "--collect",
                f"--unit=recon-bench-c{concurrency}",
                *argv,
            ]
        )
    sheet.note("completed below num_prompts, or empty texts, is a failure whatever the throughput")
    return sheet.manual()


LAUNCH_TASKS: Final = (
    ActTask("act.server", render=render_server),
    ActTask("act.router", render=render_router),
    ActTask("act.verify", render=render_verify),
    ActTask("act.benchmark", render=render_benchmark),
)
