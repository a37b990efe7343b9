"""A synthetic mission as a reader sees it, for tests of report and board: nothing of it was read from a real source."""

from __future__ import annotations

from recon.agent.model.changes import Change, Rendered
from recon.agent.model.findings import (
    Draft,
    Effects,
    Finding,
    Judgement,
    Observation,
    Option,
    Request,
    Side,
    make_finding,
)
from recon.agent.model.missions import Intent, Layout, Mission, Revision, Wish
from recon.agent.model.records import Run
from recon.agent.model.state import (
    GateState,
    JudgementState,
    MissionState,
    TaskState,
    UnknownState,
    Waiting,
)
from recon.agent.model.tasks import Blocker, Edge, GateSpec, PlannedTask, PlannedUnknown, Task
from recon.agent.model.words import JudgementVerdict, TaskKind, TaskStatus

NOW = 1_780_000_000.0
CHECKPOINT = "hf:acme/Big-W4A16@" + "a" * 40
HOST = "host:gpu01"
HEADER = b'{"layers.0.experts.0.w1.weight_packed": {"dtype": "I32", "shape": [1, 2]},\n "other": 1}\n'
OBSERVATION = Observation(
    id="o-111111111111",
    request=Request(
        connector="hub", target="acme/Big-W4A16", probe="hub.header", path="m.safetensors", revision="a" * 40
    ),
    state="ok", exit_code=206, revision="a" * 40, observed_at=NOW - 30, duration_s=0.4, host_boot_id="",
    stdout_sha="ab" * 32, stderr_sha="", truncated=False, reason="", origin="composed",
)  # fmt: skip


def finding_of(name: str, value: object, *, subject: str = CHECKPOINT, **fields: object) -> Finding:
    """A composed finding read 30 s ago."""
    draft = Draft.model_validate({"name": name, "value": value, **fields})
    return make_finding(
        draft, subject=subject, producer="checkpoint.headers", producer_version="1",
        observation_id=OBSERVATION.id, inputs=(), observed_at=NOW - 30, origin="composed",
    )  # fmt: skip


EXPERTS = finding_of(
    "routed_experts",
    {"format": "w4a16-int4", "group_size": 128},
    locator="layers.*.experts.*.w1.weight_packed",
)
WANTED = finding_of("wanted_format", "nvfp4", subject="directive:0123456789ab", level="claimed")
DISK = finding_of(
    "fs", {"/": {"avail_bytes": 23_100_000_000}}, subject=HOST, lifetime_s=60.0, locator="line 2"
)
DOWNLOAD = finding_of("download_bytes", 168_300_000_000, unit="bytes")
FINDINGS = (EXPERTS, WANTED, DISK, DOWNLOAD)

FORMAT_OPTIONS = (
    Option(
        id="keep", title="keep W4A16", consequence="Marlin kernels; runs on this GPU, not NVFP4",
        effort="minutes", effects=Effects(waive=True),
    ),
    Option(
        id="sibling:acme/Big-NVFP4", title="take acme/Big-NVFP4", consequence="another download of 170 GB",
        effort="hours", effects=Effects(intent={"model": "acme/Big-NVFP4"}),
    ),
    Option(id="stop", title="stop here", effects=Effects(stop=True)),
)  # fmt: skip
DISK_OPTIONS = (
    Option(id="free:/models/old", title="free /models/old (548 GB)", consequence="can be downloaded again"),
    Option(id="other-mount", title="another folder", needs_value="path"),
)


def judged(key: str, verdict: JudgementVerdict, title: str, **fields: object) -> JudgementState:
    """A judgement that nobody has decided on."""
    judgement = Judgement.model_validate({"key": key, "verdict": verdict, "title": title, **fields})
    return JudgementState(judgement=judgement, verdict=judgement.verdict)


def item(task_id: int, key: str, kind: TaskKind, status: TaskStatus, **fields: object) -> TaskState:
    """A todo item; fields of the plan and of the state may be mixed."""
    state = {k: fields.pop(k) for k in tuple(fields) if k in TaskState.model_fields}
    planned = PlannedTask.model_validate(
        {
            "key": key,
            "definition": key.partition("[")[0],
            "title": f"do {key}",
            "kind": kind,
            "order": task_id,
            **fields,
        }
    )
    stored = "pending" if status in ("ready", "blocked", "awaiting_decision", "awaiting_approval") else status
    task = Task.model_validate(
        {"id": task_id, "mission_id": "m-1", "definition_hash": "d", "planned": planned, "status": stored}
    )
    return TaskState.model_validate({"task": task, "status": status, **state})


CHANGE = Change(
    task="service.stop", host="gpu01", user="root", steps=(("systemctl", "stop", "old.service"),),
    exact=(("boot_id", "b-1"), ("unit", "old.service"), ("main_pid", "4711")),
    rollback=(("systemctl", "start", "old.service"),),
)  # fmt: skip


def judgements() -> tuple[JudgementState, ...]:
    """One of each verdict, worst first."""
    sides = (Side(finding_id=EXPERTS.id), Side(finding_id=WANTED.id, side="expected"))
    return (
        judged(
            "checkpoint.format", "conflict", "wanted NVFP4, routed experts are INT4 W4A16 group 128",
            about="checkpoint.format", observed="w4a16-int4", expected="nvfp4", sides=sides, options=FORMAT_OPTIONS,
            detail=("33024 x weight_packed I32 in the headers", "the name of the repository says W4A16 too"),
        ),
        judged(
            "disk.room", "block", "168.3 GB do not fit: 23.1 GB (21.5 GiB) are free on /", about="disk.room",
            observed=23_100_000_000, expected=168_300_000_000, options=DISK_OPTIONS,
            sides=(Side(finding_id=DISK.id), Side(finding_id=DOWNLOAD.id, side="expected")),
        ),
        judged("siblings.advice", "unknown", "no card says which sibling suits this GPU", about="checkpoint.format"),
        judged("launch.numa_flag", "warn", "--numa-node 1 1 1 1 with --base-gpu-id 4 would crash"),
        judged("placement.isolated", "pass", "GPUs 0-3/4-7 = NUMA 0/1", about="placement.isolated"),
    )  # fmt: skip


