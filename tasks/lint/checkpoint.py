"""What lint needs of a checkpoint folder: the method its config declares, and whether draft tensors are there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

_MTP: Final = re.compile(r"(^|\.)(mtp|nextn)(\.|$)")
_LAYER: Final = re.compile(r"(^|\.)layers\.(\d+)\.")
MAX_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Checkpoint:
    """`method`: the quantization method SGLang takes the checkpoint for, "" for none; `mtp` with the reason."""

    method: str
    mtp: Literal["present", "absent", "unknown"] = "unknown"
    mtp_because: str = ""


CONFIG: Final = "config.json"
HF_QUANT: Final = "hf_quant_config.json"
INDEX: Final = "model.safetensors.index.json"


def read_checkpoint(folder: Path) -> Checkpoint:
    """Reads a folder's config.json, hf_quant_config.json and index. Raises ValueError, in words, where it holds no config."""
    return checkpoint_of(lambda name: _bytes(folder / name), named=str(folder))


def checkpoint_of(file: Callable[[str], bytes | None], *, named: str) -> Checkpoint:
    """The same from any place: `file` gives a file's bytes by name, None where there is none. Raises ValueError."""
    config = _object(file(CONFIG))
    if config is None:
        raise ValueError(f"{named} holds no config.json that can be read")
    nested = config.get("text_config")
    text: Mapping[str, Any] = nested if isinstance(nested, Mapping) else {}
    block = (
        config.get("quantization_config")
        or config.get("compression_config")
        or text.get("quantization_config")
    )
    method = ""
    if isinstance(block, Mapping):
        method = str(block.get("quant_method") or "modelopt")
        if method == "modelopt":
            method = _modelopt(str(block.get("quant_algo") or ""))
    elif (beside := _object(file(HF_QUANT))) is not None and isinstance(beside.get("quantization"), Mapping):
        method = _modelopt(str(beside["quantization"].get("quant_algo") or ""))
    return Checkpoint(method, *_mtp(_object(file(INDEX)), {**config, **text}))


def _modelopt(algorithm: str) -> str:
    """ModelOpt's algorithm as SGLang's method (configs/model_config.py, 0.5.23)."""
    name = algorithm.upper()
    if name == "MIXED_PRECISION":
        return "modelopt_mixed"
    if "FP4" in name:
        return "modelopt_fp4"
    return {"FP8": "modelopt_fp8", "MXFP8": "mxfp8"}.get(name, "")


def _mtp(
    index: Mapping[str, Any] | None, config: Mapping[str, Any]
) -> tuple[Literal["present", "absent", "unknown"], str]:
    promised = config.get("num_nextn_predict_layers") or config.get("mtp_num_hidden_layers")
    if index is None or not isinstance(index.get("weight_map"), Mapping):
        return ("absent", "its config promises none") if promised == 0 else ("unknown", "")
    layers = config.get("num_hidden_layers")
    for name in index["weight_map"]:
        layer = _LAYER.search(name)
        beyond = layer is not None and isinstance(layers, int) and int(layer[2]) >= layers
        if _MTP.search(name) or beyond:
            return "present", ""
    return "absent", "the index names none"


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
    except OSError:
        return None


def _object(body: bytes | None) -> dict[str, Any] | None:
    try:
        value = json.loads(body) if body is not None else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
