"""What went wrong on the way to a host, in words that say what to do. One row per kind of failure."""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass
from typing import Final

import asyncssh

from recon.agent.connectors.commands import first_line
from recon.agent.model.errors import HostError

_NO_ROUTE: Final = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
CAUGHT: Final = (
    OSError,
    asyncssh.Error,
    asyncio.TimeoutError,
    asyncssh.ConfigParseError,
    asyncssh.KeyImportError,
    ValueError,
)


@dataclass(frozen=True)
class Where:
    """A host as it is reached: the words a person typed, and the address, port and user that follow from them."""

    target: str
    host: str
    port: int
    user: str
    connect_timeout_s: float
    login_timeout_s: float

    @property
    def address(self) -> str:
        """`host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def host_error(
    where: Where, message: str, *, hint: str = "", retryable: bool = False, operation: str = "connect"
) -> HostError:
    """A HostError about a host."""
    return HostError(message, target=where.target, operation=operation, retryable=retryable, hint=hint)


def explain(error: BaseException, where: Where, *, keys: tuple[str, ...] = ()) -> HostError:
    """The HostError for what connecting raised. `keys`: fingerprints of the keys that were offered."""
    if isinstance(error, HostError):
        return error
    return (
        _network(error, where)
        or _handshake(error, where, keys)
        or _files(error, where)
        or _other(error, where)
    )


def _network(error: BaseException, where: Where) -> HostError | None:
    name, address = where.target, where.address
    match error:
        case socket.gaierror():
            return host_error(
                where,
                f"host name {where.host} cannot be resolved",
                hint="check the name or its entry in ~/.ssh/config",
            )
        case ConnectionRefusedError():
            return host_error(
                where,
                f"{address} refused the connection",
                hint="is sshd running there, and is the port right?",
                retryable=True,
            )
        case ConnectionResetError() | BrokenPipeError():
            return _closed(where)
        case OSError(errno=number) if number in _NO_ROUTE:
            return host_error(where, f"no route to {name}", hint="is a VPN down?", retryable=True)
        case TimeoutError() if not isinstance(error, asyncssh.Error):
            return host_error(
                where, f"{address} did not answer within {where.connect_timeout_s:g} s",
                hint="is the host up, is a firewall in the way?", retryable=True,
            )  # fmt: skip
    return None


def _closed(where: Where) -> HostError:
    return host_error(
        where, f"{where.address} closed the connection during the handshake",
        hint="it is not an SSH server, or it limits connections (MaxStartups, fail2ban)", retryable=True,
    )  # fmt: skip


def _handshake(error: BaseException, where: Where, keys: tuple[str, ...]) -> HostError | None:
    text = first_line(str(error).encode())
    match error:
        case asyncssh.PermissionDenied():
            offered = (
                f" (offered: {', '.join(keys)})"
                if keys
                else " (no key file; keys of an agent are not listed here)"
            )
            return host_error(
                where, f"{where.host} rejects user {where.user} with the keys it was offered{offered}",
                hint="is the agent running, and does IdentityFile name the right key?",
            )  # fmt: skip
        case asyncssh.ConnectionLost() if "Login timeout" in text:
            return host_error(
                where, f"{where.host} accepted the connection but did not finish the login in {where.login_timeout_s:g} s",
                hint="the host is overloaded, or its name service is slow", retryable=True,
            )  # fmt: skip
        case asyncssh.ConnectionLost():
            return _closed(where)
        case (
            asyncssh.KeyExchangeFailed()
            | asyncssh.ProtocolError()
            | asyncssh.MACError()
            | asyncssh.ServiceNotAvailable()
        ):
            return host_error(
                where, f"{where.address} and recon find no common way to talk: {text}",
                hint="an old SSH server or a box in between; try `ssh -v` to compare",
            )  # fmt: skip
        case asyncssh.ChannelOpenError():
            return host_error(
                where,
                f"{where.host} opens no session: {text}",
                hint="MaxSessions on the host",
                retryable=True,
            )
        case asyncssh.DisconnectError():
            return host_error(where, f"{where.host} ended the connection: {text}", retryable=True)
    return None


def _files(error: BaseException, where: Where) -> HostError | None:
    text = first_line(str(error).encode())
    match error:
        case asyncssh.KeyImportError():
            return host_error(
                where,
                f"a key for {where.host} cannot be used: {text}",
                hint="if it is encrypted, add it to ssh-agent",
            )
        case asyncssh.ConfigParseError():
            return host_error(
                where,
                f"the SSH configuration cannot be read: {text}",
                hint="correct it, `ssh -G HOST` shows the line",
            )
        case FileNotFoundError() | PermissionError():
            named = f" {error.filename}" if error.filename else ""
            return host_error(
                where, f"cannot read{named}: {error.strerror}", hint="a path in ~/.ssh/config (IdentityFile?)"
            )
    return None


def _other(error: BaseException, where: Where) -> HostError:
    text = first_line(str(error).encode()) or type(error).__name__
    return host_error(where, f"cannot reach {where.address}: {text}", retryable=isinstance(error, OSError))


def lost(where: Where, *, operation: str) -> HostError:
    """The connection went away while something was asked."""
    return host_error(
        where,
        f"the connection to {where.host} was lost",
        retryable=True,
        operation=operation,
        hint="recon resume",
    )
