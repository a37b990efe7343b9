"""kill -9 of a real `recon run`, followed by `recon resume`: nothing finished is repeated, nothing found is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from support.bundles import without_headers
from support.crashes import a_copy_after_each_commit, integrity, killed

from recon.agent.cli.compose import Session, open_session
from recon.agent.model.base import canonical_json
from recon.agent.report import json_report

MOMENTS = 50
PACE = "0.25"  # of the recorded durations: the replay takes long enough to be hit in the middle


def recon(*words: str, db: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "recon", *words, "--db", str(db)], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip


def finished(db: Path) -> dict[str, int]:
    """How often each task ended well, by key."""
    with sqlite3.connect(db) as raw:
        rows = raw.execute(
            "SELECT task.key, count(*) FROM attempt JOIN task ON task.id = attempt.task_id"
            " WHERE attempt.outcome = 'succeeded' AND task.kind = 'recon' GROUP BY task.key"
        ).fetchall()
    raw.close()
    return dict(rows)


def rows(db: Path, query: str) -> set[tuple[object, ...]]:
    with sqlite3.connect(db) as raw:
        found = set(raw.execute(query).fetchall())
    raw.close()
    return found


FINDINGS = "SELECT realm, id FROM finding"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled mission without its long headers, so that many runs are affordable."""
    return without_headers(tmp_path_factory.mktemp("bundle") / "small.tar.gz")


@pytest.fixture(scope="module")
def whole(
    bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, int], dict[str, object], float]:
    """What one undisturbed run gives: its finished tasks, its canonical report, and how long it takes."""
    db = tmp_path_factory.mktemp("whole") / "state.db"
    began = time.monotonic()
    run = recon("run", "--replay", str(bundle), "--pace", PACE, db=db)
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 3, errors.decode()
    return finished(db), report(db), time.monotonic() - began


def report(db: Path) -> dict[str, object]:
    shown = recon("report", "--format", "json", "--canonical", db=db)
    out, errors = shown.communicate(timeout=60)
    assert shown.returncode in (0, 3), errors.decode()
    return dict(json.loads(out))


def test_killed_at_random_moments_and_resumed_it_ends_the_same(
    bundle: Path, whole: tuple[dict[str, int], dict[str, object], float], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    all_tasks, wanted, seconds = whole
    chance = random.Random(20260512)
    counts: Counter[str] = Counter()
    for moment in range(MOMENTS):
        db = tmp_path / f"{moment}" / "state.db"
        db.parent.mkdir()
        run = recon("run", "--replay", str(bundle), "--pace", PACE, db=db)
        time.sleep(chance.uniform(0.15, 0.85) * seconds)
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=30)
        counts["killed in the middle" if run.returncode == -signal.SIGKILL else "had ended"] += 1
        before, found = (finished(db), rows(db, FINDINGS)) if _has_tables(db) else ({}, set())
        resumed = recon(*(("resume",) if before else ("run", "--replay", str(bundle))), db=db)
        _, errors = resumed.communicate(timeout=120)
        assert resumed.returncode == 3, errors.decode()
        after = finished(db)
        repeated = [key for key, times in before.items() if after[key] != times]
        counts["finished before"] += len(before)
        counts["repeated"] += len(repeated)
        counts["findings lost"] += len(found - rows(db, FINDINGS))
        assert integrity(db) == "ok"
        assert set(after) == set(all_tasks) and set(after.values()) == {1}
        counts["other verdict"] += moment % 10 == 0 and report(db) != wanted
        shutil.rmtree(db.parent)
    with capsys.disabled():
        print(f"\n{MOMENTS} kills at random moments: {dict(counts)}")
    assert (counts["repeated"], counts["findings lost"], counts["other verdict"]) == (0, 0, 0)
    assert counts["killed in the middle"] >= MOMENTS // 2


def _has_tables(db: Path) -> bool:
    if not db.exists() or not db.stat().st_size:
        return False
    return bool(rows(db, "SELECT 1 FROM sqlite_master WHERE name = 'finding'"))


def test_every_commit_boundary_is_a_place_to_go_on_from(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tmp_path / "first"
    first.mkdir()
    with (
        a_copy_after_each_commit(tmp_path / "copies") as copies,
        open_session(first / "state.db") as session,
    ):
        session.run(session.begin_replay(bundle), listen=lambda message: None)
        wanted = canonical(session)
    assert len(copies) > 50
    counts: Counter[str] = Counter()
    for copy in copies:
        before, found = finished(copy), rows(copy, FINDINGS)
        with open_session(killed(copy)) as session:
            assert session.run(session.begin_replay(bundle), listen=lambda message: None) == 3
            counts["other verdict"] += canonical(session) != wanted
        after = finished(copy)
        counts["boundaries"] += 1
        counts["finished before"] += len(before)
        counts["repeated"] += sum(after[key] != times for key, times in before.items())
        counts["findings lost"] += len(found - rows(copy, FINDINGS))
        assert integrity(copy) == "ok"
        shutil.rmtree(copy.parent)
    with capsys.disabled():
        print(f"\nkill -9 at every commit boundary: {dict(counts)}")
    assert (counts["repeated"], counts["findings lost"], counts["other verdict"]) == (0, 0, 0)


def canonical(session: Session) -> str:
    """The report of the current mission, times aside."""
    return canonical_json(json_report.report(session.state(), canonical=True))
