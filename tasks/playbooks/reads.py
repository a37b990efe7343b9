"""What a deployment reads before it judges, and its judges: todo items that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from recon.agent.api import Edge, Intent, PlannedTask, Read, View
from recon.tasks.deployment import host_name
from recon.tasks.judge.quantization import main_component
from recon.tasks.knowledge.format_words import satisfies, shown
from recon.tasks.playbooks.common import judge_task, read_task

# definition -> what people read, and the rooms whose readings it waits for
_CHECKPOINT: Final = {
    "judge.quantization": ("formats: wanted, declared, found", ("checkpoint.", "host.gpus")),
    "judge.claims": ("name and files against the tensors", ("checkpoint.",)),
    "judge.servable": ("can it be served as it is", ("checkpoint.", "host.gpus")),
    "judge.size": ("sizes: claimed and found", ("checkpoint.",)),
    "judge.memory": ("do the weights fit the GPUs", ("checkpoint.", "host.gpus")),
    "judge.cards": ("what publishers advise for this GPU", ("checkpoint.", "host.gpus")),
    "judge.engines_named": ("which engines the card names", ("checkpoint.",)),
}  # fmt: skip
_DOCS: Final = {"judge.docs": ("what the documentation counts on", ("docs.", "engine."))}
_HOST: Final = {
    "judge.host": ("the host and its limits", ("host.",)),
    "judge.disk": ("room for the download", ("checkpoint.files", "host.")),
    "judge.placement": ("GPUs and NUMA nodes", ("host.gpus", "host.topology")),
    "judge.service": ("who holds the GPUs", ("host.gpus", "host.service")),
    "judge.engine_support": ("does the engine know this checkpoint", ("checkpoint.", "host.gpus", "engine.")),
    "judge.engine_source": ("where the engine comes from", ("checkpoint.", "host.", "engine.")),
    "judge.transfer": ("how the KV cache is transferred", ("host.network", "engine.")),
    "judge.kernels": ("does kernel tuning matter", ("checkpoint.", "host.gpus", "engine.")),
    "judge.launch": ("flags and ports of the launch", ("host.",)),
}  # fmt: skip


def judges(intent: Intent, reads: list[str]) -> Iterator[PlannedTask]:
    """The judges, each after the readings it is about: it says itself what it lacks, and is asked again on news."""
    table = {
        **(_CHECKPOINT if intent.model else {}),
        **(_HOST if intent.host else {}),
        **(_DOCS if intent.docs else {}),
    }
    for order, (definition, (title, rooms)) in enumerate(table.items(), start=40):
        yield judge_task(definition, title, [key for key in reads if key.startswith(rooms)], order=order)


def checkpoint_reads(intent: Intent, view: View) -> Iterator[PlannedTask]:
    """What the hub is asked about the checkpoint; siblings where the weights are not in the wanted format."""
    repo = intent.model
    if not repo or repo.startswith("/"):
        return
    params = {"repo": repo, "revision": intent.revision}
    pin = f"checkpoint.resolve[{repo}]"
    yield read_task("checkpoint.resolve", repo, f"pin {repo} to a commit", params, limit="hub", order=10)
    yield read_task(
        "checkpoint.files", repo, "list its files and sizes", params, limit="hub", needs=[pin], order=11
    )
    config = read_task(
        "checkpoint.config", repo, "read config.json", params, limit="hub", needs=[pin], order=12
    )
    # which files there are says which to ask; where the list was not read, the task reads it itself
    listed = Edge(key=f"checkpoint.files[{repo}]", on="settled")
    yield config.model_copy(update={"needs": (*config.needs, listed)})
    yield read_task(
        "checkpoint.card", repo, "read what its card says", params, limit="hub", needs=[pin], order=13
    )
    files, declared = f"checkpoint.files[{repo}]", f"checkpoint.config[{repo}]"
    yield read_task(
        "checkpoint.headers", repo, "read its safetensors headers", params, limit="hub", needs=[files, declared], order=14, timeout_s=600
    )  # fmt: skip
    if because := _wrong_format(intent, view):
        card = f"checkpoint.card[{repo}]"
        wanted = intent.wanted_format.value if intent.wanted_format else ""
        yield read_task(
            "checkpoint.siblings", repo, f"look for siblings in {shown(wanted)}", {**params, "wanted": wanted}, limit="hub", required=False,
            needs=[declared, card], on="settled", order=15, because=because, discovered_from=f"checkpoint.headers[{repo}]", timeout_s=300,
        )  # fmt: skip


def _wrong_format(intent: Intent, view: View) -> str:
    """Why siblings are looked for: the weights are not what was wanted."""
    main = main_component(view)
    if intent.wanted_format is None or isinstance(main, Read) or main.format == "unknown":
        return ""
    wanted = intent.wanted_format.value
    return (
        ""
        if satisfies(main.format, wanted)
        else f"added because of {main.text}, not the wanted {shown(wanted)}"
    )


def host_reads(intent: Intent) -> Iterator[PlannedTask]:
    """What the host and the documentation page are asked."""
    for url in intent.docs[:1]:
        yield read_task(
            "docs.page",
            url,
            "read the documentation page",
            {"url": url},
            limit="web",
            order=29,
            required=False,
        )
    host = host_name(intent.host)
    if not host:
        return
    params, first = {"host": host}, f"host.identity[{host}]"
    yield read_task(
        "host.identity", host, f"who {host} is: boot id, kernel, system", params, limit="host", order=20
    )
    titles = {
        "host.gpus": "GPUs, their memory and who holds it", "host.topology": "links, NUMA nodes, CPUs and memory",
        "host.disk": "mounts, free bytes, model directories", "host.service": "the running service",
        "host.network": "ports, RDMA devices, pinning limit", "host.cuda": "driver and CUDA toolkit",
    }  # fmt: skip
    needs = {"host.topology": "host.gpus", "host.service": "host.gpus"}
    for order, (definition, title) in enumerate(titles.items(), start=21):
        after = [first, *([f"{needs[definition]}[{host}]"] if definition in needs else [])]
        # settled, not succeeded: where one reading fails, the others still say what they can
        yield read_task(definition, host, title, params, limit="host", needs=after, on="settled", order=order)
    service = f"host.service[{host}]"
    yield read_task(
        "engine.installed",
        host,
        "the installed engine and its packages",
        params,
        limit="host",
        needs=[service],
        on="settled",
        order=27,
    )
    engine = f"engine.installed[{host}]"
    yield read_task(
        "engine.architectures",
        host,
        "architectures the engine has",
        params,
        limit="host",
        needs=[engine],
        on="settled",
        order=28,
    )
