"""The graphs that every engine is given: task -> what it needs. Standard library only: peers import this too."""

from __future__ import annotations

import os
import random
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

Graph = dict[str, list[str]]


def fan(count: int) -> Graph:
    """1 -> count - 2 -> 1. With count 1: one task alone, which is what start-up costs."""
    if count < 3:
        return {f"t{i}": [] for i in range(count)}
    middle = [f"t{i}" for i in range(1, count - 1)]
    return {"t0": [], **{key: ["t0"] for key in middle}, f"t{count - 1}": middle}


def layered(layers: int, width: int, parents: int = 3) -> Graph:
    """`layers` x `width`, every task on `parents` of the layer before; always the same graph."""
    choose = random.Random(7)
    graph: Graph = {f"t0_{i}": [] for i in range(width)}
    for layer in range(1, layers):
        before = [f"t{layer - 1}_{i}" for i in range(width)]
        graph |= {f"t{layer}_{i}": sorted(choose.sample(before, parents)) for i in range(width)}
    return graph


def named(name: str) -> Graph:
    """`fan:1000` or `layered:10x20`. Raises ValueError for anything else."""
    kind, _, size = name.partition(":")
    if kind == "fan":
        return fan(int(size))
    if kind == "layered":
        layers, _, width = size.partition("x")
        return layered(int(layers), int(width))
    raise ValueError(f"no graph is called {name!r}")


def waves(graph: Graph) -> list[list[str]]:
    """The tasks by depth, for engines that are told an order."""
    depth: dict[str, int] = {}
    for key, needs in graph.items():  # both graphs list what is needed first
        depth[key] = 1 + max((depth[n] for n in needs), default=-1)
    found: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for key, at in depth.items():
        found[at].append(key)
    return found


def body(log: Path, seconds: float) -> Callable[[str], str]:
    """What every task does: a line in `log` when it starts and when it ends, so that executions are counted."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def run(key: str) -> str:
        os.write(descriptor, f"start {key}\n".encode())
        if seconds:
            time.sleep(seconds)
        os.write(descriptor, f"end {key}\n".encode())
        return key

    return run


def arguments() -> Namespace:
    """What a script under test is started with: the graph, its state folder, the log, the seconds of a body."""
    parser = ArgumentParser()
    parser.add_argument("graph", type=named)
    parser.add_argument("state", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("seconds", type=float)
    return parser.parse_args()
