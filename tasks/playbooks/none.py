"""No todo items of its own: for a mission file that brings all of them."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Intent, Plan, View
from recon.tasks.playbooks.common import bindings


class Nothing:
    """The playbook `none`."""

    name: Final = "none"
    version: Final = "1"
    about: Final = "nothing of its own: a mission file brings every task, question and gate"
    needs: Final = ("a mission file",)

    def bindings(self, intent: Intent, directive_subject: str) -> dict[str, str]:
        """Which subject each role stands for."""
        return bindings(intent, directive_subject)

    def plan(self, intent: Intent, view: View) -> Plan:
        """Nothing."""
        del intent, view
        return Plan(tasks=())


playbook: Final = Nothing()
