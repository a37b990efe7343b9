"""The Hub (or a mirror of it): commits, file lists, files, and the headers of weight files without their data."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx

from recon.agent.connectors.base import cut_reason
from recon.agent.connectors.gguf import Short, read_gguf
from recon.agent.connectors.http import Answer, new_client, read, trouble
from recon.agent.connectors.hub_errors import from_library, hub_error, refusal, unreachable
from recon.agent.connectors.safetensors import PREFIX_BYTES, BadHeader, check_header, header_length
from recon.agent.model.base import Json, canonical_json
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Raw, Request

PUBLIC: Final = "https://huggingface.co"
_REPO: Final = re.compile(r"^[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?$")
_REVISION: Final = re.compile(r"^[\w][\w./-]{0,200}$")
_COMMIT: Final = re.compile(r"^[0-9a-f]{40}$")
_RANGE: Final = re.compile(r"^bytes (\d+)-(\d+)/(\d+)$")
_NEXT: Final = re.compile(r'<([^>]+)>\s*;\s*rel="next"')
_OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # what the Hub's own tools obey
_YES: Final = frozenset({"1", "on", "yes", "true"})
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_MAX_HOPS: Final = 5
_TRIES: Final = 2
_WAIT_S: Final = 0.5
_FIRST_BYTES: Final = 256 << 10  # holds most headers whole; a longer one takes a second request
_MAX_PAGES: Final = 100  # of 1,000 entries each
_PAGE_CAP: Final = 32 << 20


class HubSource:
    """Answers hub.revision, hub.tree, hub.file, hub.header, hub.gguf and hub.siblings (stateful: the client).

    `endpoint` None is the public Hub. `token` None takes the login saved by the Hub's own tools, and only for the public
    Hub: a mirror gets a token when one is given for it.
    """

    def __init__(self, *, endpoint: str | None = None, token: str | None = None) -> None:
        self.endpoint = (endpoint or PUBLIC).rstrip("/")
        if httpx.URL(self.endpoint).scheme not in ("http", "https"):
            raise UsageError(
                f"not the address of a hub: {endpoint!r}", hint="it looks like https://hub.example.org"
            )
        self._token: str | bool | None = token or (None if self.endpoint == PUBLIC else False)
        self._client: httpx.AsyncClient | None = None
        self._authorization: dict[str, str] | None = None

    async def fetch(self, request: Request) -> Raw:
        """The answer of one probe. Raises HubError where the repository or the Hub is the trouble."""
        ask = self._probes().get(request.probe)
        if ask is None:
            raise UsageError(f"the Hub is not asked for {request.probe!r}")
        _check(request)
        if name := next((n for n in _OFFLINE if os.environ.get(n, "").lower() in _YES), ""):
            raise hub_error(
                request, f"{self.endpoint} is not asked: {name} is set",
                hint=f"unset {name}, or look at a folder: recon inspect model FOLDER",
            )  # fmt: skip
        try:
            async with asyncio.timeout(request.timeout_s):
                raw: Raw = await ask(request)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise unreachable(request, self.endpoint, trouble(error)) from None
        return raw

    async def close(self) -> None:
        """Closes the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _probes(self) -> Mapping[str, Callable[[Request], Any]]:
        return {
            "hub.revision": self._revision, "hub.tree": self._tree, "hub.file": self._file, "hub.header": self._header,
            "hub.siblings": self._siblings, "hub.gguf": self._gguf,
        }  # fmt: skip

    # ---- probes

    async def _revision(self, request: Request) -> Raw:
        # The library's only call that does not retry for minutes; lists and files are read by our own client below,
        # because a thread that sleeps between retries cannot be cancelled.
        info = await asyncio.to_thread(_model_info, self.endpoint, self._token, request)
        return _json_raw(info, request, revision=str(info.get("sha") or ""))

    async def _tree(self, request: Request) -> Raw:
        url = self._api(request.target, "tree", quote(request.revision or "main", safe=""))
        rows = await self._pages(f"{url}?recursive=true&expand=false", request)
        commit = request.revision if _COMMIT.match(request.revision) else ""
        return _json_raw([_tree_row(r) for r in rows if isinstance(r, Mapping)], request, revision=commit)

    async def _siblings(self, request: Request) -> Raw:
        query = urlencode([*request.query, ("expand", "sha"), ("expand", "tags"), ("limit", "1000")])
        rows = await self._pages(f"{self.endpoint}/api/models?{query}", request)
        found = [
            {"id": r.get("id"), "sha": r.get("sha"), "tags": r.get("tags")}
            for r in rows
            if isinstance(r, Mapping)
        ]
        return _json_raw(found, request, revision="")

    async def _file(self, request: Request) -> Raw:
        answer = await self._get(self._resolve(request), request, cap_bytes=request.cap_bytes)
        if answer.status != 200:
            return self._no_file(answer, request)
        reason = cut_reason(answer.total, len(answer.body)) if answer.truncated else ""
        return Raw(
            state="ok", exit_code=200, stdout=answer.body, truncated=answer.truncated, reason=reason,
            revision=self._commit(answer, request),
        )  # fmt: skip

    async def _header(self, request: Request) -> Raw:
        first = await self._ranged(request, 0, _FIRST_BYTES - 1)
        if first.status != 206:
            return self._no_range(first, request)
        commit, size = self._commit(first, request), _size(first)
        try:
            length = header_length(first.body)
            if size is None:
                raise BadHeader("the server does not say how long the file is")
            if PREFIX_BYTES + length > min(size, request.cap_bytes):
                raise BadHeader(f"its header would need {length} bytes of {min(size, request.cap_bytes)}")
            header = await self._rest(request, first, length, size=size)
        except BadHeader as bad:
            return Raw(state="unparsable", exit_code=206, reason=f"{request.path}: {bad}", revision=commit)
        try:
            await asyncio.to_thread(check_header, header, file_bytes=size)
        except BadHeader as bad:
            return Raw(
                state="unparsable",
                exit_code=206,
                stdout=header,
                reason=f"{request.path}: {bad}",
                revision=commit,
            )
        return Raw(state="ok", exit_code=206, stdout=header, revision=commit)

    async def _gguf(self, request: Request) -> Raw:
        """The header of a GGUF file, whose length nothing tells: read on until it is whole."""
        data, commit, size = b"", "", None
        needed = _FIRST_BYTES
        while True:
            answer = await self._ranged(request, len(data), needed - 1)
            if answer.status != 206:
                return self._no_range(answer, request)
            said = self._commit(answer, request)
            if data and (said != commit or _size(answer) != size):
                return Raw(
                    state="unparsable", exit_code=206, reason=f"{request.path}: it changed while it was read"
                )
            data, commit, size = data + answer.body, said, _size(answer)
            try:
                header = await asyncio.to_thread(read_gguf, data)
            except BadHeader as bad:
                return Raw(
                    state="unparsable", exit_code=206, reason=f"{request.path}: {bad}", revision=commit
                )
            except Short as short:
                most = min(size or 0, request.cap_bytes)
                if short.needed > most or not answer.body:
                    reason = f"{request.path}: its header does not end within {most} bytes"
                    return Raw(state="unparsable", exit_code=206, reason=reason, revision=commit)
                needed = min(most, max(2 * len(data), short.needed))
                continue
            return Raw(state="ok", exit_code=206, stdout=canonical_json(header).encode(), revision=commit)

    async def _rest(self, request: Request, first: Answer, length: int, *, size: int) -> bytes:
        end = PREFIX_BYTES + length
        if len(first.body) >= end:
            return first.body[PREFIX_BYTES:end]
        rest = await self._ranged(request, len(first.body), end - 1)
        if rest.status != 206 or _size(rest) != size or len(rest.body) != end - len(first.body):
            raise BadHeader("its second half did not come")
        if self._commit(rest, request) != self._commit(first, request):
            raise BadHeader("the commit changed while it was read")
        return (first.body + rest.body)[PREFIX_BYTES:]

    # ---- requests

    async def _ranged(self, request: Request, begin: int, end: int) -> Answer:
        # only a server that answers 206 sent what was asked; from any other nothing is read, the file may have 100 GB
        return await self._get(
            self._resolve(request), request, cap_bytes=end - begin + 1, headers={"range": f"bytes={begin}-{end}"},
            stop=lambda response: response.status_code != 206,
        )  # fmt: skip

    async def _pages(self, url: str, request: Request) -> list[Json]:
        rows: list[Json] = []
        for _ in range(_MAX_PAGES):
            answer = await self._get(url, request, cap_bytes=_PAGE_CAP)
            page = _page(answer)
            if page is None:
                raise hub_error(
                    request, f"{self.endpoint} answers HTTP {answer.status} for {request.target}, not a list"
                )
            rows += page
            following = _NEXT.search(answer.headers.get("link", ""))
            if following is None:
                return rows
            url = str(httpx.URL(url).join(following[1]))
            if httpx.URL(url).netloc != httpx.URL(self.endpoint).netloc:
                raise hub_error(
                    request, f"{self.endpoint} continues its list on another host, {httpx.URL(url).host}"
                )
        raise hub_error(request, f"{request.target} has more than {_MAX_PAGES} pages of files")

    async def _get(
        self, url: str, request: Request, *, cap_bytes: int, headers: Mapping[str, str] | None = None,
        stop: Callable[[httpx.Response], bool] = lambda response: False,
    ) -> Answer:  # fmt: skip
        home = httpx.URL(url)
        for _ in range(_MAX_HOPS):
            login = (
                await self._login() if httpx.URL(url).netloc == home.netloc else {}
            )  # the store behind gets no token
            answer = await self._get_retrying(
                url, {**(headers or {}), **login}, cap_bytes=cap_bytes, stop=stop
            )
            if answer.status not in _REDIRECTS or "location" not in answer.headers:
                break
            following = httpx.URL(url).join(answer.headers["location"])
            if following.scheme not in ("http", "https") or (
                home.scheme == "https" and following.scheme != "https"
            ):
                raise hub_error(
                    request,
                    f"{self.endpoint} leads to {following.scheme}://{following.host}, which is not read",
                )
            url = str(following)
        else:
            raise hub_error(request, f"{self.endpoint} leads in circles for {request.target}")
        error = refusal(request, self.endpoint, answer.status, answer.headers)
        if error is not None:
            raise error
        return answer

    async def _get_retrying(
        self, url: str, headers: Mapping[str, str], *, cap_bytes: int, stop: Callable[[httpx.Response], bool]
    ) -> Answer:
        if self._client is None:
            self._client = new_client()
        for attempt in range(1, _TRIES + 1):
            try:
                answer = await read(self._client, url, cap_bytes=cap_bytes, headers=headers, stop=stop)
            except httpx.TransportError:
                if attempt == _TRIES:
                    raise
            else:
                if answer.status < 500 or attempt == _TRIES:
                    return answer
            await asyncio.sleep(_WAIT_S)
        raise AssertionError("unreachable")

    async def _login(self) -> dict[str, str]:
        if self._authorization is None:
            token = await asyncio.to_thread(_saved_token) if self._token is None else self._token
            self._authorization = {"authorization": f"Bearer {token}"} if token else {}
        return self._authorization

    def _api(self, repo: str, *parts: str) -> str:
        return "/".join((self.endpoint, "api/models", repo, *parts))

    def _resolve(self, request: Request) -> str:
        return f"{self.endpoint}/{request.target}/resolve/{quote(request.revision or 'main', safe='')}/{quote(request.path)}"

    # ---- answers

    def _commit(self, answer: Answer, request: Request) -> str:
        """The commit an answer belongs to. Raises HubError where it is not the one that was asked for."""
        said = answer.headers.get("x-repo-commit", "")
        asked = request.revision if _COMMIT.match(request.revision) else ""
        if said and asked and said != asked:
            raise hub_error(
                request,
                f"asked {request.target} for commit {asked[:12]}, got {said[:12]}",
                hint="a broken mirror? try the public Hub",
            )
        return asked or said

    def _no_file(self, answer: Answer, request: Request) -> Raw:
        where = f"at {request.target}@{(request.revision or 'main')[:12]}"
        if answer.status == 404:
            return Raw(
                state="missing", exit_code=404, reason=f"no {request.path} {where}", revision=request.revision
            )
        if answer.status == 403:
            return Raw(
                state="denied",
                exit_code=403,
                reason=f"{request.path} {where} may not be read",
                revision=request.revision,
            )
        return Raw(
            state="failed",
            exit_code=answer.status,
            reason=f"HTTP {answer.status} for {request.path}",
            revision=request.revision,
        )

    def _no_range(self, answer: Answer, request: Request) -> Raw:
        if answer.status == 200:
            why = f"the server ignores byte ranges; {request.path} ({answer.total} bytes) was not read"
            return Raw(state="failed", exit_code=200, reason=why, revision=request.revision)
        if answer.status == 416:
            return Raw(
                state="unparsable",
                exit_code=416,
                reason=f"{request.path}: the file is empty",
                revision=request.revision,
            )
        return self._no_file(answer, request)


