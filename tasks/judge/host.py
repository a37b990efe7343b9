"""What the host allows: a named host at all, and how much memory a service may pin."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Judged, Judgement, JudgeTask, View
from recon.tasks.deployment import is_count
from recon.tasks.judge.reading import judged, judgement, not_known, sides

TARGET: Final = "host.target"
MEMLOCK: Final = "host.memlock"


def judge(view: View) -> Judged:
    """The host's identity; the pinning limit where there is RDMA to pin for."""
    return judged(*_target(view), *_memlock(view))


def _target(view: View) -> list[Judgement]:
    if not view.intent.host:
        return []
    boot = view.read("host.boot_id")
    if boot.known:
        return []
    title = f"host: {view.intent.host} did not answer"
    return [not_known(TARGET, title, boot, who="who can say: you, with `ssh` to it; then `recon resume`")]


def _memlock(view: View) -> list[Judgement]:
    rdma = view.read("host.rdma")
    if not rdma.known or not (rdma.value.get("devices") if isinstance(rdma.value, dict) else None):
        return []  # nothing is pinned for a network that is not there
    service, login = view.read("host.service.memlock_bytes"), view.read("host.memlock_kib")
    limit = service.value if service.known else login.value * 1024 if is_count(login.value) else login.value
    if not is_count(limit) and not _unlimited(limit):
        return [not_known(MEMLOCK, "pinned memory: the limit is not known", service, login)]
    if _unlimited(limit):
        return [
            judgement(
                MEMLOCK, "pass", "pinned memory: unlimited, as RDMA needs it", sides=sides(service, login)
            )
        ]
    return [
        judgement(
            MEMLOCK, "warn", f"pinned memory: limited to {int(limit) / 2**20:.0f} MiB, RDMA pins whole KV pools",
            observed=limit, expected="unlimited", sides=sides(service, login),
            detail=["the launch lines ask for LimitMEMLOCK=infinity; a login shell needs `ulimit -l unlimited`"],
            consequence="registering KV memory fails, often without naming the limit",
        )
    ]  # fmt: skip


def _unlimited(limit: object) -> bool:
    # systemd and the kernel print "unlimited" or the largest 64-bit number
    return limit in ("unlimited", "infinity") or (isinstance(limit, int) and not 0 <= limit < 2**62)


HOST = JudgeTask("judge.host", judge=judge)
