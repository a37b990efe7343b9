"""Hosts over SSH, against a real OpenSSH server on loopback."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.fake_host import build_path, corpus_host
from support.sshd import Server, free_port, known_line, new_key, sshd

from recon.agent.connectors.commands import EXTRA_PATH
from recon.agent.connectors.recorder import RecordingSource
from recon.agent.connectors.ssh import SshSource
from recon.agent.model.errors import HostError, UsageError
from recon.agent.model.findings import Request

PATH = "/usr/local/bin:/usr/bin:/bin"


def ask(*argv: str, timeout_s: float = 10.0, cap_bytes: int = 1 << 20) -> Request:
    return Request(
        connector="host", target="h", probe="t", argv=argv, timeout_s=timeout_s, cap_bytes=cap_bytes
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("sshd")
    tools = folder / "tools"
    tools.mkdir()
    with sshd(folder, path=f"{tools}:{PATH}") as running:
        yield running


def tool(server: Server, name: str, body: str) -> None:
    """Puts a command into the PATH of the server's sessions."""
    path = server.folder / "tools" / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@asynccontextmanager
async def connected(server: Server, **more: object) -> AsyncIterator[SshSource]:
    settings: dict[str, object] = {
        "config": [], "known_hosts": [server.known_hosts], "client_keys": [server.client_key], "connect_timeout_s": 5.0,
        "login_timeout_s": 10.0, **more,
    }  # fmt: skip
    target = str(settings.pop("target", server.target))
    source = SshSource(target, **settings)  # type: ignore[arg-type]
    try:
        yield source
    finally:
        await source.close()


def running(mark: str) -> list[int]:
    """Processes of this machine whose command line holds the mark."""
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


