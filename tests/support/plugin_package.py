"""A tiny package with entry points, laid into a folder the way an installer would: module and dist-info."""

from __future__ import annotations

from pathlib import Path
from typing import Final

GOOD: Final = '''
"""A plug-in: one recon task, and a playbook that plans it."""

from recon.agent.api import Draft, Fact, Plan, PlannedTask, ReconTask, Request


def _parse(raw):
    return [Draft(name="cpus", value=int(raw.text))]


async def count(ctx):
    request = Request(connector="host", target="localhost", probe="tiny.cpus", argv=("nproc",))
    seen = await ctx.ask(request, Fact("tiny.cpus", _parse), subject="host:localhost")
    return f"{seen.value('cpus')} CPUs"


def definitions():
    return [ReconTask("tiny.count", run=count)]


class Tiny:
    name = "tiny"
    version = "1"
    about = "counts CPUs"
    needs = ("host",)

    def bindings(self, intent, directive_subject):
        return {"mission": directive_subject, "host": "host:localhost"}

    def plan(self, intent, view):
        return Plan(tasks=(PlannedTask(key="tiny.count", definition="tiny.count", title="count the CPUs", kind="recon"),))


playbook = Tiny()
'''
POINTS: Final = "[recon.tasks]\n{name} = {name}:definitions\n\n[recon.playbooks]\ntiny = {name}:playbook\n"


def lay(folder: Path, *, name: str = "tiny_plugin", code: str = GOOD, points: str = POINTS) -> Path:
    """Writes the package; the folder belongs on PYTHONPATH."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points.format(name=name))
    return folder
