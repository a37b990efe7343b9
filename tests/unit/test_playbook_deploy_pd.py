"""The playbook deploy_pd: a plan that can be run, and the items that findings bring."""

from __future__ import annotations

from typing import Any

import pytest
from support.views import GB, UNIT, changed, flagship, intent_of, stale, unknown, view_of

from recon.agent.api import ActTask, Intent, JudgeTask, Layout, PlannedTask, ReconTask
from recon.agent.engine.gates import parse_gate
from recon.agent.engine.graph import check_plan
from recon.tasks.playbooks.check import playbook as check
from recon.tasks.playbooks.deploy_pd import playbook
from recon.tasks.register import definitions

ACTS = [
    "archive", "service.stop", "disk.free", "download", "engine.install", "tracker.search", "port", "kernels.build",
    "launch.prefill", "launch.decode", "launch.router", "verify", "benchmark",
]  # fmt: skip
INTENTS = {
    "flagship": intent_of(), "no host": intent_of(host=None), "one instance": intent_of(layout=Layout(mode="single", tp=4)),
    "nothing said": Intent(), "a model alone": Intent(model="org/model"), "no verbs": intent_of(verbs=()),
    "no sizes": intent_of(layout=Layout(mode="pd")), "a local directory": intent_of(model="/data/models/x"),
    "launch only": intent_of(verbs=("launch",)), "updated in place": intent_of(engine_source="venv-update"),
    "tuned": intent_of(extra={"tune": True}),
}  # fmt: skip


def plan_of(intent: Intent, facts: dict[str, dict[str, Any]]) -> dict[str, PlannedTask]:
    bound = playbook.bindings(intent, "directive:0123456789ab")
    known = {role: named for role, named in facts.items() if role in bound}
    plan = playbook.plan(intent, view_of(known, intent=intent, bindings=bound))
    check_plan(plan)
    return {task.key: task for task in plan.tasks}


@pytest.mark.parametrize("known", [True, False], ids=["known", "nothing known"])
@pytest.mark.parametrize("intent", INTENTS.values(), ids=INTENTS.keys())
def test_every_plan_can_be_run(intent: Intent, known: bool) -> None:
    tasks = plan_of(intent, flagship() if known else {})
    kinds = {ReconTask: "recon", JudgeTask: "judge", ActTask: "act"}
    by_name = {d.name: kinds[type(d)] for d in definitions()}
    assert {t.key: by_name.get(t.definition) for t in tasks.values()} == {
        t.key: t.kind for t in tasks.values()
    }
    bound = set(playbook.bindings(intent, "directive:x")) | {"host", "engine", "checkpoint"}
    for task in tasks.values():
        for gate in task.gates:
            assert gate.words
            assert {path.partition(".")[0] for path in parse_gate(gate.text).paths} <= bound


@pytest.mark.parametrize("intent", INTENTS.values(), ids=INTENTS.keys())
def test_gates_name_only_questions_and_tasks_of_the_plan(intent: Intent) -> None:
    view = view_of(
        {role: n for role, n in flagship().items() if role in playbook.bindings(intent, "d")}, intent=intent
    )
    plan = playbook.plan(intent, view)
    names = {u.key for u in plan.unknowns} | {t.key for t in plan.tasks}
    assert {key for t in plan.tasks for g in t.gates for key in parse_gate(g.text).keys} <= names
    assert {key for t in plan.tasks for key in t.settles} <= names


def test_the_changing_steps_stand_in_the_list_by_name() -> None:
    tasks = plan_of(intent_of(), flagship())
    assert [t.key for t in sorted(tasks.values(), key=lambda t: t.order) if t.kind == "act"] == ACTS
    assert tasks["service.stop"].title == f"stop {UNIT}"


def test_items_that_findings_bring_say_so() -> None:
    tasks = plan_of(intent_of(), flagship())
    because = {key: t.because for key, t in tasks.items() if t.because}
    assert because["disk.free"] == "added because 168.3 GB do not fit the 23.1 GB free on /"
    assert because["checkpoint.siblings[org/model]"].startswith("added because of routed experts INT4 W4A16")
    assert "scales" in because["port"]
    before = plan_of(intent_of(), {})
    assert {"disk.free", "checkpoint.siblings[org/model]"}.isdisjoint(before)


