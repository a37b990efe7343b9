"""The todo graph: checked before it is stored, ordered for people."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from recon.agent.engine.gates import parse_gate
from recon.agent.model.errors import PlanError
from recon.agent.model.tasks import Plan, PlannedTask


def check_plan(plan: Plan, *, known_keys: Sequence[str] = ()) -> None:
    """Raises PlanError for a duplicate key, an unknown dependency, a cycle or a gate that does not parse.

    `known_keys` are tasks that the mission already has; a plan may depend on them.
    """
    by_key: dict[str, PlannedTask] = {}
    for task in plan.tasks:
        if task.key in by_key:
            raise PlanError(f"two todo items are called {task.key!r}")
        by_key[task.key] = task
    known = {*by_key, *known_keys}
    for task in plan.tasks:
        for edge in task.needs:
            if edge.key not in known:
                raise PlanError(
                    f"{task.key} needs {edge.key!r}, which does not exist", hint=_similar(edge.key, known)
                )
        for gate in task.gates:
            parse_gate(gate.text)
    cycle = find_cycle({task.key: [edge.key for edge in task.needs] for task in plan.tasks})
    if cycle:
        raise PlanError(f"todo items wait for each other: {' -> '.join(cycle)}")


def _similar(key: str, known: set[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def find_cycle(needs: dict[str, list[str]]) -> list[str]:
    """One cycle as a closed list of keys, or an empty list. Iterative: a chain of 10,000 is no recursion problem."""
    state: dict[str, int] = {}  # 1 on the path, 2 done
    for start, first in needs.items():
        if start in state:
            continue
        path: list[str] = [start]
        stack = [iter(first)]
        state[start] = 1
        while stack:
            following = next(stack[-1], None)
            if following is None:
                state[path.pop()] = 2
                stack.pop()
            elif state.get(following) == 1:
                return [*path[path.index(following) :], following]
            elif following not in state and following in needs:
                state[following] = 1
                path.append(following)
                stack.append(iter(needs[following]))
    return []
