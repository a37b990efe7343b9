"""The definition `file.fact`: a question that a mission file asks. Everything it does comes from its parameters.

Parameters: `host`, `subject`, `id`, `argv`, and the parser's spec (see `tasks/facts/own.py`).
"""

from __future__ import annotations

from typing import Final

from recon.agent.api import ReconContext, ReconTask, Request
from recon.tasks.facts.own import own_fact
from recon.tasks.recon.host_talk import bound, finding_of, talk


async def read_own(ctx: ReconContext) -> str:
    """Asks the boot id, then the question; the connector refuses what is not read-only."""
    params = ctx.params
    host = await talk(ctx)
    request = Request(
        connector="host", target=host.host, probe=f"own.{params['id']}", argv=tuple(params["argv"]),
        timeout_s=float(params.get("timeout_s", 20.0)),
    )  # fmt: skip
    seen = await ctx.ask(request, bound(own_fact(params), host.boot_id), subject=str(params["subject"]))
    finding = finding_of(seen, str(params["id"]))
    if finding is None:
        return "no answer"
    return f"{params['id']}: {str(finding.value)[:120]}" if finding.outcome == "known" else finding.reason


OWN_TASKS: Final = (ReconTask("file.fact", run=read_own),)