def test_a_service_that_nobody_asked_to_stop_is_planned_only_where_it_is_in_the_way() -> None:
    quiet = intent_of(verbs=("download", "launch"))
    assert plan_of(quiet, flagship())["service.stop"].because == f"added because the GPUs are held by {UNIT}"
    assert "service.stop" not in plan_of(quiet, changed("host.gpu_processes", []))
    assert "service.stop" not in plan_of(quiet, {})


def test_nothing_is_stopped_before_the_questions_are_answered() -> None:
    tasks = plan_of(intent_of(), flagship())
    asked = {key for gate in tasks["service.stop"].gates for key in parse_gate(gate.text).keys}
    assert asked == {
        "checkpoint.format",
        "checkpoint.fits_memory",
        "disk.room",
        "engine.source",
        "kv.transfer",
        "placement.isolated",
    }
    assert [e.key for e in tasks["service.stop"].needs] == ["archive"]


def test_the_stop_opens_when_all_is_answered_and_closes_when_the_reading_is_old() -> None:
    asked = [
        "checkpoint.format",
        "checkpoint.fits_memory",
        "disk.room",
        "engine.source",
        "kv.transfer",
        "placement.isolated",
    ]
    gates = [parse_gate(g.text) for g in plan_of(intent_of(), flagship())["service.stop"].gates]
    service = flagship()["host"]["service"]
    fresh, old = (
        view_of(flagship(), answered=asked),
        view_of(changed("host.service", stale(service)), answered=asked),
    )
    assert {g.evaluate(fresh).truth for g in gates} == {"true"}
    assert {g.evaluate(old).truth for g in gates} == {"true", "stale"}
    for missing in asked:
        rest = view_of(flagship(), answered=[key for key in asked if key != missing])
        assert "false" in {g.evaluate(rest).truth for g in gates}


def test_the_launch_waits_for_an_engine_that_has_the_architecture() -> None:
    gate = parse_gate(plan_of(intent_of(), flagship())["launch.prefill"].gates[0].text)
    assert gate.evaluate(view_of(flagship())).truth == "false"
    assert gate.evaluate(view_of(changed("engine.architectures", ["DeepseekV4ForCausalLM"]))).truth == "true"
    assert gate.evaluate(view_of(changed("engine.architectures", ...))).truth == "unknown"


def test_the_download_waits_for_room_on_the_mount_it_goes_to() -> None:
    fs = {"/": {"avail_bytes": GB}, "/data": {"avail_bytes": 900 * GB}}
    tasks = plan_of(intent_of(target_dir="/data/models"), changed("host.fs", fs))
    gate = parse_gate(tasks["download"].gates[0].text)
    view = view_of(changed("host.fs", fs), intent=intent_of(target_dir="/data/models"))
    assert gate.evaluate(view).truth == "true"
    first = plan_of(intent_of(), flagship())["download"].gates[0]
    assert parse_gate(first.text).evaluate(view_of(flagship())).truth == "false"
    assert first.words == "/ has room for the download plus 5 %"


def test_the_plan_does_not_change_when_readings_only_age() -> None:
    facts = flagship()
    old = changed("host.fs", {**facts["host"]["fs"], "observed_at": 0.0})
    assert plan_of(intent_of(), facts) == plan_of(intent_of(), old)


def test_launch_waits_for_the_port_where_no_release_will_do() -> None:
    gates = [g.text for g in plan_of(intent_of(), flagship())["launch.prefill"].gates]
    assert 'done("port")' in gates
    plain = changed("checkpoint.declared", {"quant_method": "fp8"})
    assert 'done("port")' not in [g.text for g in plan_of(intent_of(), plain)["launch.prefill"].gates]


def test_a_layout_that_the_engine_refuses_brings_the_port_and_the_tracker() -> None:
    mixed = changed(
        "checkpoint.declared", {"quant_method": "compressed-tensors", "format": "mixed-precision"}
    )
    tasks = plan_of(intent_of(verbs=("download", "launch")), mixed)
    for key in ("port", "tracker.search"):
        assert tasks[key].because == "added because SGLang refuses mixed-precision files with INT experts"
    assert tasks["engine.install"].because == "added because SGLang 0.5.11 has no DeepseekV4ForCausalLM"


