"""The task board: a live look at a mission in the terminal, with deciding and approving. The only Textual."""

from __future__ import annotations

from recon.agent.board.app import BoardApp
from recon.agent.board.session import BoardSession

__all__ = ["BoardApp", "BoardSession"]
