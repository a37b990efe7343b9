"""why, show, todo: one question, the whole chain."""

from __future__ import annotations

import pytest
from support.states import (
    CHANGE,
    DISK,
    EXPERTS,
    HEADER,
    OBSERVATION,
    finding_of,
    item,
    mission_state,
    tasks,
)

from recon.agent.model.changes import Change, FileChange, Rendered
from recon.agent.model.errors import UsageError
from recon.agent.model.tasks import Blocker
from recon.agent.report import show, todo, why
from recon.agent.report.excerpt import excerpt
from recon.agent.report.sections import change_lines


def kinds(link: why.Link) -> list[str]:
    """The kinds of all links, depth first."""
    return [link.kind, *(kind for below in link.below for kind in kinds(below))]


def test_the_chain_goes_from_task_to_evidence_and_who_can_unblock_it() -> None:
    chain = kinds(why.explain(mission_state(), "download"))
    order = [
        "task",
        "waits for task",
        "gate",
        "fact",
        "finding",
        "evidence",
        "unknown",
        "judgement",
        "option",
        "unblock",
    ]
    found = [chain.index(kind) for kind in order if kind != "unblock"]
    assert found == sorted(found)
    assert chain[-1] == "unblock"


def test_the_chain_as_text_holds_the_commands_uncut() -> None:
    lines = [line.strip() for line in why.explain_lines(mission_state(), "download", width=60)]
    assert f"$ recon show finding {DISK.id}" in lines
    assert '$ recon decide disk.room OPTION --because "..."' in lines
    asked = [line.strip() for line in why.explain_lines(mission_state(), "disk.room", width=60)]
    assert '$ recon decide disk.room free:/models/old --because "..."' in asked
    assert "└ reason: 23.1 GB is below 176.7 GB" in lines


@pytest.mark.parametrize(
    "key", ["checkpoint.format", "siblings.advice", EXPERTS.id, EXPERTS.id[:6], "service.stop"]
)
def test_everything_with_a_name_can_be_asked_about(key: str) -> None:
    assert why.explain(mission_state(), key).ref


def test_a_stale_finding_says_so_and_what_helps() -> None:
    late = mission_state(now=mission_state().now + 300)
    chain = why.explain(late, DISK.id)
    assert [(b.kind, b.text, b.command) for b in chain.below[:1]] == [
        ("stale", "read 6 min ago, holds for 1 min", "recon resume")
    ]


def test_dependencies_in_a_ring_end() -> None:
    ring = tuple(
        item(
            n, key, "recon", "blocked",
            blocked_by=(Blocker(kind="dependency", ref=other, state="pending", reason="waits"),),
        )
        for n, (key, other) in enumerate((("a", "b"), ("b", "a")))
    )  # fmt: skip
    assert kinds(why.explain(mission_state(tasks=ring), "a")) == ["task", "waits for task", "waits for task"]


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        why.explain(mission_state(), "downlaod")
    assert caught.value.hint == "did you mean download?"


def test_a_finding_shows_source_revision_time_sha_and_excerpt() -> None:
    lines = show.finding(mission_state(), EXPERTS.id, OBSERVATION, HEADER)
    body = "\n".join(lines)
    for part in (
        "level     proved (composed)", "source    hub acme/Big-W4A16, probe hub.header", f"revision  {'a' * 40}",
        "time      2026-05-28 20:26:10 UTC, took 0.4 s", f"sha256    {'ab' * 32}", "weight_packed",
    ):  # fmt: skip
        assert part in body


def test_findings_are_found_by_name_and_ambiguity_is_told() -> None:
    twice = mission_state(findings=(EXPERTS, finding_of("routed_experts", 1, subject="hf:other@1")))
    assert show.find_finding(mission_state(), "routed_experts") == EXPERTS
    with pytest.raises(UsageError, match="several"):
        show.find_finding(twice, "routed_experts")
    with pytest.raises(UsageError, match="no finding"):
        show.find_finding(twice, "f-nothere")


