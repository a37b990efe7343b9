"""The parts of a mission file laid over a playbook's plan: own facts, tasks, unknowns, gates. Pure: (plan, intent) -> plan.

Facts are findings on a part of the host, `host:NAME#12345678`, bound to the role `facts`: a gate reads `facts.ID`. The
part is named by what is asked, so that another mission's fact of the same name is never taken for this one's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from recon.agent.mission.own_parts import (
    Additions,
    FileCommand,
    FileFact,
    FileOption,
    FileTask,
    FileUnknown,
    look,
)
from recon.agent.model.base import Json, canonical_json, sha256_hex
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Effects, Option
from recon.agent.model.missions import Intent
from recon.agent.model.tasks import Edge, GateSpec, Plan, PlannedTask, PlannedUnknown, RetryPolicy

KEY: Final = "additions"  # where the intent keeps them, in `extra`
ROLE: Final = "facts"
FACT: Final = "file.fact"
COMMAND: Final = "file.command"
STEP: Final = "file.step"
GATES: Final = "file.gates"
IDENTITY: Final = "host.identity"
_FACT_ORDER: Final = 35  # after what playbooks read, in front of their judges
_JUDGE_ORDER: Final = 59
_ASKS: Final = re.compile(r"\b(?:decided|answered|done)\s*\(")
_TASK_ORDER: Final = 80  # after what playbooks change


def host_name(host: str | None) -> str:
    """The name of `[user@]name[:port]` as the task definitions name it, "" for none."""
    name = (host or "").rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0] if name.count(":") == 1 else name


def additions_of(intent: Intent) -> Additions | None:
    """What the mission file brought, None for a mission that has none."""
    kept = intent.extra.get(KEY)
    return None if not kept else Additions.model_validate(kept)


def placeholders(intent: Intent) -> dict[str, str | None]:
    """What may stand for a whole argument, and its value now."""
    return {
        "${intent.model}": intent.model, "${intent.revision}": intent.revision,
        "${intent.host}": host_name(intent.host) if intent.host else None, "${intent.engine}": intent.engine,
        "${intent.target_dir}": intent.target_dir,
    }  # fmt: skip


def filled(argv: Sequence[str], intent: Intent) -> list[str]:
    """An argument vector with its placeholders filled. Raises UsageError for one that is unknown or not given."""
    known = placeholders(intent)
    out = []
    for word in argv:
        if word in known and known[word] is None:
            raise UsageError(f"{word} is not given in this mission", hint="say it under intent")
        if word not in known and "${intent." in word:
            raise UsageError(
                f"{word[:80]} is no placeholder: they stand alone as a whole argument",
                hint=f"there are {', '.join(known)}",
            )
        out.append(known.get(word) or word)
    return out


def with_bindings(bound: Mapping[str, str], intent: Intent) -> dict[str, str]:
    """A playbook's bindings, and the role `facts` where the mission has facts of its own."""
    own = additions_of(intent)
    if own is None or not intent.host:
        return dict(bound)
    name = host_name(intent.host)
    return {"host": f"host:{name}", **bound, ROLE: _subject(own, intent)}


def with_additions(plan: Plan, intent: Intent) -> Plan:
    """The plan with what the mission file brings. What the playbook itself plans is never replaced, only gated."""
    own = additions_of(intent)
    if own is None:
        return plan
    tasks = [*plan.tasks]
    keys = {t.key for t in tasks}
    if intent.host:
        tasks += _identity(own, intent, keys)
        tasks += [_fact(key, fact, own, intent) for key, fact in own.facts.items()]
    keys = {t.key for t in tasks} | set(own.tasks)
    tasks += [_task(key, task, own, intent, keys, n) for n, (key, task) in enumerate(own.tasks.items())]
    if judge := _judge(own, tasks):
        tasks.append(judge)
    asked = {u.key for u in plan.unknowns}
    unknowns = [_unknown(key, u) for key, u in own.unknowns.items() if key not in asked]
    unknowns += [_held(key, own) for key in _judged_gates(own) if any(t.key == key for t in tasks)]
    return Plan(tasks=tuple(_gated(t, own) for t in tasks), unknowns=(*plan.unknowns, *unknowns))


def fact_key(fact_id: str, own: Additions, intent: Intent) -> str:
    """The key of the todo item that reads a fact: another host or another argument is another item."""
    words = own.facts[fact_id].words()
    values = [str(value) for name, value in placeholders(intent).items() if name in words and value]
    return f"fact.{fact_id}[{','.join([host_name(intent.host), *values])}]"


def _subject(own: Additions, intent: Intent) -> str:
    asked = {k: [filled(f.words(), intent), f.model_dump(mode="json")] for k, f in own.facts.items()}
    return f"host:{host_name(intent.host)}#{sha256_hex(canonical_json(asked))[:8]}"


