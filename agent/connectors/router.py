"""One front door: requests go to the source of their connector, hosts are reached when first asked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from recon.agent.connectors.base import Executor, Source
from recon.agent.connectors.recorder import RecordingSource
from recon.agent.model.errors import ReachError, RefusedError, UsageError
from recon.agent.model.findings import Raw, Request

_FLAGS: Final = {"host": "--host [USER@]HOST", "hub": "--hub URL", "web": "a mission that may read the web"}
_TARGET: Final = re.compile(
    r"^(?:(?P<user>[^@\s]+)@)?(?P<name>\[[0-9A-Fa-f:.]+\]|[^@\s:\[\]/]+)(?::(?P<port>\d{1,5}))?$"
)
LOCAL: Final = "localhost"


class HostTarget:
    """`[user@]name[:port]` taken apart. `user` and `port` are None where ssh's configuration decides."""

    def __init__(self, text: str) -> None:
        match = _TARGET.match(text)
        if match is None or match["name"].startswith("-") or not 0 < int(match["port"] or 1) < 65536:
            raise UsageError(f"not a host: {text!r}", hint="write it as [USER@]HOST[:PORT]")
        self.text = text
        self.user = match["user"]
        self.name = match["name"].strip("[]")
        self.port = int(match["port"]) if match["port"] else None

    @property
    def is_local(self) -> bool:
        """This machine without SSH: the bare word `localhost`."""
        return self.text == LOCAL


def same(source: Source) -> Source:
    """Leaves a source as it is."""
    return source


class Sources:
    """All sources of a run (stateful: opened hosts). `host` makes the source of a target; a connector left out is none.

    `wrap` is put around each source, for recording. A target is known under its name too: once `root@gpu1:22` was asked,
    `gpu1` is the same connection.
    """

    def __init__(
        self, *, host: Callable[[str], Source] | None = None, hub: Source | None = None, web: Source | None = None,
        wrap: Callable[[Source], Source] = same,
    ) -> None:  # fmt: skip
        self._make_host = host
        self._plain: dict[str, Source | None] = {"hub": hub, "web": web}
        self._wrap = wrap
        self._hosts: dict[str, Source] = {}
        self._wrapped: dict[int, Source] = {}

    def name_host(self, target: str) -> None:
        """Says how a host is reached before anybody asks it by its bare name."""
        self._host(target)

    async def fetch(self, request: Request) -> Raw:
        """Sends the request to its source. Raises ReachError where there is none for its connector."""
        inner = (
            self._host(request.target) if request.connector == "host" else self._plain.get(request.connector)
        )
        if inner is None:
            raise _no_source(request.connector, request.target)
        return await self._recorded(inner).fetch(request)

    def executor(self, host: str) -> Executor:
        """The hand on a host, for an approved change. Raises RefusedError where the host is a recording."""
        source = self._host(host)
        if source is None:
            raise _no_source("host", host)
        if not isinstance(source, Executor):
            raise RefusedError(
                f"{host} is recorded evidence: nothing can be changed on it",
                hint="recon run ORG/MODEL HOST plans the same for a real host",
            )
        return source

    async def close(self) -> None:
        """Closes every source once, also when one of them fails to."""
        sources = {id(s): s for s in (*self._hosts.values(), *self._plain.values()) if s is not None}
        self._hosts.clear()
        async with AsyncExitStack() as stack:
            for source in sources.values():
                stack.push_async_callback(source.close)

    def _host(self, target: str) -> Source | None:
        known = self._hosts.get(target)
        if known is not None or self._make_host is None:
            return known
        name = HostTarget(target).name
        source = self._make_host(target)
        self._hosts[target] = source
        self._hosts.setdefault(name, source)
        return source

    def _recorded(self, inner: Source) -> Source:
        wrapped = self._wrapped.get(id(inner))
        if wrapped is None:
            wrapped = self._wrapped[id(inner)] = self._wrap(inner)
        return wrapped


def _no_source(connector: str, target: str) -> ReachError:
    flag = _FLAGS.get(connector, connector)
    return ReachError(
        f"there is no source for {connector} {target}",
        target=target,
        operation="fetch",
        hint=f"give one with {flag}",
    )


def live_sources(
    *, hub_endpoint: str | None = None, hub_token: str | None = None, clock: Callable[[], float] = time.time,
    host: str | None = None, hub: Source | None = None,
) -> Sources:  # fmt: skip
    """Real sources with a recorder in front: SSH (or this machine for `localhost`), the Hub, the web.

    `hub_endpoint` None is the public Hub. `host` is the mission's target with user and port, so that a change, which
    names the host alone, finds the same connection. `hub` answers in the Hub's place. Nothing is contacted before the
    first request.
    """
    from recon.agent.connectors.hub import HubSource
    from recon.agent.connectors.web import WebSource

    def make_host(target: str) -> Source:
        from recon.agent.connectors.local import LocalSource
        from recon.agent.connectors.ssh import SshSource

        parsed = HostTarget(target)
        return LocalSource() if parsed.is_local else SshSource(parsed)

    sources = Sources(
        host=make_host, hub=hub or HubSource(endpoint=hub_endpoint, token=hub_token), web=WebSource(),
        wrap=lambda inner: RecordingSource(inner, clock=clock),
    )  # fmt: skip
    if host:
        sources.name_host(host)
    return sources
