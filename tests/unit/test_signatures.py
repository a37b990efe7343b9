"""Formats from tensor names, dtypes and shapes: one case per published layout, and the pairs that look alike."""

from __future__ import annotations

import pytest

from recon.tasks.knowledge.signatures import Part, classify

N, K = 2048, 4096

CASES: list[tuple[str, dict[str, Part], str, int | None]] = [
    ("gptq 4 bit", {"qweight": ("I32", (K // 8, N)), "qzeros": ("I32", (K // 128, N // 8)),
                    "scales": ("F16", (K // 128, N)), "g_idx": ("I32", (K,))}, "w4a16-int4", 128),
    ("gptq 3 bit, no groups", {"qweight": ("I32", (K * 3 // 32, N)), "qzeros": ("I32", (1, N * 3 // 32)),
                               "scales": ("F16", (1, N)), "g_idx": ("I32", (K,))}, "w3a16-int3", None),
    ("gptq 8 bit", {"qweight": ("I32", (K // 4, N)), "qzeros": ("I32", (K // 128, N // 4)),
                    "scales": ("F16", (K // 128, N))}, "w8a16-int8", 128),
    ("gptq 2 bit", {"qweight": ("I32", (K // 16, N)), "qzeros": ("I32", (K // 64, N // 16)),
                    "scales": ("F16", (K // 64, N)), "g_idx": ("I32", (K,))}, "unknown", 64),
    ("awq", {"qweight": ("I32", (K, N // 8)), "qzeros": ("I32", (K // 128, N // 8)), "scales": ("F16", (K // 128, N))},
     "w4a16-int4", 128),
    ("packed int4", {"weight_packed": ("I32", (N, K // 8)), "weight_scale": ("BF16", (N, K // 128)),
                     "weight_shape": ("I64", (2,))}, "w4a16-int4", 128),
    ("packed int4 g32, asymmetric", {"weight_packed": ("I32", (N, K // 8)), "weight_scale": ("F16", (N, K // 32)),
                                     "weight_zero_point": ("I32", (N // 8, K // 32))}, "w4a16-int4", 32),
    ("packed int8 g128", {"weight_packed": ("I32", (N, K // 4)), "weight_scale": ("BF16", (N, K // 128))},
     "w8a16-int8", 128),
    ("packed int8 by g_idx", {"weight_packed": ("I32", (N, K // 4)), "weight_scale": ("BF16", (N, K // 64)),
                              "weight_g_idx": ("I32", (K,))}, "w8a16-int8", 64),
    ("w8a8 int8", {"weight": ("I8", (N, K)), "weight_scale": ("BF16", (N, 1))}, "w8a8-int8", None),
    ("int8 block", {"weight": ("I8", (N, K)), "weight_scale_inv": ("F32", (16, 32))}, "int8-block128", 128),
    ("fp8 per tensor", {"weight": ("F8_E4M3", (N, K)), "weight_scale": ("F32", ()), "input_scale": ("F32", ())},
     "fp8-tensor", None),
    ("fp8 per channel", {"weight": ("F8_E4M3", (N, K)), "weight_scale": ("BF16", (N, 1))}, "fp8-channel", None),
    ("fbgemm", {"weight": ("F8_E4M3", (N, K)), "weight_scale": ("F32", (N, 1)), "input_scale_ub": ("F32", (1,))},
     "fp8-channel", None),
    ("fp8 block, V3 names", {"weight": ("F8_E4M3", (N, K)), "weight_scale_inv": ("F32", (16, 32))}, "fp8-block128", 128),
    ("fp8 block, V4 names", {"weight": ("F8_E4M3", (N, K)), "scale": ("F8_E8M0", (16, 32))}, "fp8-block128", 128),
    ("fp8 block, packed names", {"weight": ("F8_E4M3", (N, K)), "weight_scale": ("BF16", (16, 32))}, "fp8-block128", 128),
    ("fp8 block, odd rows", {"weight": ("F8_E4M3", (576, 7168)), "weight_scale_inv": ("F32", (5, 56))},
     "fp8-block128", 128),
    ("mxfp8", {"weight": ("F8_E4M3", (N, K)), "weight_scale": ("U8", (N, K // 32))}, "mxfp8", 32),
    ("nvfp4, ModelOpt", {"weight": ("U8", (N, K // 2)), "weight_scale": ("F8_E4M3", (N, K // 16)),
                         "weight_scale_2": ("F32", ()), "input_scale": ("F32", ())}, "nvfp4", 16),
    ("nvfp4 weight-only, ModelOpt", {"weight": ("U8", (N, K // 2)), "weight_scale": ("F8_E4M3", (N, K // 16)),
                                     "weight_scale_2": ("F32", ())}, "nvfp4-w4a16", 16),
    ("nvfp4, packed", {"weight_packed": ("U8", (N, K // 2)), "weight_scale": ("F8_E4M3", (N, K // 16)),
                       "weight_global_scale": ("F32", (1,)), "input_global_scale": ("F32", (1,))}, "nvfp4", 16),
    ("nvfp4 weight-only, packed", {"weight_packed": ("U8", (N, K // 2)), "weight_scale": ("F8_E4M3", (N, K // 16)),
                                   "weight_global_scale": ("F32", (1,))}, "nvfp4-w4a16", 16),
    ("mxfp4, packed", {"weight_packed": ("U8", (N, K // 2)), "weight_scale": ("U8", (N, K // 32))}, "mxfp4", 32),
    ("mxfp4, gpt-oss", {"blocks": ("U8", (128, 5760, 90, 16)), "scales": ("U8", (128, 5760, 90))}, "mxfp4", 32),
    ("mxfp4, V4 native", {"weight": ("I8", (N, K // 2)), "scale": ("F8_E8M0", (N, K // 32))}, "mxfp4", 32),
    ("mxfp4, Quark", {"weight": ("U8", (N, K // 2)), "weight_scale": ("U8", (N, K // 32))}, "mxfp4", 32),
    ("w4afp8", {"weight": ("I8", (N, K // 2)), "weight_scale_inv": ("F32", (N, K // 128))}, "w4afp8", 128),
    ("nf4", {"weight": ("U8", (N * K // 2, 1)), "weight.absmax": ("F32", (N * K // 64,)),
             "weight.quant_map": ("F32", (16,)), "weight.quant_state.bitsandbytes__nf4": ("U8", (81,))}, "nf4", None),
    ("LLM.int8", {"weight": ("I8", (N, K)), "SCB": ("F32", (N,))}, "w8a8-int8", None),
    ("mlx", {"weight": ("U32", (N, K // 8)), "scales": ("F16", (N, K // 64)), "biases": ("F16", (N, K // 64))}, "mlx", None),
    ("bf16", {"weight": ("BF16", (N, K)), "bias": ("BF16", (N,))}, "bf16", None),
    ("fused experts, fp8 per channel", {"weight": ("F8_E4M3", (16, K, N)), "weight_scale": ("BF16", (16, 1, N))},
     "fp8-channel", None),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "fmt", "group"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_published_layout_has_its_format(parts: dict[str, Part], fmt: str, group: int | None) -> None:
    found = classify(parts)
    assert found is not None
    assert (found.format, found.group_size) == (fmt, group)


@pytest.mark.parametrize(
    "parts",
    [
        {"weight": ("F8_E4M3", (N, K))},
        {"weight": ("I8", (N, K))},
        {"weight": ("U8", (N, K // 2))},
        {"weight_packed": ("I32", (N, K // 8))},
        {"weight_packed": ("U8", (N, K // 2)), "weight_scale": ("BF16", (N, 7))},
        {"qweight": ("I32", (K // 8, N))},
        {"weight_packed": ("I32", (N, 512)), "weight_scale": ("BF16", (N, 1))},
    ],
)
def test_a_packed_weight_without_a_scale_that_fits_is_never_guessed(parts: dict[str, Part]) -> None:
    found = classify(parts)
    assert found is not None and found.format == "unknown" and found.note


def test_sizes_of_the_architecture_tell_eight_bits_in_small_groups_from_four() -> None:
    parts: dict[str, Part] = {
        "weight_packed": ("I32", (N, K // 4)),
        "weight_scale": ("BF16", (N, K // 64)),
    }
    blind, told = classify(parts), classify(parts, dims=frozenset({K, N}))
    assert blind is not None and told is not None
    assert (blind.format, told.format) == ("w4a16-int4", "w8a16-int8")


@pytest.mark.parametrize(
    "parts", [{"weight": ("BF16", (4096,))}, {"bias": ("F32", (7,))}, {"weight": ("I32", (129280, 6))}]
)
def test_norms_biases_and_tables_are_no_linear_layers(parts: dict[str, Part]) -> None:
    assert classify(parts) is None