@pytest.mark.parametrize("known", [True, False], ids=["known", "nothing known"])
@pytest.mark.parametrize("intent", INTENTS.values(), ids=INTENTS.keys())
def test_no_server_is_launched_before_the_gpus_are_free(intent: Intent, known: bool) -> None:
    tasks = plan_of(intent, flagship() if known else {})
    servers = [t for t in tasks.values() if t.definition == "act.server"]
    for task in servers:
        (gate,) = [parse_gate(g.text) for g in task.gates if "service.stop" in parse_gate(g.text).keys]
        view = view_of(flagship())
        assert gate.evaluate(view).truth == "false"
        for settled in ({"answered": ["service.stop"]}, {"done": ["service.stop"]}):
            assert gate.evaluate(view_of(flagship(), **settled)).truth == "true"
    assert bool(servers) == (intent.verbs == () or "launch" in intent.verbs)


@pytest.mark.parametrize("gone", ["checkpoint.declared", "checkpoint.attention", "checkpoint.scale_names"])
def test_the_launch_waits_for_the_layout_where_it_was_not_read(gone: str) -> None:
    tasks = plan_of(intent_of(), changed(gone, unknown("timed out")))
    texts = [g.text for g in tasks["launch.prefill"].gates]
    assert 'answered("engine.supports")' in texts and 'done("port")' not in texts
    assert tasks["port"].because == ""
    assert "port" not in plan_of(intent_of(verbs=("launch",)), changed(gone, unknown("timed out")))


def test_the_download_names_the_question_whose_answer_makes_room() -> None:
    gates = [parse_gate(g.text) for g in plan_of(intent_of(), flagship())["download"].gates]
    assert "disk.room" in {key for gate in gates for key in gate.keys}
    # an answer alone opens nothing: the bytes have to be there
    view = view_of(flagship(), answered=["disk.room", "checkpoint.format", "checkpoint.fits_memory"])
    assert sorted(gate.evaluate(view).truth for gate in gates) == ["false", "true", "true", "true"]


@pytest.mark.parametrize("host", [None, "gpu01"])
def test_a_mission_without_a_checkpoint_asks_for_it_first(host: str | None) -> None:
    intent = intent_of(model=None, host=host)
    plan = playbook.plan(
        intent, view_of({}, intent=intent, bindings=playbook.bindings(intent, "directive:x"))
    )
    asked = plan.unknowns[0]
    assert (asked.key, asked.who, asked.required) == ("checkpoint.target", "person", True)
    (option,) = asked.options
    assert (option.id, option.needs_value, option.effects.intent) == ("model", "model", {"model": "{value}"})
    assert next(u.key for u in check.plan(intent, view_of({}, intent=intent)).unknowns) == "checkpoint.target"
    assert "checkpoint.target" not in {u.key for u in playbook.plan(intent_of(), view_of({})).unknowns}


def test_a_mission_without_a_host_asks_for_it_first() -> None:
    intent = intent_of(host=None)
    bound = playbook.bindings(intent, "directive:x")
    plan = playbook.plan(intent, view_of({}, intent=intent, bindings=bound))
    assert plan.unknowns[0].key == "host.target" and plan.unknowns[0].who == "person"
    assert plan.unknowns[0].options[0].effects.intent == {"host": "{value}"}
    assert not [t.key for t in plan.tasks if t.key.startswith(("host.", "engine.")) and t.kind == "recon"]
    assert "host" not in bound and "engine" not in bound


def test_bindings_follow_the_intent() -> None:
    assert playbook.bindings(intent_of(host="root@gpu01:2222", revision="v2"), "directive:d") == {
        "mission": "directive:d", "knowledge": "knowledge:sglang", "checkpoint": "hf:org/model@v2", "host": "host:gpu01",
        "engine": "engine:gpu01", "docs": "web:https://docs.example/pd",
    }  # fmt: skip