def _identity(own: Additions, intent: Intent, keys: set[str]) -> list[PlannedTask]:
    """Who the host is, where the playbook does not ask: a change is bound to the boot it was approved on."""
    host = host_name(intent.host)
    key = f"{IDENTITY}[{host}]"
    if key in keys or not (own.facts or any(t.command for t in own.tasks.values())):
        return []
    return [
        PlannedTask(
            key=key, definition=IDENTITY, params={"host": host}, title=f"who {host} is: boot id, kernel, system", kind="recon",
            priority="high", retry=RetryPolicy(attempts=3), limit="host", order=_FACT_ORDER - 1,
        )
    ]  # fmt: skip


def _fact(key: str, fact: FileFact, own: Additions, intent: Intent) -> PlannedTask:
    params: dict[str, Json] = {
        "host": host_name(intent.host), "subject": _subject(own, intent), "id": key, "argv": filled(fact.words(), intent),
        **fact.model_dump(mode="json", exclude={"argv", "file"}, exclude_none=True),
    }  # fmt: skip
    return PlannedTask(
        key=fact_key(key, own, intent), definition=FACT, params=params, title=f"read {key}", kind="recon", priority="high",
        timeout_s=fact.timeout_s + 60.0, retry=RetryPolicy(attempts=3), limit="host", order=_FACT_ORDER,
    )  # fmt: skip


def _task(
    key: str, task: FileTask, own: Additions, intent: Intent, keys: set[str], n: int
) -> PlannedTask:  # fmt: skip
    needs = [_need(need, own, intent) for need in dict.fromkeys(task.needs)]
    # what a task needs and the plan does not have (yet): a gate that stays shut until it is there and done
    gates = tuple(
        GateSpec(text=f'done("{need}")', words=f"{need} is done") for need in needs if need not in keys
    )
    command = task.command
    return PlannedTask(
        key=key, definition=STEP if command is None else COMMAND,
        params={"key": key, "title": task.title} if command is None else _command(key, command, own, intent),
        title=task.title, kind="act", priority=task.priority, effect="mutating" if command is None else command.effect,
        needs=tuple(Edge(key=need) for need in needs if need in keys), gates=gates,
        timeout_s=command.timeout_s if command is not None else 120.0, order=_TASK_ORDER + n, settles=tuple(task.settles),
    )  # fmt: skip


def _judged_gates(own: Additions) -> list[str]:
    """The tasks with gates on what was read alone: whether these hold is part of the verdict."""
    return [key for key, gates in own.gates.items() if any(not _ASKS.search(g.text) for g in gates)]


def _judge(own: Additions, tasks: Sequence[PlannedTask]) -> PlannedTask | None:
    if not _judged_gates(own):
        return None
    reads = [t.key for t in tasks if t.kind == "recon"]
    return PlannedTask(
        key="judge.own", definition=GATES, title="do the mission's own gates hold", kind="judge", priority="high",
        needs=tuple(Edge(key=key, on="settled") for key in reads), timeout_s=30.0, order=_JUDGE_ORDER,
    )  # fmt: skip


def _held(key: str, own: Additions) -> PlannedUnknown:
    title = own.tasks[key].title if key in own.tasks else key
    return PlannedUnknown(key=f"own.{key}", question=f"Do the facts allow to {title}?")


def _need(need: str, own: Additions, intent: Intent) -> str:
    name = need.removeprefix(f"{ROLE}.")
    return fact_key(name, own, intent) if need != name and name in own.facts and intent.host else need


def _command(key: str, command: FileCommand, own: Additions, intent: Intent) -> dict[str, Json]:
    check = look(command.check)
    verify = check if command.verify is None else look(command.verify)
    return {
        "key": key, "subject": _subject(own, intent) if intent.host else "",
        "check": {**check.model_dump(mode="json"), "argv": filled(check.argv, intent)},
        "verify": {**verify.model_dump(mode="json"), "argv": filled(verify.argv, intent)},
        "apply": [filled(step, intent) for step in command.apply],
        "rollback": [filled(step, intent) for step in command.rollback],
        "cwd": command.cwd or "", "target": "" if command.target is None else filled([command.target], intent)[0],
        "takes_bytes": command.takes_bytes, "frees_bytes": command.frees_bytes,
    }  # fmt: skip


def _unknown(key: str, asked: FileUnknown) -> PlannedUnknown:
    yes_no = [FileOption(id="yes", title="yes"), FileOption(id="no", title="no")]
    written = asked.options or (yes_no if asked.domain == "yes_no" else [])
    options = tuple(
        Option(
            id=o.id, title=o.title, consequence=o.consequence, effort=o.effort, needs_value=o.needs_value,
            effects=Effects(intent=o.effects.intent, waive=o.effects.waive, stop=o.effects.stop),
        )
        for o in written
    )  # fmt: skip
    return PlannedUnknown(
        key=key, question=asked.question, options=options, domain=asked.domain or ("choice" if options else "text"),
        unit=asked.unit, who=asked.who, required=asked.required, min_level=asked.min_level,
        finding_ref=asked.finding_ref or "",
    )  # fmt: skip


def _gated(task: PlannedTask, own: Additions) -> PlannedTask:
    more = tuple(GateSpec(text=g.text, words=g.words) for g in own.gates.get(task.key, []))
    return task.model_copy(update={"gates": (*task.gates, *more)}) if more else task
