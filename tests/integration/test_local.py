"""This machine as a host: same answers, limits and clean ends as over SSH."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from recon.agent.connectors.local import LocalSource
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Request

PATH = "/usr/local/bin:/usr/bin:/bin"


def ask(*argv: str, timeout_s: float = 10.0, cap_bytes: int = 1 << 20) -> Request:
    return Request(
        connector="host", target="localhost", probe="t", argv=argv, timeout_s=timeout_s, cap_bytes=cap_bytes
    )


@asynccontextmanager
async def here(tools: Path, **programs: str) -> AsyncIterator[LocalSource]:
    for name, body in programs.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    source = LocalSource(path=f"{tools}:{PATH}")
    try:
        yield source
    finally:
        await source.close()


def running(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line and b"pytest" not in line:
                found.append(int(folder.name))
    return found


async def soon(holds: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not holds() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return holds()


async def test_a_command_answers_with_bytes_boot_id_and_one_language(tmp_path: Path) -> None:
    async with here(
        tmp_path, uptime='printf "%s|%s|%s" "$LC_ALL" "$COLUMNS" "$(cat)"; printf "\\377\\000"; echo no >&2'
    ) as host:
        raw = await host.fetch(ask("uptime", "-s"))
    assert (raw.state, raw.exit_code, raw.stdout, raw.stderr) == ("ok", 0, b"C|512|\xff\x00", b"no\n")
    assert raw.host_boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


async def test_every_kind_of_end_has_its_state(tmp_path: Path) -> None:
    (tmp_path / "lsmod").write_text("not executable")
    denied = 'echo "permission denied while trying to connect to the Docker daemon socket" >&2; exit 1'
    async with here(tmp_path, docker=denied, lspci="kill -9 $$") as host:
        ends = {
            "missing": await host.fetch(ask("ibv_devinfo")), "denied": await host.fetch(ask("docker", "system", "df")),
            "failed": await host.fetch(ask("ls", "--", "/no/such")), "killed": await host.fetch(ask("lspci")),
        }  # fmt: skip
    assert {k: (r.state, r.exit_code) for k, r in ends.items()} == {
        "missing": ("missing", 127), "denied": ("denied", 1), "failed": ("failed", 2), "killed": ("failed", 137),
    }  # fmt: skip
    assert "No such file" in ends["failed"].reason


async def test_patterns_are_expanded_and_builtins_work(tmp_path: Path) -> None:
    async with here(tmp_path) as host:
        cpus = await host.fetch(ask("ls", "-d", "--", "/sys/devices/system/cpu/cpu*"))
        limit = await host.fetch(ask("ulimit", "-l"))
    assert "/sys/devices/system/cpu/cpu0" in cpus.text.splitlines()
    assert limit.state == "ok"


async def test_only_allowed_commands_run(tmp_path: Path) -> None:
    async with here(tmp_path) as host:
        with pytest.raises(UsageError, match="not a read-only command"):
            await host.fetch(ask("touch", str(tmp_path / "x")))
    assert not (tmp_path / "x").exists()


async def test_long_output_is_counted_and_cut_and_endless_output_is_ended(tmp_path: Path) -> None:
    async with here(tmp_path, lsmod="head -c 20000000 /dev/zero", lspci="exec cat /dev/zero") as host:
        cut = await host.fetch(ask("lsmod", cap_bytes=1000))
        endless = await host.fetch(ask("lspci", cap_bytes=1000, timeout_s=60))
    assert (cut.state, len(cut.stdout), cut.reason) == ("ok", 1000, "output cut: 1000 of 20000000 bytes kept")
    assert (endless.state, endless.exit_code, endless.truncated) == ("failed", 137, True)


async def test_a_command_that_ignores_the_polite_signal_leaves_no_process(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-local-stubborn"
    body = (
        f"trap '' TERM; sh -c \"trap '' TERM; sleep 30; : {mark}\" & echo begun; : {mark}; sleep 30; sleep 30"
    )
    async with here(tmp_path, lsmod=body) as host:
        begun = time.monotonic()
        raw = await host.fetch(ask("lsmod", timeout_s=0.5))
        assert (raw.state, raw.stdout, raw.reason) == ("timeout", b"begun\n", "no end within 0.5 s")
    assert time.monotonic() - begun < 5
    assert await soon(lambda: not running(mark))


async def test_cancelling_ends_the_command(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-local-cancelled"
    async with here(tmp_path, lspci=f"sh -c 'sleep 31; : {mark}'") as host:
        task = asyncio.create_task(host.fetch(ask("lspci", timeout_s=60)))
        assert await soon(lambda: bool(running(mark)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await soon(lambda: not running(mark), within_s=2)


async def test_a_child_that_keeps_the_pipe_open_does_not_hold_the_answer(tmp_path: Path) -> None:
    async with here(tmp_path, lspci="setsid sleep 3 & echo done") as host:
        begun = time.monotonic()
        raw = await host.fetch(ask("lspci", timeout_s=10))
    assert (raw.state, raw.text) == ("ok", "done\n")
    assert time.monotonic() - begun < 2.5


async def test_a_step_of_a_change_streams_and_reports(tmp_path: Path) -> None:
    lines: list[str] = []
    async with here(tmp_path) as host:
        done = await host.execute(
            ["sh", "-c", 'echo one; echo "api_key=$1"; pwd; echo bad >&2; exit 4', "x", "v"],
            timeout_s=10,
            cwd=str(tmp_path),
            log=lines.append,
        )
        late = await host.execute(["sleep", "30"], timeout_s=0.3)
        nothing = await host.execute(["no-such-command"], timeout_s=1)
        nowhere = await host.execute(["pwd"], timeout_s=1, cwd="/no/such/folder")
    assert (done.exit_code, done.stdout, done.stderr) == (4, f"one\napi_key=***\n{tmp_path}\n", "bad\n")
    assert sorted(lines) == sorted(["one", "api_key=***", str(tmp_path), "bad"])
    assert late.timed_out and late.exit_code in (None, 143)
    assert (nothing.exit_code, nothing.stderr) == (127, "no-such-command: not found\n")
    assert "/no/such/folder" in nowhere.stderr and nowhere.exit_code != 0
