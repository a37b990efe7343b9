"""Pages from a real HTTP server on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from recon.agent.connectors.web import WebSource, same_site
from recon.agent.model.errors import UsageError, WebError
from recon.agent.model.findings import Raw, Request

HTML = {"Content-Type": "text/html; charset=utf-8"}
Page = tuple[int, Mapping[str, str], bytes]


@contextmanager
def site(pages: Mapping[str, Page | Callable[[], Page]]) -> Iterator[tuple[str, list[str]]]:
    """(address, paths asked) of a server with these pages."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

        def do_GET(self) -> None:
            asked.append(self.path)
            page = pages.get(self.path, (404, HTML, b"no"))
            status, headers, body = page() if callable(page) else page
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def ask(target: str, path: str, **more: object) -> Request:
    return Request(connector="web", target=target, probe="web.page", path=path, **more)  # type: ignore[arg-type]


async def fetched(request: Request) -> Raw:
    source = WebSource()
    try:
        return await source.fetch(request)
    finally:
        await source.close()


async def fails(request: Request) -> WebError:
    with pytest.raises(WebError) as caught:
        await fetched(request)
    return caught.value


async def test_a_page_is_read_and_every_refusal_has_its_state() -> None:
    pages: dict[str, Page | Callable[[], Page]] = {
        "/docs/pd": (200, HTML, b"<h1>PD</h1>"), "/docs/q?a=b+c": (200, HTML, b"<p>q</p>"), "/private": (403, HTML, b""),
        "/gone": (410, HTML, b""), "/file.zip": (200, {"Content-Type": "application/zip"}, b"PK" * 1000), "/odd": (418, HTML, b""),
    }  # fmt: skip
    with site(pages) as (target, _):
        page = await fetched(ask(target, "/docs/pd"))
        query = await fetched(ask(target, "docs/q", query=(("a", "b c"),)))
        states = {
            p: (await fetched(ask(target, p))).state
            for p in ("/private", "/gone", "/nothing", "/file.zip", "/odd")
        }
        cut = await fetched(ask(target, "/docs/pd", cap_bytes=4))
    assert (page.state, page.exit_code, page.stdout) == ("ok", 200, b"<h1>PD</h1>")
    assert query.stdout == b"<p>q</p>"
    assert states == {
        "/private": "denied",
        "/gone": "missing",
        "/nothing": "missing",
        "/file.zip": "unparsable",
        "/odd": "failed",
    }
    assert (cut.stdout, cut.truncated, cut.reason) == (b"<h1>", True, "output cut: 4 of 11 bytes kept")


async def test_redirects_stay_on_the_site() -> None:
    pages: dict[str, Page | Callable[[], Page]] = {
        "/old": (301, {"Location": "/new"}, b""), "/new": (200, HTML, b"new"), "/round": (302, {"Location": "/round"}, b""),
        "/away": (302, {"Location": "http://example.org/x"}, b""), "/file": (302, {"Location": "file:///etc/passwd"}, b""),
    }  # fmt: skip
    with site(pages) as (target, _):
        assert (await fetched(ask(target, "/old"))).stdout == b"new"
        for path, says in (
            ("/away", "leads to another site, example.org"),
            ("/file", "another site"),
            ("/round", "in circles"),
        ):
            with pytest.raises(WebError, match=says):
                await fetched(ask(target, path))


async def test_a_site_that_fails_once_is_asked_again_and_one_that_is_down_is_an_error() -> None:
    answers = iter([(503, HTML, b""), (200, HTML, b"up"), (503, HTML, b""), (503, HTML, b"")])
    with site({"/x": lambda: next(answers)}) as (target, asked):
        assert (await fetched(ask(target, "/x"))).stdout == b"up"
        with pytest.raises(WebError, match="answers HTTP 503") as caught:
            await fetched(ask(target, "/x"))
    assert caught.value.retryable and len(asked) == 4


async def test_a_rate_limit_says_when_to_come_back() -> None:
    with site({"/x": (429, {**HTML, "Retry-After": "12"}, b"")}) as (target, _):
        error = await fails(ask(target, "/x"))
    assert (error.retryable, error.retry_after_s) == (True, 12.0)


async def test_a_site_that_is_not_there_or_says_nothing_is_an_error_in_time() -> None:
    with site({}) as (gone, _):
        pass
    with pytest.raises(WebError, match="cannot read http://127") as caught:
        await fetched(ask(gone, "/x"))
    assert caught.value.retryable

    def sleepy() -> Page:
        time.sleep(2)
        return 200, HTML, b""

    with site({"/x": sleepy}) as (target, _):
        begun = time.monotonic()
        with pytest.raises(WebError, match="did not answer in time"):
            await fetched(ask(target, "/x", timeout_s=0.3))
        assert time.monotonic() - begun < 1.5


@pytest.mark.parametrize(
    "target", ["ftp://host", "file:///etc", "https://user:pw@host", "host", "https://host/path"]
)
async def test_only_addresses_of_sites_are_read(target: str) -> None:
    with pytest.raises(UsageError, match="not the address of a site"):
        await fetched(ask(target, "/x"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://docs.x.io/a", "https://docs.x.io/b", True), ("http://x.io", "https://www.x.io", True), ("https://x.io", "https://docs.x.io", True),
        ("https://x.io", "http://x.io", False), ("https://x.io", "https://y.io", False), ("https://x.io", "https://evilx.io", False),
        ("https://io", "https://x.io", False), ("https://x.io", "ftp://x.io", False),
    ],
)  # fmt: skip
def test_what_counts_as_the_same_site(one: str, other: str, same: bool) -> None:
    assert same_site(httpx.URL(one), httpx.URL(other)) is same
