"""Whether a checkpoint can run on a host with the engine that is there, as things stand. Nothing is ever changed."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Intent, Plan, View
from recon.tasks.playbooks.common import bindings
from recon.tasks.playbooks.deploy_pd import questions
from recon.tasks.playbooks.reads import checkpoint_reads, host_reads, judges

# Questions about what would be done, which nobody has to answer before anything is to be done.
_LATER: Final = frozenset({"engine.source", "kernels.needed"})
_LATER_JUDGES: Final = frozenset({"judge.engine_source", "judge.kernels", "judge.launch"})


class Check:
    """The playbook `check`: model, host, engine; no act."""

    name: Final = "check"
    version: Final = "1"
    about: Final = "can this model run on this host with the engine that is there; changes nothing"
    needs: Final = ("model", "host")

    def bindings(self, intent: Intent, directive_subject: str) -> dict[str, str]:
        """Which subject each role stands for."""
        return bindings(intent, directive_subject)

    def plan(self, intent: Intent, view: View) -> Plan:
        """Readings, judges and questions as of now."""
        reads = [*checkpoint_reads(intent, view), *host_reads(intent)]
        judging = [t for t in judges(intent, [task.key for task in reads]) if t.key not in _LATER_JUDGES]
        asked = tuple(u for u in questions(intent) if u.key not in _LATER)
        return Plan(tasks=(*reads, *judging), unknowns=asked)


playbook: Final = Check()
