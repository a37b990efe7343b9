"""Approvals come from people: only the command line and the board ask a session for one, and only it writes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.tree import ROOT

ASKS = {"approve", "approve_plan"}  # what records a consent
MAY_ASK = ("agent/cli/", "agent/board/")
# Writing the row: the session's own module, and the gate that writes a plan's consent out for the change it starts.
MAY_WRITE = {"agent/cli/approvals.py", "agent/runner/planning.py", "agent/store/people.py"}


def calls(path: Path) -> Iterator[tuple[str, str]]:
    """(what it is called on, name) of each attribute call or reference of one of these names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in ASKS:
            yield ast.unparse(node.value), node.attr
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "methodcaller"):
            words = [a.value for a in node.args if isinstance(a, ast.Constant)]
            if ASKS & {w for w in words if isinstance(w, str)}:
                yield "getattr", "approve"


def sources() -> Iterator[tuple[str, Path]]:
    for folder in ("agent", "tasks", "kernels"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def test_only_the_command_line_and_the_board_ask_for_consent() -> None:
    asked = {(name, on, what) for name, path in sources() for on, what in calls(path) if "store" not in on}
    wrong = {row for row in asked if not row[0].startswith(MAY_ASK)}
    assert wrong == set()
    assert {name for name, _, _ in asked} >= {"agent/cli/consent.py", "agent/board/app.py"}, (
        "it looks at something"
    )


def test_only_what_a_session_calls_writes_one_down() -> None:
    written = {name for name, path in sources() for on, _ in calls(path) if "store" in on}
    assert written <= MAY_WRITE and "agent/cli/approvals.py" in written


def test_no_playbook_task_or_agent_names_the_commands_consent_module() -> None:
    wrong = [
        name for name, path in sources()
        if not name.startswith(MAY_ASK) and ("cli.consent" in path.read_text() or "cli.approvals" in path.read_text())
    ]  # fmt: skip
    assert wrong == []


def test_no_field_of_a_plan_can_carry_an_approval() -> None:
    from recon.agent.model.tasks import Plan, PlannedTask, PlannedUnknown

    for model in (Plan, PlannedTask, PlannedUnknown):
        assert not [f for f in model.model_fields if "approv" in f or "consent" in f]
