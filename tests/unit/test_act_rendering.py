"""How the steps that a person carries out look, before and after decisions."""

from __future__ import annotations

from typing import Any

import pytest
from support.views import changed, flagship, intent_of, view_of

from recon.agent.api import ActTask, Intent, Layout, PlannedTask, Rendered
from recon.tasks.playbooks.deploy_pd import playbook
from recon.tasks.register import definitions

ACTS = {d.name: d for d in definitions() if isinstance(d, ActTask)}


def rendered(intent: Intent, facts: dict[str, dict[str, Any]] | None = None) -> dict[str, Rendered]:
    view = view_of(flagship() if facts is None else facts, intent=intent)
    return {t.key: render(t, view) for t in playbook.plan(intent, view).tasks if t.kind == "act"}


def render(task: PlannedTask, view: Any) -> Rendered:
    return ACTS[task.definition].render(view, task.params)


DECIDED = intent_of(
    engine_source="venv-wheel", transfer_backend="mooncake_tcp", extra={"free_path": ["/root/ckpt old"]}
)


def test_before_decisions_the_gaps_are_named() -> None:
    sheets = rendered(intent_of())
    assert sheets["disk.free"].missing == ("which directory goes: disk.room",)
    assert "<transfer backend: kv.transfer>" in sheets["launch.prefill"].lines[0]
    assert sheets["engine.install"].missing == (
        "transfer backend: kv.transfer",
        "engine source: engine.source",
    )


def test_after_decisions_nothing_is_missing_and_arguments_are_quoted() -> None:
    sheets = rendered(DECIDED)
    assert {key: r.missing for key, r in sheets.items() if r.missing} == {}
    assert sheets["disk.free"].lines[0] == "rm -rf --one-file-system -- '/root/ckpt old'"
    assert "--revision " + "a" * 40 + " --local-dir /root/models/model" in sheets["download"].lines[0]


def test_only_the_service_is_carried_out_by_recon_itself() -> None:
    sheets = rendered(DECIDED)
    assert {key for key, r in sheets.items() if r.change is not None} == {"archive", "service.stop"}
    assert all(r.manual for key, r in sheets.items() if key not in ("archive", "service.stop"))


def test_launch_lines_pin_gpus_by_environment_and_numa_by_visible_number() -> None:
    sheets = rendered(DECIDED)
    prefill, decode = sheets["launch.prefill"].lines[0], sheets["launch.decode"].lines[0]
    assert "--setenv=CUDA_VISIBLE_DEVICES=0,1,2,3" in prefill and "--numa-node 0 0 0 0" in prefill
    assert "--setenv=CUDA_VISIBLE_DEVICES=4,5,6,7" in decode and "--numa-node 1 1 1 1" in decode
    assert "--base-gpu-id" not in prefill + decode
    assert (
        "--disaggregation-bootstrap-port 8998" in prefill and "--disaggregation-bootstrap-port" not in decode
    )
    for line in (prefill, decode):
        assert (
            "--disaggregation-transfer-backend mooncake_tcp" in line and "--moe-runner-backend marlin" in line
        )
        assert "/root/venvs/sglang-0.5.13/bin/python -m sglang.launch_server" in line
    assert "--mem-fraction-static 0.70" in prefill and "--cuda-graph-max-bs 32" in decode
    assert (
        "--prefill http://127.0.0.1:30000 8998 --decode http://127.0.0.1:30001"
        in sheets["launch.router"].lines[0]
    )


def test_another_model_gets_no_recipe_of_this_one() -> None:
    facts = changed("checkpoint.architecture", {"architectures": ["LlamaForCausalLM"]})
    line = rendered(DECIDED, facts)["launch.prefill"].lines[0]
    assert "--mem-fraction-static" not in line


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "venv-update",
            "/root/venvs/sglang/bin/python -m pip install --upgrade sglang==0.5.13 sglang-router mooncake",
        ),
        ("venv-wheel", "python3 -m venv /root/venvs/sglang-0.5.13"),
        ("git-ref", "checkout v0.5.13"),
        ("git-prs", "origin <pull request>"),
    ],
)
def test_engine_install_follows_the_decided_source(source: str, words: str) -> None:
    sheet = rendered(DECIDED.model_copy(update={"engine_source": source}))["engine.install"]
    assert words in "\n".join(sheet.lines)


def test_chosen_pull_requests_are_named() -> None:
    intent = DECIDED.model_copy(
        update={"engine_source": "git-prs", "extra": {"engine_prs": [11, 12], "engine_ref": "main"}}
    )
    lines = "\n".join(rendered(intent)["engine.install"].lines)
    assert "origin pull/11/head" in lines and "origin pull/12/head" in lines and "checkout main" in lines


def test_verify_asks_through_the_entrance_four_at_once_and_reads_the_logs() -> None:
    lines = "\n".join(rendered(DECIDED)["verify"].lines)
    for words in ("8998/route?", "8000/v1/chat/completions", "n=[1-4]", "391", "not found in params_dict"):
        assert words in lines


def test_one_instance_is_served_and_measured_without_a_router() -> None:
    sheets = rendered(intent_of(layout=Layout(mode="single", tp=4), engine_source="venv-update"))
    line = sheets["launch.serve"].lines[0]
    assert "--disaggregation" not in line and "--tp-size 4" in line and "launch.router" not in sheets
    assert (
        "http://127.0.0.1:30000" in sheets["benchmark"].lines[0]
        and "--pd-separated" not in sheets["benchmark"].lines[0]
    )


def test_a_decided_assignment_of_gpus_is_what_is_launched() -> None:
    facts = changed("host.gpu_numa", {"0": [0, 2, 4, 6], "1": [1, 3, 5, 7]})
    intent = DECIDED.model_copy(update={"extra": {"gpus": {"prefill": [0, 2, 4, 6], "decode": [1, 3, 5, 7]}}})
    line = rendered(intent, facts)["launch.decode"].lines[0]
    assert "CUDA_VISIBLE_DEVICES=1,3,5,7" in line and "--numa-node 1 1 1 1" in line


def test_nothing_known_renders_gaps_and_never_raises() -> None:
    for intent in (intent_of(), Intent(), intent_of(layout=Layout(mode="single", tp=4))):
        sheets = rendered(intent, {})
        assert sheets["verify"].lines
        assert "interpreter of the new engine" in sheets["benchmark"].missing


@pytest.mark.parametrize("path", [f"{role}.{name}" for role, named in flagship().items() for name in named])
def test_odd_values_never_crash_a_rendering(path: str) -> None:
    for odd in (None, "", "x", -1, [], {}, [None], {"a": None}, True):
        rendered(DECIDED, changed(path, odd))
