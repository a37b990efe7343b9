"""A stand-in for the Hub on a loopback port: the routes recon asks, with real HTTP, from repositories given as bytes.

Every answer carries `X-Stand-In: recon test hub`. Faults are switched on by name, per hub or per repository.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Body = bytes | tuple[int, bytes]  # a whole file, or (size, first bytes) of one too large to keep
SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Repo:
    """A repository. `faults`: ignore_range, gated, disabled, missing, rate_limited, moved, unauthorized, broken, slow."""

    files: Mapping[str, Body] = field(default_factory=dict)
    sha: str = SHA
    tags: Sequence[str] = ()
    card_data: Mapping[str, Any] = field(default_factory=dict)
    gated: Any = False
    branches: Sequence[str] = ("main",)
    faults: frozenset[str] = frozenset()


@dataclass
class Hub:
    """A running stand-in. `requests`: (method, path with query, headers) of everything asked, in order."""

    endpoint: str
    repos: dict[str, Repo]
    faults: set[str] = field(default_factory=set)
    page: int = 3  # entries of a page of the file list
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    store: str = ""  # another address files are redirected to, as the Hub does for large ones
    sent_bytes: int = 0
    renamed: dict[str, str] = field(default_factory=dict)  # old name -> new one, which the Hub redirects to
    delay_s: float = 0.0  # before every answer, as a network has


def header_bytes(tensors: Mapping[str, Any], *, data_bytes: int | None = None) -> tuple[int, bytes]:
    """(file size, length and JSON) of a safetensors file with these tensors."""
    text = json.dumps(tensors).encode()
    ends = [v["data_offsets"][1] for k, v in tensors.items() if k != "__metadata__"]
    return 8 + len(text) + (max(ends, default=0) if data_bytes is None else data_bytes), len(text).to_bytes(
        8, "little"
    ) + text


@contextmanager
def loopback_hub(repos: Mapping[str, Repo]) -> Iterator[Hub]:
    """Serves repositories until the block ends."""
    hub = Hub("", dict(repos))

    class Handler(_Handler):
        served = hub

    server = _Server(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up in the middle is what some tests are about; anything else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    served: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the test looks at `requests`."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub = self.served
        if hub.delay_s:
            time.sleep(hub.delay_s)
        hub.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        try:
            if "down" in hub.faults:
                return self._say(503, {"error": "down"})
            if "rate_limited" in hub.faults:
                return self._limited()
            for old, new in hub.renamed.items():
                if f"/{old}/" in self.path:
                    where = self.path.replace(f"/{old}/", f"/{new}/", 1)
                    return self._send(307, b"", {"Location": f"{hub.endpoint}{where}"})
            parts = urlsplit(self.path)
            path, query = unquote(parts.path), parse_qs(parts.query)
            if path == "/api/models":
                return self._search(query)
            if path.startswith("/api/models/"):
                return self._api(path.removeprefix("/api/models/"), query)
            return self._file(path.lstrip("/"))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # ---- routes

    def _search(self, query: Mapping[str, list[str]]) -> None:
        wanted = set(query.get("filter", []))
        found = [
            self._info(name, repo) for name, repo in self.served.repos.items() if wanted <= set(repo.tags)
        ]
        self._say(200, found)

    def _api(self, rest: str, query: Mapping[str, list[str]]) -> None:
        for route in ("/revision/", "/tree/"):
            name, found, revision = rest.partition(route)
            if found:
                repo = self._repo(name, revision)
                if repo is None:
                    return None
                if route == "/tree/":
                    return self._tree(repo, query)
                return self._say(200, self._info(name, repo))
        return self._error(404, "EntryNotFound")

    def _tree(self, repo: Repo, query: Mapping[str, list[str]]) -> None:
        rows = [
            {"type": "file", "oid": "0" * 40, "path": p, "size": _size(b)}
            for p, b in sorted(repo.files.items())
        ]
        begin, size = int(query.get("cursor", ["0"])[0]), self.served.page
        links = {}
        if begin + size < len(rows):
            where = self.path.split("&cursor=")[0]
            links = {"Link": f'<{self.served.endpoint}{where}&cursor={begin + size}>; rel="next"'}
        self._say(200, rows[begin : begin + size], links)

    def _file(self, rest: str) -> None:
        name, found, tail = rest.partition("/resolve/")
        revision, _, path = tail.partition("/")
        if not found:
            return self._error(404, "EntryNotFound")
        repo = self._repo(name, revision)
        if repo is None:
            return None
        if path not in repo.files:
            return self._error(404, "EntryNotFound")
        if self.served.store:
            return self._send(302, b"", {"Location": f"{self.served.store}{self.path}"})
        return self._bytes(repo, repo.files[path])

    def _bytes(self, repo: Repo, body: Body) -> None:
        size, content = _size(body), body if isinstance(body, bytes) else body[1]
        headers = {
            "X-Repo-Commit": "f" * 40 if "moved" in repo.faults else repo.sha,
            "Accept-Ranges": "bytes",
            "ETag": f'"{zlib.crc32(self.path.encode()):08x}{size:x}"',  # the Hub's own client asks for one
        }
        wanted = self.headers.get("Range", "")
        if not wanted.startswith("bytes=") or "ignore_range" in repo.faults:
            return self._send(200, content, {**headers, "Content-Length": str(size)})
        begin, end = (int(part) for part in wanted.removeprefix("bytes=").split("-"))
        if begin >= size:
            return self._send(416, b"", {**headers, "Content-Range": f"bytes */{size}"})
        end = min(end, size - 1)
        part = content[begin : end + 1]
        part += b"\0" * (end + 1 - begin - len(part))
        return self._send(206, part, {**headers, "Content-Range": f"bytes {begin}-{end}/{size}"})

    # ---- answers

    def _repo(self, name: str, revision: str) -> Repo | None:
        repo = self.served.repos.get(name)
        if repo is None or "missing" in repo.faults:
            return self._error(404, "RepoNotFound")
        if "gated" in repo.faults:
            return self._error(403, "GatedRepo")
        if "unauthorized" in repo.faults:
            return self._error(401, "")
        if "disabled" in repo.faults:
            return self._error(403, "", "Access to this resource is disabled.")
        if "rate_limited" in repo.faults:
            return self._limited()
        if "broken" in repo.faults:
            return self._send(200, b"<html>not json", {"Content-Type": "text/html"})
        if "slow" in repo.faults:
            threading.Event().wait(3)
        if revision not in (repo.sha, *repo.branches):
            return self._error(404, "RevisionNotFound")
        return repo

    def _info(self, name: str, repo: Repo) -> dict[str, Any]:
        return {
            "id": name, "modelId": name, "sha": repo.sha, "lastModified": "2026-05-01T10:00:00.000Z", "gated": repo.gated,
            "private": False, "disabled": False, "tags": list(repo.tags), "cardData": dict(repo.card_data),
            "siblings": [{"rfilename": path} for path in sorted(repo.files)],
        }  # fmt: skip

    def _limited(self) -> None:
        headers = {"RateLimit": '"api";r=0;t=7', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
        self._say(429, {"error": "slow down"}, headers)

    def _error(self, status: int, code: str, message: str = "") -> None:
        headers = {"X-Error-Code": code} if code else {}
        self._say(status, {"error": message or code}, {**headers, "X-Error-Message": message or code or "no"})

    def _say(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self._send(
            status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})}
        )

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("X-Stand-In", "recon test hub")
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        announced = int(headers.get("Content-Length", len(body)))
        if self.command == "HEAD":
            return
        left = announced
        for piece in chain([body], _zeros(announced - len(body))):  # never all at once: it may be 64 GiB
            self.wfile.write(piece[:left])
            self.served.sent_bytes += len(piece[:left])
            left -= len(piece[:left])


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield b"\0" * min(count, 1 << 16)
        count -= 1 << 16


def _size(body: Body) -> int:
    return len(body) if isinstance(body, bytes) else body[0]
