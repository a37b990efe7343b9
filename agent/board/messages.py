"""What the watcher tells the board."""

from __future__ import annotations

from textual.message import Message

from recon.agent.model.state import MissionState


class PanelResized(Message):
    """The detail panel has another size: what is fitted to it is laid out anew."""

    def can_replace(self, message: Message) -> bool:
        """Only the last size counts."""
        return isinstance(message, PanelResized)


class StateChanged(Message):
    """The mission as it is now. A burst of changes collapses to the last one."""

    def __init__(self, state: MissionState) -> None:
        super().__init__()
        self.state = state

    def can_replace(self, message: Message) -> bool:
        """A newer state makes an older one in the queue pointless."""
        return isinstance(message, StateChanged)
