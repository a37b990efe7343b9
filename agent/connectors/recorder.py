"""In front of every source: secrets out, time on. Storing what passes is the runner's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from recon.agent.connectors.base import Source
from recon.agent.connectors.redact import redact, redact_text
from recon.agent.model.findings import Raw, Request

_THREAD_ABOVE: Final = 1 << 19  # bytes: longer answers are redacted off the event loop


class RecordingSource:
    """Redacts what a source says, bytes and reason, and stamps when it was said (UTC seconds) and how long it took."""

    def __init__(
        self, inner: Source, *, clock: Callable[[], float] = time.time, hide: Callable[[bytes], bytes] = redact,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:  # fmt: skip
        self.inner = inner
        self._clock = clock
        self._hide = hide
        self._stopwatch = stopwatch

    async def fetch(self, request: Request) -> Raw:
        """The inner source's answer, redacted and stamped. Errors pass; their text is redacted too."""
        begun, observed_at = self._stopwatch(), self._clock()
        try:
            raw = await self.inner.fetch(request)
        except Exception as error:
            hide_error(error)
            raise
        long = len(raw.stdout) > _THREAD_ABOVE
        stdout = await asyncio.to_thread(self._hide, raw.stdout) if long else self._hide(raw.stdout)
        changes = {
            "stdout": stdout, "stderr": self._hide(raw.stderr), "reason": redact_text(raw.reason),
            "observed_at": observed_at, "duration_s": self._stopwatch() - begun,
        }  # fmt: skip
        return raw.model_copy(update=changes)

    async def close(self) -> None:
        """Closes the inner source."""
        await self.inner.close()


def hide_error(error: Exception) -> None:
    """Takes secrets out of an error's own words, in place: the traceback stays."""
    for name in ("message", "hint"):
        value = getattr(error, name, None)
        if isinstance(value, str):
            setattr(error, name, redact_text(value))
    error.args = tuple(redact_text(a) if isinstance(a, str) else a for a in error.args)
