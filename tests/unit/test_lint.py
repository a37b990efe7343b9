"""`recon lint`: launch lines in any text, flags by release, values, and what they do together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recon.tasks.knowledge.flag_table import flag_table
from recon.tasks.lint.checkpoint import Checkpoint, read_checkpoint
from recon.tasks.lint.command import main
from recon.tasks.lint.lines import launch_of, launches_in
from recon.tasks.lint.lint import Against, lint

SERVER = "python -m sglang.launch_server --model-path /m"


def codes(text: str, version: str = "", **against: object) -> list[tuple[str, str]]:
    """(severity, code) of all notes on a text."""
    linted = lint(launches_in(text), Against(version=version, **against))  # type: ignore[arg-type]
    return [(n.severity, n.code) for one in linted for n in one.notes]


def instead(text: str, version: str = "") -> list[str]:
    return [n.instead for one in lint(launches_in(text), Against(version=version)) for n in one.notes]


# ---- lines


@pytest.mark.parametrize(
    ("text", "kinds", "environment"),
    [
        (SERVER, ["server"], {}),
        ("CUDA_VISIBLE_DEVICES=0,1 HF_HOME=/h python3 -m sglang.launch_server --model-path /m", ["server"],
         {"CUDA_VISIBLE_DEVICES": "0,1", "HF_HOME": "/h"}),
        ("env A=b numactl --membind=0 /v/bin/python -m sglang.launch_server --model-path /m", ["server"], {"A": "b"}),
        ("exec sglang serve --model-path /m > log 2>&1 &", ["server"], {}),
        ("export A=b\nnohup python -m sglang.launch_server \\\n  --model-path /m \\\n  --port 1 &\n# it's a comment\nsglang-router --prefill http://a",
         ["server", "router"], {"A": "b"}),
        ("ExecStart=/v/bin/python -m sglang.launch_server --model-path /m\nEnvironment=X=1 \"Y=a b\"\n", ["server"], {}),
        ("Environment=X=1 \"Y=a b\"\nExecStart=-/v/bin/python -m sglang.launch_server --model-path /m", ["server"], {"X": "1", "Y": "a b"}),
        ("ExecStart={ path=/v/python ; argv[]=/v/python -m sglang.launch_server --model-path /m ; ignore_errors=no ; pid=7 }", ["server"], {}),
        ("docker run -e A=b image python3 -m sglang.launch_server --model-path /m", ["server"], {"A": "b"}),
        ("python -m sglang_router.launch_router --worker-urls http://a", ["router"], {}),
        ("smg launch --worker-urls http://a", ["router"], {}),
        ("ls -l; echo done", [], {}),
    ],
)  # fmt: skip
def test_launches_are_found_in_any_text(text: str, kinds: list[str], environment: Mapping[str, str]) -> None:
    found = launches_in(text)
    assert [one.kind for one in found] == kinds
    if found:
        assert found[0].environment == environment
        assert "sglang" not in " ".join(found[0].arguments)


def test_a_launch_knows_its_line_and_columns() -> None:
    found = launches_in("set -e\n\nsglang serve --model-path '/a b' --port 1\n")[0]
    assert found.at == 3
    column, width = found.column(1)
    assert found.shown[column : column + width] == "'/a b'"


def test_quotes_that_do_not_close_are_named_with_their_line() -> None:
    with pytest.raises(ValueError, match="line 2: no closing quotation"):
        launches_in("a\nsglang serve --model-path '/m")


# ---- flags by release


@pytest.mark.parametrize(
    ("arguments", "version", "expected"),
    [
        ("", "", []),
        ("--tp 4 --dp 2", "", []),
        ("--mem-fraction 0.8", "", [("warning", "abbreviated")]),
        ("--cuda-graph-max-bs 64", "", [("error", "ambiguous")]),
        ("--cuda-graph-max-bs 64", "0.5.11", []),
        ("--cuda-graph-max-bs 64", "0.5.15", [("warning", "deprecated")]),
        ("--nsa-prefill-backend fa3", "", [("error", "removed")]),
        ("--bf16-gemm-backend auto", "0.5.14", [("error", "too-new")]),
        ("--gpu-memory-utilization 0.9", "", [("error", "other-engine")]),
        ("--modle-path /x", "", [("error", "unknown")]),
        ("--enable-dp-attention --dp 2 --tp 2", "", [("warning", "deprecated")]),
        ("--quantization nvfp4", "", [("error", "choice")]),
        ("--disaggregation-mode decode --disaggregation-transfer-backend mooncake_tcp", "0.5.11", [("error", "choice-release")]),
        ("--tp four", "", [("error", "type")]),
        ("--port", "", [("error", "value")]),
        ("--trust-remote-code=1", "", [("error", "value")]),
        ("--port 1 2", "", [("error", "extra")]),
        ("--port $PORT --tp ${TP} --quantization '<method>'", "", []),
        ("--mem-fraction-static 1.2", "", [("error", "range")]),
        ("--help --nonsense", "", []),
    ],
)  # fmt: skip
def test_flags_and_values(arguments: str, version: str, expected: list[tuple[str, str]]) -> None:
    assert codes(f"{SERVER} {arguments}", version) == expected


def test_what_to_write_instead_is_said() -> None:
    assert instead(f"{SERVER} --nsa-prefill-backend fa3") == ["--dsa-prefill-backend"]
    assert instead(f"{SERVER} --cuda-graph-max-bs 64") == ["--cuda-graph-max-bs-decode"]
    assert instead(f"{SERVER} --quantization w4a16") == ["leave it out"]
    assert instead(f"{SERVER} --kv-cache-dtype fp8") == ["fp8_e4m3"]
    assert instead(f"{SERVER} --modle-loader-extra-config x") == ["--model-loader-extra-config"]


def test_a_model_path_is_needed_unless_a_file_may_name_it() -> None:
    assert codes("sglang serve --port 1") == [("error", "required")]
    assert codes("sglang serve --config c.yaml") == []


def test_a_version_between_releases_is_held_against_the_one_before() -> None:
    table = flag_table()
    assert table.release_for("0.5.12") == "0.5.12.post1"
    assert table.release_for("0.6.1") == table.newest
    assert table.release_for("0.5.11+cu130") == "0.5.11"
    assert table.release_for("0.4.9") is None and table.release_for("main") is None
    with pytest.raises(ValueError, match="the table begins with"):
        lint(launches_in(SERVER), Against(version="0.4.9"))


# ---- together


@pytest.mark.parametrize(
    ("arguments", "against", "expected"),
    [
        ("--tp 4 --numa-node 1 1 1 1 --base-gpu-id 4", {}, [("error", "numa-list")]),
        ("--tp 4 --numa-node 0 0 0 0 1 1 1 1 --base-gpu-id 4", {}, []),
        ("--tp 4 --numa-node 0 0", {}, [("error", "numa-list")]),
        ("--moe-runner-backend flashinfer_trtllm", {"sm": "sm_120"}, [("error", "gpu")]),
        ("--moe-runner-backend flashinfer_trtllm", {"sm": "sm_100"}, []),
        ("--attention-backend fa3", {"sm": "sm_120"}, [("error", "gpu")]),
        ("--attention-backend fa3", {"sm": "sm_90"}, []),
        ("--disaggregation-ib-device mlx5_0", {}, [("warning", "no-role")]),
        ("--disaggregation-mode prefill --disaggregation-ib-device mlx5_0", {"rdma": False}, [("error", "ib-device")]),
        ("--disaggregation-mode prefill", {"rdma": False}, [("error", "no-rdma")]),
        ("--disaggregation-mode prefill", {"rdma": True}, []),
        ("--disaggregation-mode prefill --disaggregation-transfer-backend mooncake_tcp", {"rdma": False}, []),
        ("--disaggregation-mode prefill --disaggregation-transfer-backend fake", {}, [("error", "fake-prefill")]),
        ("--disaggregation-mode prefill --disaggregation-decode-extra-slots 2", {}, [("warning", "other-role")]),
        ("--speculative-num-steps 3", {}, [("warning", "no-algorithm")]),
        ("--speculative-algorithm EAGLE", {"checkpoint": Checkpoint("fp8", "absent", "no index entry")}, [("error", "no-mtp")]),
        ("--speculative-algorithm EAGLE", {"checkpoint": Checkpoint("fp8", "present")}, []),
        ("--quantization modelopt_fp4", {"checkpoint": Checkpoint("compressed-tensors")}, [("error", "quantization")]),
        ("--quantization modelopt_fp4", {"checkpoint": Checkpoint("fp8")}, []),
        ("--quantization gptq_marlin", {"checkpoint": Checkpoint("gptq")}, []),
        ("--tp 4 --ep 3", {}, [("error", "ep-size")]),
        ("--disable-radix-cache --enable-hierarchical-cache", {}, [("warning", "contradiction")]),
    ],
)  # fmt: skip
def test_combinations(arguments: str, against: dict[str, object], expected: list[tuple[str, str]]) -> None:
    assert codes(f"{SERVER} {arguments}", **against) == expected


def test_more_gpus_than_are_visible() -> None:
    assert codes(f"CUDA_VISIBLE_DEVICES=0,1,2,3 {SERVER} --tp 4 --base-gpu-id 4") == [("error", "gpus")]
    assert codes(f"CUDA_VISIBLE_DEVICES=4,5,6,7 {SERVER} --tp 4") == []


PREFILL = f"{SERVER} --disaggregation-mode prefill --port 30000"
DECODE = f"{SERVER} --disaggregation-mode decode --port 30001"


@pytest.mark.parametrize(
    ("prefill", "decode", "expected"),
    [
        ("", "", []),
        ("--page-size 64", "--page-size 32", [("error", "parity")]),
        ("--page-size 64", "", [("error", "parity")]),
        ("--tp 4", "--tp 8", [("warning", "parity-tp")]),
        ("--kv-cache-dtype fp8_e4m3", "--kv-cache-dtype bf16", [("error", "parity")]),
        ("--port 7", "--port 7", [("error", "port")]),
    ],
)  # fmt: skip
def test_prefill_and_decode_have_to_agree(prefill: str, decode: str, expected: list[tuple[str, str]]) -> None:
    assert codes(f"{PREFILL} {prefill} &\n{DECODE} {decode}") == expected


def test_a_router_wants_workers_of_both_roles() -> None:
    router = "python -m sglang_router.launch_router"
    assert codes(f"{router} --pd-disaggregation --prefill http://a:1 --decode http://b:2") == []
    assert codes(f"{router} --pd-disaggregation --prefill http://a:1") == [("error", "router")]
    assert codes(f"{router} --prefill http://a:1 --decode http://b:2") == [("warning", "router")]
    assert codes(f"{router} --policy best") == [("error", "choice")]


# ---- checkpoints


@pytest.mark.parametrize(
    ("files", "method", "mtp"),
    [
        ({"config.json": {"quantization_config": {"quant_method": "compressed-tensors"}}}, "compressed-tensors", "unknown"),
        ({"config.json": {"text_config": {"quantization_config": {"quant_method": "fp8"}}}}, "fp8", "unknown"),
        ({"config.json": {}, "hf_quant_config.json": {"quantization": {"quant_algo": "NVFP4"}}}, "modelopt_fp4", "unknown"),
        ({"config.json": {"quantization_config": {"quant_algo": "FP8"}}}, "modelopt_fp8", "unknown"),
        ({"config.json": {"num_nextn_predict_layers": 1, "num_hidden_layers": 2},
          "model.safetensors.index.json": {"weight_map": {"model.layers.0.a.weight": "f"}}}, "", "absent"),
        ({"config.json": {"num_nextn_predict_layers": 1, "num_hidden_layers": 2},
          "model.safetensors.index.json": {"weight_map": {"model.layers.2.a.weight": "f"}}}, "", "present"),
        ({"config.json": {}, "model.safetensors.index.json": {"weight_map": {"mtp.0.a.weight": "f"}}}, "", "present"),
    ],
)  # fmt: skip
def test_what_a_checkpoint_folder_says(
    tmp_path: Path, files: Mapping[str, object], method: str, mtp: str
) -> None:
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value))
    found = read_checkpoint(tmp_path)
    assert (found.method, found.mtp) == (method, mtp)


def test_a_folder_without_a_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no config\.json that can be read"):
        read_checkpoint(tmp_path)


# ---- the command


def test_json_names_the_word_and_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        [
            "--format",
            "json",
            "--gpu",
            "RTX PRO 6000",
            "--",
            *SERVER.split(),
            "--moe-runner-backend",
            "flashinfer_trtllm",
        ]
    )
    document = json.loads(capsys.readouterr().out)
    assert (code, document["schema"], document["errors"]) == (1, "recon.lint/1", 1)
    note = document["launches"][0]["notes"][0]
    assert (note["code"], note["word"]) == ("gpu", "--moe-runner-backend") and note["source"]


def test_text_marks_the_word_within_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", *SERVER.split(), "--quantization", "nvfp4"]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if "^" in line)
    column = lines[at].index("^")
    assert lines[at - 1][column : column + lines[at].count("^")] == "nvfp4"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no launch line"),
        (["--", "ls"], "no launch line"),
        (["--gpu", "voodoo2", "--", *SERVER.split()], "no GPU that is known"),
        (["--engine-version", "x", "--", *SERVER.split()], "not known"),
        (["--model", "/no/such", "--", *SERVER.split()], "config.json"),
    ],
)
def test_bad_usage_is_said(arguments: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        main(arguments)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        lint(launches_in(f"sglang serve --model-path /m {text}"), Against())
    except ValueError as error:
        assert str(error)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_any_arguments_are_read(words: list[str]) -> None:
    launch = launch_of(["sglang", "serve", *words])
    assert launch is not None
    for note in lint([launch], Against())[0].notes:
        if note.argument is not None:
            column, width = launch.column(note.argument)
            assert column + width <= len(launch.shown)
