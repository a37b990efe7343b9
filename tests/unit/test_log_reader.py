"""`recon inspect log`: real logs of SGLang, line formats by release, and any text at all."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recon.tasks.inspect.log import main
from recon.tasks.logs.reader import MAX_LINE, read_log

ROOT = Path(os.environ.get("RECON_CORPUS", "")) / "logs"
needs_corpus = pytest.mark.skipif(
    "RECON_CORPUS" not in os.environ, reason="RECON_CORPUS names no corpus folder"
)
FOLDERS = sorted(p.parent for p in ROOT.glob("*/facts.json")) if "RECON_CORPUS" in os.environ else []
NUMBERS = (
    "weights_mem_gb_per_rank",
    "kv_tokens",
    "kv_gb",
    "avail_mem_after_gb",
    "cuda_graph_gb",
    "max_total_num_tokens",
)
# Which kind of cause each failing log has; only this test knows.
CAUSES = {
    "a100-fp8-kv-refused-at-capture": "fp8-before-hopper", "deepseek-v3-arch-hidden-by-import-error": "hidden-import",
    "deepseek-v3-fp8-w8a8-dcu-tp8-moe-config-key": "moe-config", "deepseek-v4-pro-h200-f088-too-low": "fraction-too-low",
    "deepseek-v4-pro-h200-pd-window-pool-cap": "window-pool-cap", "eagle-tp4-pool-1741-tokens-loader-garbage": "pool-too-small",
    "gb10-sm121a-no-kernel-image-0.5.10": "no-kernel-image", "gemma3-27b-4bit-4090-not-enough-memory": "not-enough-memory",
    "gemma4-nvfp4-transformers-fallback": "fallback-failed", "glm5-fp8-mi355x-tp8-pool-overshoots-budget": "attention-backend",
    "gpt-oss-20b-2x5060ti-ptxas-sm120a": "ptxas-target", "mooncake-no-usable-rnic-gid": "rdma-no-device",
    "pd-deepseek-r1-mooncake-session-dead": "pd-session-dead", "pd-gpt-oss-120b-nixl-tp1-to-tp4": "pd-tp-hybrid",
    "pd-mooncake-aborted-after-warmup": "pd-transfer", "pd-page-size-64-against-32": "pd-page-size",
    "rtx5090-ptxas-sm120-unknown": "ptxas-target",
}  # fmt: skip
# Two ranks end with two figures; recon takes the lowest rank's, the truth of this log the last one printed.
OTHER_RANK = {("qwen38-27b-nvfp4-2x5090-dflash", "avail_mem_after_gb")}


def read(folder: Path) -> dict[str, Any]:
    with (folder / "log.txt").open(errors="replace") as lines:
        return read_log(lines).document()


def held(folder: Path, number: float) -> bool:
    """Whether a log holds a number, as it is or as two halves."""
    text = (folder / "log.txt").read_text(errors="replace")
    words = {f"{n:{form}}" for n in (number, number / 2) for form in ("g", ".2f")}
    return any(re.search(rf"(?<![\d.,]){re.escape(word)}(?![\d.])", text) for word in words)


@needs_corpus
def test_every_number_that_a_log_holds_is_read_and_none_is_invented(
    capsys: pytest.CaptureFixture[str],
) -> None:
    right, missing = 0, []
    for folder in FOLDERS:
        truth, found = json.loads((folder / "facts.json").read_text())["observed"], read(folder)["observed"]
        for name in NUMBERS:
            if (folder.name, name) in OTHER_RANK:
                continue
            if found[name] is None and truth[name] is not None and not held(folder, truth[name]):
                missing.append(f"{folder.name} {name}")
                continue
            if found[name] is None and truth[name] is not None and name == "max_total_num_tokens":
                missing.append(f"{folder.name} {name}")  # printed under another name only
                continue
            assert found[name] == truth[name], (folder.name, name)
            right += truth[name] is not None
    with capsys.disabled():
        print(
            f"\n{len(FOLDERS)} logs: {right} numbers read, 0 wrong, {len(missing)} that stand outside the log"
        )
    assert right >= 115


@needs_corpus
def test_the_cause_of_every_failing_log_is_found_and_no_healthy_log_has_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = 0
    for folder in FOLDERS:
        truth, document = json.loads((folder / "facts.json").read_text()), read(folder)
        assert document["healthy"] == truth["healthy"], folder.name
        codes = [cause["code"] for cause in document["causes"]]
        if truth["observed"]["fatal_cause"]:
            found += codes[:1] == [CAUSES[folder.name]]
        else:
            assert codes == [], folder.name
    with capsys.disabled():
        print(
            f"\n{found} of {len(CAUSES)} causes found, {len(FOLDERS)} of {len(FOLDERS)} logs told healthy or not as they are"
        )
    assert found >= 0.9 * len(CAUSES)


@needs_corpus
def test_lines_that_load_garbage_are_kept() -> None:
    for folder in FOLDERS:
        silent = json.loads((folder / "facts.json").read_text())["observed"]["silent_corruption_lines"]
        assert bool(read(folder)["observed"]["silent_corruption_lines"]) == bool(silent), folder.name


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("KV Cache is allocated. K size: 27.13 GB, V size: 27.13 GB.", "kv_gb", 54.26),
        ("[2026-05-08 14:34:32 TP0] KV Cache is allocated. #tokens: 2659072, KV size: 87.01 GB", "kv_gb", 87.01),
        ("    [x TP3 EP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 12, K size: 1.00 GB, V size: 0.50 GB", "kv_tokens", 12),
        ("0%|   | 0/3 [00:00<?, ?it/s][2026-01-01 00:00:00] Load weight end. avail mem=1 GB, mem usage=15.02 GB.", "weights_mem_gb_per_rank", 15.02),
        ("Capture cuda graph end. Time elapsed: 7.23 s. avail mem=0.53 GB. mem usage=0.93 GB.", "cuda_graph_gb", 0.93),
        ("Capture target decode CUDA graph end. elapsed=1 s, mem usage=0.79 GB, avail mem=10.39 GB.", "avail_mem_after_gb", 10.39),
        ("max_total_num_tokens=46611, chunked_prefill_size=2048", "max_total_num_tokens", 46611),
    ],
)  # fmt: skip
def test_line_formats_of_the_releases(line: str, name: str, value: float) -> None:
    assert read_log([line]).document()["observed"][name] == value


def test_a_draft_that_shares_the_head_does_not_replace_the_target() -> None:
    lines = ["Load weight end. mem usage=82.97 GB.", "Load weight end. type=XMTP, mem usage=-1.86 GB."]
    assert read_log(lines).document()["observed"]["weights_mem_gb_per_rank"] == 82.97


def test_ready_is_not_success() -> None:
    lines = ["x not found in params_dict.", "The server is fired up and ready to roll!"]
    document = read_log(lines).document()
    assert (document["ready"], document["healthy"]) == (True, False)
    assert "ready but unusable" in {f["name"] for f in document["findings"]}


def test_an_error_that_no_row_knows_is_told_as_it_stands() -> None:
    lines = [
        "Scheduler hit an exception: Traceback (most recent call last):",
        "  File x",
        "WeirdError: the frobnicator is gone",
    ]
    assert read_log(lines).document()["causes"][0]["cause"] == "WeirdError: the frobnicator is gone"


def test_the_command_prints_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"\x1b[31mNot enough memory. Please try to increase --mem-fraction-static.\x1b[0m \xff\n")
    assert main([str(log), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["causes"][0]["code"] == "not-enough-memory"
    assert main([str(log)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("FAILED\n") and "\x1b" not in out and max(map(len, out.splitlines())) <= 80
    with pytest.raises(ValueError, match="No such file"):
        main([str(tmp_path / "none")])


@given(st.lists(st.text(max_size=300), max_size=20))
def test_any_text_is_read(lines: list[str]) -> None:
    json.dumps(read_log(lines).document())


def test_a_line_of_megabytes_is_cut() -> None:
    document = read_log(["KeyError: " + "x" * (5 << 20)]).document()
    assert len(document["causes"][0]["evidence"]) <= MAX_LINE
