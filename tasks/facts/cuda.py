"""CUDA on a host: the toolkit (compiler) and the driver's kernel module.

The toolkit is often installed but not in PATH of a login without a shell profile, so both places are asked: "not in PATH"
is not "not installed". Toolkit and driver versions differ and both are right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from recon.agent.api import Draft, Fact, Raw
from recon.tasks.facts.host_text import no_command, no_such_file, plain_text, trouble, unknown

NVCC_ARGV: Final = ("/usr/local/cuda/bin/nvcc", "--version")
NVCC_PATH_ARGV: Final = ("nvcc", "--version")
MODULE_ARGV: Final = ("cat", "/proc/driver/nvidia/version")
_RELEASE: Final = re.compile(r"release (\d+\.\d+), V(\d+\.\d+\.\d+)")
_MODULE: Final = re.compile(r"(?:Kernel Module|KMD)(?: for \S+)?\s+(\d+(?:\.\d+)+)")


def _toolkit(raw: Raw, name: str, *, where: str) -> Sequence[Draft]:
    if (found := _RELEASE.search(plain_text(raw.stdout))) is not None and raw.state == "ok":
        return [Draft(name=name, value=found.group(2), locator=f"release {found.group(1)}")]
    if no_command(raw) or no_such_file(raw):
        return [Draft(name=name, outcome="absent", reason=f"no nvcc {where}")]
    return unknown([name], trouble(raw, "nvcc") or "nvcc --version names no release")


def parse_nvcc(raw: Raw) -> Sequence[Draft]:
    """`cuda_toolkit_default`: version of the compiler at its usual place."""
    return _toolkit(raw, "cuda_toolkit_default", where="at /usr/local/cuda/bin")


def parse_nvcc_path(raw: Raw) -> Sequence[Draft]:
    """`cuda_toolkit_in_path`: version of the compiler that a plain login finds."""
    return _toolkit(raw, "cuda_toolkit_in_path", where="in PATH")


def parse_module(raw: Raw) -> Sequence[Draft]:
    """`kernel_module`: version of the loaded NVIDIA kernel module and whether it is the open one."""
    if no_such_file(raw):
        return [Draft(name="kernel_module", outcome="absent", reason="no NVIDIA kernel module is loaded")]
    if reason := trouble(raw, "/proc/driver/nvidia/version"):
        return unknown(["kernel_module"], reason)
    text = plain_text(raw.stdout)
    found = _MODULE.search(text)
    if found is None:
        return unknown(["kernel_module"], "/proc/driver/nvidia/version names no version")
    return [
        Draft(name="kernel_module", value={"version": found.group(1), "open": "Open Kernel Module" in text})
    ]


NVCC: Final = Fact("cuda.nvcc", parse_nvcc)
NVCC_PATH: Final = Fact("cuda.nvcc_path", parse_nvcc_path)
MODULE: Final = Fact("cuda.kernel_module", parse_module)
