"""The same evidence gives the same report, in whatever order its tasks end and however many run at once."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from support.bundles import without_headers

from recon.agent.cli.compose import Session, open_session
from recon.agent.model.base import canonical_json
from recon.agent.model.findings import Raw, Request
from recon.agent.model.missions import Mission
from recon.agent.report import json_report
from recon.agent.runner.ports import Executor, Sources

# Every replay is a whole mission: RECON_REPLAYS takes fewer while you work on something.
TIMES = int(os.environ.get("RECON_REPLAYS", "100"))


class Shuffled:
    """Sources that answer each question after a random number of turns of the event loop (stateful: its chance)."""

    def __init__(self, inner: Sources, chance: random.Random) -> None:
        self._inner = inner
        self._chance = chance

    async def fetch(self, request: Request) -> Raw:
        for _ in range(self._chance.randrange(12)):
            await asyncio.sleep(0)
        raw = await self._inner.fetch(request)
        for _ in range(self._chance.randrange(12)):
            await asyncio.sleep(0)
        return raw

    def executor(self, host: str) -> Executor:
        return self._inner.executor(host)

    async def close(self) -> None:
        await self._inner.close()


class ShuffledSession(Session):
    """A session whose replays answer in random order."""

    chance = random.Random(0)

    def _sources(self, mission: Mission, *, hub: str | None, pace: float) -> Sources:
        return Shuffled(super()._sources(mission, hub=hub, pace=pace), self.chance)


def replay(folder: Path, bundle: Path | None, seed: int) -> tuple[str, tuple[str, ...]]:
    """The canonical report, and the order in which the tasks ended."""
    with open_session(folder / "state.db") as opened:
        session = ShuffledSession(opened.store, registry=opened.registry)
        session.chance = random.Random(seed)
        mission = session.begin_bundled() if bundle is None else session.begin_replay(bundle)
        concurrency = 1 + seed % 16
        assert session.run(mission, listen=lambda message: None, concurrency=concurrency) == 3
        events = session.store.events_after(mission.id, 0)
        order = tuple(e.entity_id for e in events if e.entity == "task" and e.new == "succeeded")
        return canonical_json(json_report.report(session.state(), canonical=True)), order


def test_a_hundred_shuffled_replays_give_one_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = without_headers(tmp_path / "small.tar.gz")
    reports: Counter[str] = Counter()
    orders = set()
    for seed in range(TIMES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        said, order = replay(folder, bundle, seed)
        reports[said] += 1
        orders.add(order)
        shutil.rmtree(folder)
    with capsys.disabled():
        print(f"\n{TIMES} shuffled replays, {len(orders)} orders of completion: {len(reports)} report")
    assert len(reports) == 1 and len(orders) > TIMES // 2


def test_so_does_the_whole_bundled_mission(tmp_path: Path) -> None:
    found = set()
    for seed in (3, 8, 15):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found.add(replay(folder, None, seed)[0])
    assert len(found) == 1