def _check(request: Request) -> None:
    """Names from outside become parts of an address: nothing but plain ones."""
    if not _REPO.match(request.target) or ".." in request.target:
        raise UsageError(f"not a repository: {request.target!r}", hint="it looks like ORG/NAME")
    if request.revision and (not _REVISION.match(request.revision) or ".." in request.revision):
        raise UsageError(f"not a revision: {request.revision!r}", hint="a branch, a tag or a commit")
    parts = request.path.split("/")
    if request.path.startswith("/") or ".." in parts or not request.path.isprintable():
        raise UsageError(f"not a file of a repository: {request.path!r}")


def _model_info(endpoint: str, token: str | bool | None, request: Request) -> dict[str, Json]:
    for name in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_UPDATE_CHECK", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(name, "1")  # read once, when the library is imported
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    # HTTPError of the HTTP library it is built on, which is another one from version to version
    http_errors = (base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    caught: tuple[type[Exception], ...] = (*http_errors, OSError, ValueError)
    api = HfApi(endpoint=endpoint, token=token, library_name="recon")
    try:
        info = api.model_info(
            request.target, revision=request.revision or "main", timeout=min(request.timeout_s, 10.0)
        )
    except caught as error:
        raise from_library(error, request, endpoint) from None
    card: Json = info.card_data
    return {
        "id": info.id, "sha": info.sha, "lastModified": info.last_modified.isoformat() if info.last_modified else None,
        "private": info.private, "gated": info.gated, "disabled": info.disabled, "tags": info.tags or [],
        "cardData": card.to_dict() if card else {},
        "siblings": [{"rfilename": s.rfilename} for s in info.siblings or []],
    }  # fmt: skip


def _saved_token() -> str:
    from huggingface_hub import get_token

    return get_token() or ""


def _tree_row(row: Mapping[str, Json]) -> Json:
    kept = {k: row[k] for k in ("type", "path", "size", "oid") if k in row}
    lfs = row.get("lfs")
    return (
        {**kept, "lfs": {"size": lfs.get("size"), "oid": lfs.get("oid")}}
        if isinstance(lfs, Mapping)
        else kept
    )


def _page(answer: Answer) -> list[Json] | None:

    if answer.status != 200 or answer.truncated:
        return None
    try:
        page = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return page if isinstance(page, list) else None


def _json_raw(value: Json, request: Request, *, revision: str) -> Raw:
    body = canonical_json(value).encode()
    cut = len(body) > request.cap_bytes
    return Raw(
        state="ok", exit_code=200, stdout=body[: request.cap_bytes], truncated=cut, revision=revision,
        reason=cut_reason(len(body), request.cap_bytes) if cut else "",
    )  # fmt: skip


def _size(answer: Answer) -> int | None:
    found = _RANGE.match(answer.headers.get("content-range", ""))
    return int(found[3]) if found else None
