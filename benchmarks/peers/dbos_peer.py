"""DBOS on SQLite: one workflow, its steps in waves of eight (the order of steps must not vary)."""

from __future__ import annotations

import asyncio
import logging

from dbos import DBOS, DBOSConfig, SetWorkflowID
from graphs import arguments, body, waves

given = arguments()
work = body(given.log, given.seconds)
config: DBOSConfig = {
    "name": "bench", "system_database_url": f"sqlite:///{given.state / 'dbos.db'}", "log_level": "CRITICAL",
    "run_admin_server": False,
}  # fmt: skip
logging.disable(logging.CRITICAL)
DBOS(config=config)


@DBOS.step()
async def step(key: str) -> str:
    return await asyncio.to_thread(work, key) if given.seconds else work(key)


@DBOS.workflow()
async def whole() -> int:
    count = 0
    for wave in waves(given.graph):
        for at in range(0, len(wave), 8):
            count += len(await asyncio.gather(*(step(key) for key in wave[at : at + 8])))
    return count


async def main() -> None:
    DBOS.launch()  # takes up again what a dead process left
    with SetWorkflowID("bench"):
        handle = await DBOS.start_workflow_async(whole)
    assert await handle.get_result() == len(given.graph)


asyncio.run(main())
DBOS.destroy()
