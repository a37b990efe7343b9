"""Missions of one's own on this machine: facts, gates, questions, an approved change, kill -9 in between; plug-ins."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.plugin_package import GOOD, lay
from support.tree import ROOT

from recon.agent import cli
from recon.agent.cli.directive import from_file
from recon.agent.cli.plugins import load_plugins
from recon.agent.mission import mission_schema
from recon.agent.mission.strict_yaml import read_yaml
from recon.agent.model.errors import ConfigError, ReconError

RECON = [sys.executable, "-m", "recon"]
ALLOW = {"RECON_ALLOW_NONINTERACTIVE_APPROVAL": "1"}
CASES = ROOT / "tests" / "cases" / "missions"
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.yaml"))

MISSION = """\
mission: recon.mission/1
title: Keep a marker
intent: {{host: localhost}}
facts:
  level: {{file: {folder}/level, type: number, lifetime_s: {lifetime}}}
tasks:
  marker:
    title: write the marker
    command:
      effect: {effect}
      target: {folder}/log
      check: [grep, -q, once, {folder}/log]
      apply:
        - [sh, -c, 'echo once >> "$1"', recon, {folder}/log]
        - [sleep, "{seconds}"]
      verify: {{argv: [grep, -c, once, {folder}/log], prints: "^1$"}}
      rollback: [[rm, -f, {folder}/log]]
  tell: {{title: tell somebody, needs: [marker]}}
unknowns:
  agreed: {{question: Agreed?, domain: yes_no}}
gates:
  marker:
    - {{text: facts.level >= 5, words: the level is high enough}}
    - {{text: 'decided("agreed", "yes")', words: somebody agreed}}
"""


def _checked(words: tuple[str, ...], returned: int, shown: str, code: int) -> str:
    assert returned == code, f"{words}: {returned}\n{shown}"
    assert "Traceback" not in shown
    return shown


class Folder:
    """A working folder with a mission file in it."""

    def __init__(
        self,
        path: Path,
        *,
        level: str = "7",
        effect: str = "mutating",
        seconds: float = 0,
        lifetime: float = 60,
    ) -> None:
        self.path = path
        (path / "level").write_text(level)
        (path / "log").write_text("")
        text = MISSION.format(folder=path, effect=effect, seconds=seconds, lifetime=lifetime)
        (path / "m.yaml").write_text(text)

    def recon(self, *words: str, code: int = 0, **environment: str) -> str:
        """A command line in this folder, without the second that a process takes to start."""
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            with (
                contextlib.chdir(self.path),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(out),
            ):
                returned = cli.run(words)
        return _checked(words, returned, out.getvalue(), code)

    def process(self, *words: str, code: int = 0, **environment: str) -> str:
        """The same as a process of its own."""
        ended = subprocess.run(
            [*RECON, *words], cwd=self.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=120, check=False, env={**os.environ, **environment},
        )  # fmt: skip
        return _checked(words, ended.returncode, ended.stdout, code)

    def status(self, key: str) -> str:
        report = json.loads(self.recon("report", "--format", "json", code=0))
        return next(str(t["status"]) for t in report["tasks"] if t["id"] == key)

    def agree(self) -> None:
        self.recon("run", "m.yaml", code=3)
        self.recon("decide", "agreed", "yes", "--because", "asked")
        self.recon("resume", code=3)

    @property
    def log(self) -> str:
        return (self.path / "log").read_text()


def test_read_decided_approved_applied_once_and_verified(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    shown = folder.recon("run", "m.yaml", code=3)
    assert "Keep a marker on localhost." in shown and "recon decide agreed" in shown
    assert folder.status("marker") == "awaiting_decision"
    folder.recon("decide", "agreed", "yes", "--because", "asked")
    assert "recon approve marker" in folder.recon("resume", code=3)
    assert (folder.status("marker"), folder.log) == ("awaiting_approval", "")
    asked = folder.recon("approve", "marker", "--yes", **ALLOW)
    assert "sh -c 'echo once >> \"$1\"' recon" in asked and "boot_id = " in asked
    folder.recon("resume")
    assert (folder.status("marker"), folder.log) == ("succeeded", "once\n")
    folder.recon("todo", "done", "tell")
    folder.recon("resume")
    assert (folder.status("tell"), folder.log) == ("succeeded", "once\n")
    why = folder.recon("why", "marker")
    assert "fact facts.level [known]: 7" in why and "decided by" in why


def test_killed_while_it_applies_the_change_is_found_done_and_not_done_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path, seconds=20)
    folder.agree()
    folder.recon("approve", "marker", "--yes", **ALLOW)
    run = subprocess.Popen(
        [*RECON, "resume"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not folder.log and time.monotonic() < deadline:
        time.sleep(0.02)
    assert folder.log == "once\n"
    run.send_signal(signal.SIGKILL)
    run.wait(30)
    _end_sleepers(tmp_path)
    assert folder.status("marker") in ("interrupted", "running")
    folder.recon("resume")
    assert (folder.status("marker"), folder.log) == ("succeeded", "once\n")
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as raw:
        rows = raw.execute(
            "SELECT a.cause, a.outcome FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.key = 'marker' ORDER BY a.n"
        ).fetchall()
    assert [cause for cause, _ in rows] == ["first", "resume"] and rows[-1][1] == "succeeded"


def _end_sleepers(folder: Path) -> None:
    """Ends the step that the killed run left behind: the `sleep 20` whose working folder is ours."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes() == b"sleep\x0020\x00" and (
                    entry / "cwd"
                ).readlink() == folder:
                    os.kill(int(entry.name), signal.SIGKILL)


