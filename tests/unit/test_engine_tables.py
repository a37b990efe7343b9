"""What recon knows of the engine by release, and what it does not claim to know."""

from __future__ import annotations

import pytest

from recon.tasks.knowledge import engine_tables as tables


def test_the_tables_end_with_the_newest_release_that_was_read() -> None:
    assert tables.releases()[-1] == tables.TABLE_VERSION
    assert tables.release(tables.TABLE_VERSION) is not None


@pytest.mark.parametrize(
    ("arch", "release"),
    [
        ("DeepseekV4ForCausalLM", "0.5.12"),
        ("DeepseekV3ForCausalLM", "0.5.9"),
        ("HYV4ForCausalLM", "0.5.20"),
        ("NoSuchForCausalLM", None),
    ],
)
def test_the_first_release_with_an_architecture(arch: str, release: str | None) -> None:
    row = tables.first_release_with_architecture(arch)
    assert (row.release if row else None) == release


def test_the_oldest_release_read_is_no_proof_of_a_beginning() -> None:
    row = tables.first_release_with_architecture("DeepseekV3ForCausalLM")
    assert row is not None and not row.exact and "may be older" in row.note


@pytest.mark.parametrize(
    ("sm", "release"), [("sm_120", "0.5.13"), ("sm_121", "0.5.13"), ("sm_90", "0.5.12"), ("sm_89", None)]
)
def test_the_first_release_with_a_path_on_a_gpu(sm: str, release: str | None) -> None:
    row = tables.first_release_with_architecture_on("DeepseekV4ForCausalLM", sm)
    assert (row.release if row else None) == release


def test_nothing_is_said_of_other_architectures_on_a_gpu() -> None:
    assert tables.first_release_with_architecture_on("LlamaForCausalLM", "sm_120") is None


@pytest.mark.parametrize(
    ("name", "release", "rdma"),
    [("mooncake", None, True), ("mooncake_tcp", "0.5.13", False), ("nixl", None, False)],
)
def test_transfer_backends(name: str, release: str | None, rdma: bool) -> None:
    row = tables.transfer_backend(name)
    assert row is not None and (row.min_release, row.needs_rdma) == (release, rdma)
    assert row.package in row.packages


def test_the_flag_offers_the_transfer_backends_of_the_table() -> None:
    flag = tables.flag("--disaggregation-transfer-backend")
    assert flag is not None and set(flag.choices) >= {row.backend for row in tables._TRANSFER}


@pytest.mark.parametrize(
    ("fmt", "sm", "release", "backend"),
    [
        ("w4a16-int4", "sm_120", "0.5.13", "marlin"), ("w4a16-int4", "sm_100", "0.5.18", "marlin"), ("w4a16-int4", "sm_100", "0.5.19", "triton"),
        ("nvfp4", "sm_120", "0.5.23", "flashinfer_cutlass"), ("nvfp4", "sm_90", "0.5.23", "marlin"), ("mxfp4", "sm_120", "0.5.12", None),
        ("mxfp4", "sm_120", "0.5.15.post1", "marlin"), ("mxfp4", "sm_120", "0.5.16", "flashinfer_mxfp4"), ("mxfp4", "sm_120", "", "flashinfer_mxfp4"),
        ("fp8-block128", "sm_120", "0.5.20", "triton"), ("fp8-block128", "sm_90", "0.5.20", "deep_gemm"), ("gguf", "sm_120", "0.5.20", None),
        ("bf16", "sm_999", "0.5.20", None),
    ],
)  # fmt: skip
def test_expert_backends(fmt: str, sm: str, release: str, backend: str | None) -> None:
    row = tables.moe_backend(fmt, sm, release)
    assert (row.backend if row else None) == backend


@pytest.mark.parametrize(
    ("fmt", "sm", "backend"),
    [
        ("fp8-block128", "sm_120", "cutlass"),
        ("fp8-block128", "sm_90", "deep_gemm"),
        ("fp8-block128", "sm_89", "triton"),
        ("nvfp4", "sm_100", "flashinfer_cutedsl"),
        ("bf16", "sm_120", "torch"),
    ],
)
def test_gemm_backends(fmt: str, sm: str, backend: str) -> None:
    row = tables.gemm_backend(fmt, sm, "0.5.23")
    assert row is not None and row.backend == backend


def test_a_row_says_itself_whether_its_backend_reads_tuning_files() -> None:
    for row in (*tables._MOE, *tables._GEMM):
        assert row.reads_tuning == tables.reads_tuning_files(row.backend), row.row


def test_named_expert_backends_are_choices_of_the_flag() -> None:
    flag = tables.flag("--moe-runner-backend")
    assert flag is not None and {row.backend for row in tables._MOE} <= set(flag.choices)


def test_tuning_files_belong_to_one_edition_of_a_card() -> None:
    counts = [
        tables.tuning_file_counts(f"NVIDIA RTX PRO 6000 Blackwell {edition} Edition")
        for edition in ("Server", "Max-Q Workstation", "Workstation")
    ]
    assert counts == [{"moe": 2, "gemm": 0}, {"moe": 4, "gemm": 0}, {"moe": 0, "gemm": 0}]
    assert tables.tuning_files("NVIDIA H200") == 113


@pytest.mark.parametrize(
    ("values", "base", "processes", "crashes"),
    [
        ([1, 1, 1, 1], 4, None, True), ([1, 1, 1, 1], 4, 4, True), ([0, 0, 0, 0], 0, None, False), ([0, 0, 0, 0, 1, 1, 1, 1], 4, 4, False),
        ([1, 1], 1, None, True), ([], 4, None, False),
    ],
)  # fmt: skip
def test_the_numa_list_is_indexed_by_gpu_number(
    values: list[int], base: int, processes: int | None, crashes: bool
) -> None:
    assert tables.numa_node_flag_crashes(values, base, processes) is crashes


def test_flags_by_release() -> None:
    old = tables.flag("--cuda-graph-max-bs")
    assert old is not None and old.in_release("0.5.13") and not old.in_release("0.5.20")
    new = tables.flag("--bf16-gemm-backend")
    assert (
        new is not None
        and not new.in_release("0.5.14")
        and new.in_release("0.5.15")
        and new.in_release("0.6.0")
    )
    alias = tables.flag("--attention-data-parallel-size")
    assert alias is not None and (alias.alias_of, alias.default) == ("--attn-dp-size", 1)
    assert tables.flag("--no-such-flag") is None


def test_traps_say_for_which_releases_they_were_seen() -> None:
    trap = tables.limit("mixed-precision-int-experts")
    assert trap is not None
    assert [tables.applies(trap, v) for v in ("0.5.11", "0.5.12.post1", "0.5.23", "0.6.0")] == [
        False,
        True,
        True,
        False,
    ]


def test_a_row_can_be_cited() -> None:
    row = tables.transfer_backend("mooncake_tcp")
    assert row is not None
    draft = row.draft()
    assert (draft.name, draft.level) == ("transfer.mooncake_tcp", "declared")
    assert draft.locator.startswith("transfer, mooncake_tcp: ") and "read from sglang 0.5.23" in draft.locator
    assert draft.value["min_release"] == "0.5.13"


def test_every_row_has_a_source() -> None:
    rows = (
        *tables._CURATED,
        *(m for _, _, m in tables._ON_GPU),
        *tables._TRANSFER,
        *tables._MOE,
        *tables._GEMM,
        *tables._LIMITS,
        *tables._RELEASES,
    )
    assert all(row.source and row.read_from for row in rows)
