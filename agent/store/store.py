"""state.db as the rest of recon sees it."""

from __future__ import annotations

from recon.agent.store.exports import Exports
from recon.agent.store.plans import Plans
from recon.agent.store.steps import Steps


class Store(Plans, Exports, Steps):
    """Holds one connection to state.db. Every status change is one transaction with its event; nothing is deleted.

    `Store.open(path)`; a context manager. Missions and revisions: missions.py. Todo items: tasks.py, plans.py.
    Evidence and findings: evidence.py. Judgements: judgements.py. Taking and finishing: steps.py. Runs, leases and
    attempts: runs.py. Decisions and approvals: people.py. Bundles: exports.py. `transaction()` joins several calls.
    """
