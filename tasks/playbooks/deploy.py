"""Deploys a checkpoint as one instance on the GPUs of one host."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Intent, Plan, View
from recon.tasks.playbooks import deploy_pd
from recon.tasks.playbooks.common import bindings


class Deploy:
    """The playbook `deploy`: what `deploy_pd` does, where one instance was asked for."""

    name: Final = "deploy"
    version: Final = "1"
    about: Final = "deploy a model as one instance: read, judge, download, install, launch, verify, benchmark"
    needs: Final = ("model", "host")
    brings: Final = deploy_pd.BRINGS

    def bindings(self, intent: Intent, directive_subject: str) -> dict[str, str]:
        """Which subject each role stands for."""
        return bindings(intent, directive_subject)

    def plan(self, intent: Intent, view: View) -> Plan:
        """The todo items and questions as of now. A layout that was decided to be prefill/decode is followed."""
        return deploy_pd.playbook.plan(intent, view)


playbook: Final = Deploy()
