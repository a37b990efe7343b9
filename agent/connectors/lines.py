"""Output of a step, line by line, while it comes."""

from __future__ import annotations

from typing import Final

from recon.agent.connectors.base import Log
from recon.agent.connectors.redact import redact_text

_LONG: Final = 1 << 16  # bytes: a line that does not end is shown in pieces


class LineLog:
    """Hands complete lines to a log, redacted, and keeps the first `cap_bytes` of the whole (stateful)."""

    def __init__(self, log: Log | None, cap_bytes: int) -> None:
        self._log = log
        self._cap = cap_bytes
        self._kept = bytearray()
        self._open = b""

    def add(self, data: bytes) -> None:
        """Takes what came; a line is handed on when its end is there."""
        self._kept += data[: max(0, self._cap - len(self._kept))]
        if self._log is None:
            return
        *lines, self._open = (self._open + data).split(b"\n")
        for line in lines:
            self._say(line)
        if len(self._open) > _LONG:
            self._say(self._open)
            self._open = b""

    def finish(self) -> str:
        """Hands on the last line and returns the kept text, redacted."""
        if self._open:
            self._say(self._open)
            self._open = b""
        return redact_text(self._kept.decode("utf-8", errors="replace"))

    def _say(self, line: bytes) -> None:
        if self._log is not None:
            self._log(redact_text(line.decode("utf-8", errors="replace").rstrip("\r")))
