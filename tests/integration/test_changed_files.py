"""A colleague installs a package: what was read of the engine is stale, is said to be, and is read again."""

from __future__ import annotations

import os
import time
import venv
from pathlib import Path

import pytest

from recon.agent.api import Raw
from recon.agent.cli.compose import Session, open_session
from recon.agent.engine.freshness import standing, view_of
from recon.agent.model.errors import UsageError
from recon.agent.model.missions import Intent, Mission, Triage
from recon.agent.model.state import MissionState
from recon.agent.runner.messages import Message
from recon.tasks.facts.files import identity_fact, parse, stat_argv


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The package folder of a real virtual environment that holds an engine's metadata, an hour old."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    folder = next((tmp_path / "venv").glob("lib/python3*/site-packages"))
    install(folder, "sglang", "0.5.11")
    old = time.time() - 3600
    os.utime(folder, (old, old))
    return folder


def install(folder: Path, name: str, version: str) -> None:
    """What an installer leaves of a package: its metadata."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def begin(session: Session, site: Path) -> Mission:
    python = str(site.parents[2] / "bin" / "python")
    intent = Intent(host="localhost", extra={"engine_python": python})
    return session.begin(Triage(text="check the engine here", intent=intent, playbook="check"))


def run(session: Session, mission: Mission) -> tuple[MissionState, list[Message]]:
    heard: list[Message] = []
    session.run(mission, listen=heard.append)
    return session.state(mission.id), heard


def version(state: MissionState) -> object:
    return view_of(state).value("engine.version")


def test_an_installed_package_makes_the_engines_facts_stale(tmp_path: Path, site: Path) -> None:
    with open_session(tmp_path / "state.db") as session:
        mission = begin(session, site)
        state, _ = run(session, mission)
        assert version(state) == "0.5.11"
        install(site, "sglang-router", "0.3.2")
        (site / "sglang-0.5.11.dist-info").rename(site / "sglang-0.5.13.dist-info")
        (site / "sglang-0.5.13.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.13\n"
        )
        session.refresh(mission, "host.service[localhost]")
        state, heard = run(session, mission)
        assert version(state) == "0.5.13"
        again = [m for m in heard if type(m).__name__ == "ReadAgain" and m.key.startswith("engine.installed")]  # type: ignore[attr-defined]
        assert len(again) == 1 and "engine_files.stamp" in again[0].because  # type: ignore[attr-defined]
        assert [s for s in standing(state).stale if s.finding.name == "version"] == []


def test_nothing_changed_reads_the_engine_once(tmp_path: Path, site: Path) -> None:
    with open_session(tmp_path / "state.db") as session:
        mission = begin(session, site)
        run(session, mission)
        session.refresh(mission, "host.service[localhost]")
        _, heard = run(session, mission)
        assert not [m for m in heard if getattr(m, "key", "").startswith("engine.installed")]


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        (Raw(state="ok", exit_code=0, stdout=b"/a b/c 1794476467 12\n"), "known"),
        (
            Raw(state="failed", exit_code=1, stderr=b"stat: cannot statx '/x': No such file or directory"),
            "absent",
        ),
        (Raw(state="denied", exit_code=1, stderr=b"Permission denied", reason="not allowed"), "unknown"),
        (Raw(state="ok", exit_code=0, stdout=b"\xff nonsense"), "unknown"),
        (Raw(state="timeout", reason="no end within 15 s"), "unknown"),
    ],
)
def test_what_stat_says(raw: Raw, outcome: str) -> None:
    draft = parse(raw, "unit_file")
    assert draft.outcome == outcome
    if outcome == "known":
        assert draft.value == {"path": "/a b/c", "stamp": "2026-11-12 09:41:07 UTC, 12 bytes"}
    else:
        assert draft.reason


def test_the_question_is_one_of_the_read_only_commands(tmp_path: Path) -> None:
    from recon.agent.connectors.allowlist import check_argv

    check_argv(stat_argv(str(tmp_path)))
    with pytest.raises(UsageError):
        check_argv(("stat", "-c", "-x", "--", "relative"))
    assert identity_fact("unit_file").id == "file.unit_file"
