"""What stands in front of every source, and the door that leads to them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from recon.agent.connectors.base import CommandResult, Executor
from recon.agent.connectors.recorder import RecordingSource
from recon.agent.connectors.replay import Bundle, ReplaySource
from recon.agent.connectors.router import HostTarget, Sources, live_sources
from recon.agent.model.errors import HostError, ReachError, RefusedError, UsageError
from recon.agent.model.findings import Raw, Request


class Scripted:
    """A source whose answer a test writes (stateful: how often it was closed)."""

    def __init__(self, answer: Raw | Exception) -> None:
        self.answer = answer
        self.asked: list[Request] = []
        self.closed = 0

    async def fetch(self, request: Request) -> Raw:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def execute(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        cwd: str = "",
        log: Callable[[str], None] | None = None,
    ) -> CommandResult:
        return CommandResult(0, " ".join(argv), "")

    async def close(self) -> None:
        self.closed += 1


def ask(connector: str, target: str = "t") -> Request:
    return Request(connector=connector, target=target, probe="p", argv=("id",))  # type: ignore[arg-type]


async def test_answers_are_redacted_stamped_and_timed() -> None:
    inner = Scripted(
        Raw(
            state="failed",
            exit_code=1,
            stdout=b"api_key=x\n" * 70_000,
            stderr=b"--api-key y",
            reason="HF_TOKEN=z",
        )
    )
    ticks = iter([10.0, 12.5])
    raw = await RecordingSource(inner, clock=lambda: 99.0, stopwatch=lambda: next(ticks)).fetch(ask("host"))
    assert raw.stdout == b"api_key=***\n" * 70_000
    assert (raw.stderr, raw.reason) == (b"--api-key ***", "HF_TOKEN=***")
    assert (raw.observed_at, raw.duration_s, raw.state, raw.exit_code) == (99.0, 2.5, "failed", 1)


async def test_an_error_loses_its_secrets_too() -> None:
    error = HostError("login with --api-key v refused", target="h", operation="connect", hint="PASSWORD=w")
    with pytest.raises(HostError) as caught:
        await RecordingSource(Scripted(error), clock=lambda: 0.0).fetch(ask("host"))
    assert (caught.value.message, caught.value.hint, str(caught.value)) == (
        "login with --api-key *** refused",
        "PASSWORD=***",
        "login with --api-key *** refused",
    )


async def test_requests_go_to_the_source_of_their_connector_and_hosts_are_opened_once() -> None:
    hub, web, made = Scripted(Raw(state="ok", reason="hub")), Scripted(Raw(state="ok", reason="web")), {}

    def host(target: str) -> Scripted:
        assert target not in made
        made[target] = Scripted(Raw(state="ok", reason=target))
        return made[target]

    sources = Sources(
        host=host, hub=hub, web=web, wrap=lambda inner: RecordingSource(inner, clock=lambda: 5.0)
    )
    assert (await sources.fetch(ask("hub"))).reason == "hub"
    assert (await sources.fetch(ask("web"))).observed_at == 5.0
    assert made == {}
    for target in ("root@gpu1:2222", "gpu1", "gpu2", "root@gpu1:2222"):
        await sources.fetch(ask("host", target))
    assert sorted(made) == ["gpu2", "root@gpu1:2222"]  # the bare name is the same connection
    assert sources.executor("gpu1") is made["root@gpu1:2222"]
    assert isinstance(sources.executor("gpu1"), Executor)
    await sources.close()
    assert [hub.closed, web.closed, *(s.closed for s in made.values())] == [1, 1, 1, 1]


async def test_every_source_is_closed_also_when_one_fails_to() -> None:
    class Stuck(Scripted):
        async def close(self) -> None:
            raise OSError("stuck")

    hub, web = Stuck(Raw(state="ok")), Scripted(Raw(state="ok"))
    with pytest.raises(OSError, match="stuck"):
        await Sources(hub=hub, web=web).close()
    assert web.closed == 1


@pytest.mark.parametrize(("connector", "flag"), [("host", "--host"), ("hub", "--hub"), ("web", "web")])
async def test_a_connector_without_a_source_says_what_gives_one(connector: str, flag: str) -> None:
    with pytest.raises(ReachError, match=f"no source for {connector} t") as caught:
        await Sources().fetch(ask(connector))
    assert flag in caught.value.hint and not caught.value.retryable


def test_nothing_can_be_changed_on_a_recorded_host() -> None:
    replay = ReplaySource(Bundle({}))
    with pytest.raises(RefusedError, match="recorded evidence"):
        Sources(host=lambda _: replay).executor("ct200")


@pytest.mark.parametrize(
    ("text", "user", "name", "port"),
    [
        ("gpu1", None, "gpu1", None), ("root@gpu1:2222", "root", "gpu1", 2222), ("a.b@10.0.0.1", "a.b", "10.0.0.1", None),
        ("root@[fe80::1]:22", "root", "fe80::1", 22), ("[::1]", None, "::1", None),
    ],
)  # fmt: skip
def test_a_target_is_taken_apart(text: str, user: str | None, name: str, port: int | None) -> None:
    target = HostTarget(text)
    assert (target.user, target.name, target.port, target.is_local) == (user, name, port, False)


@pytest.mark.parametrize(
    "text", ["", "-oProxyCommand=x", "a b", "a@b@c", "host:0", "host:99999", "host:x", "::1", "a/b", "x@-y"]
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a host"):
        HostTarget(text)


async def test_live_sources_reach_this_machine_and_contact_nothing_before_they_are_asked() -> None:
    sources = live_sources(hub_endpoint="http://127.0.0.1:9", clock=lambda: 77.0, host="root@gpu1:22")
    raw = await sources.fetch(Request(connector="host", target="localhost", probe="p", argv=("uname", "-r")))
    assert (raw.state, raw.observed_at) == ("ok", 77.0)
    assert sources.executor("gpu1") is sources.executor("root@gpu1:22")
    await sources.close()


def test_importing_the_package_loads_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys; import recon.agent.connectors, recon.agent.connectors.router, recon.agent.connectors.replay, recon.agent.connectors.redact; "
        "print([m for m in ('asyncssh', 'httpx', 'huggingface_hub', 'sqlalchemy', 'textual') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
