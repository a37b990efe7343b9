"""The Hub source against a stand-in on loopback: answers, limits, refusals, and what a broken mirror must not do."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.loopback_hub import SHA, Body, Hub, Repo, header_bytes, loopback_hub

from recon.agent.cli.inspection import load_inspection, look
from recon.agent.connectors.hub import HubSource
from recon.agent.model.errors import HubError, UsageError
from recon.agent.model.findings import Raw, Request
from recon.agent.model.missions import Intent
from recon.tasks.facts.hub import revision_fact

TENSORS = {
    "__metadata__": {"format": "pt"},
    "b": {"dtype": "F8_E4M3", "shape": [4, 4], "data_offsets": [8, 24]},
    "a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
    "empty": {"dtype": "F32", "shape": [0], "data_offsets": [8, 8]},
}
FILES: dict[str, Body] = {
    "config.json": b'{"model_type": "x"}', "README.md": b"# card", "a/b c.json": b"{}", "model.safetensors": header_bytes(TENSORS),
    "large.safetensors": header_bytes({"t": {"dtype": "U8", "shape": [1 << 36], "data_offsets": [0, 1 << 36]}}),
}  # fmt: skip


@pytest.fixture
def hub() -> Iterator[Hub]:
    with loopback_hub(
        {"org/m": Repo(FILES, tags=("base_model:quantized:org/base", "nvfp4"), card_data={"license": "mit"})}
    ) as served:
        yield served


@asynccontextmanager
async def source(hub: Hub, token: str | None = None) -> AsyncIterator[HubSource]:
    made = HubSource(endpoint=hub.endpoint, token=token)
    try:
        yield made
    finally:
        await made.close()


def ask(
    probe: str,
    path: str = "",
    *,
    target: str = "org/m",
    revision: str = SHA,
    cap_bytes: int = 26_000_000,
    **more: object,
) -> Request:
    return Request(
        connector="hub", target=target, probe=probe, path=path, revision=revision, cap_bytes=cap_bytes, **more
    )  # type: ignore[arg-type]


async def fetched(hub: Hub, request: Request) -> Raw:
    async with source(hub) as made:
        return await made.fetch(request)


async def fails(hub: Hub, request: Request) -> HubError:
    async with source(hub) as made:
        with pytest.raises(HubError) as caught:
            await made.fetch(request)
    return caught.value


async def test_a_branch_is_pinned_to_its_commit(hub: Hub) -> None:
    raw = await fetched(hub, ask("hub.revision", revision="main"))
    info = json.loads(raw.stdout)
    assert (raw.state, raw.exit_code, raw.revision) == ("ok", 200, SHA)
    assert (info["id"], info["sha"], info["cardData"]["license"]) == ("org/m", SHA, "mit")
    assert info["lastModified"].startswith("2026-05-01T10:00:00")
    assert {"rfilename": "config.json"} in info["siblings"]


async def test_the_file_list_is_read_over_all_pages(hub: Hub) -> None:
    raw = await fetched(hub, ask("hub.tree"))
    assert {r["path"]: r["size"] for r in json.loads(raw.stdout)} == {
        p: len(b) if isinstance(b, bytes) else b[0] for p, b in FILES.items()
    }
    assert sum("/tree/" in path for _, path, _ in hub.requests) == 2


async def test_siblings_are_found_by_the_tag_of_their_base(hub: Hub) -> None:
    hub.repos["org/other"] = Repo(tags=("base_model:quantized:org/elsewhere",))
    raw = await fetched(
        hub,
        ask(
            "hub.siblings",
            target="org/base",
            revision="",
            query=(("filter", "base_model:quantized:org/base"),),
        ),
    )
    assert json.loads(raw.stdout) == [
        {"id": "org/m", "sha": SHA, "tags": ["base_model:quantized:org/base", "nvfp4"]}
    ]


async def test_a_file_is_read_and_a_missing_one_is_an_answer(hub: Hub) -> None:
    there = await fetched(hub, ask("hub.file", "config.json"))
    odd = await fetched(hub, ask("hub.file", "a/b c.json"))
    gone = await fetched(hub, ask("hub.file", "nothing.json"))
    cut = await fetched(hub, ask("hub.file", "config.json", cap_bytes=5))
    assert (there.state, there.stdout, there.revision) == ("ok", FILES["config.json"], SHA)
    assert odd.stdout == b"{}"
    assert (gone.state, gone.exit_code, gone.stdout) == ("missing", 404, b"")
    assert (cut.truncated, cut.stdout, cut.reason) == (True, b'{"mod', "output cut: 5 of 19 bytes kept")


# ---- headers of weight files


async def test_a_header_is_read_without_its_data(hub: Hub) -> None:
    raw = await fetched(hub, ask("hub.header", "model.safetensors"))
    assert (raw.state, raw.exit_code, raw.revision) == ("ok", 206, SHA)
    assert json.loads(raw.stdout) == TENSORS
    raw = await fetched(hub, ask("hub.header", "large.safetensors"))
    assert raw.state == "ok" and json.loads(raw.stdout)["t"]["shape"] == [1 << 36]
    assert hub.sent_bytes < 1 << 20  # of a file of 64 GiB


async def test_a_header_longer_than_the_first_request_takes_a_second(hub: Hub) -> None:
    many = {f"tensor.{n}": {"dtype": "U8", "shape": [1], "data_offsets": [n, n + 1]} for n in range(9000)}
    hub.repos["org/m"] = Repo({"m.safetensors": header_bytes(many)})
    raw = await fetched(hub, ask("hub.header", "m.safetensors"))
    assert raw.state == "ok" and len(json.loads(raw.stdout)) == 9000
    assert len(hub.requests) == 2 and len(raw.stdout) > 256 << 10


BAD = {
    "empty file": (b"", "empty"),
    "five bytes": (b"12345", "has 5 bytes"),
    "a length of 25 MB and one": ((26_000_100, (25_000_001).to_bytes(8, "little")), "at most 25000000"),
    "a length of 2^63": ((1 << 40, (1 << 63).to_bytes(8, "little")), "at most 25000000"),
    "a header longer than the file": ((100, (1000).to_bytes(8, "little") + b"{}"), "would need 1000 bytes of 100"),
    "no JSON": ((8 + 4, (4).to_bytes(8, "little") + b"{{{{"), "not JSON"),
    "no object": ((8 + 2, (2).to_bytes(8, "little") + b"[]"), "not a JSON object"),
    "a gap": (header_bytes({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}), "begins at 1"),
    "an overlap": (
        header_bytes({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}),
        "begins at 1",
    ),
    "an end beyond the file": (header_bytes({"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, data_bytes=3), "of a file of"),
    "offsets that are no numbers": (
        header_bytes({"__metadata__": {}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})[1].replace(b"[0, 1]", b'["0",1]'),
        "no readable dtype",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BAD))
async def test_a_header_that_cannot_be_true_is_unparsable(hub: Hub, name: str) -> None:
    body, reason = BAD[name]
    if isinstance(body, bytes) and name.startswith("offsets"):
        body = (8 + int.from_bytes(body[:8], "little") + 2, (len(body) - 8).to_bytes(8, "little") + body[8:])
    hub.repos["org/m"] = Repo({"m.safetensors": body})
    raw = await fetched(hub, ask("hub.header", "m.safetensors"))
    assert raw.state == "unparsable"
    assert reason in raw.reason


async def test_a_server_that_ignores_ranges_is_not_downloaded(hub: Hub) -> None:
    hub.repos["org/m"] = Repo(FILES, faults=frozenset({"ignore_range"}))
    raw = await fetched(hub, ask("hub.header", "large.safetensors"))
    assert (raw.state, raw.exit_code, raw.stdout) == ("failed", 200, b"")
    assert "ignores byte ranges" in raw.reason
    assert hub.sent_bytes < 32 << 20  # what the socket had taken before we hung up, not 64 GiB


async def test_a_mirror_that_serves_another_commit_is_an_error(hub: Hub) -> None:
    hub.repos["org/m"] = Repo(FILES, faults=frozenset({"moved"}))
    for request in (ask("hub.header", "model.safetensors"), ask("hub.file", "config.json")):
        assert "asked org/m for commit 0123456789ab, got ffffffffffff" in (await fails(hub, request)).message


# ---- refusals

PROBES = (
    ask("hub.revision"),
    ask("hub.tree"),
    ask("hub.file", "config.json"),
    ask("hub.header", "model.safetensors"),
)


@pytest.mark.parametrize("request_", PROBES, ids=lambda r: r.probe)
@pytest.mark.parametrize(
    ("fault", "says", "retryable"),
    [
        ("gated", "is gated", False),
        ("missing", "missing or private", False),
        ("unauthorized", "missing or private", False),
        ("disabled", "was disabled", False),
    ],
)
async def test_what_is_wrong_with_a_repository_is_an_error_with_a_hint(
    hub: Hub, request_: Request, fault: str, says: str, retryable: bool
) -> None:
    hub.repos["org/m"] = Repo(FILES, faults=frozenset({fault}))
    error = await fails(hub, request_)
    assert says in error.message and "org/m" in error.message
    assert error.hint and error.retryable is retryable


@pytest.mark.parametrize("request_", PROBES, ids=lambda r: r.probe)
async def test_a_revision_that_is_gone_is_named(hub: Hub, request_: Request) -> None:
    error = await fails(hub, request_.model_copy(update={"revision": "v9"}))
    assert error.message == "org/m has no revision v9"


@pytest.mark.parametrize("request_", PROBES, ids=lambda r: r.probe)
async def test_a_rate_limit_says_when_to_come_back_and_is_not_waited_for(hub: Hub, request_: Request) -> None:
    hub.faults.add("rate_limited")
    begun = time.monotonic()
    error = await fails(hub, request_)
    assert (error.retryable, error.retry_after_s) == (True, 7.0)
    assert "again in 7 s" in error.message
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("request_", PROBES, ids=lambda r: r.probe)
async def test_a_hub_that_is_down_is_retryable_and_tried_only_a_few_times(
    hub: Hub, request_: Request
) -> None:
    hub.faults.add("down")
    error = await fails(hub, request_)
    assert error.retryable and "HTTP 503" in error.message
    assert len(hub.requests) <= 3


@pytest.mark.parametrize("request_", PROBES, ids=lambda r: r.probe)
async def test_a_hub_that_cannot_be_reached_is_an_error_in_seconds(request_: Request) -> None:
    with loopback_hub({}) as gone:
        pass
    begun = time.monotonic()
    error = await fails(gone, request_)
    assert error.retryable and f"cannot reach {gone.endpoint}" in error.message
    assert time.monotonic() - begun < 8


async def test_an_answer_that_is_no_list_is_an_error(hub: Hub) -> None:
    hub.repos["org/m"] = Repo(faults=frozenset({"broken"}))
    assert "not a list" in (await fails(hub, ask("hub.tree"))).message


async def test_a_slow_hub_is_given_up_in_time(hub: Hub) -> None:
    hub.repos["org/m"] = Repo(FILES, faults=frozenset({"slow"}))
    error = await fails(hub, ask("hub.file", "config.json", timeout_s=0.3))
    assert "did not answer in time" in error.message


async def test_an_empty_repository_has_an_empty_list(hub: Hub) -> None:
    hub.repos["org/m"] = Repo()
    raw = await fetched(hub, ask("hub.tree"))
    assert (raw.state, raw.stdout) == ("ok", b"[]")


# ---- trust


@pytest.mark.parametrize(
    "request_",
    [
        ask("hub.file", "../../etc/passwd"), ask("hub.file", "/etc/passwd"), ask("hub.header", "a/../../b"), ask("hub.tree", target="../x"),
        ask("hub.tree", target="a/b/c"), ask("hub.tree", target="a b/c"), ask("hub.tree", revision="../main"), ask("hub.tree", revision="a?b=c"),
        ask("hub.everything"),
    ],
)  # fmt: skip
async def test_names_that_leave_the_repository_are_refused_before_anything_is_sent(
    hub: Hub, request_: Request
) -> None:
    async with source(hub) as made:
        with pytest.raises(UsageError):
            await made.fetch(request_)
    assert hub.requests == []


async def test_a_token_goes_to_the_hub_and_not_to_the_store_behind_it(hub: Hub) -> None:
    with loopback_hub(hub.repos) as store:
        hub.store = store.endpoint
        async with source(hub, token="t0ken") as made:
            assert (await made.fetch(ask("hub.file", "config.json"))).stdout == FILES["config.json"]
            assert (await made.fetch(ask("hub.header", "model.safetensors"))).state == "ok"
    assert {h.get("authorization") for _, _, h in hub.requests} == {"Bearer t0ken"}
    assert {h.get("authorization") for _, _, h in store.requests} == {None}
    assert store.requests[1][2]["range"] == "bytes=0-262143"


async def test_a_saved_login_is_not_given_to_a_mirror(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_savedlogin")
    for request in PROBES:
        await fetched(hub, request)
    assert {h.get("authorization") for _, _, h in hub.requests} == {None}


async def test_questions_can_be_cancelled(hub: Hub) -> None:
    hub.repos["org/m"] = Repo(FILES, faults=frozenset({"slow"}))
    async with source(hub) as made:
        task = asyncio.create_task(made.fetch(ask("hub.tree")))
        await asyncio.sleep(0.2)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begun < 1


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
async def test_offline_is_obeyed_and_named(hub: Hub, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    error = await fails(hub, ask("hub.file", "config.json"))
    assert name in error.message and name in error.hint and not error.retryable
    assert hub.requests == []


@pytest.mark.parametrize("probe", ["hub.revision", "hub.tree", "hub.file", "hub.header"])
async def test_a_renamed_repository_is_followed(hub: Hub, probe: str) -> None:
    hub.renamed["old/name"] = "org/m"
    path = {"hub.file": "config.json", "hub.header": "model.safetensors"}.get(probe, "")
    revision = "main" if probe == "hub.revision" else SHA
    raw = await fetched(hub, ask(probe, path, target="old/name", revision=revision))
    assert raw.state == "ok"
    if probe == "hub.revision":
        drafts = {d.name: d.value for d in revision_fact("old/name", "main").parse(raw)}
        assert drafts["renamed_to"] == "org/m"


def inspected(hub: Hub, repo: str = "org/m") -> dict[str, Any]:
    """What `recon inspect model` makes of a repository of the stand-in, through the real client and tasks."""
    inspection = load_inspection("model")
    looked = look(inspection, Intent(model=repo), listen=lambda message: None, hub=hub.endpoint)
    return inspection.document(looked.view, [j.judgement for j in looked.state.judgements])


def weights(name: str, dtype: str = "BF16") -> dict[str, object]:
    """One linear layer."""
    size = 2 * 64 * 64 if dtype == "BF16" else 64 * 64
    return {name: {"dtype": dtype, "shape": [64, 64], "data_offsets": [0, size]}}


CONFIG = json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
                     "num_attention_heads": 4, "intermediate_size": 64, "torch_dtype": "bfloat16", "vocab_size": 64}).encode()  # fmt: skip
Q, UP = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.up_proj.weight"
SHARDS: dict[str, Body] = {
    "config.json": CONFIG, "model-00001-of-00002.safetensors": header_bytes(weights(Q)),
    "model-00002-of-00002.safetensors": header_bytes(weights(UP)),
    "model.safetensors.index.json": json.dumps({"weight_map": {Q: "model-00001-of-00002.safetensors", UP: "model-00002-of-00002.safetensors"}}).encode(),
}  # fmt: skip


def test_a_stray_file_beside_the_shards_is_not_taken_for_the_model(hub: Hub) -> None:
    stray = header_bytes({Q: {"dtype": "U8", "shape": [64, 32], "data_offsets": [0, 2048]}})
    hub.repos["org/m"] = Repo({**SHARDS, "model.safetensors": stray})
    parts = inspected(hub)["components"]
    assert {n: (parts[n]["format"], parts[n]["level"]) for n in ("attention", "dense_mlp")} == {
        "attention": ("bf16", "proved"), "dense_mlp": ("bf16", "proved"),
    }  # fmt: skip


def test_a_shard_that_is_missing_proves_nothing(hub: Hub) -> None:
    files = {k: v for k, v in SHARDS.items() if "00002-of" not in k or k.startswith("model.safetensors")}
    hub.repos["org/m"] = Repo({k: v for k, v in files.items() if not k.startswith("model-00002")})
    document = inspected(hub)
    assert {row["level"] for row in document["components"].values()} <= {"declared", "unknown"}
    assert document["servable"]["answer"] == "no"


def test_an_index_that_leads_out_of_the_repository_is_not_followed(hub: Hub) -> None:
    index = json.dumps({"weight_map": {Q: "../../etc/passwd", UP: "model.safetensors"}}).encode()
    hub.repos["org/m"] = Repo(
        {"config.json": CONFIG, "model.safetensors": header_bytes(weights(UP)), "extra.safetensors": header_bytes(weights(Q)), "model.safetensors.index.json": index}
    )  # fmt: skip
    inspected(hub)
    assert not [path for _, path, _ in hub.requests if "passwd" in path]


def test_a_repository_of_a_tokenizer_alone_serves_nothing(hub: Hub) -> None:
    hub.repos["org/m"] = Repo({"tokenizer.json": b"{}", "README.md": b"# words"})
    document = inspected(hub)
    assert document["servable"]["answer"] == "no"
    assert {row["format"] for row in document["components"].values()} <= {"unknown"}


@pytest.mark.parametrize("fault", ["reset", "short"])
async def test_a_header_that_breaks_off_is_no_header(fault: str) -> None:
    """A server that closes in the middle of the answer, and one that ends it early."""
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        said = 1000 if fault == "short" else 5000
        writer.write(
            f"HTTP/1.1 206 Partial\r\nContent-Length: {said}\r\nContent-Range: bytes 0-{said - 1}/{1 << 20}\r\n\r\n".encode()
        )
        writer.write((900_000).to_bytes(8, "little") + b"{" * 500)
        await writer.drain()
        if fault == "reset":
            writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made = HubSource(endpoint=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", token="t")
    try:
        with pytest.raises(HubError) as told:
            await made.fetch(ask("hub.header", "model.safetensors"))
        assert told.value.retryable and 1 <= asked <= 4
    finally:
        await made.close()
        server.close()
        await server.wait_closed()
