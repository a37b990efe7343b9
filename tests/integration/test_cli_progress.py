"""What a run shows while it works, and how errors end a process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.terminal import on_terminal

from recon.agent.cli import errors
from recon.agent.cli.progress import Running, json_line, listener, plain_line
from recon.agent.model.errors import (
    HubError,
    MissionError,
    ParseError,
    ReconError,
    RefusedError,
    StateLocked,
    UsageError,
)
from recon.agent.runner.messages import TaskEnded, TaskProgress, TasksAdded, TaskStarted, Waiting


def test_running_tasks_have_a_line_each_with_elapsed_and_what_they_wait_for() -> None:
    running = Running()
    for key in ("host.gpus[a]", "host.disk[a]"):
        running.take(TaskStarted(key, f"look at {key}", 0.0), now=100.0)
    running.take(TaskProgress("host.gpus[a]", "waits for\x1b[2J a turn"), now=101.0)
    assert running.rows(now=103.5, width=80) == [
        "▶     3.5 s  host.gpus[a]  waits for a turn",
        "▶     3.5 s  host.disk[a]  look at host.disk[a]",
        "0 done, 2 running",
    ]
    running.take(TaskEnded("host.gpus[a]", "succeeded", "8 GPUs", 3.0), now=104.0)
    running.take(TaskEnded("host.disk[a]", "failed", "timed out", 3.0), now=104.0)
    running.take(Waiting("a decision"), now=105.0)
    assert running.rows(now=105.0, width=80) == ["2 done, 1 failed, 0 running  a decision"]


def test_a_task_that_is_tried_again_is_not_done() -> None:
    running = Running()
    running.take(TaskStarted("a", "a", 0.0), now=0.0)
    running.take(TaskEnded("a", "pending", "again in 2 s", 1.0), now=1.0)
    assert running.rows(now=1.0, width=40) == ["0 done, 0 running"]


def test_many_running_tasks_are_counted_and_lines_are_cut() -> None:
    running = Running()
    for n in range(30):
        running.take(TaskStarted(f"task[{n}]" + "x" * 90, "t", 0.0), now=0.0)
    rows = running.rows(now=1.0, width=60)
    assert len(rows) == 14 and rows[-2] == "  and 18 more"
    assert max(map(len, rows)) <= 60


def test_plain_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    plain_line(TaskStarted("a", "t", 0.0))
    plain_line(TaskEnded("a", "succeeded", "[b]8[/b]\x1b[2J GPUs", 1.25))
    plain_line(TaskEnded("b", "failed", "", 70))
    plain_line(TasksAdded(("c", "d"), "the disk is full"))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "✓ a  [b]8[/b] GPUs  1.2 s",
        "✗ b  1 min 10 s",
        "+ c  added because the disk is full",
        "+ d  added because the disk is full",
    ]


def test_json_events_are_one_line_each_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    json_line(TaskEnded("a", "succeeded", "two\nlines", 1.0))
    json_line(TasksAdded(("c",), "x"))
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events == [
        {"event": "task_ended", "key": "a", "status": "succeeded", "summary": "two\nlines", "seconds": 1.0},
        {"event": "tasks_added", "keys": ["c"], "because": "x"},
    ]


def test_without_a_terminal_lines_are_plain() -> None:
    with listener(as_json=False) as listen:
        assert listen is plain_line
    with listener(as_json=True) as listen:
        assert listen is json_line


def test_on_a_terminal_the_live_lines_leave_only_the_result(tmp_path: Path) -> None:
    ended = on_terminal([sys.executable, "-m", "recon", "run", "--pace", "0.2"], (), cwd=tmp_path)
    assert ended.exit_code == 3
    assert "▶" in ended.shown and "running" in ended.shown
    assert ended.shown.rstrip().splitlines()[-1].startswith("exit 3: waiting for you")
    assert "✓ host.gpus" not in ended.shown  # no scrolling log beside the live lines


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (MissionError("x"), 2),
        (HubError("x", target="t", operation="o"), 4),
        (StateLocked("x"), 5),
        (RefusedError("x"), 2),
        (RefusedError("x", blockers=("b",)), 3),
        (ParseError("x"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes_are_the_contract(error: BaseException, code: int) -> None:
    assert errors.exit_code(error) == code


def test_an_error_says_what_happened_and_what_to_run_next() -> None:
    error = ReconError("gpu01: key changed\n[b]was\x1b[2J[/b]", hint="look at known_hosts")
    assert errors.told(error) == [
        "recon: gpu01: key changed",
        "       [b]was[/b]",
        "  -> look at known_hosts",
    ]
    refused = RefusedError("closed", blockers=("disk.room is open",))
    assert errors.told(refused) == ["recon: closed", "  - disk.room is open"]