def test_a_change_is_shown_in_full() -> None:
    change = Change(
        task="port", host="h", user="root", steps=(("sh", "-c", "echo 'a b'"),),
        files=(FileChange(path="/etc/x", sha_before="", text_after="one\n\x1b[2Jtwo"),), frees_bytes=2 * 10**9,
    )  # fmt: skip
    lines = change_lines(change)
    assert "  $ sh -c 'echo '\"'\"'a b'\"'\"''" in lines
    assert lines[lines.index("write /etc/x (must not exist yet):") + 1 :][:2] == ["  | one", "  | two"]
    assert "cannot be undone" in lines
    assert "  $ systemctl start old.service" in change_lines(CHANGE)


def test_tasks_unknowns_and_discrepancies_are_shown() -> None:
    state = mission_state()
    assert "  main_pid = 4711" in show.task(state, "service.stop")
    assert '          $ recon decide checkpoint.format stop --because "..."' in show.unknown(
        state, "checkpoint.format"
    )
    shown = "\n".join(show.discrepancy(state, "checkpoint.format"))
    assert EXPERTS.id in shown and "[claimed, " in shown
    for call in (show.task, show.unknown, show.discrepancy):
        with pytest.raises(UsageError):
            call(state, "nope")


def test_todowrite_knows_four_statuses() -> None:
    statuses = [
        "pending", "running", "succeeded", "failed", "skipped", "cancelled", "interrupted", "ready", "blocked",
        "awaiting_decision", "awaiting_approval",
    ]  # fmt: skip
    state = mission_state(tasks=tuple(item(n, f"t{n}", "recon", s) for n, s in enumerate(statuses)))  # type: ignore[arg-type]
    assert [row["status"] for row in todo.view(state)] == [
        "pending", "in_progress", "completed", "pending", "cancelled", "cancelled", *["pending"] * 5,
    ]  # fmt: skip
    assert set(todo.view(state)[0]) == {"id", "content", "status", "priority"}


def test_the_todo_list_says_why_items_were_added_and_how_changes_would_run() -> None:
    body = "\n".join(todo.lines(mission_state()))
    assert "+ added because the routed experts are not NVFP4" in body
    assert "$ systemctl stop old.service" in body
    assert "$ hf download acme/Big-W4A16 --revision <commit>" in body
    assert 'disk.room is contradicted: recon decide disk.room OPTION --because "..."' in body
    assert todo.counts_text(mission_state(tasks=tasks()[:1], waiting=())) == "1 item, 1 done"


def test_the_overview_cuts_long_commands_and_the_full_list_does_not() -> None:
    long = Rendered(lines=("hf download " + "x" * 300, "two", "three", "four"))
    state = mission_state(tasks=(item(1, "download", "act", "blocked", rendered=long),))
    overview = todo.lines(state, width=80)
    assert overview[-1].strip() == "in full: recon show task download"
    assert all(len(line) <= 80 for line in overview)
    assert "      $ hf download " + "x" * 300 in todo.lines(state, width=80, full=True)


def test_a_command_that_helps_is_never_broken() -> None:
    lines = [line.strip() for line in todo.lines(mission_state(), width=50)]
    assert 'recon decide disk.room OPTION --because "..."' in lines


@pytest.mark.parametrize(
    ("locator", "expected"),
    [
        ("line 3", "    3 | gamma"),
        ("gam", "    3 | gamma"),
        ("al*a", "    1 | alpha"),
        ("not there", "    1 | alpha"),
        ("", "    1 | alpha"),
        ("line 99", "    4 | delta"),
    ],
)
def test_an_excerpt_is_cut_around_the_locator(locator: str, expected: str) -> None:
    assert expected in excerpt(b"alpha\nbeta\ngamma\ndelta", locator)


def test_a_json_pointer_is_followed() -> None:
    body = b'{"a": {"b/c": [1, {"d": "x"}]}}'
    assert excerpt(body, "/a/b~1c/1") == ["/a/b~1c/1: {", '  "d": "x"', "}"]
    assert excerpt(body, "/nowhere")[0].startswith("    1 | ")


def test_one_endless_line_is_cut_around_the_match() -> None:
    body = ('{"x": "' + "y" * 50_000 + '", "needle": 1, ' + "z" * 50_000 + "}").encode()
    lines = excerpt(body, "needle")
    assert "needle" in "".join(lines) and len(lines) < 10


def test_hostile_bytes_are_harmless_in_an_excerpt() -> None:
    assert "\x1b" not in "".join(excerpt(b"\x1b[2J\xff\xfe" * 3 + b"\nplain", "plain"))
    assert excerpt(b"", "x") == ["(no bytes: the answer was empty)"]