def test_a_false_gate_keeps_it_shut_and_the_verdict_says_so(tmp_path: Path) -> None:
    folder = Folder(tmp_path, level="3")
    shown = folder.recon("run", "m.yaml")
    assert "NO-GO: 1 block" in shown and "marker: not so: the level is high enough" in shown
    folder.recon("decide", "agreed", "yes", "--because", "asked")
    folder.recon("resume")
    assert folder.status("marker") == "blocked" and folder.log == ""


@pytest.mark.parametrize("level", ["much", None], ids=["not a number", "no file"])
def test_a_fact_that_was_not_read_never_opens_a_gate(tmp_path: Path, level: str | None) -> None:
    folder = Folder(tmp_path)
    if level is None:
        (tmp_path / "level").unlink()
    else:
        (tmp_path / "level").write_text(level)
    folder.recon("run", "m.yaml", code=3)
    folder.recon("decide", "agreed", "yes", "--because", "asked")
    folder.recon("resume", code=3)
    assert folder.status("marker") == "blocked"


def test_a_fact_is_read_again_before_the_change_and_closes_the_gate(tmp_path: Path) -> None:
    folder = Folder(tmp_path, lifetime=0.5)
    folder.agree()
    folder.recon("approve", "marker", "--yes", **ALLOW)
    (tmp_path / "level").write_text("1")
    time.sleep(0.6)
    assert "NO-GO" in folder.recon("resume")
    assert folder.log == ""


def test_a_destructive_command_wants_its_target_typed(tmp_path: Path) -> None:
    folder = Folder(tmp_path, effect="destructive")
    folder.agree()
    folder.recon("approve", "marker", "--yes", code=2, **ALLOW)
    folder.recon("approve", "marker", "--confirm", "/elsewhere", code=2, **ALLOW)
    folder.recon("resume", code=3)
    assert folder.log == ""
    folder.recon("approve", "marker", "--confirm", f"{tmp_path}/log", **ALLOW)
    folder.recon("resume")
    assert folder.log == "once\n"


