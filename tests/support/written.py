"""Small checkpoints written by the real safetensors library, and recon tasks that read them from a hub over real HTTP."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import safetensors
from support.recorded_hub import RecordedContext

from recon.agent.api import Observation, Raw, Request, observation_id, sha256_hex
from recon.agent.connectors.hub import HubSource
from recon.tasks.knowledge.signatures import BITS

Tensors = dict[str, tuple[str, tuple[int, ...]]]

# As headers spell a dtype -> as the library's callers (torch, numpy) do. F4: two values a byte, told by storage shape.
_NAMES = {
    "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
    "F4": "float4_e2m1fn_x2", "I8": "int8", "U8": "uint8", "I16": "int16", "I32": "int32", "I64": "int64", "U32": "uint32",
}  # fmt: skip


def written(tensors: Tensors) -> bytes:
    """A safetensors file of zeros; shapes as headers have them (an F4 tensor counts values)."""
    kept, specs = [], {}
    for name, (dtype, shape) in tensors.items():
        size = BITS[dtype] * math.prod(shape) // 8
        buffer = (ctypes.c_char * max(size, 1))()
        kept.append(buffer)  # the library reads the memory while it writes
        stored = (*shape[:-1], shape[-1] // 2) if dtype == "F4" else shape
        specs[name] = safetensors.TensorSpec(
            dtype=_NAMES[dtype], shape=list(stored), data_ptr=ctypes.addressof(buffer), data_len=size
        )
    return safetensors.serialize(specs, {"format": "pt"})


class HubContext(RecordedContext):
    """A recon context whose questions go to a hub (stateful: findings)."""

    def __init__(self, source: HubSource, **kwargs: Any) -> None:
        super().__init__((), {}, **kwargs)
        self._source = source

    async def ask(self, request: Request, fact: Any, *, subject: str) -> Any:
        raw = await self._source.fetch(request)
        self._live = self._observed(request, raw), raw
        return await super().ask(request, fact, subject=subject)

    async def run_live(self, task: Any, **params: Any) -> str:
        """Runs one task to its end in the running loop."""
        self.params: Mapping[str, Any] = params
        said: str = await task.run(self)
        return said

    def _answer(self, request: Request) -> tuple[Observation, Raw]:
        return self._live

    def _observed(self, request: Request, raw: Raw) -> Observation:
        out, err = sha256_hex(raw.stdout), sha256_hex(raw.stderr)
        return Observation(
            id=observation_id(request, raw, stdout_sha=out, stderr_sha=err), request=request, state=raw.state,
            exit_code=raw.exit_code, revision=raw.revision, observed_at=0.0, duration_s=0.0, host_boot_id="", stdout_sha=out,
            stderr_sha=err, truncated=raw.truncated, reason=raw.reason, origin="captured",
        )  # fmt: skip
