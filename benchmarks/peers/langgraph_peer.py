"""LangGraph with its SQLite checkpointer, each super-step written before the next."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, TypedDict

from graphs import arguments, body
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

given = arguments()
work = body(given.log, given.seconds)


class State(TypedDict):
    count: Annotated[int, operator.add]


def node(key: str) -> Callable[[State], State]:
    def run(_: State) -> State:
        work(key)
        return {"count": 1}

    return run


builder = StateGraph(State)
for key in given.graph:
    builder.add_node(key, node(key))
needed = {n for needs in given.graph.values() for n in needs}
for key, needs in given.graph.items():
    if needs:
        builder.add_edge(needs if len(needs) > 1 else needs[0], key)
    else:
        builder.add_edge(START, key)
    if key not in needed:
        builder.add_edge(key, END)

with SqliteSaver.from_conn_string(str(given.state / "langgraph.db")) as saver:
    graph = builder.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "bench"}, "recursion_limit": 10_000, "max_concurrency": 8}
    begun = graph.get_state(config)
    if not begun.values or begun.next:
        ended = graph.invoke(None if begun.values else {"count": 0}, config, durability="sync")
        assert ended["count"] == len(given.graph), ended