def test_facts_of_the_same_name_in_two_missions_are_kept_apart(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.agree()
    other = (
        (tmp_path / "m.yaml").read_text().replace("/level,", "/other,").replace("Keep a marker", "Another")
    )
    (tmp_path / "other").write_text("1")
    (tmp_path / "o.yaml").write_text(other)
    assert "NO-GO" in folder.recon("run", "o.yaml")
    first = folder.recon("missions", "--json")
    folder.recon("use", next(m["id"] for m in json.loads(first) if not m["current"]))
    assert folder.status("marker") == "awaiting_approval"


def test_a_number_is_asked_for_as_one(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    text = (tmp_path / "m.yaml").read_text()
    text = text.replace(
        "unknowns:\n", "unknowns:\n  slots: {question: How many?, domain: number, unit: GiB}\n"
    )
    (tmp_path / "m.yaml").write_text(text)
    folder.recon("run", "m.yaml", code=3)
    assert "is not a number of GiB" in folder.recon("decide", "slots", "many", "--because", "x", code=2)
    assert "is not a number of GiB" in folder.recon("decide", "slots", "5 MiB", "--because", "x", code=2)
    assert "decided slots: 5 GiB" in folder.recon("decide", "slots", "5", "--because", "x")
    assert "has no option 'perhaps'" in folder.recon("decide", "agreed", "perhaps", "--because", "x", code=2)


# ---- what is refused, with its place


@pytest.mark.parametrize("case", sorted(p.name for p in CASES.iterdir()))
def test_a_mission_file_that_is_off_is_refused_with_its_place(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CASES / case)
    with pytest.raises(ReconError) as caught:
        from_file(Path("mission.yaml"), {})
    assert f"{caught.value.message}\n-> {caught.value.hint}\n" == (CASES / case / "refused.txt").read_text()


# ---- documentation


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_the_examples_run_here_and_change_nothing(example: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (tmp_path / example.name).write_text(
        example.read_text().replace("/tmp/recon-example", str(tmp_path / "example"))
    )
    with subprocess.Popen(
        [*RECON, "run", example.name], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:  # fmt: skip
        shown = run.communicate(timeout=120)[0]
    assert run.returncode in (0, 3), shown
    assert "nothing was touched" in shown
    report = json.loads(folder.recon("report", "--format", "json"))
    assert {t["status"] for t in report["tasks"] if t["kind"] != "act"} == {"succeeded"}
    assert not (tmp_path / "example").exists()
    document = read_yaml(example.read_text(), source=example.name)
    jsonschema.validate(document.value, mission_schema())


def test_there_are_examples() -> None:
    assert {p.stem for p in EXAMPLES} >= {"marker", "nfs-mount", "own-engine"}


def test_the_missions_in_the_documentation_are_missions(tmp_path: Path) -> None:
    blocks = re.findall(
        r"```yaml\n(mission: .*?)```", (ROOT / "docs" / "missions.md").read_text(), flags=re.DOTALL
    )
    assert len(blocks) == 2
    for n, block in enumerate(blocks):
        path = tmp_path / f"{n}.yaml"
        path.write_text(block)
        assert from_file(path, {}).intent.extra["additions"]


def test_the_documentation_names_every_key_of_the_format() -> None:
    text = (ROOT / "docs" / "missions.md").read_text()

    def names(node: Any) -> set[str]:
        found = set(node.get("properties", {})) if isinstance(node, dict) else set()
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return found.union(*map(names, inner)) if inner else found

    schema = {k: v for k, v in mission_schema().items()}
    for elsewhere in ("FileIntent", "FileLayout", "FileWish"):
        schema["$defs"].pop(elsewhere)
    assert {name for name in names(schema) if not re.search(rf"\b{name}\b", text)} == set()


# ---- playbooks and plug-ins


def test_the_bundled_playbooks_say_what_they_need(tmp_path: Path) -> None:
    listed = {b["name"]: b for b in json.loads(Folder(tmp_path).recon("playbooks", "--json"))["playbooks"]}
    assert {"check", "deploy", "deploy_pd", "none"} <= set(listed)
    assert listed["deploy"]["needs"] == ["model", "host"] and all(b["about"] for b in listed.values())


def test_a_check_plans_nothing_that_changes_and_a_deployment_does(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    kinds = {}
    for words in ("can openai/gpt-oss-20b run on ct200?", "deploy openai/gpt-oss-20b on ct200 TP1"):
        plan = json.loads(folder.recon("triage", words, "--json"))
        kinds[plan["triage"]["playbook"]] = {t["kind"] for t in plan["tasks"]}
    assert kinds == {"check": {"recon", "judge"}, "deploy": {"recon", "judge", "act"}}
    forced = json.loads(
        folder.recon("triage", "deploy openai/gpt-oss-20b on ct200", "--playbook", "check", "--json")
    )
    assert forced["sentence"].startswith("Check whether openai/gpt-oss-20b can run on ct200")


def test_a_plug_in_brings_a_task_and_a_playbook(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = {"PYTHONPATH": str(lay(tmp_path / "site"))}
    assert re.search(
        r"tiny +counts CPUs\. Needs host\. \(plug-in tiny-plugin\)", folder.process("playbooks", **path)
    )
    (tmp_path / "t.yaml").write_text(
        "mission: recon.mission/1\ntitle: Count\nintent: {host: localhost}\nplaybook: tiny\n"
    )
    folder.process("run", "t.yaml", **path)
    report = json.loads(folder.process("report", "--format", "json", **path))
    assert {(t["id"], t["status"]) for t in report["tasks"]} == {("tiny.count", "succeeded")}
    assert next(f["value"] for f in report["findings"] if f["name"] == "cpus") >= 1
    assert "no playbook is called 'tiny'" in folder.process("resume", code=2)  # gone again
    assert "tiny.count" in folder.process("todo")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import not_there_at_all\n", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("raise SystemExit(0)\n", "SystemExit: 0"),
        (GOOD.replace("tiny.count", "host.gpus"), "the name 'host.gpus' is taken already"),
        (GOOD.replace('name = "tiny"', 'name = "deploy"'), "the playbook calls itself 'deploy' and is registered as 'tiny'"),
        (GOOD.replace("return [ReconTask", "return [str] or [ReconTask"), "is no task definition"),
        (GOOD.replace("def plan(", "def other("), "is no playbook: it has no plan"),
    ],
    ids=["import", "exit", "name taken", "other name", "no definition", "no playbook"],
)  # fmt: skip
def test_a_broken_plug_in_is_named(
    tmp_path: Path, code: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"tiny_{abs(hash(code))}"  # a module of its own: imports are remembered
    monkeypatch.syspath_prepend(str(lay(tmp_path / "site", name=name, code=code)))
    importlib.invalidate_caches()
    loaded = load_plugins()
    assert {b.distribution for b in loaded.broken} == {name.replace("_", "-")}
    assert any(reason in b.words for b in loaded.broken)
    assert "deploy" in loaded.registry.playbooks and "host.gpus" in loaded.registry.definitions
    with pytest.raises(ConfigError, match=f"plug-in {name.replace('_', '-')}"):
        loaded.whole()


def test_a_broken_plug_in_stops_a_run_and_no_report(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.recon("run", "m.yaml", code=3)
    path = {"PYTHONPATH": str(lay(tmp_path / "site", code="import not_there_at_all\n"))}
    told = folder.process("resume", code=2, **path)
    assert "plug-in tiny-plugin (recon.tasks: tiny_plugin): ModuleNotFoundError" in told
    assert "pip uninstall tiny-plugin" in told
    folder.process("run", "m.yaml", code=2, **path)
    assert "Keep a marker" in folder.process("report", **path)


def test_a_playbook_that_fails_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    site = lay(tmp_path / "site", code=GOOD.replace("return Plan(", "return 1 / 0, Plan("))
    (tmp_path / "t.yaml").write_text(
        "mission: recon.mission/1\ntitle: Count\nintent: {host: localhost}\nplaybook: tiny\n"
    )
    told = folder.process("run", "t.yaml", code=2, PYTHONPATH=str(site))
    assert "playbook tiny failed: ZeroDivisionError" in told
