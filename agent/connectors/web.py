"""Pages of the web, read as they are: size, time and type are limited, and a page leads nowhere but to its own site."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlencode

import httpx

from recon.agent.connectors.base import cut_reason
from recon.agent.connectors.http import Answer, new_client, read, retry_after_s, trouble
from recon.agent.model.errors import UsageError, WebError
from recon.agent.model.findings import Raw, Request

_TYPES: Final = ("text/html", "application/xhtml+xml")
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_MAX_HOPS: Final = 5
_TRIES: Final = 2
_WAIT_S: Final = 0.5


class WebSource:
    """Reads HTML pages (stateful: the client, made at the first request)."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    async def fetch(self, request: Request) -> Raw:
        """One page. Missing (404, 410) and denied (401, 403) are answers; a site that is down raises WebError."""
        url = _url(request)
        try:
            async with asyncio.timeout(request.timeout_s):
                answer = await self._read(url, request)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise _error(request, f"cannot read {url}: {trouble(error)}", retryable=True) from None
        return _raw(answer, request)

    async def close(self) -> None:
        """Closes the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _read(self, url: str, request: Request) -> Answer:
        begun = httpx.URL(url)
        for _ in range(_MAX_HOPS):
            answer = await self._read_retrying(url, request)
            if answer.status not in _REDIRECTS or "location" not in answer.headers:
                return answer
            target = httpx.URL(url).join(answer.headers["location"])
            if not same_site(begun, target):
                raise _error(
                    request, f"{url} leads to another site, {target.host}", hint="ask for that address itself"
                )
            url = str(target)
        raise _error(request, f"{request.target}{request.path} leads in circles")

    async def _read_retrying(self, url: str, request: Request) -> Answer:
        if self._client is None:
            self._client = new_client()
        for attempt in range(1, _TRIES + 1):
            try:
                answer = await read(
                    self._client,
                    url,
                    cap_bytes=request.cap_bytes,
                    headers={"accept": ", ".join(_TYPES)},
                    stop=_no_page,
                )
            except httpx.TransportError:
                if attempt == _TRIES:
                    raise
            else:
                if answer.status < 500 or attempt == _TRIES:
                    return answer
            await asyncio.sleep(_WAIT_S)
        raise AssertionError("unreachable")


def same_site(one: httpx.URL, other: httpx.URL) -> bool:
    """The same host, with or without `www.`, or one under the other; never from https back to http."""
    if other.scheme not in ("http", "https") or (one.scheme == "https" and other.scheme == "http"):
        return False
    a, b = one.host.removeprefix("www."), other.host.removeprefix("www.")
    return a == b or (a.count(".") > 0 and b.endswith(f".{a}")) or (b.count(".") > 0 and a.endswith(f".{b}"))


def _url(request: Request) -> str:
    url = httpx.URL(request.target)
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.path not in ("", "/"):
        raise UsageError(
            f"not the address of a site: {request.target!r}", hint="it looks like https://docs.example.org"
        )
    query = f"?{urlencode(request.query)}" if request.query else ""
    return f"{request.target.rstrip('/')}/{request.path.lstrip('/')}{query}"


def _no_page(response: httpx.Response) -> bool:
    return response.status_code == 200 and not response.headers.get("content-type", "").lower().startswith(
        _TYPES
    )


def _raw(answer: Answer, request: Request) -> Raw:
    status, kind = answer.status, answer.headers.get("content-type", "of no type")
    if status in (404, 410):
        return Raw(state="missing", exit_code=status, reason=f"HTTP {status}: no such page")
    if status in (401, 403):
        return Raw(state="denied", exit_code=status, reason=f"HTTP {status}: the page is not public")
    if status == 429 or status >= 500:
        raise _error(
            request,
            f"{request.target} answers HTTP {status}",
            retryable=True,
            retry_after_s=retry_after_s(answer.headers),
        )
    if status != 200:
        return Raw(state="failed", exit_code=status, reason=f"HTTP {status}")
    if not kind.lower().startswith(_TYPES):
        return Raw(state="unparsable", exit_code=status, reason=f"not a page of text but {kind[:80]}")
    reason = cut_reason(answer.total, len(answer.body)) if answer.truncated else ""
    return Raw(state="ok", exit_code=status, stdout=answer.body, truncated=answer.truncated, reason=reason)


def _error(
    request: Request,
    message: str,
    *,
    hint: str = "",
    retryable: bool = False,
    retry_after_s: float | None = None,
) -> WebError:
    return WebError(
        message,
        target=request.target,
        operation=request.probe,
        retryable=retryable,
        hint=hint,
        retry_after_s=retry_after_s,
    )
