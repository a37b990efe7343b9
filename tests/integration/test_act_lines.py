"""Decisions of the bundled mission reach the commands: sources, checkpoints, transfer; and no launch line is wrong."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recon.agent import cli
from recon.agent.api import ActTask, Rendered, View
from recon.agent.cli.compose import open_session
from recon.agent.engine.assemble import make_view
from recon.agent.runner.records import load_records
from recon.tasks.act.launch import flag_troubles
from recon.tasks.knowledge import engine_tables as tables
from recon.tasks.knowledge.flag_table import flag_table
from recon.tasks.lint.arguments import read
from recon.tasks.playbooks.deploy_pd import playbook
from recon.tasks.register import definitions

RENDER = {d.name: d.render for d in definitions() if isinstance(d, ActTask)}
CHECKPOINTS = [
    "",
    "DeepSeek-V4-Flash-NVFP4-FP8",
    "DeepSeek-V4-Flash-NVFP4-FP8-MTP",
    "DeepSeek-V4-Flash-NVFP4",
]
TRANSFERS: dict[str, dict[str, Any]] = {
    "mooncake_tcp": {"transfer_backend": "mooncake_tcp"}, "nixl": {"transfer_backend": "nixl"}, "single": {},
}  # fmt: skip
# (source, what else the decision says) -> the release whose flags the lines are held against
SOURCES: list[tuple[dict[str, Any], str]] = [
    ({"engine_source": "venv-wheel"}, "0.5.13"),
    ({"engine_source": "git-ref", "extra": {"engine_ref": "v0.5.20"}}, "0.5.20"),
    ({"engine_source": "venv-update", "extra": {"engine_release": "0.5.23"}}, "0.5.23"),
]


def recon(folder: Path, *arguments: str, code: int = 0) -> str:
    """Runs `recon` in a folder; both streams."""
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        returned = cli.run(arguments)
    assert returned == code, f"{arguments}: {returned}\n{out.getvalue()}"
    return out.getvalue()


def decide(folder: Path, key: str, option: str, code: int = 0) -> str:
    return recon(folder, "decide", key, option, "--because", "a test", "--yes", code=code)


def sheet(folder: Path, task: str) -> str:
    """The todo item's commands, one a line."""
    with contextlib.chdir(folder), open_session(Path("state.db"), read_only=True) as opened:
        rendered = next(t.rendered for t in opened.state().tasks if t.task.key == task)
    assert rendered is not None
    return "\n".join(rendered.lines)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled mission, run once."""
    folder = tmp_path_factory.mktemp("played")
    recon(folder, "run", code=3)
    return folder


@pytest.fixture
def folder(played: Path, tmp_path: Path) -> Path:
    shutil.copy(played / "state.db", tmp_path / "state.db")
    return tmp_path


@pytest.mark.parametrize(
    ("option", "venv", "installs"),
    [
        ("venv-wheel", "/root/venvs/sglang-0.5.13", "pip install sglang==0.5.13 "),
        ("git-ref=v0.5.20", "/root/venvs/sglang-git-v0.5.20", "checkout v0.5.20\n"),
        ("git-prs=#123,456", "/root/venvs/sglang-git-v0.5.13-pr123-pr456", " origin pull/456/head\n"),
        (
            "git-prs=https://github.com/sgl-project/sglang/pull/123",
            "/root/venvs/sglang-git-v0.5.13-pr123",
            " origin pull/123/head\n",
        ),
    ],
)
def test_a_decided_source_reaches_every_command(folder: Path, option: str, venv: str, installs: str) -> None:
    decide(folder, "engine.source", option)
    decide(folder, "kv.transfer", "mooncake_tcp")
    install = sheet(folder, "engine.install")
    assert installs in install and f"{venv}/bin/python -m pip install" in install
    for task in ("launch.prefill", "launch.decode", "launch.router", "benchmark", "kernels.build"):
        words = sheet(folder, task).split()
        assert {word for word in words if word.endswith("/bin/python")} == {f"{venv}/bin/python"}, task
    assert "/root/venvs/sglang/bin/hf download " in sheet(folder, "download")


@pytest.mark.parametrize(
    ("key", "option", "told"),
    [
        ("kv.transfer", "nixl=foo", "nixl takes no value"),
        ("engine.source", "venv-wheel=0.5.20", "venv-wheel takes no value"),
        ("engine.source", "git-prs", "git-prs needs its prs"),
        ("engine.source", "git-ref", "git-ref needs its ref"),
        ("engine.source", "git-prs=latest", "'latest' is no number or address of a pull request"),
        ("engine.source", "git-prs=12; reboot", "'12;' is no number"),
        ("engine.source", "git-prs=https://github.com/me/sglang/pull/1", "of another repository"),
        ("engine.source", "git-ref=-b x", "is no name of a branch"),
    ],
)
def test_a_value_that_is_none_is_refused_and_nothing_is_recorded(
    folder: Path, key: str, option: str, told: str
) -> None:
    assert told in decide(folder, key, option, code=2)
    assert "<engine source: engine.source>" in sheet(folder, "engine.install")


@pytest.mark.parametrize(
    ("checkpoint", "lacks"),
    [
        ("DeepSeek-V4-Flash-NVFP4", ""),
        ("DeepSeek-V4-Flash-NVFP4-FP8-MTP", "SGLang may load the FP8 attention without its scales"),
    ],
)
def test_the_sources_and_the_port_item_say_the_same_of_what_is_lacking(
    folder: Path, checkpoint: str, lacks: str
) -> None:
    decide(folder, "checkpoint.format", checkpoint)
    recon(folder, "resume", code=3)
    port, shown = sheet(folder, "port"), " ".join(recon(folder, "show", "unknown", "engine.source").split())
    assert ("nothing is known that a release does not have" in port) is (not lacks)
    assert ("to be ported" in shown) is bool(lacks)
    assert lacks in shown and lacks in port


# ---- launch lines


def launch_lines(view: View) -> Iterator[tuple[str, list[str]]]:
    """(key, argument vector) of the servers of a mission."""
    for task in playbook.plan(view.intent, view).tasks:
        if task.definition == "act.server":
            rendered: Rendered = RENDER[task.definition](view, task.params)
            assert not rendered.missing, rendered.missing
            yield task.key, shlex.split(rendered.lines[0])


def check_flags(argv: list[str], release: str) -> None:
    """Every flag is one of the release, with a value of its type and one of its choices."""
    at = argv.index("sglang.launch_server") + 1
    assert flag_troubles(argv[at:], release) == []
    table = flag_table()
    assert [n.text for n in read(argv[at:], table, str(table.release_for(release))).notes] == []


def check_placement(argv: list[str]) -> None:
    """One NUMA node a visible GPU: the list is indexed by GPU number, which CUDA_VISIBLE_DEVICES makes start at 0."""
    visible = (
        next(w for w in argv if w.startswith("--setenv=CUDA_VISIBLE_DEVICES=")).rpartition("=")[2].split(",")
    )
    tp = int(argv[argv.index("--tp-size") + 1])
    at = argv.index("--numa-node") + 1
    nodes = [int(word) for word in argv[at : at + tp]]
    assert len(visible) == tp == 4 and "--base-gpu-id" not in argv
    assert nodes == [0 if int(gpu) < 4 else 1 for gpu in visible]
    assert not tables.numa_node_flag_crashes(nodes, base_gpu_id=0, processes=tp)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_every_launch_line_is_one_that_the_planned_release_takes(folder: Path, checkpoint: str) -> None:
    if checkpoint:
        decide(folder, "checkpoint.format", checkpoint)
        recon(folder, "resume", code=3)
    with open_session(folder / "state.db", read_only=True) as opened:
        mission = opened.current()
        known = make_view(load_records(opened.store, mission.id), now=opened.known_now(mission))
    seen: dict[str, set[str]] = {}
    for transfer, chosen in TRANSFERS.items():
        for source, release in SOURCES:
            layout = known.intent.layout.model_copy(update={"mode": "single", "tp": 4})
            update = {**source, **chosen, **({"layout": layout} if transfer == "single" else {})}
            view = known.tracking()
            view.intent = known.intent.model_copy(update=update)
            for key, argv in launch_lines(view):
                check_flags(argv, release)
                check_placement(argv)
                seen.setdefault(transfer, set()).add(key)
                backend = argv[argv.index("--moe-runner-backend") + 1]
                assert backend == ("flashinfer_cutlass" if "NVFP4" in checkpoint else "marlin")
                if transfer != "single":
                    assert argv[argv.index("--disaggregation-transfer-backend") + 1] == transfer
                    assert argv[argv.index("--disaggregation-mode") + 1] == key.removeprefix("launch.")
    split = {"launch.prefill", "launch.decode"}
    assert seen == {"mooncake_tcp": split, "nixl": split, "single": {"launch.serve"}}
