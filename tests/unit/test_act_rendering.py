"""How the steps that a person carries out look, before and after decisions."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from support.views import UNIT, absent, changed, flagship, intent_of, unknown, view_of

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


SOURCES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "venv-update": ({}, "/root/venvs/sglang", ["-m pip install --upgrade sglang==0.5.13 sglang-router mooncake"]),
    "venv-wheel": ({}, "/root/venvs/sglang-0.5.13", ["python3 -m venv /root/venvs/sglang-0.5.13"]),
    "git-ref": ({"engine_ref": "v0.5.20"}, "/root/venvs/sglang-git-v0.5.20", ["checkout v0.5.20", "src/sglang/python"]),
    "git-prs": (
        {"engine_prs": "#12, https://github.com/sgl-project/sglang/pull/345", "engine_ref": "feature/x"},
        "/root/venvs/sglang-git-feature-x-pr12-pr345", ["checkout feature/x", "origin pull/12/head", "origin pull/345/head"],
    ),
}  # fmt: skip


def sourced(source: str, **extra: Any) -> dict[str, Rendered]:
    given = {**DECIDED.extra, "tune": True, **extra}
    return rendered(DECIDED.model_copy(update={"engine_source": source, "extra": given}))


@pytest.mark.parametrize("source", SOURCES)
def test_every_step_uses_the_environment_that_the_install_makes(source: str) -> None:
    extra, venv, words = SOURCES[source]
    sheets = sourced(source, **extra)
    install = "\n".join(sheets["engine.install"].lines)
    assert all(word in install for word in words), install
    assert f"{venv}/bin/python -m pip install" in install
    users = ("launch.prefill", "launch.decode", "launch.router", "benchmark", "kernels.build", "port")
    for key in users:
        used = {word for line in sheets[key].lines for word in line.split() if word.endswith("/bin/python")}
        assert used == {f"{venv}/bin/python"}, key
    # what downloads is there before the new environment is
    assert " /root/venvs/sglang/bin/hf download " in sheets["download"].lines[0]


def test_without_an_engine_the_download_waits_for_the_one_that_brings_its_tool() -> None:
    facts = changed(
        "engine.python", unknown("no interpreter"), changed("engine.version", absent("no engine"))
    )
    service = {k: v for k, v in facts["host"]["service"].items() if k != "interpreter"}
    facts = changed("host.service", service, facts)
    view = view_of(facts, intent=DECIDED)
    task = next(t for t in playbook.plan(DECIDED, view).tasks if t.key == "download")
    assert [edge.key for edge in task.needs] == ["engine.install"]
    lines = render(task, view).lines
    assert (
        lines[0].startswith("# after engine.install")
        and "/opt/venvs/sglang-0.5.13/bin/hf download" in lines[1]
    )
    known = next(
        t for t in playbook.plan(DECIDED, view_of(flagship(), intent=DECIDED)).tasks if t.key == "download"
    )
    assert known.needs == ()


@pytest.mark.parametrize(
    ("source", "extra"),
    [
        ("git-prs", {}),
        ("git-prs", {"engine_prs": "12; reboot"}),
        ("git-prs", {"engine_prs": ["12", "$(reboot)"]}),
        ("git-prs", {"engine_prs": "https://github.com/someone/sglang/pull/12"}),
        ("git-ref", {"engine_ref": "--upload-pack=reboot"}),
        ("git-ref", {"engine_ref": "<$(reboot)>"}),
        ("git-ref", {"engine_ref": "a..b"}),
    ],
)
def test_a_source_that_cannot_be_read_stays_a_gap(source: str, extra: dict[str, Any]) -> None:
    sheets = sourced(source, **extra)
    text = "\n".join(line for sheet in sheets.values() for line in sheet.lines)
    assert "reboot" not in text and "someone" not in text and "a..b" not in text
    assert (
        sheets["engine.install"].missing
        and "interpreter of the new engine" in sheets["launch.prefill"].missing
    )


def test_before_the_source_is_decided_no_step_names_the_old_environment_as_the_new_one() -> None:
    sheets = rendered(intent_of())
    for key in ("launch.prefill", "launch.router", "benchmark"):
        assert "<interpreter of the new engine>" in sheets[key].lines[0], key
    kept = changed("engine.version", "0.5.23", changed("engine.architectures", ["DeepseekV4ForCausalLM"]))
    line = rendered(intent_of(verbs=("launch",), transfer_backend="nixl"), kept)["launch.prefill"].lines[0]
    assert "/root/venvs/sglang/bin/python -m sglang.launch_server" in line


def test_an_install_is_never_older_than_what_runs_already() -> None:
    newer = changed("engine.version", "0.5.20")
    lines = rendered(DECIDED, newer)["engine.install"].lines
    assert "sglang==0.5.23" in lines[1] and "/root/venvs/sglang-0.5.23/bin/python" in lines[1]
    asked = DECIDED.model_copy(update={"extra": {"engine_release": "0.5.12"}})
    sheet = rendered(asked)["engine.install"]
    assert "sglang==0.5.12" in sheet.lines[1]
    assert any("0.5.12 was asked for, and at least 0.5.13 is needed" in line for line in sheet.lines)


def test_a_name_from_outside_is_quoted_also_where_it_looks_like_a_gap() -> None:
    odd = "/root/models/<x>; reboot <model>"
    intent = DECIDED.model_copy(update={"extra": {"free_path": [odd, "/root/ckpt-old"]}})
    line = next(line for line in rendered(intent)["disk.free"].lines if "reboot" in line)
    assert shlex.split(line) == ["rm", "-rf", "--one-file-system", "--", odd]


def test_what_goes_is_named_with_its_bytes_and_held_back_while_it_is_used() -> None:
    intent = DECIDED.model_copy(update={"extra": {"free_path": ["/root/models/Kimi-K2.6", "/root/ckpt-old"]}})
    lines = rendered(intent)["disk.free"].lines
    assert lines[0] == f"# refuse this while {UNIT} runs: it uses /root/models/Kimi-K2.6"
    assert lines[1] == f"systemctl is-active -- {UNIT}" and "service.stop comes first" in lines[2]
    assert lines[3] == "rm -rf --one-file-system -- /root/models/Kimi-K2.6" and "frees 548.0 GB" in lines[4]
    assert lines[5] == "rm -rf --one-file-system -- /root/ckpt-old" and "frees 64.4 GB" in lines[6]
    assert "in all 612.5 GB" in lines[7] and lines[8].startswith("df -B1 ") and "176.7 GB" in lines[9]
    plan = {t.key: t for t in playbook.plan(intent, view_of(flagship(), intent=intent)).tasks}
    assert [e.key for e in plan["disk.free"].needs] == ["service.stop"]
    assert plan["disk.free"].order > plan["service.stop"].order


@pytest.mark.parametrize("path", ["/", "/root", "models", "/root/../etc/x", "/root/a\nreboot", ""])
def test_what_cannot_go_is_refused_whoever_chose_it(path: str) -> None:
    sheet = rendered(DECIDED.model_copy(update={"extra": {"free_path": [path]}}))["disk.free"]
    assert not any(line.startswith("rm ") for line in sheet.lines) and sheet.missing


def test_the_port_says_what_is_known_and_how_to_see_that_it_is_done() -> None:
    refused = changed(
        "checkpoint.declared", {"quant_method": "compressed-tensors", "format": "mixed-precision"}
    )
    found = "\n".join(rendered(DECIDED, refused)["port"].lines)
    assert "refuses mixed-precision" in found and "nothing is known" not in found
    assert "where: schemes/compressed_tensors_wNa16_moe.py" in found and "port item" not in found
    plain = rendered(DECIDED, changed("checkpoint.declared", {"quant_method": "modelopt"}))["port"]
    assert plain.lines[0].startswith("# nothing is known that a release does not have") and not plain.missing
    unread = rendered(DECIDED, changed("checkpoint.architecture", ...))["port"]
    assert "nothing is known" not in "\n".join(unread.lines) and "what the checkpoint needs" in unread.missing
    assert any(line.endswith("get_supported_archs())' DeepseekV4ForCausalLM") for line in plain.lines)
    assert any(line.startswith("journalctl -u recon-prefill ") for line in plain.lines)


@pytest.mark.parametrize("facts", [flagship(), {}], ids=["known", "nothing known"])
def test_every_line_is_one_command_or_one_remark(facts: dict[str, dict[str, Any]]) -> None:
    for extra in ({}, {"tune": True}):
        intent = DECIDED.model_copy(update={"extra": {**DECIDED.extra, **extra}})
        for key, sheet in rendered(intent, facts).items():
            for line in sheet.lines:
                assert line.isprintable() or sheet.change is not None, key
                if sheet.manual and not line.startswith("#") and not sheet.missing:
                    assert shlex.split(line) and not re.search(r"<[^>]+>", line), (key, line)


def test_a_search_gives_its_words_one_by_one_and_ends_somewhere() -> None:
    refused = changed(
        "checkpoint.declared", {"quant_method": "compressed-tensors", "format": "mixed-precision"}
    )
    lines = rendered(DECIDED, refused)["tracker.search"].lines
    searches = [shlex.split(line) for line in lines if line.startswith("gh ")]
    assert ["DeepseekV4ForCausalLM", "sm120"] in [words[-2:] for words in searches]
    assert any(line.startswith("# done when") for line in lines)


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
