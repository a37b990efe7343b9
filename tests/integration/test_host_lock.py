"""The lock on a host and the writing of files, on this machine and over a real sshd."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.engine import act
from support.plans import Host, change_task, session_of
from support.sshd import Server, sshd

from recon.agent.api import FileChange
from recon.agent.connectors.local import LocalSource
from recon.agent.connectors.ssh import SshSource
from recon.agent.model.base import sha256_hex
from recon.agent.model.tasks import Plan
from recon.agent.runner.files import write_file
from recon.agent.runner.host_lock import HostLock, LockError, Locking
from recon.agent.runner.ports import Executor, Registry
from recon.agent.runner.process import ProcessIdentity, this_process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with sshd(tmp_path_factory.mktemp("sshd"), path=os.environ["PATH"]) as running:
        yield running


@asynccontextmanager
async def hand_on(where: str, request: pytest.FixtureRequest) -> AsyncIterator[Executor]:
    if where == "local":
        yield LocalSource()
        return
    running: Server = request.getfixturevalue("server")
    source = SshSource(
        running.target, config=[], known_hosts=[running.known_hosts], client_keys=[running.client_key]
    )
    try:
        yield source
    finally:
        await source.close()


def lock_of(
    executor: Executor, folder: Path, *, state: str = "s", attempt: int = 1, ended: bool = True, change: str = "c" * 64,
    me: ProcessIdentity | None = None, log: list[str] | None = None, wait_s: float = 0.1,
) -> HostLock:  # fmt: skip
    locking = Locking(state=state, by="ada (1000)", path=str(folder / "lock"), wait_s=wait_s)
    holder = locking.holder(
        task="stop", attempt=attempt, change=change, token=attempt, at=time.time(), me=me or this_process()
    )
    said = [] if log is None else log
    return HostLock(
        executor, holder, path=locking.path, host="h", wait_s=wait_s, log=said.append, ended=lambda n: ended
    )


def dead() -> ProcessIdentity:
    me = this_process()
    return ProcessIdentity(me.host, me.boot_id, 2**22 - 1, 1.0)


WHERES = pytest.mark.parametrize("where", ["local", "ssh"])


@WHERES
async def test_a_second_state_is_kept_out_and_told_who_holds_it(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with hand_on(where, request) as hand:
        async with lock_of(hand, tmp_path) as held:
            await held.check()
            with pytest.raises(
                LockError, match=r"being changed by ada \(1000\) with another state file \(stop, "
            ):
                async with lock_of(hand, tmp_path, state="other"):
                    pytest.fail("both hold it")
            await held.check()
        assert list(tmp_path.iterdir()) == [], "released, and nothing is left of those who tried"
        async with lock_of(hand, tmp_path, state="other"):
            pass
        assert list(tmp_path.iterdir()) == []


@WHERES
async def test_it_is_released_after_a_failure_and_noticed_when_lost(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with hand_on(where, request) as hand:
        with pytest.raises(ValueError, match="broken"):
            async with lock_of(hand, tmp_path):
                raise ValueError("broken")
        assert not (tmp_path / "lock").exists()
        with pytest.raises(LockError, match="the lock was lost"):
            async with lock_of(hand, tmp_path) as held:
                (tmp_path / "lock" / "holder").write_text("somebody else\n")
                await held.check()
        assert (tmp_path / "lock" / "holder").read_text() == "somebody else\n", "not ours to take away"


async def leave(hand: Executor, folder: Path, **more: object) -> None:
    """What a killed process leaves."""
    await lock_of(hand, folder, me=dead(), **more).__aenter__()  # type: ignore[arg-type]


@WHERES
async def test_a_crash_leaves_it_and_only_its_own_state_goes_on(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with hand_on(where, request) as hand:
        await leave(hand, tmp_path)
        with pytest.raises(
            LockError, match="its process is gone, and what it began may be half done"
        ) as told:
            async with lock_of(hand, tmp_path, state="other"):
                pass
        assert "recon resume with its own state file" in told.value.hint
        with pytest.raises(LockError, match="with this state file"):
            async with lock_of(hand, tmp_path, attempt=2, ended=False):
                pass
        log: list[str] = []
        async with lock_of(hand, tmp_path, attempt=2, log=log):
            pass
        assert log == ["lock: it is ours, left by attempt 1 (the same change)"]
        assert list(tmp_path.iterdir()) == []


@WHERES
async def test_one_from_before_a_boot_is_explained_and_taken_over(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with hand_on(where, request) as hand:
        await leave(hand, tmp_path)
        holder = tmp_path / "lock" / "holder"
        line, boot = holder.read_text().splitlines()
        assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert json.loads(line)["change"] == "c" * 64
        holder.write_text(f"{line}\n00000000-0000-0000-0000-000000000000\n")
        log: list[str] = []
        async with lock_of(hand, tmp_path, state="other", log=log):
            pass
        assert len(log) == 1 and log[0].endswith("the host has booted since")


async def test_one_that_nobody_can_read_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "note").write_text("by hand")
    with pytest.raises(LockError, match="does not say by whom"):
        async with lock_of(LocalSource(), tmp_path):
            pass
    with pytest.raises(LockError, match="no lock"):
        async with lock_of(LocalSource(), tmp_path / "missing"):
            pass


async def test_of_many_at_once_one_holds_it_at_a_time(tmp_path: Path) -> None:
    inside, most, times = 0, 0, 0

    async def once(number: int) -> None:
        nonlocal inside, most, times
        async with lock_of(LocalSource(), tmp_path, state=f"s{number}", wait_s=30.0):
            inside += 1
            most, times = max(most, inside), times + 1
            await asyncio.sleep(0.01)
            inside -= 1

    await asyncio.gather(*(once(n) for n in range(6)))
    assert (most, times, list(tmp_path.iterdir())) == (1, 6, [])


# ---- two state files and one host


_OTHER = """
import sys, time
from pathlib import Path
from support.engine import act
from support.plans import Host, change_task, session_of
from recon.agent.model.tasks import Plan
host, folder, slow = Host(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
def change(view, params):
    one = host.change(view, params)
    return one.model_copy(update={"steps": (("sleep", slow), *one.steps)})
bench = host.bench(folder, change=change)
bench.plan(Plan(tasks=(change_task("stop"),)))
session_of(bench).approve(bench.mission, "stop")
print("ready", flush=True)
bench.run()
print(bench.statuses()["stop"])
bench.close()
"""


def other(host: Host, folder: Path, slow: str) -> subprocess.Popen[str]:
    tests = Path(__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_OTHER), str(host.folder), str(folder), slow],
        env={**os.environ, "PYTHONPATH": str(tests)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not (host.folder / "lock").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    return process


def test_two_state_files_do_not_change_one_host_at_the_same_time(tmp_path: Path) -> None:
    host = Host(tmp_path / "host")
    process = other(host, tmp_path / "a", "2")
    bench = host.bench(tmp_path / "b")
    bench.plan(Plan(tasks=(change_task("stop"),)))
    session = session_of(bench)
    session.approve(bench.mission, "stop")
    bench.run()
    failed = bench.state().task("stop")
    assert failed is not None and failed.error is not None
    assert "being changed by test with another state file (stop, change" in failed.error["message"]
    assert "it is at work" in failed.error["message"] and host.lines() == []
    assert process.communicate(timeout=30)[0].split() == ["ready", "succeeded"]
    session.retry(bench.mission, "stop")
    bench.run()
    assert (bench.statuses()["stop"], host.lines()) == ("succeeded", ["stop"]), "seen as done, not done again"
    assert not (host.folder / "lock").exists()
    bench.close()


def test_after_kill_9_the_same_state_goes_on_and_another_one_does_not(tmp_path: Path) -> None:
    host = Host(tmp_path / "host")
    process = other(host, tmp_path / "a", "3")
    process.kill()
    process.communicate(timeout=10)
    strange = host.bench(tmp_path / "b")
    strange.plan(Plan(tasks=(change_task("stop"),)))
    session_of(strange).approve(strange.mission, "stop")
    strange.run()
    assert strange.statuses() == {"stop": "failed"} and host.lines() == []
    own = host.bench(tmp_path / "a")
    own.reopen()
    change = own.state().task("stop")
    assert change is not None and change.status == "interrupted"
    admitted = change.rendered
    assert admitted is not None and admitted.change is not None
    fast = admitted.change
    same = fast.model_copy(update={"gates": (), "effect": ""})
    own.registry = Registry.of([act("change", lambda key: key in host.lines(), lambda v, p: same)])
    own.run()
    assert own.statuses() == {"stop": "succeeded"} and host.lines() == ["stop"]
    log = own.store.attempt_log(own.store.attempts(1)[-1].id).decode()
    assert "lock: it is ours, left by attempt 1 (the same change)" in log
    assert not (host.folder / "lock").exists()
    strange.close()
    own.close()


# ---- files


def file_of(path: Path, text: str, *, before: str | None = None) -> FileChange:
    return FileChange(
        path=str(path), sha_before="" if before is None else sha256_hex(before), text_after=text
    )


@WHERES
async def test_files_are_written_whole_over_exactly_what_was_read(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    text = "[Unit]\nDescription='ä \"$HOME\" `id`'\n" * 5000
    path = tmp_path / "a b.conf"
    async with hand_on(where, request) as hand:
        assert await write_file(file_of(path, text), hand) == ""
        assert path.read_text() == text and stat.S_IMODE(path.stat().st_mode) == 0o644
        path.chmod(0o640)
        assert await write_file(file_of(path, "new\n", before=text), hand) == ""
        assert path.read_text() == "new\n" and stat.S_IMODE(path.stat().st_mode) == 0o640
        assert await write_file(file_of(path, "new\n", before=text), hand) == "", "already so"
        refused = await write_file(file_of(path, "other\n", before="old\n"), hand)
        assert "another file than the one that was shown" in refused and path.read_text() == "new\n"
        assert "is there already" in await write_file(file_of(path, "x"), hand)
        assert "is gone" in await write_file(file_of(tmp_path / "no", "x", before="y"), hand)
        (tmp_path / "link").symlink_to(path)
        assert "not a plain file" in await write_file(file_of(tmp_path / "link", "x", before="new\n"), hand)
        assert "was not written" in await write_file(file_of(tmp_path / "no" / "x", "x"), hand)
        assert await write_file(file_of(tmp_path / "empty", ""), hand) == ""
        assert (tmp_path / "empty").read_text() == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a b.conf", "empty", "link"], "nothing half is left"


def test_a_change_writes_its_files_first_and_stops_where_one_is_another(tmp_path: Path) -> None:
    host = Host(tmp_path / "host")
    unit = host.folder / "x.service"
    unit.write_text("old\n")
    file = file_of(unit, "new\n", before="old\n")
    bench = host.bench(
        tmp_path / "a", change=lambda v, p: host.change(v, p).model_copy(update={"files": (file,)})
    )
    bench.plan(Plan(tasks=(change_task("one"), change_task("two"))))
    session = session_of(bench)
    session.approve(bench.mission, "one")
    bench.run()
    assert (unit.read_text(), host.lines()) == ("new\n", ["one"])
    unit.write_text("edited by hand\n")
    session.approve(bench.mission, "two")
    bench.run()
    assert (unit.read_text(), host.lines()) == ("edited by hand\n", ["one"])
    failed = bench.state().task("two")
    assert failed is not None and failed.error is not None
    assert "another file than the one that was shown" in failed.error["message"]
    bench.close()