def tasks() -> tuple[TaskState, ...]:
    """A short todo list with every kind of blocker that matters."""
    gate = GateSpec(
        text='host.fs["/"].avail_bytes >= 1.05 * checkpoint.download_bytes and decided("disk.room")',
        words="the download fits the disk",
    )
    shut = GateState(
        spec=gate, result="false", refs=('host.fs["/"].avail_bytes', "checkpoint.download_bytes", "disk.room"),
        reasons=("23.1 GB is below 176.7 GB",),
    )  # fmt: skip
    return (
        item(1, "checkpoint.headers[acme/Big-W4A16]", "recon", "succeeded", summary="44 shards", attempts=1),
        item(2, "host.gpus[gpu01]", "recon", "failed", error={"message": "gpu01: timed out", "kind": "probe"}),
        item(3, "checkpoint.siblings[acme/Big-W4A16]", "recon", "ready", because="the routed experts are not NVFP4"),
        item(4, "judge.quantization", "judge", "succeeded", attempts=1),
        item(
            5, "service.stop", "act", "awaiting_approval", effect="mutating", title="stop old.service",
            rendered=Rendered(change=CHANGE),
            blocked_by=(
                Blocker(
                    kind="approval", ref="service.stop", state="open", reason="needs your approval",
                    command="recon approve service.stop",
                ),
            ),
        ),
        item(
            6, "download", "act", "awaiting_decision", effect="mutating", title="download the checkpoint",
            gates=(shut,), needs=(Edge(key="service.stop"),),
            rendered=Rendered(lines=("hf download acme/Big-W4A16 --revision <commit>",), missing=("disk.room",)),
            blocked_by=(
                Blocker(
                    kind="decision", ref="disk.room", state="contradicted", reason="disk.room is contradicted",
                    command="recon decide disk.room ...",
                ),
                Blocker(
                    kind="dependency", ref="service.stop", state="pending", reason="waits for service.stop (pending)"
                ),
            ),
        ),
    )  # fmt: skip


def unknowns() -> tuple[UnknownState, ...]:
    """Two questions that wait for a person and one that is answered."""
    return (
        UnknownState(
            planned=PlannedUnknown(
                key="checkpoint.format", question="Which checkpoint format?", finding_ref="checkpoint.routed_experts.format"
            ),
            status="contradicted", options=FORMAT_OPTIONS, judgements=("checkpoint.format", "siblings.advice"),
            blocks=("download",), answer_with="recon decide checkpoint.format keep", reason="wanted NVFP4",
        ),
        UnknownState(
            planned=PlannedUnknown(key="disk.room", question="Where do the weights go?"), status="contradicted",
            options=DISK_OPTIONS, judgements=("disk.room",), blocks=("download",),
        ),
        UnknownState(
            planned=PlannedUnknown(key="placement.isolated", question="Each instance on one NUMA node?"),
            status="answered", answer=True, answer_text="yes", level="proved",
        ),
    )  # fmt: skip


def mission_state(**changes: object) -> MissionState:
    """A replayed mission that waits for two decisions and an approval; `changes` replace fields."""
    intent = Intent(
        model="acme/Big-W4A16", host="gpu01", wanted_format=Wish(value="nvfp4", strength="prefer"),
        layout=Layout(mode="pd", prefill_tp=4, decode_tp=4),
    )  # fmt: skip
    state = MissionState(
        mission=Mission(
            id="m-111111111111", key="k" * 16, text="deploy acme/Big-W4A16, nvfp4", origin="replay", as_of=NOW
        ),
        revision=Revision(
            mission_id="m-111111111111", n=1, parent_n=None, decision_id=None, intent=intent,
            bindings={"checkpoint": CHECKPOINT, "host": HOST, "mission": "directive:0123456789ab"},
            playbook="deploy_pd", playbook_hash="p",
        ),
        now=NOW, sentence="Serve acme/Big-W4A16 with SGLang on gpu01: prefill TP4 + decode TP4; NVFP4 wanted.",
        verdict="needs_decision",
        verdict_line="NEEDS DECISION: 1 conflict, 1 block, 1 unknown, 1 warn, 1 pass; nothing was touched",
        tasks=tasks(), unknowns=unknowns(), judgements=judgements(), findings=FINDINGS, decisions=(), approvals=(),
        waiting=(
            Waiting(kind="decision", ref="checkpoint.format", text="Which checkpoint format?", command="recon decide checkpoint.format keep"),
            Waiting(kind="decision", ref="disk.room", text="Where do the weights go?", command="recon decide disk.room"),
            Waiting(kind="approval", ref="service.stop", text="stop old.service", command="recon approve service.stop"),
        ),
        runs=(
            Run(
                id=1, mission_id="m-111111111111", host="laptop", boot_id="b", pid=7, pid_started=1.0, version="0.1.0",
                started_at=NOW - 40, heartbeat_at=NOW, ended_at=NOW, exit_code=3,
            ),
        ),
        events=17,
    )  # fmt: skip
    return state.model_copy(update=changes)
