"""This machine as a host: the same commands, limits and answers as over SSH, in subprocesses of their own group."""

from __future__ import annotations

import asyncio
import glob
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from recon.agent.connectors.allowlist import check_argv, expands
from recon.agent.connectors.base import CommandResult, Log, Tail
from recon.agent.connectors.commands import (
    ENV,
    EXTRA_PATH,
    KILL_AFTER_S,
    RUNAWAY_BYTES,
    STDERR_CAP,
    answer,
    real_argv,
)  # fmt: skip
from recon.agent.connectors.lines import LineLog
from recon.agent.model.errors import HostError
from recon.agent.model.findings import Raw, Request

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_AT_ONCE: Final = 6
_LOOK_S: Final = 0.05
_DRAIN_S: Final = (
    1.0  # how long pipes may stay open after the command ended: a left-behind child may hold them
)
_OUTPUT_CAP: Final = 1 << 20

_Sink: TypeAlias = Callable[[bytes], None]
_Count: TypeAlias = Callable[[], int]


class LocalSource:
    """Source and executor for the bare target `localhost`. `path`: PATH of the commands; None takes this process's."""

    def __init__(self, *, path: str | None = None) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._one_gpu_tool = asyncio.Lock()
        base = os.environ.get("PATH", os.defpath) if path is None else path
        self._env = {**_home(), **ENV, "PATH": f"{base}:{EXTRA_PATH}"}
        self._boot_id: str | None = None

    async def fetch(self, request: Request) -> Raw:
        """Runs one allow-listed command. Raises UsageError for any other."""
        check_argv(request.argv)
        argv = _expanded(real_argv(request.argv))
        out, err = Tail(request.cap_bytes), Tail(STDERR_CAP)
        async with self._slots, self._turn(argv[0]):
            begun = time.perf_counter()
            code, timed_out = await self._run(
                argv, out.add, err.add, timeout_s=request.timeout_s, total=lambda: out.total
            )
            elapsed = time.perf_counter() - begun
        return answer(
            exit_code=code, stdout=out, stderr=err, elapsed_s=elapsed, limit_s=request.timeout_s, timed_out=timed_out,
            boot_id=self._boot(), lost="ended by a signal",
        )  # fmt: skip

    async def execute(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        cwd: str = "",
        log: Log | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Runs one step of an approved change; its process group does not outlive a timeout or a cancellation."""
        if not argv:
            raise HostError("an empty command", target="localhost", operation="execute")
        out, err = LineLog(log, _OUTPUT_CAP), LineLog(log, _OUTPUT_CAP)
        code, timed_out = await self._run(argv, out.add, err.add, timeout_s=timeout_s, cwd=cwd, stdin=stdin)
        return CommandResult(code, out.finish(), err.finish(), timed_out)

    async def close(self) -> None:
        """Nothing is held between two commands."""

    def _turn(self, command: str) -> asyncio.Lock | _Free:
        # each call of the driver tool waits for the same lock in the driver: side by side they only time out
        return self._one_gpu_tool if command == "nvidia-smi" else _Free()

    def _boot(self) -> str:
        if self._boot_id is None:
            try:
                self._boot_id = _BOOT_ID.read_text().strip()
            except OSError:
                self._boot_id = ""
        return self._boot_id

    async def _run(
        self, argv: Sequence[str], out: _Sink, err: _Sink, *, timeout_s: float, cwd: str = "",
        total: _Count = lambda: 0, stdin: bytes = b"",
    ) -> tuple[int | None, bool]:  # fmt: skip
        reads = asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=reads, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                cwd=cwd or None, env=self._env, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            err(
                f"{argv[0]}: not found\n".encode()
                if not cwd or Path(cwd).is_dir()
                else f"{cwd}: no such folder\n".encode()
            )
            return 127, False
        except (PermissionError, NotADirectoryError) as error:
            err(f"{argv[0]}: {error.strerror}\n".encode())
            return 126, False
        readers = [
            asyncio.create_task(_pump(process.stdout, out, process, total)),
            asyncio.create_task(_pump(process.stderr, err, process, total)),
            asyncio.create_task(_feed(process.stdin, stdin)),
        ]
        well = False
        try:
            timed_out = await _wait(process, timeout_s)
            await asyncio.wait(readers, timeout=_DRAIN_S)
            well = not timed_out
            return _exit_code(process.returncode), timed_out
        finally:
            if not well:  # timed out or cancelled: children of the command go with it
                _signal_group(process, signal.SIGKILL)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            _close_pipes(process)
            await _ended(process, KILL_AFTER_S)


async def _wait(process: asyncio.subprocess.Process, timeout_s: float) -> bool:
    """Waits for the end; True where the command had to be ended."""
    if await _ended(process, timeout_s):
        return False
    _signal_group(process, signal.SIGTERM)
    if not await _ended(process, KILL_AFTER_S):
        _signal_group(process, signal.SIGKILL)
        await _ended(process, KILL_AFTER_S)  # one in uninterruptible sleep is left behind: nothing can end it
    return True


async def _ended(process: asyncio.subprocess.Process, within_s: float) -> bool:
    """Whether the command ends in time. asyncio's own wait lasts until the pipes are closed, which a child may prevent."""
    deadline = time.monotonic() + within_s
    waiting = asyncio.ensure_future(process.wait())
    try:
        while process.returncode is None and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait({waiting}, timeout=min(left, _LOOK_S))
        return process.returncode is not None
    finally:
        waiting.cancel()


async def _pump(
    stream: asyncio.StreamReader | None, sink: _Sink, process: asyncio.subprocess.Process, total: _Count
) -> None:
    while stream is not None and (data := await stream.read(1 << 16)):
        sink(data)
        if total() > RUNAWAY_BYTES:
            _signal_group(process, signal.SIGKILL)


async def _feed(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    if stream is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):  # it ended without reading everything
        stream.write(data)
        await stream.drain()
    stream.close()


def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    # a child that left the group may hold the pipes open; the transport would wait for it and warn
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


def _exit_code(returncode: int | None) -> int | None:
    return returncode if returncode is None or returncode >= 0 else 128 - returncode


def _expanded(argv: Sequence[str]) -> list[str]:
    out: list[str] = []
    for word in argv:
        found = sorted(glob.glob(word)) if expands(word) else []
        out += found or [word]
    return out


def _home() -> dict[str, str]:
    return {
        name: os.environ[name]
        for name in ("HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR")
        if name in os.environ
    }


class _Free:
    """No turn to wait for."""

    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *_: object) -> None: ...
