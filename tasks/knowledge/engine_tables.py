"""What is known about SGLang by release: architectures, GPU paths, backends, KV transfer, tuning files, flags, traps.

A judge that cites a row puts `row.draft()` on the subject `knowledge:sglang`. The newest release that was read is
TABLE_VERSION: for a newer engine the tables warn and never block.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from recon.agent.api import Json
from recon.tasks.knowledge.engine_rows import (
    SUBJECT,
    TABLE_VERSION,
    Backend,
    Flag,
    Limit,
    Milestone,
    Proof,
    Release,
    Row,
    Transfer,
    version_key,
)  # fmt: skip
from recon.tasks.knowledge.flag_table import SOURCE, flag_table
from recon.tasks.knowledge.numa_list import numa_node_flag_crashes

# ---- architectures

_SM120: Final = ("sm_120", "sm_121")
# Written by hand where a release note or thread names the release, also one that was not read itself.
_CURATED: Final = (
    Milestone(
        row="DeepseekV4ForCausalLM", release="0.5.12", read_from="0.5.12.post1",
        source="srt/models/deepseek_v4.py; https://github.com/sgl-project/sglang/pull/23882",
    ),
    Milestone(
        row="DeepseekV4ForCausalLMNextN", release="0.5.12", read_from="0.5.12.post1",
        source="srt/models/deepseek_v4_nextn.py; https://github.com/sgl-project/sglang/pull/23882",
    ),
)  # fmt: skip
# (architectures by their first letters, GPU generations, milestone or why not)
_ON_GPU: Final[tuple[tuple[str, tuple[str, ...], Milestone], ...]] = (
    (
        "DeepseekV4", _SM120,
        Milestone(
            row="DeepseekV4 on sm_120", release="0.5.13", read_from="0.5.13.post1",
            source="srt/layers/attention/flash_mla_sm120.py and the Marlin default for its experts appear",
            note="before it attention and experts have kernels for SM90 and SM100 only",
        ),
    ),
    (
        "DeepseekV4", ("sm_90", "sm_100", "sm_103"),
        Milestone(
            row="DeepseekV4 on sm_90 and sm_100", release="0.5.12", read_from="0.5.12.post1",
            source="https://github.com/sgl-project/sglang/pull/23882 and 23686",
        ),
    ),
)  # fmt: skip


@cache
def _data(name: str) -> Json:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def releases() -> tuple[str, ...]:
    """The releases that architectures and flags were read from, oldest first."""
    return tuple(_data("sglang_architectures.json")["releases"])


def first_release_with_architecture(arch: str) -> Milestone | None:
    """The first release that offers a model class of this name; None where no release read does."""
    for row in _CURATED:
        if row.row == arch:
            return row
    data = _data("sglang_architectures.json")
    found = data["architectures"].get(arch)
    if found is None:
        return None
    oldest = found["first"] == data["releases"][0]
    return Milestone(
        row=arch, release=found["first"], read_from=found["first"], source=data["source"], exact=not oldest,
        note="in the oldest release that was read; it may be older" if oldest else "",
    )  # fmt: skip


def first_release_with_architecture_on(arch: str, sm: str) -> Milestone | None:
    """The first release with a path for the architecture on a GPU generation (`sm_120`); None where no row says."""
    return next((row for start, sms, row in _ON_GPU if arch.startswith(start) and sm in sms), None)


# ---- KV transfer

_MOONCAKE: Final = (
    "mooncake-transfer-engine",
    "mooncake-transfer-engine-cuda13",
    "mooncake-transfer-engine-non-cuda",
)
_TRANSFER: Final = (
    Transfer(
        row="mooncake", backend="mooncake", min_release=None, needs_rdma=True, package="mooncake-transfer-engine", packages=_MOONCAKE,
        source="srt/disaggregation/mooncake; https://github.com/kvcache-ai/Mooncake/issues/1811",
        note="RDMA was hard-coded before 0.5.13; on one host it still looks for an RDMA device first",
    ),
    Transfer(
        row="mooncake_tcp", backend="mooncake_tcp", min_release="0.5.13", needs_rdma=False, package="mooncake-transfer-engine",
        packages=_MOONCAKE, source="a choice of --disaggregation-transfer-backend from 0.5.13 on; sets MC_FORCE_TCP=1",
        note="copies through host memory; failures on a single host are reported (Mooncake 519, 872)",
    ),
    Transfer(
        row="nixl", backend="nixl", min_release=None, needs_rdma=False, package="nixl", packages=("nixl", "nixl-cu12", "nixl-cu13"),
        source="srt/disaggregation/nixl; https://github.com/sgl-project/sglang/issues/23489 and 35189",
        note="UCX picks the path; crashes with two engines on one host are reported",
    ),
    Transfer(
        row="mori", backend="mori", min_release=None, needs_rdma=True, package="", hardware="AMD",
        source="a choice of --disaggregation-transfer-backend",
    ),
    Transfer(
        row="ascend", backend="ascend", min_release=None, needs_rdma=False, package="memfabric-hybrid", packages=("memfabric-hybrid",),
        hardware="Ascend", source="a choice of --disaggregation-transfer-backend",
    ),
)  # fmt: skip


def transfer_backend(name: str) -> Transfer | None:
    """The row of a KV transfer backend, None for one that is not known."""
    return next((row for row in _TRANSFER if row.backend == name), None)


# ---- kernel backends. The last row of a format and GPU whose `since` is not after the release wins.

_HOPPER_UP: Final = ("sm_90", "sm_100", "sm_103")
_SM100: Final = ("sm_100", "sm_103")
_OLD: Final = ("sm_80", "sm_86", "sm_87", "sm_89")
_ALL: Final = (*_OLD, *_HOPPER_UP, "sm_110", *_SM120)
_FP8_WIDE: Final = ("fp8-tensor", "fp8-channel")
_FLOATS: Final = ("bf16", "fp16", "fp32")
_CT_MOE: Final = "layers/quantization/compressed_tensors: scheme choice for fused experts"
_OVERRIDES: Final = "arg_groups/overrides.py and model_overrides: backend choice by GPU"
_FP8_AUTO: Final = "layers/quantization/fp8_utils.py: automatic choice of the FP8 GEMM"
_FP4_AUTO: Final = "--fp4-gemm-backend auto, resolved by GPU"

_MOE: Final = (
    Backend(row="INT weights", backend="marlin", formats=("w4a16-int4", "w8a16-int8"), sms=_ALL, source=_CT_MOE, proof="run"),
    Backend(
        row="INT weights on SM100", backend="triton", formats=("w4a16-int4",), sms=_SM100, since="0.5.19", reads_tuning=True,
        source=_CT_MOE,
    ),
    Backend(row="NVFP4 weight-only", backend="marlin", formats=("nvfp4-w4a16",), sms=_ALL, source=_CT_MOE),
    Backend(row="NVFP4 before SM100", backend="marlin", formats=("nvfp4",), sms=(*_OLD, "sm_90"), source=_CT_MOE),
    Backend(row="NVFP4 on SM100", backend="flashinfer_trtllm", formats=("nvfp4",), sms=_SM100, source=_OVERRIDES, proof="inferred"),
    Backend(
        row="NVFP4 on SM120", backend="flashinfer_cutlass", formats=("nvfp4",), sms=("sm_110", *_SM120), source=_OVERRIDES,
        note="wrong results on SM120 are reported: https://github.com/flashinfer-ai/flashinfer/issues/2723",
    ),
    Backend(row="MXFP4", backend="flashinfer_mxfp4", formats=("mxfp4",), sms=_HOPPER_UP, source=_OVERRIDES),
    Backend(row="MXFP4 on SM120", backend="marlin", formats=("mxfp4",), sms=_SM120, since="0.5.13", source=_OVERRIDES),
    Backend(
        row="MXFP4 on SM120 from 0.5.16", backend="flashinfer_mxfp4", formats=("mxfp4",), sms=_SM120, since="0.5.16",
        source="https://github.com/sgl-project/sglang/pull/30272",
    ),
    Backend(row="FP8 blocks", backend="deep_gemm", formats=("fp8-block128",), sms=_HOPPER_UP, source=_OVERRIDES, proof="inferred"),
    Backend(
        row="FP8 blocks without DeepGEMM", backend="triton", formats=("fp8-block128",), sms=("sm_89", "sm_110", *_SM120),
        reads_tuning=True, source="https://github.com/sgl-project/sglang/issues/18870", proof="report",
    ),
    Backend(
        row="FP8, INT8 and unquantized", backend="triton", formats=(*_FP8_WIDE, "w8a8-int8", "int8-block128", *_FLOATS), sms=_ALL,
        reads_tuning=True, source="layers/moe/moe_runner/triton_utils", proof="inferred",
    ),
)  # fmt: skip
_GEMM: Final = (
    Backend(row="FP8 blocks", backend="deep_gemm", formats=("fp8-block128",), sms=_HOPPER_UP, source=_FP8_AUTO),
    Backend(row="FP8 blocks on SM120", backend="cutlass", formats=("fp8-block128",), sms=_SM120, source=_FP8_AUTO),
    Backend(row="FP8 blocks elsewhere", backend="triton", formats=("fp8-block128",), sms=("sm_89", "sm_110"), reads_tuning=True, source=_FP8_AUTO),
    Backend(
        row="FP8 weight-only", backend="marlin", formats=("fp8-block128", *_FP8_WIDE), sms=("sm_80", "sm_86", "sm_87"), source=_FP8_AUTO,
    ),
    Backend(
        row="FP8 per tensor and channel", backend="cutlass", formats=_FP8_WIDE, sms=("sm_89", *_HOPPER_UP, "sm_110", *_SM120),
        source=_FP8_AUTO, proof="inferred",
    ),
    Backend(row="NVFP4 on SM100", backend="flashinfer_cutedsl", formats=("nvfp4",), sms=_SM100, source=_FP4_AUTO),
    Backend(row="NVFP4 on SM120", backend="flashinfer_cutlass", formats=("nvfp4",), sms=_SM120, source=_FP4_AUTO),
    Backend(row="NVFP4 before SM100", backend="marlin", formats=("nvfp4",), sms=(*_OLD, "sm_90"), source=_FP4_AUTO),
    Backend(
        row="INT and NVFP4 weight-only", backend="marlin", formats=("w4a16-int4", "w8a16-int8", "nvfp4-w4a16"), sms=_ALL,
        source="layers/quantization/compressed_tensors: scheme choice for linears",
    ),
    Backend(row="INT8", backend="cutlass", formats=("w8a8-int8",), sms=_ALL, source="layers/quantization/w8a8_int8.py", proof="inferred"),
    Backend(row="INT8 blocks", backend="triton", formats=("int8-block128",), sms=_ALL, reads_tuning=True, source="layers/quantization/blockwise_int8.py"),
    Backend(row="unquantized", backend="torch", formats=_FLOATS, sms=_ALL, source="--bf16-gemm-backend auto"),
)  # fmt: skip
_READERS: Final = frozenset({"triton"})


def moe_backend(fmt: str, sm: str, engine_version: str = "") -> Backend | None:
    """The backend for routed experts of a format on a GPU; None where no row says. "" means the newest release."""
    return _backend(_MOE, fmt, sm, engine_version)


def gemm_backend(fmt: str, sm: str, engine_version: str = "") -> Backend | None:
    """The backend for linear layers of a format on a GPU; None where no row says. "" means the newest release."""
    return _backend(_GEMM, fmt, sm, engine_version)


def _backend(rows: Sequence[Backend], fmt: str, sm: str, release: str) -> Backend | None:
    at = version_key(release or TABLE_VERSION)
    fitting = [
        r
        for r in rows
        if fmt in r.formats and sm in r.sms and (r.since is None or version_key(r.since) <= at)
    ]
    return fitting[-1] if fitting else None


def reads_tuning_files(backend: str) -> bool:
    """Whether a backend looks for JSON tuning files at all; the others never open one."""
    return backend in _READERS


def tuning_files(device_name: str) -> int:
    """How many tuning files the newest release ships for a device, by the exact name that torch gives it."""
    return sum(tuning_file_counts(device_name).values())


def tuning_file_counts(device_name: str) -> dict[str, int]:
    """The same by kind: `moe` (fused experts), `gemm` (block-quantized linears). Editions of a card share nothing."""
    found = _data("sglang_tuning_files.json")["devices"].get(device_name.strip().replace(" ", "_"), {})
    return {"moe": int(found.get("moe", 0)), "gemm": int(found.get("gemm", 0))}


# ---- flags


def flag(name: str) -> Flag | None:
    """A command-line flag by its long name, None for one that no release read has."""
    spans = flag_table().history(name)
    if not spans:
        return None
    newest = spans[-1]
    return Flag(
        row=name, source=SOURCE, read_from=newest.last, first=spans[0].first, last=newest.last,
        default=newest.default, choices=newest.choices or (), alias_of=newest.name if newest.name != name else None,
        deprecated_from=next((s.first for s in spans if s.deprecated), None),
    )  # fmt: skip


NUMA_NODE: Final = Limit(
    row="numa-node-index", proof="run", first="0.5.9",
    source="srt/utils/numa_utils.py: the list is indexed by the GPU number, though its help says by subprocess",
    says="--numa-node must have a value for every GPU number up to the highest one used, also with --base-gpu-id",
)  # fmt: skip


# ---- traps

_LIMITS: Final = (
    Limit(
        row="mixed-precision-int-experts", proof="run", first="0.5.12",
        source="schemes/compressed_tensors_wNa16_moe.py; https://github.com/sgl-project/sglang/issues/16276",
        says="compressed-tensors with top-level format mixed-precision and INT experts raises while loading",
    ),
    Limit(
        row="deepseek-v4-scale-names", proof="inferred", first="0.5.12", source="srt/models/deepseek_v4.py: fused attention loader",
        says="FP8 attention scales named weight_scale are not loaded: warnings, then garbage text, no crash",
    ),
    Limit(
        row="deepseek-v4-hybrid-nvfp4", proof="inferred", first="0.5.14", source="arg_groups/model_overrides/deepseek_v4.py",
        says="hybrid FP8 with NVFP4 experts forces flashinfer_trtllm_routed, kernels of SM100 only, on every GPU",
    ),
    Limit(
        row="pd-warm-up", source="srt/disaggregation: warm-up uses a fake bootstrap address",
        says="'ready to roll' does not prove that KV is transferred: only a request through the router does",
    ),
    Limit(
        row="pd-equal-tp", source="srt/disaggregation/common/conn.py",
        says="hybrid models (sliding window, Mamba, V4 state) need the same tensor-parallel size on both roles",
    ),
    Limit(
        row="nvidia-smi-memory", source="arg_groups/memory_hook.py",
        says="the automatic memory fraction takes the smallest GPU of the host and ignores CUDA_VISIBLE_DEVICES",
    ),
    NUMA_NODE,
)  # fmt: skip


def limit(row: str) -> Limit | None:
    """A trap by its row name, None for one that is not listed."""
    return next((one for one in _LIMITS if one.row == row), None)


def applies(one: Limit, engine_version: str) -> bool:
    """Whether a trap was seen in a release. Newer than the tables: not known, so no."""
    key = version_key(engine_version)[:3]
    after = one.first is None or version_key(one.first)[:3] <= key
    return after and (one.last is None or key <= version_key(one.last)[:3])


# ---- releases


def _release(
    release: str,
    date: str,
    *,
    torch: str = "",
    flashinfer: str = "",
    kernel: str = "",
    python: str = ">=3.10",
    note: str = "",
) -> Release:
    return Release(
        row=release, release=release, date=date, source="wheel metadata", read_from=release, note=note, torch=torch,
        flashinfer=flashinfer, kernel=kernel, python=python,
    )  # fmt: skip


_RELEASES: Final = (
    _release("0.5.9", "2026-02-23", torch="2.9.1", flashinfer="0.6.3", kernel="sgl-kernel 0.3.21"),
    _release("0.5.10.post1", "2026-04-08", flashinfer="0.6.7.post3", kernel="sglang-kernel 0.4.1"),
    _release(
        "0.5.11", "2026-05-07", torch="2.11", flashinfer="0.6.8.post1", kernel="sglang-kernel 0.4.2",
        note="needs the CUDA 13 stack from here on",
    ),
    _release("0.5.12.post1", "2026-05-23", torch="2.11", flashinfer="0.6.11.post1"),
    _release("0.5.13.post1", "2026-06-15", torch="2.11", flashinfer="0.6.12", kernel="sglang-kernel 0.4.3"),
    _release("0.5.14", "2026-06-26"),
    _release("0.5.15.post1", "2026-07-14"),
    _release("0.5.16", "2026-07-25", flashinfer="0.6.14", kernel="sglang-kernel 0.4.5"),
    _release("0.5.17", "2026-08-08", flashinfer="0.6.15.post1"),
    _release("0.5.18", "2026-08-21", torch="2.13.0", flashinfer="0.6.17", kernel="sglang-kernel 0.4.6.post1"),
    _release("0.5.19", "2026-09-04", torch="2.13.0", flashinfer="0.6.18"),
    _release("0.5.20", "2026-09-18", torch="2.13.0", kernel="sglang-kernel 0.4.7"),
    _release("0.5.21", "2026-10-01", torch="2.13.0"),
    _release("0.5.22", "2026-10-15", torch="2.14.1", flashinfer="0.7.1", kernel="sglang-kernel 0.4.9", python=">=3.11"),
    _release("0.5.23", "2026-10-30", torch="2.14.1", flashinfer="0.7.2", kernel="sglang-kernel 0.4.10", python=">=3.11"),
)  # fmt: skip


def release(version: str) -> Release | None:
    """A release by its number, post releases counted as the release they repair; None for one that was not read."""
    key = version_key(version)[:3]
    return next((one for one in _RELEASES if version_key(one.release)[:3] == key), None)


__all__ = [
    "NUMA_NODE", "SUBJECT", "TABLE_VERSION", "Backend", "Flag", "Limit", "Milestone", "Proof", "Release", "Row", "Transfer",
    "applies", "first_release_with_architecture", "first_release_with_architecture_on", "flag", "gemm_backend", "limit",
    "moe_backend", "numa_node_flag_crashes", "reads_tuning_files", "release", "releases", "transfer_backend",
    "tuning_file_counts", "tuning_files", "version_key",
]  # fmt: skip
