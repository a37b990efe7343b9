"""Whether and when a failed attempt is tried again, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from recon.agent.model.tasks import RetryPolicy


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Try again after `delay_s` seconds, or not at all."""

    again: bool
    delay_s: float = 0.0


def decide_retry(
    policy: RetryPolicy, *, attempts: int, retryable: bool, jitter: float, retry_after_s: float | None = None
) -> RetryDecision:
    """Exponential back-off with full jitter, `jitter` in [0, 1); a source's own Retry-After is the least to wait."""
    if not retryable or attempts >= policy.attempts:
        return RetryDecision(False)
    ceiling = min(policy.max_delay_s, policy.first_delay_s * policy.factor ** (attempts - 1))
    return RetryDecision(True, max(ceiling * jitter, retry_after_s or 0.0))
