"""The checkpoint's recon tasks over the composed recording, and over answers that are missing or odd."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from support.recorded_hub import RecordedContext

from recon.agent.api import (
    Intent,
    Layout,
    Observation,
    Raw,
    ReconTask,
    Request,
    Wish,
    observation_id,
    sha256_hex,
)
from recon.tasks.facts.split import per_rank_bytes
from recon.tasks.recon.checkpoint import CHECKPOINT_TASKS
from recon.tasks.recon.checkpoint_pin import (
    file_request,
    header_request,
    revision_request,
    tree_request,
)
from recon.tasks.recordings.compose_hub import BASE, REPOSITORIES, START, compose, headers

TASKS: dict[str, ReconTask] = {task.name: task for task in CHECKPOINT_TASKS}
SHA = "0123456789abcdef0123456789abcdef01234567"
ORDER = (
    "checkpoint.resolve",
    "checkpoint.files",
    "checkpoint.config",
    "checkpoint.card",
    "checkpoint.headers",
)


@cache
def recording() -> tuple[list[Observation], dict[str, bytes]]:
    """The composed recording, built once."""
    return compose()


@cache
def read(repo: str) -> RecordedContext:
    """All five tasks run over one composed repository."""
    observations, blobs = recording()
    intent = Intent(
        model=repo, wanted_format=Wish(value="nvfp4"), layout=Layout(mode="pd", prefill_tp=4, decode_tp=4)
    )
    context = RecordedContext(
        observations, blobs, intent=intent, bindings={"checkpoint": f"hf:{repo}@main"}, now=START
    )
    for name in ORDER:
        context.run(TASKS[name], repo=repo, revision="main")
    return context


FAMILY = [
    # repository, GB, GiB, experts, group, MTP tensors, MTP format
    ("canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP", 168.3, 156.7, "w4a16-int4", 128, 799, "bf16"),
    ("canada-quant/DeepSeek-V4-Flash-NVFP4-FP8-MTP", 181.3, 168.8, "nvfp4", 16, 799, "bf16"),
    ("nvidia/DeepSeek-V4-Flash-NVFP4", 168.3, 156.7, "nvfp4", 16, 1575, "mxfp4"),
    ("RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8", 165.9, 154.5, "nvfp4", 16, None, None),
]


@pytest.mark.parametrize(
    ("repo", "gb", "gib", "experts", "group", "mtp", "mtp_format"), FAMILY, ids=[f[0] for f in FAMILY]
)
def test_the_family_comes_out_as_published(
    repo: str, gb: float, gib: float, experts: str, group: int, mtp: int | None, mtp_format: str | None
) -> None:
    view = read(repo).view
    weights = view.value("checkpoint.weights_bytes")
    assert (round(weights / 1e9, 1), round(weights / 2**30, 1)) == (gb, gib)
    value = view.value("checkpoint.routed_experts")
    assert (value["format"], value["group_size"]) == (experts, group)
    assert view.value("checkpoint.attention.format") == "fp8-block128"
    assert view.value("checkpoint.mtp.tensors") == mtp
    assert view.value("checkpoint.mtp.format") == mtp_format
    summary = view.value("checkpoint.architecture.summary")
    assert summary == "284B total, 13B active, 256 routed experts top-6, 43 layers, 1,048,576 context"


def test_every_finding_of_the_recording_says_that_it_is_composed() -> None:
    context = read(FAMILY[0][0])
    assert {f.origin for f in context.found} == {"composed"}
    assert context.view.read("checkpoint.routed_experts").finding.level_text == "proved (composed)"  # type: ignore[union-attr]


def test_counts_agree_with_the_published_key_counts() -> None:
    view = read(FAMILY[0][0]).view
    assert view.value("checkpoint.scale_names") == {"weight_scale": 33_239}
    assert view.value("checkpoint.routed_experts.tensors") == 3 * 33_024
    assert view.value("checkpoint.declared.ignore_beyond_layers")[-1] == 60


def test_weights_per_gpu_count_replicated_layers_whole() -> None:
    split = read(FAMILY[0][0]).view.value("checkpoint.split")
    total = read(FAMILY[0][0]).view.value("checkpoint.weights_bytes")
    assert split["sharded_bytes"] + split["replicated_bytes"] + split["shared_bytes"] == total
    each = per_rank_bytes(split, 4)
    assert each is not None and round(each / 2**30, 1) == 39.8


def test_every_question_the_tasks_ask_is_recorded() -> None:
    for repo, *_ in FAMILY:
        context = read(repo)
        assert [f.reason for f in context.found if f.reason == "not recorded"] == []


def test_siblings_in_the_wanted_format_are_pinned_and_read_without_their_headers() -> None:
    context = read(FAMILY[0][0])
    said = context.run(TASKS["checkpoint.siblings"], repo=FAMILY[0][0], revision="main")
    assert said == "5 siblings, 3 that name the wanted format"
    for repo, *_ in FAMILY[1:]:
        names = context.view.findings(context.view.resolve(f"hf:{repo}@main"))
        assert names["declared"].value["components"]["routed_experts"]["format"] == "nvfp4"
        assert "download_bytes" in names and "card.mtp" in names and "weights_bytes" not in names
    assert context.view.value("checkpoint.siblings")[0]["base_model"] == BASE


def test_composing_again_gives_the_same_bytes() -> None:
    _, blobs = recording()
    assert {sha256_hex(body) for _, body, _ in headers(REPOSITORIES[0])} <= set(blobs)


def test_the_recording_moves_with_its_start_and_every_blob_is_named_by_its_hash() -> None:
    observations, blobs = recording()
    assert observations[0].observed_at > START
    assert [o.observed_at for o in observations] == sorted(o.observed_at for o in observations)
    assert all(sha256_hex(body) == sha for sha, body in blobs.items())
    assert len({o.request.identity() for o in observations}) == len(observations)


def test_headers_fill_their_files_exactly() -> None:
    view = read(FAMILY[0][0]).view
    sizes = {row["path"]: row["size_bytes"] for row in view.value("checkpoint.files")}
    for path in view.value("checkpoint.weight_files"):
        shard = view.findings(view.subject("checkpoint"))[f"shard.{path}"].value
        assert 8 + shard["header_bytes"] + shard["weights_bytes"] == sizes[path]


# ---- made-up answers


def answers(*rows: tuple[Request, bytes | str]) -> tuple[list[Observation], dict[str, bytes]]:
    """Observations of (request, body); a str body is a state without bytes."""
    observations, blobs = [], {sha256_hex(b""): b""}
    for request, body in rows:
        data, state = (body, "ok") if isinstance(body, bytes) else (b"", body)
        raw = Raw(state=state, stdout=data, observed_at=1.0)  # type: ignore[arg-type]
        blobs[sha := sha256_hex(data)] = data
        observations.append(
            Observation(
                id=observation_id(request, raw, stdout_sha=sha, stderr_sha=sha256_hex(b"")), request=request,
                state=raw.state, exit_code=200, revision="", observed_at=1.0, duration_s=0.1, host_boot_id="",
                stdout_sha=sha, stderr_sha=sha256_hex(b""), truncated=False, reason="", origin="captured",
            )
        )  # fmt: skip
    return observations, blobs


def context_of(*rows: tuple[Request, bytes | str]) -> RecordedContext:
    """A context for `o/m` whose name resolves."""
    pin = (revision_request("o/m", "main"), json.dumps({"sha": SHA}).encode())
    return RecordedContext(
        *answers(pin, *rows), intent=Intent(model="o/m"), bindings={"checkpoint": "hf:o/m@main"}
    )


def tree(*paths: str) -> tuple[Request, bytes]:
    """The file list of `o/m`."""
    return tree_request("o/m", SHA), json.dumps([{"path": p, "size": 9} for p in paths]).encode()


def shard(path: str, **tensors: Any) -> tuple[Request, bytes]:
    """A header of `o/m` with tensors name -> (dtype, shape, bytes)."""
    table, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        table[name.replace("__", ".")] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return header_request("o/m", SHA, path), json.dumps(table).encode()


def test_a_name_the_hub_does_not_know_leaves_everything_unknown_and_says_so() -> None:
    context = RecordedContext([], {}, intent=Intent(model="o/m"), bindings={"checkpoint": "hf:o/m@main"})
    assert (
        context.run(TASKS["checkpoint.headers"], repo="o/m")
        == "the commit of o/m@main is not known: not recorded"
    )
    assert not context.view.read("checkpoint.routed_experts").known


def test_one_unread_shard_proves_nothing_about_any_component() -> None:
    context = context_of(
        tree("m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"),
        shard("m-00001-of-00002.safetensors", lm_head__weight=("BF16", [4, 4], 32)),
    )
    said = context.run(TASKS["checkpoint.headers"], repo="o/m")
    assert said == "1 of 2 headers not read: not recorded"
    read = context.view.read("checkpoint.lm_head")
    assert (read.state, read.reason) == ("unknown", said)


def test_a_missing_shard_is_named() -> None:
    context = context_of(tree("m-00001-of-00002.safetensors"))
    said = context.run(TASKS["checkpoint.headers"], repo="o/m")
    assert said == "1 shards are missing at this commit, first m-00002-of-00002.safetensors"


def test_a_weight_file_the_index_does_not_name_is_not_part_of_the_checkpoint() -> None:
    index = json.dumps({"weight_map": {"lm_head.weight": "m-00001-of-00001.safetensors"}}).encode()
    context = context_of(
        tree("m-00001-of-00001.safetensors", "mtp.safetensors"),
        shard("m-00001-of-00001.safetensors", lm_head__weight=("BF16", [4, 4], 32)),
        shard("mtp.safetensors", mtp__0__x__weight=("BF16", [4, 4], 32)),
        (file_request("o/m", SHA, "model.safetensors.index.json"), index),
    )
    context.run(TASKS["checkpoint.headers"], repo="o/m")
    assert context.view.value("checkpoint.mtp.presence") == "absent"
    assert context.view.value("checkpoint.not_loaded") == ["mtp.safetensors"]


def test_only_gguf_is_said_and_not_taken_for_an_error() -> None:
    context = context_of(tree("m.gguf"))
    assert context.run(TASKS["checkpoint.headers"], repo="o/m") == "weights only as gguf"
    assert context.view.read("checkpoint.weights_bytes").reason == "weights only as gguf"


def test_a_header_that_lies_is_an_unknown_with_its_reason() -> None:
    context = context_of(tree("m.safetensors"), shard("m.safetensors", a__weight=("BF16", [4, 4], 31)))
    assert "says 31 bytes" in context.run(TASKS["checkpoint.headers"], repo="o/m")


def test_a_checkpoint_without_config_still_has_its_tensors() -> None:
    context = context_of(
        tree("m.safetensors"),
        shard("m.safetensors", model__layers__0__mlp__up_proj__weight=("BF16", [4, 4], 32)),
        (file_request("o/m", SHA, "config.json"), "missing"),
    )
    context.run(TASKS["checkpoint.headers"], repo="o/m")
    assert context.view.value("checkpoint.dense_mlp.format") == "bf16"
    assert context.view.read("checkpoint.architecture").state == "absent"


def test_no_base_model_means_no_list_of_siblings() -> None:
    context = context_of()
    assert (
        context.run(TASKS["checkpoint.siblings"], repo="o/m")
        == "neither the card nor the tags name a base model"
    )
    assert context.view.read("checkpoint.siblings").state == "unknown"


def test_the_recording_names_no_other_commit_than_the_pinned() -> None:
    observations, _ = recording()
    pinned = {r.sha for r in REPOSITORIES} | {"main", ""}
    assert {o.request.revision for o in observations} <= pinned
