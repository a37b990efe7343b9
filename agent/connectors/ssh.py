"""A host over SSH: one connection, a few sessions at once, bytes only, nothing left running on the other side."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import asyncssh

from recon.agent.connectors.allowlist import check_argv
from recon.agent.connectors.base import CommandResult, Log, Tail
from recon.agent.connectors.commands import (
    KILL_AFTER_S,
    RUNAWAY_BYTES,
    STDERR_CAP,
    answer,
    first_line,
    signal_code,
)
from recon.agent.connectors.framing import Framed, command_line, kill_line
from recon.agent.connectors.host_keys import SYSTEM_FILES, Entry, entries, readable, revoked, untrusted
from recon.agent.connectors.lines import LineLog
from recon.agent.connectors.router import HostTarget
from recon.agent.connectors.ssh_errors import CAUGHT, Where, explain, host_error, lost
from recon.agent.model.errors import HostError
from recon.agent.model.findings import Raw, Request

_SESSIONS: Final = 6  # sshd's MaxSessions is 10 by default, and a closed session frees its place late
_SLACK_S: Final = 6.0  # over the command's own limit, for opening the session and the last bytes
_OPEN_TRIES: Final = 3
_OPEN_WAIT_S: Final = 0.3
_CONNECT_TRIES: Final = 3
_REMEMBER_S: Final = 3.0  # many tasks ask at once: one failed connect answers all of them
_LOOK_S: Final = 0.25
_DRAIN_S: Final = 1.0
_STEP_KILL_S: Final = 5.0
_OUTPUT_CAP: Final = 1 << 20
_BOOT_ARGV: Final = ("cat", "--", "/proc/sys/kernel/random/boot_id")


class SshSource:
    """Source and executor for one host (stateful: the connection, opened at the first request).

    `config`: SSH configuration files (None: ~/.ssh/config). `known_hosts`: files of trusted keys (None: the usual ones, or
    what the configuration names); host keys are always checked. `client_keys`: private key files instead of agent and
    defaults. Times in seconds.
    """

    def __init__(
        self, target: HostTarget | str, *, config: Sequence[str] | None = None, known_hosts: Sequence[str] | None = None,
        client_keys: Sequence[str] | None = None, connect_timeout_s: float = 10.0, login_timeout_s: float = 20.0,
        keepalive_interval_s: float = 5.0, keepalive_count: int = 3,
    ) -> None:  # fmt: skip
        self._target = HostTarget(target) if isinstance(target, str) else target
        self._config, self._known_hosts, self._client_keys = config, known_hosts, client_keys
        self._times = {
            "connect_timeout": connect_timeout_s, "login_timeout": login_timeout_s,
            "keepalive_interval": keepalive_interval_s, "keepalive_count_max": keepalive_count,
        }  # fmt: skip
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._slots = asyncio.Semaphore(_SESSIONS)
        self._one_gpu_tool = asyncio.Lock()
        self._failed: tuple[float, HostError] | None = None
        self._closed = False
        self._where = Where(
            target=self._target.text, host=self._target.name, port=self._target.port or 22, user=self._target.user or "",
            connect_timeout_s=connect_timeout_s, login_timeout_s=login_timeout_s,
        )  # fmt: skip
        self.boot_id = ""

    # ---- source and executor

    async def fetch(self, request: Request) -> Raw:
        """Runs one allow-listed command on the host. Raises UsageError for any other, HostError without a host."""
        check_argv(request.argv)
        if request.argv[0] == "nvidia-smi":
            async with (
                self._one_gpu_tool
            ):  # calls of the driver tool wait for one lock in the driver: in turn, not at once
                return await self._fetch(request)
        return await self._fetch(request)

    async def execute(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        cwd: str = "",
        log: Log | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Runs one step of an approved change. It ends on the host too when it times out or is cancelled here."""
        if not argv:
            raise host_error(self._where, "an empty command", operation="execute")
        out, err = LineLog(log, _OUTPUT_CAP), LineLog(log, _OUTPUT_CAP)
        session = _Session(self._where, out.add, err.add)
        async with self._slots:
            connection = await self._connect()
            code, late = await session.run(connection, argv, limit_s=timeout_s, cwd=cwd, stdin=stdin)
        if code is None and not late:
            raise lost(self._where, operation="execute")
        return CommandResult(None if late else code, out.finish(), err.finish(), late)

    async def close(self) -> None:
        """Closes the connection."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            with suppress(Exception):  # whatever a dying connection still has to say
                await asyncio.wait_for(connection.wait_closed(), KILL_AFTER_S)

    async def _fetch(self, request: Request) -> Raw:
        async with self._slots:
            raw = await self._ask(request, await self._connect())
            if (
                raw.state == "lost" and not self._closed
            ):  # reading again is harmless: once more on a new connection
                raw = await self._ask(request, await self._connect())
        return raw

    async def _ask(self, request: Request, connection: asyncssh.SSHClientConnection) -> Raw:
        out, err = Tail(request.cap_bytes), Tail(STDERR_CAP)
        session = _Session(self._where, out.add, err.add, total=lambda: out.total)
        begun = time.perf_counter()
        code, late = await session.run(connection, request.argv, limit_s=request.timeout_s)
        return answer(
            exit_code=code, stdout=out, stderr=err, elapsed_s=time.perf_counter() - begun, limit_s=request.timeout_s,
            timed_out=late, boot_id=self.boot_id,
        )  # fmt: skip

    # ---- the connection

    async def _connect(self) -> asyncssh.SSHClientConnection:
        async with self._connecting:
            if self._closed:
                raise host_error(self._where, f"the connection to {self._where.host} is closed")
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            if self._failed is not None and time.monotonic() - self._failed[0] < _REMEMBER_S:
                raise self._failed[1]
            try:
                self._connection = await self._connect_retrying()
            except HostError as error:
                self._failed = (time.monotonic(), error)
                raise
            self._failed = None
            self.boot_id = await self._read_boot_id(self._connection)
            return self._connection

    async def _connect_retrying(self) -> asyncssh.SSHClientConnection:
        for attempt in range(1, _CONNECT_TRIES + 1):
            try:
                return await self._connect_once()
            except HostError as error:
                slow = (
                    "did not answer" in error.message
                )  # it cost the whole timeout already: once more, not twice
                if not error.retryable or attempt == _CONNECT_TRIES or (slow and attempt == 2):
                    raise
            await asyncio.sleep(_OPEN_WAIT_S * attempt)
        raise AssertionError("unreachable")

    async def _connect_once(self) -> asyncssh.SSHClientConnection:
        offered: tuple[str, ...] = ()
        files: list[str] = []
        try:
            settings = await self._settings()
            # config=(): asyncssh reads ~/.ssh/config by itself in connect(), but not when options are made alone
            options = await asyncssh.SSHClientConnectionOptions.construct(**{"config": (), **settings})
            self._learn(options)
            files = self._trusted_files(options)
            offered = _fingerprints(options)
            settings["known_hosts"] = files or b""  # never None: that would switch the check off
            connection = await asyncssh.connect(**settings, encoding=None)
        except asyncssh.HostKeyNotVerifiable:
            raise await self._why_untrusted(entries(files, self._where.host, self._where.port)) from None
        except CAUGHT as error:
            if (
                isinstance(error, asyncssh.DisconnectError | asyncssh.KeyExchangeFailed | ConnectionError)
                and files
            ):
                await self._check_key_type(files)
            raise explain(error, self._where, keys=offered) from None
        known = entries(files, self._where.host, self._where.port)
        if revoked(connection.get_server_host_key(), known):
            connection.abort()
            raise untrusted(connection.get_server_host_key(), known, self._where)
        return connection

    async def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"host": self._target.name, **self._times}
        if self._target.port is not None:
            settings["port"] = self._target.port
        if self._target.user is not None:
            settings["username"] = self._target.user
        if self._config is not None:
            settings["config"] = list(self._config)
        if self._client_keys is not None:
            settings |= {"client_keys": list(self._client_keys), "agent_path": None}
        return settings

    def _learn(self, options: asyncssh.SSHClientConnectionOptions) -> None:
        self._where = Where(
            target=self._target.text, host=options.host or self._target.name, port=int(options.port), user=options.username,
            connect_timeout_s=self._where.connect_timeout_s, login_timeout_s=self._where.login_timeout_s,
        )  # fmt: skip

    def _trusted_files(self, options: asyncssh.SSHClientConnectionOptions) -> list[str]:
        if self._known_hosts is not None:
            return readable(self._known_hosts)
        named: object = options.known_hosts
        if named is None:  # `UserKnownHostsFile none`
            return []
        return readable([str(f) for f in named] if isinstance(named, list) and named else SYSTEM_FILES)

    async def _check_key_type(self, files: Sequence[str]) -> None:
        """Only keys of known types are asked for, so a host that has none of them hangs up. Raises HostError if it was that."""
        known = entries(files, self._where.host, self._where.port)
        if not known:
            return
        error = await self._why_untrusted(known)
        if "another type of key" in error.message:
            raise error

    async def _why_untrusted(self, known: Sequence[Entry]) -> HostError:
        settings = {k: v for k, v in (await self._settings()).items() if k in ("host", "port", "config")}
        shown: asyncssh.SSHKey | None = None
        try:
            async with asyncio.timeout(self._where.connect_timeout_s + self._where.login_timeout_s):
                # of the type that is known, if the host has one: what it shows by default may be another, new one
                types = sorted({e.algorithm for e in known})
                if types:
                    with suppress(
                        asyncssh.Error, OSError
                    ):  # a host without such a key hangs up, politely or not
                        shown = await asyncssh.get_server_host_key(**settings, server_host_key_algs=types)
                if shown is None:
                    shown = await asyncssh.get_server_host_key(**settings)
        except CAUGHT as error:
            return explain(error, self._where)
        return untrusted(shown, known, self._where)

    async def _read_boot_id(self, connection: asyncssh.SSHClientConnection) -> str:
        out = Tail(64)
        session = _Session(self._where, out.add, lambda data: None)
        code, _ = await session.run(connection, _BOOT_ARGV, limit_s=5.0)
        return out.kept.decode("ascii", errors="replace").strip() if code == 0 else ""


class _Runaway(Exception):
    """A command prints more than anybody reads."""


class _Session:
    """One command on a connection (stateful while it runs)."""

    def __init__(
        self, where: Where, out: Callable[[bytes], None], err: Callable[[bytes], None], *,
        total: Callable[[], int] = lambda: 0,
    ) -> None:  # fmt: skip
        self._where = where
        self._mark = f"recon-{secrets.token_hex(8)}"
        self._out, self._err = Framed(self._mark, out), Framed(self._mark, err)
        self._total = total

    async def run(
        self,
        connection: asyncssh.SSHClientConnection,
        argv: Sequence[str],
        *,
        limit_s: float,
        cwd: str = "",
        stdin: bytes = b"",
    ) -> tuple[int | None, bool]:
        """(exit code, timed out). The code is None where the connection ended first. Raises HostError without a session."""
        line = command_line(argv, mark=self._mark, limit_s=limit_s, cwd=cwd, reads=bool(stdin))
        begun = time.monotonic()
        process: asyncssh.SSHClientProcess[bytes] | None = None
        over = False
        try:
            async with asyncio.timeout(limit_s + KILL_AFTER_S + _SLACK_S):
                process = await self._open(connection, line, reads=bool(stdin))
                if stdin:
                    process.stdin.write(stdin)
                    process.stdin.write_eof()
                await self._pump_both(process)
            over = True
            code = _code(process)
        except TimeoutError:
            return None, True
        except _Runaway:
            return 137, False
        except (asyncssh.Error, OSError):
            return None, False
        finally:
            if process is not None and not over:
                await _at_any_rate(self._end(connection, process))
        if code is not None and self._out.pid is None:
            raise self._not_started(code)
        late = code in (124, 137) and time.monotonic() - begun >= limit_s - 0.2
        return code, late

    async def _open(
        self, connection: asyncssh.SSHClientConnection, line: str, *, reads: bool = False
    ) -> asyncssh.SSHClientProcess[bytes]:
        for attempt in range(1, _OPEN_TRIES + 1):
            try:
                source = asyncssh.PIPE if reads else asyncssh.DEVNULL
                return await connection.create_process(line, encoding=None, stdin=source)
            except asyncssh.ChannelOpenError as error:
                if attempt == _OPEN_TRIES or connection.is_closed():
                    if connection.is_closed():
                        raise
                    raise explain(error, self._where) from None
            await asyncio.sleep(_OPEN_WAIT_S)
        raise AssertionError("unreachable")

    async def _pump_both(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        """Reads until the command ended and its streams too; these only a moment longer: a child may keep them open."""
        pumps = [
            asyncio.ensure_future(self._pump(process.stdout, self._out)),
            asyncio.ensure_future(self._pump(process.stderr, self._err)),
        ]
        try:
            while process.exit_status is None and not all(pump.done() for pump in pumps):
                done, _ = await asyncio.wait(pumps, timeout=_LOOK_S, return_when=asyncio.FIRST_EXCEPTION)
                if any(pump.exception() is not None for pump in done):
                    break
            _, open_still = await asyncio.wait(pumps, timeout=_DRAIN_S, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for pump in pumps:
                pump.cancel()
            ends = await asyncio.gather(*pumps, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        if open_still:
            process.close()
        else:
            await process.wait_closed()

    async def _pump(self, stream: asyncssh.SSHReader[bytes], framed: Framed) -> None:
        while data := await stream.read(1 << 16):
            framed.add(data)
            if self._total() > RUNAWAY_BYTES:
                raise _Runaway

    async def _end(
        self, connection: asyncssh.SSHClientConnection, process: asyncssh.SSHClientProcess[bytes]
    ) -> None:
        """Ends the command on the host. Closing the session does not: sshd leaves a root's processes alone."""
        pid = self._out.pid or self._err.pid
        with suppress(asyncssh.Error, OSError, TimeoutError):
            async with asyncio.timeout(_STEP_KILL_S):
                if pid is not None and not connection.is_closed():
                    killer = await connection.create_process(
                        kill_line(pid), encoding=None, stdin=asyncssh.DEVNULL
                    )
                    await killer.wait_closed()
        process.close()

    def _not_started(self, code: int) -> HostError:
        said = first_line(self._out.noise) or first_line(self._err.noise) or f"exit code {code}"
        return host_error(
            self._where, f"{self._where.host} did not start the command: {said}",
            hint=f"can {self._where.user} log in with a shell?", operation="exec",
        )  # fmt: skip


async def _at_any_rate(work: Awaitable[None]) -> None:
    """Finishes work also when this task is cancelled meanwhile (work has its own time limit)."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _code(process: asyncssh.SSHClientProcess[bytes]) -> int | None:
    if process.exit_signal is not None:
        return signal_code(process.exit_signal[0])
    return process.exit_status


def _fingerprints(options: asyncssh.SSHClientConnectionOptions) -> tuple[str, ...]:
    """Fingerprints of the key files that will be offered. Keys of an agent are not listed here."""
    pairs: Any = options.client_keys or ()
    found: list[str] = []
    for pair in pairs:
        with suppress(asyncssh.KeyImportError, AttributeError, ValueError):
            found.append(str(asyncssh.import_public_key(_public_line(pair)).get_fingerprint()))
    return tuple(found)


def _public_line(pair: Any) -> bytes:
    return bytes(pair.algorithm) + b" " + base64.b64encode(pair.public_data)
