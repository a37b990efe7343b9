"""The read-only task about documentation pages. Parameter: `url`. What a page says is a claim."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from recon.agent.api import ReconContext, ReconTask, Request
from recon.tasks.facts.docs_page import PAGE

PAGE_CAP: Final = 4 << 20


def page_request(url: str) -> Request:
    """The request for one page; a fragment is not sent."""
    parts = urlsplit(url)
    return Request(
        connector="web", target=f"{parts.scheme}://{parts.netloc}", probe="web.page", path=parts.path or "/",
        query=tuple(parse_qsl(parts.query, keep_blank_values=True)), cap_bytes=PAGE_CAP,
    )  # fmt: skip


async def read_page(ctx: ReconContext) -> str:
    """Title, headings, flags and backends of a page."""
    url = str(ctx.params["url"])
    seen = await ctx.ask(page_request(url), PAGE, subject=f"web:{url}")
    title = seen.value("title")
    if title is None:
        return next((f.reason for f in seen.findings), "no answer")
    return f"{title}: {len(seen.value('flags', []))} flags, speaks of {', '.join(seen.value('backends', [])) or 'no KV transfer backend'}"


DOCS_TASKS: Final = (ReconTask("docs.page", run=read_page),)
