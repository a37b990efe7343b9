"""Archive and stop of the running service: what is rendered, how it is checked and proved."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.views import NOW, UNIT, absent, changed, flagship, intent_of, stale, view_of

from recon.agent.api import Change, CheckResult, Fact, Raw, Request, Seen, View
from recon.agent.connectors.allowlist import check_argv
from recon.agent.model.findings import Observation, make_finding
from recon.tasks.act.service import ARCHIVE, SERVICE_STOP, parse_sums
from recon.tasks.facts.gpu import QUERY_FIELDS


class Host:
    """An act context whose host answers from a script: probe -> answers, the last one again and again."""

    def __init__(self, view: View, answers: Mapping[str, Sequence[Raw]]) -> None:
        self.view, self.intent, self.params = view, view.intent, {}
        self.answers = {probe: list(raws) for probe, raws in answers.items()}
        self.asked: list[tuple[str, ...]] = []
        self.slept = 0.0

    async def ask(self, request: Request, fact: Fact, *, subject: str) -> Seen:
        check_argv(request.argv)  # what a check asks must be on the read-only list
        self.asked.append(request.argv)
        queue = self.answers[request.probe]
        raw = queue.pop(0) if len(queue) > 1 else queue[0]
        findings = tuple(
            make_finding(
                d,
                subject=subject,
                producer="test",
                producer_version="1",
                observation_id="o-1",
                inputs=(),
                observed_at=NOW,
                origin="captured",
            )
            for d in fact.parse(raw)
        )
        observation = Observation(
            id="o-1", request=request, state=raw.state, exit_code=raw.exit_code, revision="", observed_at=NOW, duration_s=0.0,
            host_boot_id="", stdout_sha="", stderr_sha="", truncated=False, reason=raw.reason, origin="captured",
        )  # fmt: skip
        return Seen(observation, raw, findings)

    def log(self, text: str) -> None: ...

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


def raw(text: str = "", state: Any = "ok", code: int = 0, stderr: str = "") -> Raw:
    return Raw(state=state, exit_code=code, stdout=text.encode(), stderr=stderr.encode())


ACTIVE = raw("LoadState=loaded\nActiveState=active\nMainPID=41732\n")
INACTIVE = raw("LoadState=loaded\nActiveState=inactive\nMainPID=0\n")
BUSY = raw("GPU-a, 4100, sglang::scheduler_TP0, 89824\n")
IDLE = raw("")


def gpus(used: str) -> Raw:
    """The GPU table with this many MiB in use on each of eight."""
    rows = [
        [str(g) if f == "index" else used if f == "memory.used" else "1" for f in QUERY_FIELDS]
        for g in range(8)
    ]
    return raw("".join(", ".join(row) + "\n" for row in rows))


FULL, EMPTY = gpus("60000"), gpus("4")


def change_of(task: Any, facts: dict[str, dict[str, Any]] | None = None, **intent: Any) -> Change:
    rendered = task.render(view_of(facts or flagship(), intent=intent_of(**intent)), {})
    assert rendered.change is not None and not rendered.missing
    return rendered.change


def run(task: Any, answers: Mapping[str, Sequence[Raw]], *, verify: bool = False) -> tuple[CheckResult, Host]:
    host = Host(view_of(flagship()), answers)
    function = task.verify if verify else task.check
    return asyncio.run(function(host, change_of(task))), host


def test_stop_names_exactly_what_it_touches_and_how_to_go_back() -> None:
    change = change_of(SERVICE_STOP)
    assert change.steps == (("systemctl", "stop", "--", UNIT),)
    assert change.rollback == (("systemctl", "start", "--", UNIT),)
    assert dict(change.exact) == {
        "boot_id": "6f1c2a34-0000-4000-8000-000000000001", "unit": UNIT,
        "fragment_path": f"/etc/systemd/system/{UNIT}", "main_pid": "41732",
    }  # fmt: skip


def test_the_change_stays_the_same_when_readings_age_and_another_when_the_process_changes() -> None:
    facts = flagship()
    service = facts["host"]["service"]
    before = change_of(SERVICE_STOP).change_hash
    assert change_of(SERVICE_STOP, changed("host.service", stale(service))).change_hash == before
    assert (
        change_of(SERVICE_STOP, changed("host.service", {**service, "main_pid": 999})).change_hash != before
    )


def test_another_user_than_root_uses_sudo_without_asking() -> None:
    change = change_of(SERVICE_STOP, host="deploy@gpu01:22")
    assert change.steps[0][:2] == ("sudo", "-n") and (change.host, change.user) == ("gpu01", "deploy")


@pytest.mark.parametrize("task", [ARCHIVE, SERVICE_STOP])
def test_without_a_known_service_it_says_what_is_missing(task: Any) -> None:
    rendered = task.render(view_of(changed("host.service", absent("no unit holds the GPUs"))), {})
    assert rendered.change is None and "unit" in rendered.missing and "main pid" in rendered.missing


@pytest.mark.parametrize(
    ("answers", "holds", "words"),
    [
        ({"service.show": [ACTIVE], "gpu.apps": [BUSY]}, False, "is active"),
        ({"service.show": [INACTIVE], "gpu.apps": [BUSY]}, False, "still hold GPU memory"),
        ({"service.show": [INACTIVE], "gpu.apps": [IDLE]}, True, "none of its processes"),
        (
            {"service.show": [INACTIVE], "gpu.apps": [raw("GPU-a, 99, other, 10\n")]},
            True,
            "none of its processes",
        ),
        ({"service.show": [INACTIVE], "gpu.apps": [raw("GPU-a, [N/A], x, 1\n")]}, None, "hidden"),
        (
            {"service.show": [raw(state="timeout")], "gpu.apps": [IDLE]},
            None,
            "did not end in time",
        ),
        ({"service.show": [raw("nonsense")], "gpu.apps": [IDLE]}, None, "no property"),
        ({"service.show": [raw("Id=x\nLoadState=not-found\n")], "gpu.apps": [IDLE]}, True, "not loaded"),
        ({"service.show": [INACTIVE], "gpu.apps": [raw(state="missing", code=127)]}, None, "nvidia-smi"),
    ],
)
def test_check_of_stop(answers: Mapping[str, Sequence[Raw]], holds: bool | None, words: str) -> None:
    result, _ = run(SERVICE_STOP, answers)
    assert (result.holds, words in result.because) == (holds, True), result.because


def test_verify_waits_until_the_memory_is_really_free() -> None:
    answers = {"service.show": [INACTIVE], "gpu.apps": [BUSY, IDLE], "gpu.query": [FULL, FULL, EMPTY]}
    result, host = run(SERVICE_STOP, answers, verify=True)
    assert result.holds and host.slept == 6.0


def test_verify_gives_up_after_a_minute_and_says_which_gpus_are_full() -> None:
    result, host = run(
        SERVICE_STOP, {"service.show": [INACTIVE], "gpu.apps": [IDLE], "gpu.query": [FULL]}, verify=True
    )
    assert result.holds is False and "GPU 0 60000 MiB" in result.because and host.slept == 60.0


def test_archive_steps_really_make_the_archive(tmp_path: Path) -> None:
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "systemctl").write_text('#!/bin/sh\necho "$1 of ${@: -1}"\n'.replace("${@: -1}", "$3$4"))
    (bin_dir / "systemctl").chmod(0o755)
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        import sys

        service = {**flagship()["host"]["service"], "main_pid": sleeper.pid, "interpreter": sys.executable}
        view = view_of(
            changed("host.service", service),
            intent=intent_of(extra={"archive_dir": str(tmp_path / "archive")}),
        )
        change = ARCHIVE.render(view, {}).change
        assert change is not None
        for _ in range(2):  # asked twice it does no harm
            for step in change.steps:
                subprocess.run(step, check=True, env={"PATH": f"{bin_dir}:/usr/bin:/bin"})
    finally:
        sleeper.kill()
        sleeper.wait()
    folder = Path(dict(change.exact)["path"])
    assert (folder / "launch.txt").read_text() == "sleep\n60\n"
    assert "pytest==" in (folder / "packages.txt").read_text()
    assert (folder / "unit.txt").stat().st_mode & 0o777 == 0o600
    host = Host(view, {"archive.sums": [raw((folder / "SHA256SUMS").read_text())]})
    assert ARCHIVE.check is not None
    assert asyncio.run(ARCHIVE.check(host, change)).holds is True


@pytest.mark.parametrize(
    ("answer", "holds"),
    [
        (raw(state="failed", code=1, stderr="cat: x: No such file or directory"), False),
        (raw(state="missing"), False),
        (raw(state="timeout"), None),
        (raw(state="denied", code=1, stderr="Permission denied"), None),
        (raw("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  unit.txt\n"), False),
        (
            raw(
                "".join(f"{'a' * 64}  {n}\n" for n in ("unit.txt", "show.txt", "launch.txt", "packages.txt"))
            ),
            True,
        ),
        (raw("".join(f"{'a' * 64}  {n}\n" for n in ("unit.txt", "show.txt"))), False),
    ],
)
def test_check_of_archive(answer: Raw, holds: bool | None) -> None:
    result, host = run(ARCHIVE, {"archive.sums": [answer]})
    assert result.holds is holds, result.because
    assert host.asked[0][:2] == ("cat", "--")


@pytest.mark.parametrize("state", ["failed", "timeout", "missing", "denied", "unparsable", "lost"])
def test_a_probe_that_failed_never_reads_as_stopped_or_free(state: Any) -> None:
    failed = raw("", state=state, code=1)
    for broken in ("service.show", "gpu.apps", "gpu.query"):
        good = {"service.show": [INACTIVE], "gpu.apps": [IDLE], "gpu.query": [EMPTY]}
        result, _ = run(SERVICE_STOP, {**good, broken: [failed]}, verify=True)
        assert not result.holds
    assert [d.outcome for d in parse_sums(failed)] in (["unknown"], ["absent"])
