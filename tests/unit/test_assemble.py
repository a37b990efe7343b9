"""From rows to what people read: unknown statuses, blockers, approvals, verdict, exit code."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from recon.agent.engine.assemble import Records, _retries, assemble
from recon.agent.engine.verdict import exit_code
from recon.agent.model.changes import Change, Rendered
from recon.agent.model.findings import Draft, Effects, Finding, Judgement, Option, make_finding
from recon.agent.model.missions import Intent, Mission, Revision
from recon.agent.model.records import Approval, Decision
from recon.agent.model.state import MissionState
from recon.agent.model.tasks import GateSpec, PlannedTask, PlannedUnknown, Task
from recon.agent.model.words import JudgementVerdict, MissionOrigin, StoredStatus

CHANGE = Change(
    task="stop", host="h", steps=(("systemctl", "stop", "x"),), exact=(("unit", "x"), ("main_pid", "7"))
)
SEALED = CHANGE.sealed(effect="mutating", gates=())
STOP = Option(id="stop", title="stop here", effects=Effects(stop=True))
KEEP = Option(id="keep", title="keep it")
WAIVE = Option(id="waive", title="accept the risk", effects=Effects(waive=True))


def judged(verdict: JudgementVerdict, *options: Option, about: str = "q", key: str = "q") -> Judgement:
    return Judgement(key=key, about=about, verdict=verdict, title=f"{key} {verdict}", options=options)


def fact(level: str = "proved", *, lifetime_s: float | None = None) -> Finding:
    draft = Draft(name="format", value="nvfp4", level=level, lifetime_s=lifetime_s)  # type: ignore[arg-type]
    return make_finding(
        draft, subject="c", producer="t", producer_version="1", observation_id="o-1", inputs=(), observed_at=0.0,
        origin="captured",
    )  # fmt: skip


def decision(option: str, *, number: int = 1, undoes: int | None = None) -> Decision:
    return Decision(
        id=number, mission_id="m", about_key="q", option=option, value="", because="why", by="p", via="cli", at=0.0,
        shown_sha="", from_n=1, to_n=1, undoes=undoes,
    )  # fmt: skip


def approval(verdict: str = "approve", *, change: Change = SEALED, exact: Change = CHANGE) -> Approval:
    return Approval(
        id=1, task_id=1, change_hash=change.change_hash, exact_hash=exact.exact_hash, shown_sha="", verdict=verdict,
        message="not now", by="p", via="cli", at=0.0,
    )  # fmt: skip


def mission(
    *, judgements: Sequence[Judgement] = (), findings: Sequence[Finding] = (), decisions: Sequence[Decision] = (),
    approvals: Sequence[Approval] = (), unknown: PlannedUnknown | None = None, act: PlannedTask | None = None,
    status: StoredStatus = "pending", origin: MissionOrigin = "live", rendered: Rendered | None = None,
) -> MissionState:  # fmt: skip
    tasks = (
        [] if act is None else [Task(id=1, mission_id="m", definition_hash="", planned=act, status=status)]
    )
    records = Records(
        mission=Mission(id="m", key="k", text="t", origin=origin),
        revision=Revision(
            mission_id="m", n=1, parent_n=None, decision_id=None, intent=Intent(), bindings={"checkpoint": "c"},
            playbook="p", playbook_hash="",
        ),
        tasks=tasks, edges=(), unknowns=[unknown or PlannedUnknown(key="q", question="which?")],
        judgements=judgements, findings=findings, decisions=decisions, approvals=approvals,
    )  # fmt: skip
    return assemble(records, now=100.0, render=lambda planned, view: rendered or Rendered(change=CHANGE))


@pytest.mark.parametrize(
    ("judgements", "decided", "status"),
    [
        ((), (), "open"),
        ((judged("pass"),), (), "answered"),
        ((judged("warn"),), (), "answered"),
        ((judged("unknown"),), (), "open"),
        ((judged("pass"), judged("unknown", key="q.b")), (), "open"),
        ((judged("conflict", KEEP),), (), "contradicted"),
        ((judged("pass"), judged("block", key="q.b")), (), "contradicted"),
        ((judged("conflict", KEEP),), (decision("keep"),), "answered"),
        ((judged("block", WAIVE),), (decision("waive"),), "waived"),
        ((judged("conflict", KEEP),), (decision("keep"), decision("", number=2, undoes=1)), "contradicted"),
        ((judged("block", about="other"),), (), "open"),
    ],
)
def test_an_unknowns_status_follows_from_judgements_and_decisions(
    judgements: Sequence[Judgement], decided: Sequence[Decision], status: str
) -> None:
    state = mission(judgements=judgements, decisions=decided)
    assert state.unknowns[0].status == status


@pytest.mark.parametrize(
    ("finding", "status"),
    [(fact(), "answered"), (fact("declared"), "open"), (fact(lifetime_s=50), "open"), (None, "open")],
)
def test_a_finding_answers_only_at_the_level_asked_and_while_fresh(
    finding: Finding | None, status: str
) -> None:
    unknown = PlannedUnknown(key="q", question="?", finding_ref="checkpoint.format", min_level="proved")
    state = mission(unknown=unknown, findings=[finding] if finding else [])
    assert state.unknowns[0].status == status
    if status == "answered":
        assert (state.unknowns[0].answer, state.unknowns[0].level) == ("nvfp4", "proved")
    else:
        assert state.unknowns[0].reason


def test_a_block_without_option_or_change_is_no_go_and_one_that_a_change_removes_is_not() -> None:
    assert mission(judgements=[judged("block")]).verdict == "no_go"
    act = PlannedTask(
        key="stop", definition="stop", title="stop", kind="act", effect="mutating", settles=("q",)
    )
    state = mission(judgements=[judged("block")], act=act)
    assert state.verdict == "needs_approval"
    assert [w.command for w in state.waiting] == ["recon approve stop"]


def test_a_required_block_with_options_needs_a_decision_and_stop_ends_the_mission() -> None:
    state = mission(judgements=[judged("block", KEEP, STOP)])
    assert (state.verdict, exit_code(state.verdict, state.tasks)) == ("needs_decision", 3)
    assert state.waiting[0].command == 'recon decide q OPTION --because "..."'
    ended = mission(judgements=[judged("block", KEEP, STOP)], decisions=[decision("stop")])
    assert (ended.verdict, ended.waiting, exit_code(ended.verdict, ended.tasks)) == ("no_go", (), 0)


def test_an_advisory_unknown_never_blocks() -> None:
    unknown = PlannedUnknown(key="q", question="?", required=False)
    assert mission(unknown=unknown, judgements=[judged("block")]).verdict == "go"


ACT = PlannedTask(key="stop", definition="stop", title="stop", kind="act", effect="mutating")


@pytest.mark.parametrize(
    ("approvals", "status", "reason"),
    [
        ((), "awaiting_approval", "needs your approval"),
        ((approval(),), "ready", ""),
        ((approval("deny"),), "awaiting_approval", "denied by p: not now"),
        ((approval(), approval("deny")), "awaiting_approval", "denied"),
        ((approval(change=Change(task="x", host="h")),), "awaiting_approval", "the commands changed"),
        (
            (approval(change=Change(task="x", host="h"), exact=Change(task="x", host="h")),),
            "awaiting_approval",
            "what it touches changed",
        ),
    ],
)
def test_an_approval_holds_for_exactly_what_was_shown(
    approvals: Sequence[Approval], status: str, reason: str
) -> None:
    task = mission(act=ACT, approvals=approvals, judgements=[judged("pass")]).tasks[0]
    assert task.status == status
    assert reason in "".join(b.reason for b in task.blocked_by)


def test_a_closed_gate_says_what_it_hangs_on_and_how_to_open_it() -> None:
    act = ACT.model_copy(update={"gates": (GateSpec(text='answered("q")'),)})
    state = mission(
        act=act,
        judgements=[judged("conflict", KEEP)],
        approvals=[approval(change=CHANGE.sealed(effect="mutating", gates=('answered("q")',)))],
    )
    task = state.tasks[0]
    assert task.status == "awaiting_decision"
    assert (task.blocked_by[0].ref, task.blocked_by[0].command) == (
        "q",
        'recon decide q keep --because "..."',
    )
    assert state.unknowns[0].blocks == ("stop",)


def test_a_replay_shows_what_the_real_mission_waits_for() -> None:
    replayed = mission(act=ACT, origin="replay", judgements=[judged("pass")])
    assert (replayed.verdict, replayed.tasks[0].status) == ("needs_approval", "awaiting_approval")


def test_what_cannot_be_rendered_or_is_for_a_person_says_so() -> None:
    missing = mission(act=ACT, rendered=Rendered(missing=("the disk",))).tasks[0]
    assert (missing.status, missing.blocked_by[0].reason) == ("blocked", "not known yet: the disk")
    manual = mission(act=ACT, rendered=Rendered(lines=("x",), manual=True)).tasks[0]
    assert (manual.status, manual.blocked_by[0].command) == ("blocked", "recon todo done stop")


def test_judgements_do_not_answer_what_must_be_proved_and_is_not() -> None:
    unknown = PlannedUnknown(key="q", question="?", finding_ref="checkpoint.format", min_level="proved")
    state = mission(unknown=unknown, findings=[fact("declared")], judgements=[judged("warn")])
    assert state.unknowns[0].status == "open"
    assert state.unknowns[0].reason == "checkpoint.format is only declared, proved is needed"


def test_a_decision_to_stop_keeps_every_change_from_starting_whatever_was_approved() -> None:
    stopped = mission(
        act=ACT,
        approvals=[approval()],
        judgements=[judged("block", KEEP, STOP)],
        decisions=[decision("stop")],
    )
    assert (stopped.verdict, stopped.tasks[0].status) == ("no_go", "blocked")
    assert stopped.tasks[0].blocked_by[0].kind == "ended"


def test_a_choice_without_options_offers_no_command() -> None:
    state = mission(unknown=PlannedUnknown(key="q", question="?", who="person"))
    assert (state.unknowns[0].answer_with, state.verdict) == ("", "needs_decision")


def test_one_cause_is_told_once_with_its_hint() -> None:
    error = {"kind": "reach", "message": "h refused the connection", "hint": "is sshd running there"}
    plain = mission(act=ACT, status="failed").tasks[0]
    failed = [plain.model_copy(update={"error": error}), plain.model_copy(update={"error": error})]
    told = _retries(failed)
    assert [(w.text, w.command) for w in told] == [
        ("h refused the connection (is sshd running there)", "recon resume")
    ]


def test_what_is_not_required_does_not_make_the_mission_unreachable() -> None:
    page = PlannedTask(key="page", definition="page", title="page", kind="recon", required=False)
    state = mission(act=page, status="failed", judgements=[judged("pass")])
    assert exit_code("go", state.tasks) == 0
