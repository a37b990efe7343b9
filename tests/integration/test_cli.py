"""The `recon` command as people start it: a process, its two streams, its exit code."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from support.command_line import RECON, recon, within
from support.terminal import on_terminal


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The bundled mission, run once: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("played")
    return folder, recon(folder, "run", code=3)


@pytest.fixture
def folder(played: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path) -> Path:
    """A copy of the state that `recon run` left, to write in."""
    shutil.copy(played[0] / "state.db", tmp_path / "state.db")
    return tmp_path


def test_run_fits_forty_lines_and_says_that_it_waits(
    played: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    lines = played[1].stdout.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    assert lines[0].startswith("DEMO: a recorded host, nothing is contacted")
    assert lines[-1].startswith("exit 3: waiting for you")
    assert lines[-2].startswith("NEEDS DECISION: ")
    commands = [line for line in lines if "recon decide " in line]
    questions = json.loads(within(played[0], "report", "--format", "json").stdout)["unknowns"]
    assert {c.split("recon decide ")[1].split()[0] for c in commands} == {
        u["id"]
        for u in questions
        if u["required"] and u["status"] in ("contradicted", "open") and u["options"]
    }


def test_stdout_is_the_result_and_stderr_the_narration(
    played: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    assert "✓ host.gpus[ct200]" in played[1].stderr
    assert "\x1b" not in played[1].stdout + played[1].stderr


def test_resume_runs_nothing_again(folder: Path) -> None:
    events = [json.loads(line) for line in recon(folder, "resume", "--json", code=3).stdout.splitlines()]
    assert [e["event"] for e in events if e["event"] == "task_started"] == []
    assert events[-1]["event"] == "end" and events[-1]["exit_code"] == 3
    assert {w["kind"] for w in events[-1]["waiting"]} == {"decision"}


def test_status_says_what_the_mission_stands_on(folder: Path) -> None:
    shown = within(folder, "status", code=3).stdout
    assert "every fact it stands on still holds" in shown and "nothing runs; run 1 ended" in shown
    assert "NEEDS DECISION: " in shown and shown.splitlines()[-1].startswith("exit 3: waiting for you")
    told = json.loads(within(folder, "status", "--json", code=3).stdout)
    assert (told["verdict"], told["stale"], told["runs"], told["exit_code"]) == ("needs_decision", [], [], 3)


def test_the_json_report_follows_its_schema(folder: Path) -> None:
    schema = json.loads(within(folder, "schema").stdout)
    jsonschema.validate(json.loads(within(folder, "report", "--format", "json").stdout), schema)
    canonical = json.loads(within(folder, "report", "--format", "json", "--canonical").stdout)
    jsonschema.validate(canonical, schema)
    assert "run" not in canonical


def test_a_report_goes_to_a_file(folder: Path) -> None:
    within(folder, "report", "--format", "md", "--output", "r.md")
    assert (folder / "r.md").read_text().startswith("# recon: NEEDS DECISION")
    assert within(folder, "report", "-o", "no/such/r.md", code=2).stderr.startswith("recon: no/such/r.md: ")


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    line = f"{sys.executable} -m recon report | head -n 1"
    ended = subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.startswith("DEMO") and ended.stderr == ""


def test_every_key_of_the_report_can_be_asked_about(folder: Path) -> None:
    report = json.loads(within(folder, "report", "--format", "json").stdout)
    assert "$ recon decide checkpoint.format" in within(folder, "why", "download").stdout
    chain = json.loads(within(folder, "why", "disk.room", "--json").stdout)
    assert chain["kind"] == "unknown" and chain["below"]
    shown = within(folder, "show", "finding", "fs").stdout
    for label in ("source    host ct200", "command   df -P -B1", "time      ", "sha256    ", "excerpt"):
        assert label in shown
    conflict = report["discrepancies"][0]["id"]
    assert "option    " in within(folder, "show", "discrepancy", conflict).stdout
    assert "question  " in within(folder, "show", "unknown", "disk.room").stdout
    assert "$ systemctl stop" in within(folder, "show", "task", "service.stop").stdout
    assert json.loads(within(folder, "show", "task", "download", "--json").stdout)["id"] == "download"


def test_why_begins_with_what_helps_and_says_each_thing_once(folder: Path) -> None:
    lines = within(folder, "why", "download").stdout.splitlines()
    head = lines[: lines.index("")]
    assert len(head) <= 5 and head[0] == "download is blocked"
    assert head[1].startswith("blocked by: ") and "disk.room (question)" in head[1]
    assert head[2].startswith("who unblocks: you (") and head[-1].startswith("next: recon decide ")
    heads = [line.strip().split(":")[0] for line in lines if "unknown " in line or "gate " in line]
    assert heads and len(set(heads)) == len(heads)
    assert any(line.strip().startswith("more: recon why ") for line in lines)
    assert len(lines) < 60
    assert json.loads(within(folder, "why", "download", "--json").stdout)["summary"][0] == head[0]


def test_names_may_be_short_and_observations_have_a_page(folder: Path) -> None:
    assert "task host.gpus[ct200] [done]" in within(folder, "why", "host.gpus").stdout
    assert "fact host.fs [known]" in within(folder, "why", "host.fs").stdout
    assert "title     GPUs" in within(folder, "show", "task", "host.gpus").stdout
    chain = json.loads(within(folder, "why", "fs", "--json").stdout)
    observed = next(below["ref"] for below in chain["below"] if below["kind"] == "evidence")
    assert within(folder, "why", observed).stdout.startswith(f"evidence {observed}")
    page = within(folder, "show", "observation", observed[:8])
    for part in (f"observed  {observed}", "command   df -P -B1", "answer", f"finding   {chain['ref']}  fs: "):
        assert part in page.stdout
    asked = within(folder, "show", "finding", observed)
    assert (
        "is an observation" in asked.stderr
        and asked.stdout == within(folder, "show", "observation", observed).stdout
    )
    assert json.loads(within(folder, "show", "observation", observed, "--json").stdout)["id"] == observed


def test_a_model_may_be_chosen_by_its_whole_name(folder: Path) -> None:
    listed = within(folder, "decide", code=3).stdout
    assert "- nvidia/DeepSeek-V4-Flash-NVFP4 · take " in listed
    ended = within(
        folder, "decide", "checkpoint.format", "nvidia/DeepSeek-V4-Flash-NVFP4", "--because", "b", "--yes"
    )
    assert (
        "decided checkpoint.format: " in ended.stdout
        and "Serve nvidia/DeepSeek-V4-Flash-NVFP4" in ended.stdout
    )


def test_the_counts_of_items_and_of_questions_are_told_apart(
    played: tuple[Path, subprocess.CompletedProcess[str]], folder: Path
) -> None:
    asked = within(folder, "decide", code=3).stdout.count("decision ")
    line = next(line for line in played[1].stdout.splitlines() if line.startswith("todo: "))
    assert f"; {asked} questions open" in line and "needs decision" not in line


def test_a_decision_makes_a_revision_and_resume_plans_anew(folder: Path) -> None:
    words = "\n".join(within(folder, "show", "unknown", "checkpoint.format").stdout.splitlines())
    sibling = next(w for w in words.split() if w.endswith("NVFP4-FP8-MTP"))
    ended = within(folder, "decide", "checkpoint.format", sibling, "--because", "NVFP4 was wanted")
    shown = " ".join(ended.stdout.split())
    assert (
        "mission revision 2" in shown
        and "+ todo: checkpoint." in shown
        and "- no longer todo: checkpoint." in shown
    )
    assert shown.index("what it changes:") < shown.index("decided checkpoint.format")
    after = recon(folder, "resume", code=3).stdout
    assert "NVFP4-FP8-MTP with SGLang" in after
    assert "recon decide checkpoint.format" not in after


def test_only_the_question_that_was_read_is_answered_and_an_answer_is_taken_back(folder: Path) -> None:
    asked = {
        u["id"]: u["shown"] for u in json.loads(within(folder, "report", "-f", "json").stdout)["unknowns"]
    }
    assert asked["disk.room"][:16] in within(folder, "show", "unknown", "disk.room").stdout
    words = ("decide", "disk.room", "free:/root/models/Kimi-K2.6", "--because", "b")
    refused = within(folder, *words, "--shown", asked["kv.transfer"], code=3).stderr
    assert "not the question you were shown any more" in refused and "recon show unknown disk.room" in refused
    shown = within(folder, *words, "--shown", asked["disk.room"][:16], "--yes").stdout
    assert "extra.free_path: - -> /root/models/Kimi-K2.6" in shown and "recon undo d1" in shown
    assert "no decision 'd9'" in within(folder, "undo", "d9", code=2).stderr
    back = within(folder, "undo", "disk.room", "--because", "wrong disk").stdout
    assert (
        "extra.free_path: /root/models/Kimi-K2.6 -> -" in back
        and "undone: decision d1 about disk.room" in back
    )
    assert "recon decide disk.room" in recon(folder, "resume", code=3).stdout
    assert "takes d1 back" in within(folder, "report").stdout


def test_a_replay_has_nothing_to_refresh(folder: Path) -> None:
    assert "what was recorded does not change" in within(folder, "refresh", code=2).stderr
    assert "--stale names all" in within(folder, "refresh", "host.fs", "--stale", code=2).stderr
    assert "history: 0 items" in within(folder, "todo", "--all").stdout


def test_decide_without_arguments_lists_and_waits(folder: Path) -> None:
    ended = within(folder, "decide", code=3)
    assert (
        ended.stdout.startswith("1. decision ")
        and 'recon decide disk.room OPTION --because "..."' in ended.stdout
    )
    assert within(folder, "approve").stdout == "nothing to approve\n"


def test_decide_asks_on_a_terminal(folder: Path) -> None:
    answers = [("decide which (1-", "1"), ("which (1-", "1"), ("because?", "it is quick"), ("[y/N]", "y")]
    ended = on_terminal([*RECON, "decide"], answers, cwd=folder)
    assert ended.exit_code == 0, ended.shown
    assert "decided " in ended.shown and "next: recon resume" in ended.shown
    decisions = json.loads(within(folder, "report", "--format", "json").stdout)["decisions"]
    assert [(d["because"], d["via"].split(", from")[0]) for d in decisions] == [
        ("it is quick", "cli, asked on a terminal")
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("decide", "disk.rom", "stop", "--because", "x"), "did you mean disk.room?"),
        (("decide", "disk.room", "burn", "--because", "x"), "disk.room has no option 'burn'"),
        (("decide", "disk.room", "stop"), "a decision needs its reason"),
        (("decide", "disk.room", "stop", "--because", "  "), "a decision needs its reason"),
        (("why", "downlaod"), "did you mean download?"),
        (("show", "finding", "nothing"), "no finding is called"),
        (("approve", "service.stop"), "this is a replay"),
        (("approve", "host.disk[ct200]"), "changes nothing"),
        (("retry", "nope"), "no todo item is called"),
        (("use", "m-0"), "no such mission"),
        (("report", "--canonical"), "--canonical is a form of the JSON report"),
        (("board",), "the board needs a terminal"),
        (("todo", "add", " "), "needs a title"),
        (("todo", "edit", "download"), "nothing to change"),
        (("retry", "judge.host"), "has succeeded"),
        (("retry", "host.gpus[ct200]"), "recon refresh host.gpus[ct200] reads it again"),
        (("retry", "download"), "download has not failed"),
        (("approve", "service.stop"), "recon run ORG/MODEL HOST plans the same"),
        (("approve", "--plan"), "recon run ORG/MODEL HOST plans the same"),
        (("why", "checkpoint"), "fits several"),
        (("why", "o-000"), "nothing here is called"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_word_is_told_with_what_helps(folder: Path, arguments: tuple[str, ...], told: str) -> None:
    assert told in within(folder, *arguments, code=2).stderr


def test_the_todo_list_is_for_people_and_agents(folder: Path) -> None:
    rows = json.loads(within(folder, "todo", "--json").stdout)
    assert {row["status"] for row in rows} <= {"pending", "in_progress", "completed", "cancelled"}
    text = within(folder, "todo").stdout
    assert (
        "act: changing the host" in text and "+ added because" in text and "added because added" not in text
    )
    key = within(folder, "todo", "add", "call the data centre", "--priority", "high").stdout.split()[1]
    within(folder, "todo", "edit", key, "--title", "write to the data centre")
    row = next(r for r in json.loads(within(folder, "todo", "--json").stdout) if r["id"] == key)
    assert row == {"id": key, "content": "write to the data centre", "priority": "high", "status": "pending"}
    within(folder, "todo", "done", key, "--note", "by mail")
    other = within(folder, "todo", "add", "[b]x[/b]\x1b[2J").stdout.split()[1]
    within(folder, "todo", "cancel", other)
    after = {r["id"]: r["status"] for r in json.loads(within(folder, "todo", "--json").stdout)}
    assert (after[key], after[other]) == ("completed", "cancelled")
    assert "\x1b" not in within(folder, "todo").stdout


def test_an_exported_bundle_plays_to_the_same_report(folder: Path) -> None:
    assert "recon run --replay b.tar.gz" in within(folder, "export", "b.tar.gz").stdout
    recon(folder, "run", "--replay", "b.tar.gz", "--db", "other.db", code=3)
    one, other = (
        within(folder, "report", "--format", "json", "--canonical", "--db", db).stdout
        for db in ("state.db", "other.db")
    )
    assert one == other


def test_missions_are_listed_and_chosen(folder: Path) -> None:
    first = within(folder, "missions").stdout.split()[1]
    assert within(folder, "use", first[:6]).stdout == f"current mission: {first}\n"
    assert json.loads(within(folder, "missions", "--json").stdout)[0]["current"] is True
    assert "exit 3" in within(folder, "runs").stdout


def test_the_state_file_may_be_named_before_the_command_after_it_or_by_environment(folder: Path) -> None:
    (folder / "state.db").rename(folder / "s.db")
    assert within(folder, "--db", "s.db", "runs").stdout == within(folder, "runs", "--db", "s.db").stdout
    assert within(folder, "--db", "s.db", "todo", "add", "x").stdout.startswith("added")
    assert within(folder, "todo", "--db", "s.db", "add", "x").stdout.startswith("added")
    ended = subprocess.run(
        [*RECON, "missions"], cwd=folder, env={"RECON_DB": "s.db", "PATH": "/usr/bin:/bin"}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0 and "replay" in ended.stdout, ended.stderr


def test_reading_makes_no_file(tmp_path: Path) -> None:
    for arguments in (("report",), ("todo",), ("missions",), ("decide",), ("resume",)):
        assert "there is no such file" in within(tmp_path, *arguments, code=5).stderr
    assert list(tmp_path.iterdir()) == []


def test_triage_runs_and_stores_nothing(tmp_path: Path) -> None:
    text = "Deploy acme/Model-NVFP4 on gpu01 with SGLang, Prefill TP4, Decode TP4; benchmark it"
    shown = within(tmp_path, "triage", text).stdout
    for part in ("Serve acme/Model-NVFP4 with SGLang on gpu01", "claims", "unknowns (", "todo"):
        assert part in shown
    read = json.loads(within(tmp_path, "triage", text, "--json", "--tp", "8").stdout)
    assert read["triage"]["intent"]["layout"]["tp"] == 8 and read["tasks"] and read["unknowns"]
    assert list(tmp_path.iterdir()) == []
    within(tmp_path, "triage", code=2)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("mission: recon.mission/1\nintent:\n  modle: a/b\n", "m.yaml:3:3"),
        ("mission: recon.mission/1\nmission: recon.mission/1\n", "m.yaml:2:1"),
        ("mission: [\n", "m.yaml:"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_malformed_mission_file_is_told_with_line_and_column(tmp_path: Path, body: str, told: str) -> None:
    (tmp_path / "m.yaml").write_bytes(body.encode(errors="surrogateescape"))
    assert told in within(tmp_path, "run", "m.yaml", code=2).stderr
    assert "no such mission file" in within(tmp_path, "run", "other.yaml", code=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--replay", "b.tar.gz", "acme/x"),
        ("run", "--replay", "b.tar.gz", "--hub", "http://127.0.0.1:1"),
        ("run", "--new"),
        ("run", "--tp", "4", "--pd", "4+4", "acme/x-1"),
        ("run", "--pd", "4", "acme/x-1"),
        ("run", "--quant", "nvpf4", "acme/x-1"),
        ("nope",),
        ("run", "--nope"),
        ("show", "page", "x"),
    ],
    ids=" ".join,
)
def test_words_that_do_not_fit_together_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ended = within(tmp_path, *arguments, code=2)
    assert ended.stdout == "" and ended.stderr.startswith("recon: ") and "\n  -> " in ended.stderr


def test_something_else_than_a_state_file_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database at all" * 100)
    before = (tmp_path / "state.db").read_bytes()
    within(tmp_path, "run", code=5)
    within(tmp_path, "report", code=5)
    assert (tmp_path / "state.db").read_bytes() == before


def test_ctrl_c_keeps_what_was_found_and_resume_goes_on(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [*RECON, "run", "--pace", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    assert child.stderr.readline().startswith("✓")  # something is done
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    shown, _told = child.communicate(timeout=30)
    assert child.returncode == 130
    assert shown.splitlines()[-1].startswith("exit 130: interrupted")
    assert recon(tmp_path, "resume", code=3).stdout.splitlines()[-1].startswith("exit 3")


def test_secrets_in_a_directive_are_not_kept(tmp_path: Path) -> None:
    secret = "hf_" + "A1b2C3d4E5" * 4
    ended = subprocess.run(
        [*RECON, "run", f"deploy acme/x-1 --tp 4 with token {secret}", "--hub", "http://127.0.0.1:9"], cwd=tmp_path,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode != 0
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.iterdir())
    assert secret not in ended.stdout


def test_help_has_two_lists() -> None:
    shown = recon(Path.cwd(), "--help").stdout
    daily, tools = shown.split("Daily:")[1].split("Tools:")
    assert [line.split()[0] for line in daily.strip().splitlines()] == [
        "run", "resume", "report", "board", "decide", "approve", "why", "todo",
    ]  # fmt: skip
    assert "triage" in tools and "..." not in daily + tools
