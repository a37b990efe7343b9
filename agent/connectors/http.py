"""Reading bytes over HTTP with a cap, for the Hub and the web: what both need and nothing else."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import httpx

USER_AGENT: Final = "recon"
CONNECT_S: Final = 10.0
_LIMIT: Final = re.compile(r"r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)")


@dataclass(frozen=True)
class Answer:
    """One HTTP answer. `total`: bytes that came or were announced; the body may be cut to the cap."""

    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes
    total: int
    url: str

    @property
    def truncated(self) -> bool:
        """More was there than was kept."""
        return self.total > len(self.body)


def new_client(*, timeout_s: float = 20.0) -> httpx.AsyncClient:
    """A client that follows no redirect by itself and keeps no cookies of its own."""
    timeout = httpx.Timeout(timeout_s, connect=CONNECT_S)
    return httpx.AsyncClient(timeout=timeout, follow_redirects=False, headers={"user-agent": USER_AGENT})


async def read(
    client: httpx.AsyncClient, url: str, *, cap_bytes: int, headers: Mapping[str, str] | None = None,
    stop: Callable[[httpx.Response], bool] = lambda response: False,
) -> Answer:  # fmt: skip
    """GETs an address and reads at most `cap_bytes` of the body; none of it where `stop` says so. Raises httpx.HTTPError."""
    body = bytearray()
    async with client.stream("GET", url, headers=dict(headers or {})) as response:
        total = 0
        if not stop(response):
            async for piece in response.aiter_bytes(1 << 16):
                total += len(piece)
                body += piece[: max(0, cap_bytes - len(body))]
                if total > cap_bytes:
                    break
        announced = response.headers.get("content-length", "")
        if announced.isdigit() and "content-encoding" not in response.headers:
            total = max(total, int(announced))
        found = {k.lower(): v for k, v in response.headers.items()}
        return Answer(response.status_code, found, bytes(body), total, str(response.url))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as a server says it: `RateLimit: "api";r=0;t=55` or `Retry-After: 55`."""
    found = _LIMIT.search(headers.get("ratelimit", ""))
    if found is not None and found[1] == "0":
        return float(found[2])
    after = headers.get("retry-after", "")
    return float(after) if after.isdigit() else None


def trouble(error: Exception) -> str:
    """A failed request in a few words."""
    cause = error.__cause__ or error.__context__ or error
    if isinstance(
        error,
        httpx.ConnectTimeout | httpx.ReadTimeout | httpx.PoolTimeout | httpx.WriteTimeout | TimeoutError,
    ):
        return "it did not answer in time"
    if isinstance(cause, ssl.SSLError) or "CERTIFICATE" in str(error):
        return f"its certificate or TLS is not accepted ({error})"
    if isinstance(error, httpx.ConnectError):
        return f"no connection ({error})"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
