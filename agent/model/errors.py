"""Errors that stop something, each with what to do next.

    ReconError
      UsageError                MissionError, PlanError, ConfigError
      ReachError                HostError, HubError, WebError
      ParseError
      StoreError                StateLocked, StateNewer, StateDamaged
      RefusedError

An unknown, a conflict, a closed gate and a failed command are values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence


class ReconError(Exception):
    """Something recon cannot go on from: `message` says what and where, `hint` what to run or change next."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ReconError):
    """The words of the command, a file or a setting are off (exit code 2)."""


class MissionError(UsageError):
    """A mission file or directive that cannot be read; the message names line and column where there are any."""


class PlanError(UsageError):
    """A todo graph that cannot be run: cycle, unknown dependency, duplicate key."""


class ConfigError(UsageError):
    """A setting or environment variable that makes no sense."""


class ReachError(ReconError):
    """A source that could not be reached (exit code 4). `retryable`: the same call may go through later."""

    def __init__(
        self, message: str, *, target: str, operation: str, retryable: bool = False, hint: str = "",
        retry_after_s: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message, hint=hint)
        self.target = target
        self.operation = operation
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class HostError(ReachError):
    """A host: unreachable, key unknown or changed, login refused, timed out."""


class HubError(ReachError):
    """The Hub: repository missing or private, gated, revision gone, rate limited."""


class WebError(ReachError):
    """A page that could not be read."""


class ParseError(ReconError):
    """Seen, not understood: becomes an unknown finding; the bytes are kept."""


class StoreError(ReconError):
    """state.db cannot be used (exit code 5); the file is left as it was."""


class StateLocked(StoreError):
    """Another process holds state.db for longer than we wait."""


class StateNewer(StoreError):
    """state.db was written by a newer recon."""


class StateDamaged(StoreError):
    """state.db is not a database of recon, or it is corrupt."""


class RefusedError(ReconError):
    """Code tried to pass a closed gate, or a person something that is not allowed now."""

    def __init__(self, message: str, *, gate: str = "", blockers: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.gate = gate
        self.blockers = tuple(blockers)
