"""Which quantization methods of a checkpoint SGLang has a loader for, and what each asks of the GPU.

Read from SGLang 0.5.23 (November 2026): the registry of `srt/layers/quantization`, what `srt/configs/model_config.py`
makes of a declaration, and the minimum capabilities of the kernels. Read, not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from recon.tasks.knowledge.engine_rows import Row

_REGISTRY: Final = "srt/layers/quantization/__init__.py"


@dataclass(frozen=True, kw_only=True)
class Loader(Row):
    """One `quant_method` as checkpoints declare it. `bits`: the widths it takes; empty where the width is no question."""

    methods: tuple[str, ...]
    loads: bool = True
    bits: tuple[int, ...] = ()
    says: str = ""  # why not, or what has to be known


_ROWS: Final = (
    Loader(row="quant-compressed-tensors", source=_REGISTRY, methods=("compressed-tensors",)),
    Loader(row="quant-modelopt", source="srt/configs/model_config.py: a block without quant_method is taken as ModelOpt",
           methods=("modelopt", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed", "nvfp4")),
    Loader(row="quant-fp8", source=_REGISTRY, methods=("fp8", "mxfp8", "w8a8_fp8")),
    Loader(row="quant-mxfp4", source=_REGISTRY, methods=("mxfp4", "mxfp_w4a8", "quark_mxfp4")),
    Loader(row="quant-int8", source=_REGISTRY, methods=("w8a8_int8", "blockwise_int8")),
    Loader(row="quant-awq", source=_REGISTRY, methods=("awq", "awq_marlin"), bits=(4,)),
    Loader(row="quant-gptq", source="srt/layers/quantization/gptq.py: on CUDA only the Marlin form is registered",
           methods=("gptq", "gptq_marlin", "moe_wna16"), bits=(4, 8)),
    Loader(row="quant-auto-round", source=_REGISTRY, methods=("auto-round", "intel/auto-round", "auto-round-int8"), bits=(4, 8)),
    Loader(row="quant-bitsandbytes", source=_REGISTRY, methods=("bitsandbytes",),
           says="bitsandbytes layers are quantized blocks that tensor parallelism cannot cut freely: try it at the wanted TP"),
    Loader(row="quant-w4afp8", source=_REGISTRY, methods=("w4afp8",)),
    Loader(row="quant-quark", source=_REGISTRY, methods=("quark", "quark_int4fp8_moe")),
    Loader(row="quant-petit", source=_REGISTRY, methods=("petit_nvfp4",), says="petit_nvfp4 is made for AMD GPUs"),
    Loader(row="quant-modelslim", source=_REGISTRY, methods=("modelslim", "ascend"), loads=False,
           says="ModelSlim weights are for Ascend NPUs"),
    Loader(row="quant-fbgemm", source=f"{_REGISTRY}: no entry of that name", methods=("fbgemm_fp8",), loads=False,
           says="no loader named fbgemm_fp8"),
    Loader(row="quant-mlx", source=f"{_REGISTRY}: no entry of that name", methods=("mlx",), loads=False,
           says="MLX packing is read by MLX only"),
)  # fmt: skip

# The least compute capability (major * 10 + minor) of the kernels for a format, and what happens below it.
CAPABILITY: Final[dict[str, tuple[int, str]]] = {
    "w4a16-int4": (80, "no Marlin kernel below sm_80"), "w8a16-int8": (80, "no Marlin kernel below sm_80"),
    "nvfp4-w4a16": (80, "no Marlin kernel below sm_80"), "mxfp4": (80, "no Marlin kernel below sm_80"),
    "fp8-tensor": (89, "no FP8 tensor cores below sm_89"), "fp8-channel": (89, "no FP8 tensor cores below sm_89"),
    "fp8-block128": (89, "no FP8 tensor cores below sm_89"), "w4afp8": (90, "its kernels need sm_90"), "nf4": (70, "below sm_70"),
}  # fmt: skip


def loader(method: str) -> Loader | None:
    """The row of a declared `quant_method`; None where no release that was read knows the name."""
    return next((row for row in _ROWS if method.lower() in row.methods), None)


def too_old(fmt: str, sm: str) -> str:
    """Why a GPU generation (`sm_86`) has no kernel for a format; "" where it has one or no row says."""
    number = sm.removeprefix("sm_")
    least, why = CAPABILITY.get(fmt, (0, ""))
    return why if number.isdigit() and int(number) < least else ""
