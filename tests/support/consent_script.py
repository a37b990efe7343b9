"""Asks for consent on a stand-in session, as `recon approve` does; prints what was recorded. Run by a test.

Arguments: effect, --yes or not, the name given with --confirm, `drift` where the change becomes another one meanwhile.
"""

from __future__ import annotations

import sys

from support.board_session import Session
from support.states import CHANGE, item, mission_state

from recon.agent.cli import errors, output
from recon.agent.cli.consent import consent_to
from recon.agent.model.changes import Rendered
from recon.agent.model.errors import ReconError
from recon.agent.model.missions import Mission

effect, yes, confirm, drift = sys.argv[1:5]
change = CHANGE.model_copy(update={"exact": (("path", "/models/old"),)})
task = item(1, "disk.free", "act", "awaiting_approval", effect=effect, rendered=Rendered(change=change))
live = Mission(id="m-1", key="k", text="t", origin="live")
session = Session(mission_state(mission=live, tasks=(task,)), change_hash="other" if drift else None)
code = 0
try:
    consent_to(session, live, task, yes=bool(yes), confirm=confirm, message="")  # type: ignore[arg-type]
except ReconError as error:
    output.note(*errors.told(error))
    code = errors.exit_code(error)
output.lines([f"CALL {' | '.join(call)}" for call in session.calls])
sys.exit(code)