def test_the_summary_follows_what_is_waited_for_to_its_root_and_names_the_cheapest_step() -> None:
    state = mission_state()
    head = why.summary(state, why.explain(state, "download"), width=80)
    assert head == [
        "download waits for you to decide",
        "blocked by: disk.room (question); service.stop (pending)",
        "who unblocks: you (disk.room, service.stop)",
        'next: recon decide disk.room OPTION --because "..."',
    ]
    failed = why.summary(state, why.explain(state, "host.gpus"), width=80)
    assert failed == [
        "host.gpus[gpu01] is failed", "because: gpu01: timed out", "next: recon retry host.gpus[gpu01]",
    ]  # fmt: skip
    asked = why.summary(state, why.explain(state, "disk.room"), width=80)
    assert asked[-1] == 'next: recon decide disk.room OPTION --because "..."' and "who answers: you" in asked


def test_a_failed_dependency_is_the_cheapest_thing_to_mend() -> None:
    waits = (
        Blocker(kind="dependency", ref="host.gpus[gpu01]", state="failed", reason="waits"),
        Blocker(kind="decision", ref="disk.room", state="open", reason="open"),
    )
    state = mission_state(tasks=(*tasks()[:5], item(9, "launch", "act", "blocked", blocked_by=waits)))
    assert why.summary(state, why.explain(state, "launch"))[-1] == "next: recon retry host.gpus[gpu01]"


def test_a_step_for_a_person_alone_is_for_you() -> None:
    manual = Blocker(kind="manual", ref="port", state="pending", reason="carried out by a person")
    other = Blocker(kind="decision", ref="disk.room", state="open", reason="open")
    mine = item(1, "port", "act", "blocked", blocked_by=(manual,))
    later = item(2, "port.later", "act", "blocked", blocked_by=(manual, other))
    state = mission_state(tasks=(mine, later))
    assert todo.counts_text(state) == "2 items, 1 waiting, 1 for you; 2 questions open"
    assert any(line.startswith("  ! for you        port ") for line in todo.lines(state))
    assert why.summary(state, why.explain(state, "port"))[0] == "port is for you to carry out"


def test_each_thing_is_shown_once_and_deep_parts_have_a_question_of_their_own() -> None:
    lines = why.explain_lines(mission_state(), "download", width=200)
    told = [line.strip("└ ") for line in lines]
    assert len([line for line in told if line.startswith("unknown disk.room")]) == 1
    assert any(line.strip() == "more: recon why disk.room" for line in lines)


def test_hints_of_errors_are_shown_wherever_the_error_is() -> None:
    broken = item(
        1,
        "host.gpus[gpu01]",
        "recon",
        "failed",
        error={"message": "key changed", "hint": "ssh-keygen -R gpu01"},
    )
    state = mission_state(tasks=(broken,))
    for lines in (
        show.task(state, "host.gpus"), todo.lines(state), why.explain_lines(state, "host.gpus[gpu01]", width=200),
    ):  # fmt: skip
        assert any("ssh-keygen -R gpu01" in line for line in lines)


def test_the_end_of_a_log_is_shown_cleaned() -> None:
    log = b"\n".join(b"line %d" % n for n in range(1, 31)) + b"\n\x1b[2Jlast\n"
    lines = show.task(mission_state(), "service.stop", log=log)
    at = lines.index("log of the last attempt (11 lines before)")
    assert lines[at + 1] == "  | line 12" and lines[-1] == "  | last" and len(lines) - at == 21
    assert not any("log of" in line for line in show.task(mission_state(), "service.stop"))


def test_an_observation_is_explained_and_shown() -> None:
    state = mission_state()
    with pytest.raises(UsageError, match="is an observation") as caught:
        show.find_finding(state, OBSERVATION.id)
    assert caught.value.hint == f"recon show observation {OBSERVATION.id}"
    lines = show.observation(state, OBSERVATION, HEADER, b"warned")
    for part in (f"observed  {OBSERVATION.id}", "stderr", "      1 | warned"):
        assert part in lines
    assert any(line.startswith(f"finding   {EXPERTS.id}  routed_experts: ") for line in lines)
    assert why.explain(state, OBSERVATION.id[:6]).kind == "evidence"