def established(port: int) -> int:
    """Open connections to a port of this machine, as the kernel lists them (local address, remote address, state 01)."""
    rows = [line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(local.endswith(f":{port:04X}") and state == "01" for local, _, state in rows)


async def output(*argv: str) -> str:
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await process.communicate()
    assert process.returncode == 0, err
    return out.decode()


async def soon(holds: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not holds() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return holds()


# ---- answers


async def test_a_command_answers_with_bytes_boot_id_and_one_language(server: Server) -> None:
    tool(
        server,
        "uptime",
        'printf "%s|%s|%s|%s" "$LC_ALL" "$TERM" "$COLUMNS" "$(cat)"; printf "\\377\\000" ; echo no >&2',
    )
    async with connected(server) as host:
        raw = await host.fetch(ask("uptime", "-s"))
    assert (raw.state, raw.exit_code, raw.stdout) == ("ok", 0, b"C|dumb|512|\xff\x00")
    assert raw.stderr == b"no\n"
    assert raw.host_boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


async def test_tools_outside_of_the_login_path_are_found(server: Server) -> None:
    tool(server, "hostname", 'echo "$PATH"')
    async with connected(server) as host:
        raw = await host.fetch(ask("hostname"))
    assert raw.text.startswith(str(server.folder / "tools"))
    assert {"/usr/sbin", "/sbin", "/usr/local/cuda/bin"} <= set(raw.text.strip().split(":"))


async def test_a_missing_command_a_denied_one_and_a_failed_one_are_told_apart(server: Server) -> None:
    tool(server, "dmesg", 'echo "dmesg: read kernel buffer failed: Operation not permitted" >&2; exit 1')
    async with connected(server) as host:
        missing = await host.fetch(ask("nvidia-smi", "-L"))
        denied = await host.fetch(ask("dmesg"))
        failed = await host.fetch(ask("ls", "--", "/no/such/folder"))
    assert (missing.state, missing.exit_code) == ("missing", 127)
    assert (denied.state, denied.exit_code) == ("denied", 1)
    assert (failed.state, failed.exit_code) == ("failed", 2)
    assert "No such file" in failed.reason


async def test_a_host_without_a_way_to_limit_commands_says_so(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    with sshd(
        tmp_path / "d", settings=f'ForceCommand PATH={bare}; export PATH; eval "$SSH_ORIGINAL_COMMAND"'
    ) as server:
        async with connected(server) as host:
            extra = shutil.which("timeout", path=EXTRA_PATH)
            raw = await host.fetch(ask("uname", "-a"))
    if extra is not None:
        pytest.skip(f"this machine has timeout in {extra}: it cannot play a host without it")
    assert raw.state == "failed" and "no timeout(1)" in raw.reason


async def test_a_shell_builtin_and_a_pattern_of_paths_work(server: Server) -> None:
    async with connected(server) as host:
        limit = await host.fetch(ask("ulimit", "-l"))
        nodes = await host.fetch(ask("ls", "-d", "--", "/sys/devices/system/cpu/cpu*"))
    assert limit.state == "ok" and (limit.text.strip().isdigit() or limit.text.strip() == "unlimited")
    assert "/sys/devices/system/cpu/cpu0" in nodes.text.splitlines()


async def test_outside_words_reach_the_command_as_they_are(server: Server, tmp_path: Path) -> None:
    name = "a b'c\"d;$(touch x)`id`&|>*é"
    file = tmp_path / name
    file.write_bytes(b"\xffcontent")
    async with connected(server) as host:
        raw = await host.fetch(ask("cat", "--", str(file)))
    assert raw.stdout == b"\xffcontent"


async def test_only_allowed_commands_are_sent(server: Server) -> None:
    async with connected(server) as host:
        for argv in (
            ("rm", "-rf", "/x"),
            ("sh", "-c", "id"),
            ("nvidia-smi", "--gpu-reset"),
            ("systemctl", "stop", "x"),
            (),
        ):
            with pytest.raises(UsageError, match="not a read-only command"):
                await host.fetch(ask(*argv))
        with pytest.raises(UsageError, match="may hold secrets"):
            await host.fetch(ask("cat", "--", "/root/.ssh/id_ed25519"))


async def test_twenty_megabytes_are_counted_and_cut(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(b"x" * (20 << 20))
    async with connected(server) as host:
        raw = await host.fetch(ask("cat", "--", str(file), cap_bytes=1 << 20))
    assert (raw.state, raw.truncated, len(raw.stdout)) == ("ok", True, 1 << 20)
    assert raw.reason == f"output cut: {1 << 20} of {20 << 20} bytes kept"


async def test_many_questions_share_one_connection(server: Server) -> None:
    tool(server, "nproc", "sleep 0.2; echo 4")
    async with connected(server) as host:
        begun = time.monotonic()
        answers = await asyncio.gather(*(host.fetch(ask("nproc")) for _ in range(14)))
        took = time.monotonic() - begun
        connections = established(server.port)
    assert [a.text for a in answers] == ["4\n"] * 14
    assert took < 14 * 0.2 + 3  # side by side; nothing was refused by MaxSessions
    assert connections == 1


# ---- time


async def test_a_command_that_ignores_the_polite_signal_leaves_no_process(server: Server) -> None:
    mark = f"mark-{os.getpid()}-stubborn"
    tool(
        server,
        "lsmod",
        f"trap '' TERM; sh -c \"trap '' TERM; sleep 30; : {mark}\" & echo begun; : {mark}; sleep 30; sleep 30",
    )
    async with connected(server) as host:
        begun = time.monotonic()
        raw = await host.fetch(ask("lsmod", timeout_s=1.0))
        took = time.monotonic() - begun
        assert (raw.state, raw.stdout, raw.reason) == ("timeout", b"begun\n", "no end within 1 s")
        assert took < 6
        assert await soon(lambda: not running(mark))


async def test_cancelling_ends_the_command_on_the_host(server: Server) -> None:
    mark = f"mark-{os.getpid()}-cancelled"
    tool(server, "lspci", f"sh -c 'sleep 31; : {mark}'")
    async with connected(server) as host:
        task = asyncio.create_task(host.fetch(ask("lspci", timeout_s=60.0)))
        assert await soon(lambda: bool(running(mark)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await soon(lambda: not running(mark))
        assert (await host.fetch(ask("id", "-un"))).state == "ok"  # the connection lives on


async def test_a_child_that_keeps_the_output_open_does_not_hold_the_answer(server: Server) -> None:
    tool(server, "lspci", "setsid sleep 4 & echo done")
    async with connected(server) as host:
        assert (await host.fetch(ask("id", "-un"))).state == "ok"
        begun = time.monotonic()
        raw = await host.fetch(ask("lspci"))
        assert (raw.state, raw.text) == ("ok", "done\n")
        assert time.monotonic() - begun < 3


async def test_output_without_end_is_ended(server: Server) -> None:
    tool(server, "lsmod", "cat /dev/zero; :")
    async with connected(server) as host:
        raw = await host.fetch(ask("lsmod", timeout_s=120, cap_bytes=100))
        assert (raw.state, raw.exit_code, raw.truncated) == ("failed", 137, True)
        assert await soon(lambda: not running("/tools/lsmod"))


async def test_a_lost_connection_is_made_again_for_the_next_question(server: Server) -> None:
    async with connected(server) as host:
        assert (await host.fetch(ask("id", "-un"))).state == "ok"
        assert host._connection is not None
        host._connection.abort()
        assert (await host.fetch(ask("id", "-un"))).text.strip() == server.user


# ---- noise


@pytest.mark.parametrize(
    "noise", ["echo NOISE", "echo NOISE >&2", "printf 'NOISE without end'", "head -c 300000 /dev/zero"]
)
async def test_what_a_login_prints_is_no_answer(tmp_path: Path, noise: str) -> None:
    setting = f'ForceCommand {noise}; eval "$SSH_ORIGINAL_COMMAND"; echo'
    with sshd(tmp_path / "d", settings=setting) as server:
        async with connected(server) as host:
            raw = await host.fetch(ask("id", "-un"))
    assert raw.state == "ok"
    assert raw.text.split() == [server.user]
    assert raw.stderr == b""


async def test_a_login_without_a_shell_is_named(tmp_path: Path) -> None:
    with sshd(tmp_path / "d", settings="ForceCommand echo This account is not available") as server:
        async with connected(server) as host:
            with pytest.raises(HostError, match="did not start the command: This account is not available"):
                await host.fetch(ask("id", "-un"))


# ---- changes


async def test_a_step_of_a_change_streams_its_lines_without_secrets(server: Server, tmp_path: Path) -> None:
    lines: list[str] = []
    async with connected(server) as host:
        script = 'echo one; echo "HF_TOKEN=$1"; pwd; echo bad >&2; printf last; exit 3'
        result = await host.execute(
            ["sh", "-c", script, "x", "s3cret"], timeout_s=20, cwd=str(tmp_path), log=lines.append
        )
    assert (result.exit_code, result.timed_out) == (3, False)
    assert result.stdout == f"one\nHF_TOKEN=***\n{tmp_path}\nlast"
    assert result.stderr == "bad\n"
    assert sorted(lines) == sorted(["one", "HF_TOKEN=***", str(tmp_path), "bad", "last"])


async def test_a_step_that_takes_too_long_is_ended_with_all_its_children(server: Server) -> None:
    mark = f"mark-{os.getpid()}-step"
    async with connected(server) as host:
        result = await host.execute(["sh", "-c", f"sleep 33 & sh -c 'sleep 34; : {mark}'"], timeout_s=1)
        assert (result.exit_code, result.timed_out) == (None, True)
        assert await soon(lambda: not running(mark))


async def test_a_step_in_a_folder_that_is_not_there_fails(server: Server) -> None:
    async with connected(server) as host:
        result = await host.execute(["touch", "x"], timeout_s=5, cwd="/no/such/folder")
    assert result.exit_code == 126
    assert "/no/such/folder" in result.stderr


# ---- who is on the other side


async def fails(server: Server, **more: object) -> HostError:
    async with connected(server, **more) as host:
        with pytest.raises(HostError) as caught:
            await host.fetch(ask("id", "-un"))
    return caught.value


def fingerprint(public: Path) -> str:
    out = subprocess.run(
        ["ssh-keygen", "-lf", str(public)], capture_output=True, text=True, check=True
    ).stdout
    return out.split()[1]


async def test_an_unknown_host_is_not_trusted_and_its_fingerprint_is_shown(
    server: Server, tmp_path: Path
) -> None:
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    error = await fails(server, known_hosts=[str(empty)])
    assert error.message.startswith("127.0.0.1 is not in known_hosts; it shows ssh-ed25519 SHA256:")
    assert fingerprint(server.folder / "host_key.pub") in error.message
    assert f"ssh -p {server.port} {server.user}@127.0.0.1" in error.hint
    assert not error.retryable
    assert error.message == (await fails(server, known_hosts=[str(tmp_path / "no such file")])).message


async def test_a_changed_key_a_revoked_key_and_a_key_of_another_type_are_told_apart(
    server: Server, tmp_path: Path
) -> None:
    other = new_key(tmp_path / "other")
    rsa = new_key(tmp_path / "rsa", "rsa")
    file = tmp_path / "known_hosts"

    file.write_text("# a remark\n" + known_line(server.port, other.with_suffix(".pub")))
    changed = await fails(server, known_hosts=[str(file)])
    assert "CHANGED" in changed.message and f"{file} line 2" in changed.message
    assert fingerprint(other.with_suffix(".pub")) in changed.message
    assert fingerprint(server.folder / "host_key.pub") in changed.message

    file.write_text(known_line(server.port, server.folder / "host_key.pub", marker="@revoked "))
    assert "marked revoked" in (await fails(server, known_hosts=[str(file)])).message
    with file.open("a") as more:  # a line for every port trusts it: the revocation still counts
        more.write(
            known_line(server.port, server.folder / "host_key.pub").replace(
                f"[127.0.0.1]:{server.port}", "127.0.0.1"
            )
        )
    assert "marked revoked" in (await fails(server, known_hosts=[str(file)])).message

    file.write_text(known_line(server.port, rsa.with_suffix(".pub")))
    typed = await fails(server, known_hosts=[str(file)])
    assert "known by another type of key: ssh-rsa" in typed.message


async def test_a_hashed_known_hosts_file_is_understood(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    shutil.copy(server.known_hosts, file)
    await output("ssh-keygen", "-H", "-f", str(file))
    assert "127.0.0.1" not in file.read_text()
    async with connected(server, known_hosts=[str(file)]) as host:
        assert (await host.fetch(ask("id", "-un"))).state == "ok"


async def test_a_configuration_cannot_switch_the_check_of_host_keys_off(
    server: Server, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n  UserKnownHostsFile none\n"
    )
    error = await fails(server, target="box", config=[str(config)], known_hosts=None)
    assert "not in known_hosts" in error.message


async def test_a_configuration_names_address_port_user_and_key(server: Server, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n"
        f"  UserKnownHostsFile {server.known_hosts}\n  IdentityFile {server.client_key}\n"
    )
    async with connected(
        server, target="box", config=[str(config)], known_hosts=None, client_keys=None
    ) as host:
        assert (await host.fetch(ask("id", "-un"))).text.strip() == server.user


async def test_a_key_the_host_does_not_accept_is_named(server: Server, tmp_path: Path) -> None:
    key = new_key(tmp_path / "stranger")
    error = await fails(server, client_keys=[str(key)])
    assert f"rejects user {server.user}" in error.message
    assert fingerprint(key.with_suffix(".pub")) in error.message
    assert not error.retryable


async def test_an_encrypted_key_and_a_missing_one_say_so(server: Server, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    await output("ssh-keygen", "-q", "-t", "ed25519", "-N", "words words", "-f", str(locked))
    assert "ssh-agent" in (await fails(server, client_keys=[str(locked)])).hint
    assert str(tmp_path / "gone") in (await fails(server, client_keys=[str(tmp_path / "gone")])).message


async def test_a_broken_configuration_says_so(server: Server, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Port notanumber\n")
    assert "configuration" in (await fails(server, config=[str(config)])).message


# ---- no way there


async def test_a_closed_port_refuses(server: Server) -> None:
    port = free_port()
    error = await fails(server, target=f"{server.user}@127.0.0.1:{port}")
    assert error.message == f"127.0.0.1:{port} refused the connection"
    assert error.retryable


async def test_a_name_that_does_not_resolve_says_so(server: Server) -> None:
    error = await fails(server, target="no-such-host.invalid")
    assert "no-such-host.invalid cannot be resolved" in error.message
    assert not error.retryable


async def test_a_port_that_is_no_ssh_server_and_one_that_says_nothing(server: Server) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    messages = []
    for behave in (hang_up, silent):
        async with await asyncio.start_server(behave, "127.0.0.1", 0) as other:
            port = other.sockets[0].getsockname()[1]
            error = await fails(server, target=f"{server.user}@127.0.0.1:{port}", login_timeout_s=0.5)
            messages.append(error.message)
            assert error.retryable
    assert "closed the connection during the handshake" in messages[0]
    assert "did not finish the login in 0.5 s" in messages[1]


async def test_a_host_that_swallows_packets_is_given_up(server: Server) -> None:
    with socket.socket() as full:  # a listener whose queue is full answers nothing, as a firewall does
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        try:
            port = full.getsockname()[1]
            error = await fails(
                server, target=f"{server.user}@127.0.0.1:{port}", connect_timeout_s=0.5, login_timeout_s=1.0
            )
        finally:
            for one in waiting:
                one.close()
    assert "did not answer within 0.5 s" in error.message
    assert error.retryable


async def test_a_failed_connection_answers_everybody_who_waits(server: Server) -> None:
    async with connected(server, target=f"{server.user}@127.0.0.1:{free_port()}") as host:
        begun = time.monotonic()
        results = await asyncio.gather(
            *(host.fetch(ask("id", "-un")) for _ in range(12)), return_exceptions=True
        )
    assert all(isinstance(r, HostError) for r in results)
    assert time.monotonic() - begun < 4


# ---- a recorded host


async def test_a_host_that_answers_like_the_recorded_one(tmp_path: Path) -> None:
    folder = corpus_host("ct200")
    tools = build_path(folder, tmp_path / "tools")
    shown_argv = (
        "systemctl show sglang-k26-ddtree.service -p Id,Description,LoadState,ActiveState,SubState,MainPID,UnitFileState,"
        "FragmentPath,ExecStart,Environment,Type,Restart,NRestarts,MemoryCurrent,LimitMEMLOCK,LimitNOFILE,ActiveEnterTimestamp "
        "--no-pager"
    )
    with sshd(tmp_path / "d", path=f"{tools}:{PATH}") as server:
        async with connected(server) as host:
            recorded = RecordingSource(host, clock=lambda: 1234.5)
            topo = await recorded.fetch(ask("nvidia-smi", "topo", "-m"))
            shown = await recorded.fetch(ask(*shlex.split(shown_argv)))
            nvcc = await recorded.fetch(ask("nvcc", "--version"))
    assert (topo.state, topo.stdout, topo.observed_at) == ("ok", (folder / "topo.txt").read_bytes(), 1234.5)
    assert shown.state == "ok" and b"MainPID=41732" in shown.stdout
    assert b"sk-fake" not in shown.stdout and b"hf_FAKE" not in shown.stdout
    assert nvcc.state == "missing"
