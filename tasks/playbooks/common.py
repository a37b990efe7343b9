"""Pieces that playbooks are made of: reading tasks, judges, questions, gates; each a pure function of intent and view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from recon.agent.api import (
    Edge,
    Effect,
    Effects,
    GateSpec,
    Intent,
    Json,
    Option,
    PlannedTask,
    PlannedUnknown,
    Priority,
    RetryPolicy,
)  # fmt: skip
from recon.tasks.deployment import host_name

# Three tries over a few seconds ride out a dropped connection; longer outages are a person's business.
NETWORK: Final = RetryPolicy(attempts=3, first_delay_s=0.5)


def bindings(intent: Intent, directive_subject: str) -> dict[str, str]:
    """Which subject each role stands for. A role that the intent does not name is not bound."""
    bound = {"mission": directive_subject, "knowledge": f"knowledge:{intent.engine}"}
    if intent.model and not intent.model.startswith("/"):
        bound["checkpoint"] = f"hf:{intent.model}@{intent.revision}"
    if host := host_name(intent.host):
        bound["host"], bound["engine"] = f"host:{host}", f"engine:{host}"
    if intent.docs:
        bound["docs"] = f"web:{intent.docs[0]}"
    return bound


def read_task(
    definition: str, subject: str, title: str, params: Mapping[str, Json], *, limit: str, needs: Iterable[str] = (),
    on: str = "succeeded", order: int = 0, because: str = "", discovered_from: str = "", timeout_s: float = 120.0,
    required: bool = True,
) -> PlannedTask:  # fmt: skip
    """A read-only todo item; its key names the subject it reads. `required` False: a mission goes on without it."""
    return PlannedTask(
        key=f"{definition}[{subject}]", definition=definition, params=dict(params), title=title, kind="recon",
        priority="high", needs=edges(needs, settled=on == "settled"), timeout_s=timeout_s, retry=NETWORK, limit=limit,
        order=order, because=because, discovered_from=discovered_from, required=required,
    )  # fmt: skip


def judge_task(definition: str, title: str, needs: Iterable[str], *, order: int) -> PlannedTask:
    """A judge: runs as soon as what it reads has ended, well or badly; what is missing it says itself."""
    return PlannedTask(
        key=definition, definition=definition, title=title, kind="judge", priority="high", needs=edges(needs, settled=True),
        timeout_s=30.0, order=order,
    )  # fmt: skip


def act_task(
    key: str, definition: str, title: str, *, effect: Effect, order: int, needs: Iterable[str] = (), gates: Sequence[GateSpec] = (),
    params: Mapping[str, Json] | None = None, because: str = "", discovered_from: str = "", settles: Sequence[str] = (),
    priority: Priority = "medium",
) -> PlannedTask:  # fmt: skip
    """A changing todo item behind its gates."""
    return PlannedTask(
        key=key, definition=definition, params=dict(params or {}), title=title, kind="act", effect=effect, priority=priority,
        needs=edges(needs), gates=tuple(gates), timeout_s=1200.0, order=order, because=because,
        discovered_from=discovered_from, settles=tuple(settles),
    )  # fmt: skip


def edges(keys: Iterable[str], *, settled: bool = False) -> tuple[Edge, ...]:
    """Dependencies, each once, in order."""
    return tuple(Edge(key=key, on="settled" if settled else "succeeded") for key in dict.fromkeys(keys))


def answered(key: str, words: str = "") -> GateSpec:
    """The gate that a question is answered or waived."""
    return GateSpec(text=f'answered("{key}")', words=words or f"{key} is answered")


def gate(text: str, words: str) -> GateSpec:
    """A predicate with the same in words."""
    return GateSpec(text=text, words=words)


def question(
    key: str, text: str, *, finding_ref: str = "", required: bool = True, person: bool = False, options: Sequence[Option] = (),
    domain: str = "choice",
) -> PlannedUnknown:  # fmt: skip
    """A typed question of the mission."""
    return PlannedUnknown(
        key=key, question=text, finding_ref=finding_ref, required=required, who="person" if person else "task",
        options=tuple(options), domain="text" if domain == "text" else "yes_no" if domain == "yes_no" else "choice",
    )  # fmt: skip


def host_question() -> PlannedUnknown:
    """The first question of a mission that names no host."""
    option = Option(
        id="host", title="the host to deploy on", needs_value="host", effects=Effects(intent={"host": "{value}"}),
        consequence="recon reads it over ssh; nothing is changed there",
    )  # fmt: skip
    return question("host.target", "Which host is this for?", person=True, options=(option,), domain="text")


def model_question() -> PlannedUnknown:
    """The first question of a mission that names no checkpoint."""
    option = Option(
        id="model", title="the checkpoint to deploy, as ORG/NAME", needs_value="model", effects=Effects(intent={"model": "{value}"}),
        consequence="recon reads its files, config.json, card and tensor headers from the hub; nothing is downloaded",
    )  # fmt: skip
    return question(
        "checkpoint.target", "Which checkpoint is this about?", person=True, options=(option,), domain="text"
    )


def wants(intent: Intent, verb: str) -> bool:
    """Whether a step was asked for. A mission without verbs asks for all of them."""
    return not intent.verbs or verb in intent.verbs
