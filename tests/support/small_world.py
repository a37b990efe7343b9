"""A small world to run whole missions in: a session on a real state.db whose sources answer from a dictionary.

The clock is the only thing moved by hand; everything else (store, loop, planner, gates) is the real thing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.engine import NoSources, Recorder, act

from recon.agent.api import (
    Change,
    Draft,
    Edge,
    Effects,
    Fact,
    GateSpec,
    Intent,
    Json,
    Judged,
    Judgement,
    JudgeTask,
    Option,
    Plan,
    PlannedTask,
    PlannedUnknown,
    Raw,
    ReconContext,
    ReconTask,
    Request,
    Side,
    Triage,
    View,
)
from recon.agent.cli.compose import Session
from recon.agent.model.missions import Mission
from recon.agent.runner.messages import Message
from recon.agent.runner.ports import Clock, Registry
from recon.agent.store import Store

LIFETIME_S = 60.0


@dataclass
class World(NoSources):
    """What is out there (stateful: tests change it). `asked` counts the questions by probe and subject."""

    values: dict[str, Any] = field(default_factory=dict)
    ahead_s: float = 0.0  # how far its clock is before the machine's
    asked: list[str] = field(default_factory=list)
    hand: Recorder = field(default_factory=Recorder)
    done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(self.hand)
        self.hand.before = lambda argv: self.done.add(argv[-1])

    def now(self) -> float:
        return time.time() + self.ahead_s

    async def fetch(self, request: Request) -> Raw:
        name = f"{request.probe}[{request.target}]"
        self.asked.append(name)
        body = json.dumps(self.values[name]).encode()
        return Raw(state="ok", exit_code=0, stdout=body, observed_at=self.now())

    def count(self, name: str) -> int:
        """How often something was asked."""
        return self.asked.count(name)


def host_world() -> World:
    """A host with little room, a service, and two boxes of which A is not in the wanted format."""
    return World(
        values={
            "boot[h]": "boot-1", "disk[h]": {"mount": "/", "avail_bytes": 10}, "gone[h]": ["old"], "kernel[h]": "6.1",
            "who[h]": "h",
            "format[A]": "int4", "format[B]": "nvfp4", "pin[A]": "a1", "pin[B]": "b1",
        }
    )  # fmt: skip


def _fact(name: str, **more: Any) -> Fact:
    return Fact(name, lambda raw: [Draft(name=name, value=json.loads(raw.text), **more)])


def _ask(probe: str, target: str) -> Request:
    return Request(connector="host", target=target, probe=probe)


async def _boot(ctx: ReconContext) -> str:
    host = str(ctx.params["host"])
    seen = await ctx.ask(_ask("boot", host), _fact("boot"), subject=f"host:{host}")
    return str(seen.value("boot"))


async def _who(ctx: ReconContext) -> str:
    host = str(ctx.params["host"])
    holds = (("boot", await _boot(ctx)),)
    seen = await ctx.ask(_ask("who", host), _fact("who", valid_while=holds), subject=f"host:{host}")
    return str(seen.value("who"))


async def _disk(ctx: ReconContext) -> str:
    host = str(ctx.params["host"])
    boot = await _boot(ctx)
    holds = (("boot", boot),)
    fact = _fact("disk", lifetime_s=LIFETIME_S, valid_while=holds)
    seen = await ctx.ask(_ask("disk", host), fact, subject=f"host:{host}")
    # one finding for each thing that happens to be there: what is gone is not found again
    listed = Fact(
        "gone",
        lambda raw: [Draft(name=f"gone.{n}", value=n, valid_while=holds) for n in json.loads(raw.text)],
    )
    await ctx.ask(_ask("gone", host), listed, subject=f"host:{host}")
    return str(seen.value("disk"))


async def _kernel(ctx: ReconContext) -> str:
    host = str(ctx.params["host"])
    holds = (("boot", await _boot(ctx)),)
    seen = await ctx.ask(_ask("kernel", host), _fact("kernel", valid_while=holds), subject=f"host:{host}")
    return str(seen.value("kernel"))


async def _pin(ctx: ReconContext) -> str:
    box = str(ctx.params["box"])
    same = Fact("same_as", lambda raw: [Draft(name="same_as", value=f"box:{box}@{json.loads(raw.text)}")])
    seen = await ctx.ask(_ask("pin", box), same, subject=f"box:{box}")
    return str(seen.value("same_as"))


async def _format(ctx: ReconContext) -> str:
    box = str(ctx.params["box"])
    seen = await ctx.ask(_ask("format", box), _fact("format"), subject=ctx.view.resolve(f"box:{box}"))
    return str(seen.value("format"))


KEEP = Option(id="keep", title="keep it")
OTHER = Option(id="B", title="take B", consequence="reads 12.5 GB", effects=Effects(intent={"model": "B"}))
STOP = Option(id="stop", title="stop here", effects=Effects(stop=True))


def _judge_format(view: View) -> Judged:
    read = view.read("box.format")
    if not read.known or read.finding is None:
        return Judged(
            judgements=(Judgement(key="format", about="format", verdict="unknown", title="format: not read"),)
        )
    verdict = "pass" if read.value == "nvfp4" else "conflict"
    options = () if verdict == "pass" else (KEEP, OTHER, STOP)
    return Judged(
        judgements=(
            Judgement(
                key="format", about="format", verdict=verdict, title=f"the format is {read.value}", observed=read.value,
                options=options, sides=(Side(finding_id=read.finding.id),),
            ),
        )
    )  # fmt: skip


def _judge_disk(view: View) -> Judged:
    read = view.read("host.disk")
    if not read.known or read.finding is None:
        return Judged()
    free, wanted = read.value["avail_bytes"], 100
    keys = [("room", "block" if free < wanted else "pass")]
    keys += [("room.quota", "block")] if read.value.get("quota") else []
    return Judged(
        judgements=tuple(
            Judgement(
                key=key, about="room", verdict=verdict, title=f"{key}: {free} free on {read.value['mount']}",
                observed=dict(read.value), options=(KEEP,) if verdict == "block" else (),
                sides=(Side(finding_id=read.finding.id),),
            )
            for key, verdict in keys
        )
    )  # fmt: skip


def _change(view: View, params: Mapping[str, Json]) -> Change:
    return Change(
        task="change", host="h", steps=(("apply", "change"),), exact=(("model", str(view.intent.model)),)
    )


class Small:
    """Reads a host and a box, asks two questions, and has one change behind both."""

    name = "small"
    version = "1"

    def bindings(self, intent: Intent, directive_subject: str) -> dict[str, str]:
        return {"mission": directive_subject, "host": f"host:{intent.host}", "box": f"box:{intent.model}"}

    def plan(self, intent: Intent, view: View) -> Plan:
        host, box = str(intent.host), str(intent.model)
        read = {"kind": "recon", "title": "read", "priority": "high"}
        judge = {"kind": "judge", "title": "judge", "priority": "high"}
        tasks = (
            PlannedTask(key=f"who[{host}]", definition="who", params={"host": host}, **read),
            PlannedTask(key=f"disk[{host}]", definition="disk", params={"host": host}, needs=_edges(f"who[{host}]"), **read),
            PlannedTask(key=f"kernel[{host}]", definition="kernel", params={"host": host}, needs=_edges(f"who[{host}]"), **read),
            PlannedTask(key=f"pin[{box}]", definition="pin", params={"box": box}, **read),
            PlannedTask(key=f"format[{box}]", definition="format", params={"box": box}, needs=_edges(f"pin[{box}]"), **read),
            PlannedTask(key="judge.format", definition="judge.format", needs=_edges(f"format[{box}]"), **judge),
            PlannedTask(key="judge.disk", definition="judge.disk", needs=_edges(f"disk[{host}]"), **judge),
            PlannedTask(
                key="change", definition="change", title="change it", kind="act", effect="mutating",
                gates=(
                    GateSpec(text='decided("format") or answered("format")'), GateSpec(text='answered("room")'),
                    GateSpec(text="known(host.disk)"), GateSpec(text="fresh(host.disk)"),
                ),
            ),
        )  # fmt: skip
        unknowns = (
            PlannedUnknown(key="format", question="Is it in the wanted format?"),
            PlannedUnknown(key="room", question="Is there room?"),
        )
        return Plan(tasks=tasks, unknowns=unknowns)


def _edges(*keys: str) -> tuple[Edge, ...]:
    return tuple(Edge(key=key, on="settled") for key in keys)


def registry(world: World) -> Registry:
    """The definitions over one world."""
    return Registry.of(
        [
            ReconTask("who", run=_who, reads_intent=()), ReconTask("disk", run=_disk, reads_intent=("target_dir",)),
            ReconTask("kernel", run=_kernel, reads_intent=()), ReconTask("pin", run=_pin), ReconTask("format", run=_format),
            JudgeTask("judge.format", judge=_judge_format), JudgeTask("judge.disk", judge=_judge_disk),
            act("change", lambda key: key in world.done, _change),
        ],
        [Small()],
    )  # fmt: skip


class SmallSession(Session):
    """A session whose sources and clock are the world's."""

    def __init__(self, store: Store, world: World) -> None:
        super().__init__(store, registry=registry(world))
        self.world = world
        self.messages: list[Message] = []

    def now(self) -> float:
        return self.world.now()

    def clock(self, mission: Mission) -> Clock:
        return Clock(self.now, lambda: self.known_now(mission), time.monotonic, lambda: 0.5)

    def _sources(self, mission: Mission, *, hub: str | None, pace: float) -> Any:
        return self.world

    def _locking(self) -> Any:
        return None  # the hand is a stand-in: there is no host to lock

    def ask_for(self, model: str = "A", **intent: Any) -> Mission:
        """A mission about a box on host h."""
        asked = Intent(model=model, host="h", **intent)
        return self.begin(Triage(text=f"take {model}", intent=asked, playbook="small"))

    def go(self, mission: Mission) -> int:
        """Runs to the end; its messages are kept."""
        self.messages = []
        return self.run(mission, listen=self.messages.append)

    def turns(self, mission: Mission) -> list[tuple[str, str, str]]:
        """The status changes of questions, oldest first."""
        events = self.store.events_of(mission.id, "unknown")
        return [(e.entity_id, e.old, e.new) for e in events if e.old != e.new]


def open_small(folder: Path, world: World) -> SmallSession:
    """A session on a state.db in a folder; the caller closes its store."""
    return SmallSession(Store.open(folder / "state.db"), world)
