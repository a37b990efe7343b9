"""What SGLang runs a weight format with on a GPU generation. Read from SGLang 0.5.23 (November 2026); read, not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ENGINE_VERSION: Final = "0.5.23"  # the newest engine these rows were read from


@dataclass(frozen=True)
class Path:
    """One row: the words people read, and where in the engine it was read."""

    words: str
    source: str


_SM120: Final = ("sm_120", "sm_121")
_ROWS: Final[tuple[tuple[str, tuple[str, ...], Path], ...]] = (
    ("w4a16-int4", _SM120, Path("Marlin MoE: INT4 weights, BF16 math, no FP4 tensor cores",
                                "layers/quantization/compressed_tensors: WNA16 MoE takes Marlin outside SM100")),
    ("w4a16-int4", ("sm_80", "sm_89", "sm_90"), Path("Marlin MoE: INT4 weights, BF16 math", "the same")),
    ("nvfp4", _SM120, Path("FlashInfer CUTLASS FP4", "fp4 backend auto and W4A4 NVFP4 MoE on SM120")),
    ("nvfp4-w4a16", _SM120, Path("Marlin: FP4 weights, BF16 math", "weight-only NVFP4 takes Marlin")),
    ("nvfp4", ("sm_100", "sm_103"), Path("native FP4 tensor cores", "fp4 backend auto on SM100")),
    ("nvfp4", ("sm_80", "sm_89", "sm_90"), Path("Marlin: FP4 weights, BF16 math", "NVFP4 below SM100 is weight-only")),
    ("mxfp4", _SM120, Path("FlashInfer MXFP4 from 0.5.16 on, Marlin before", "MoE backend auto for V4 on SM120")),
)  # fmt: skip


def path_for(fmt: str, sm: str) -> Path | None:
    """The path of a format on a GPU generation (`sm_120`); None where no row says it."""
    return next((path for name, sms, path in _ROWS if name == fmt and sm in sms), None)
