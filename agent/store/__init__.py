"""state.db: the only SQL. Importing this loads SQLAlchemy: import it where a state is opened, not before."""

from __future__ import annotations

from recon.agent.store.exports import ExportRows
from recon.agent.store.steps import Finish, FinishStatus, StepResult, Take, TakenAttempt
from recon.agent.store.store import Store
from recon.agent.store.tasks import MANUAL

__all__ = ["MANUAL", "ExportRows", "Finish", "FinishStatus", "StepResult", "Store", "Take", "TakenAttempt"]
