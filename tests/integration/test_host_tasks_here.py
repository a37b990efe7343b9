"""The host tasks on the machine that runs the tests, through the real local connector: no fixture, no assumption of GPUs."""

from __future__ import annotations

import os
import time
from pathlib import Path

from support.recorded_host import HostContext

from recon.agent.api import Fact, Intent, Observation, Request, Seen
from recon.agent.connectors.local import LocalSource
from recon.agent.model.findings import make_finding
from recon.agent.runner.evidence import parse
from recon.tasks.recon.host import HOST_TASKS


class HereContext(HostContext):
    """Asks this machine; keeps findings (stateful)."""

    source = LocalSource()

    async def ask(self, request: Request, fact: Fact, *, subject: str) -> Seen:
        raw = await self.source.fetch(request)
        at = time.time()
        observation = Observation(
            id="o-here", request=request, state=raw.state, exit_code=raw.exit_code, revision="", observed_at=at, duration_s=0.0,
            host_boot_id="", stdout_sha="", stderr_sha="", truncated=raw.truncated, reason=raw.reason, origin="captured",
        )  # fmt: skip
        findings = [
            make_finding(
                draft, subject=subject, producer=fact.id, producer_version=fact.version, observation_id="o-here", inputs=(),
                observed_at=at, origin="captured",
            )
            for draft in parse(fact, raw)
        ]  # fmt: skip
        return Seen(observation, raw, self._keep(findings))


def test_every_task_ends_and_says_what_is_true_here() -> None:
    ctx = HereContext(
        [], {}, intent=Intent(host="localhost"), bindings={"host": "host:localhost"}, now=time.time()
    )
    for task in HOST_TASKS:
        assert ctx.run(task, host="localhost")
    view, root = ctx.view, os.statvfs("/")
    assert view.value("host.boot_id") == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert view.value("host.cpu.cpus") == os.sysconf("SC_NPROCESSORS_CONF")
    assert view.value('host.fs["/"].total_bytes') == root.f_blocks * root.f_frsize
    assert abs(view.value('host.fs["/"].avail_bytes') - root.f_bavail * root.f_frsize) < 1 << 30
    assert view.value("host.memory.total_bytes") == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert not [f for f in view.all_findings() if f.outcome != "known" and not f.reason]
