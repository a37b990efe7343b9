"""What flags do together: combinations that crash, and such as are ignored without a word. One function a rule.

Read from SGLang's sources (0.5.9 to 0.5.23); each note names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from recon.tasks.knowledge.flag_table import version_key
from recon.tasks.knowledge.numa_list import numa_node_flag_crashes
from recon.tasks.lint.arguments import Given
from recon.tasks.lint.checkpoint import Checkpoint
from recon.tasks.lint.notes import Note, error, warning


@dataclass(frozen=True)
class Setting:
    """What a rule looks at. `sm`: GPU generation (`sm_120`), "" where it is not said; `rdma` None where not known."""

    given: Given
    release: str
    environment: Mapping[str, str] = field(default_factory=dict)
    sm: str = ""
    rdma: bool | None = None
    checkpoint: Checkpoint | None = None

    @property
    def role(self) -> str:
        """prefill, decode, or "" for a server that does both."""
        role = self.given.one("--disaggregation-mode") or ""
        return role if role in ("prefill", "decode") else ""

    def before(self, release: str) -> bool:
        """Whether this release is older than another."""
        return version_key(self.release)[:3] < version_key(release)[:3]


def numa_list(s: Setting) -> Iterator[Note]:
    """--numa-node is indexed by GPU number."""
    words, tp = s.given.values.get("--numa-node"), s.given.number("--tp-size") or 1
    if not words:
        return
    base = int(s.given.number("--base-gpu-id") or 0)
    step = int(s.given.number("--gpu-id-step") or 1)
    values = [int(w) for w in words if w.lstrip("-").isdigit()]
    processes = int(tp) * step - (step - 1)
    if len(values) == len(words) and numa_node_flag_crashes(values, base, processes):
        yield error(
            "numa-list",
            f"--numa-node has {len(values)} value{'s' * (len(values) != 1)}; GPU {base + processes - 1} is the highest used, "
            f"and the list is read by GPU number: IndexError",
            s.given.at["--numa-node"],
            instead="CUDA_VISIBLE_DEVICES in place of --base-gpu-id" if base else "",
            source="srt/utils/numa_utils.py",
        )


def roles(s: Setting) -> Iterator[Note]:
    """Flags of a role that this server does not have."""
    mode = s.given.values.get("--disaggregation-mode")
    for name, at in s.given.at.items():
        if not name.startswith("--disaggregation-") or name == "--disaggregation-mode":
            continue
        if not s.role and not (mode and s.given.one("--disaggregation-mode") is None):
            yield warning("no-role", f"{name} does nothing without --disaggregation-mode", at)
        elif (
            s.role == "prefill"
            and name.startswith("--disaggregation-decode-")
            and "allocation-policy" not in name
        ):
            yield warning("other-role", f"{name} is read by the decode server only", at)


def transfer(s: Setting) -> Iterator[Note]:
    """KV transfer: what a backend needs, and what it sets aside."""
    backend = s.given.one("--disaggregation-transfer-backend") or "mooncake"
    at = s.given.at.get("--disaggregation-transfer-backend", s.given.at.get("--disaggregation-mode"))
    if s.role == "prefill" and backend == "fake":
        yield error("fake-prefill", "a prefill server refuses the transfer backend fake: it is for decode benchmarks", at,
                    source="arg_groups/pd_disaggregation_hook.py")  # fmt: skip
    device = s.given.at.get("--disaggregation-ib-device")
    if device is not None and backend == "mooncake_tcp":
        yield warning("ib-device", "mooncake_tcp sets the InfiniBand device aside", device,
                      source="arg_groups/pd_disaggregation_hook.py")  # fmt: skip
    if device is not None and s.rdma is False and backend != "mooncake_tcp":
        yield error("ib-device", "the host has no RDMA device: the server ends with 'InfiniBand sysfs path not found'", device,
                    source="arg_groups/validation_hook.py")  # fmt: skip
    if s.role and s.rdma is False and backend in ("mooncake", "mori") and device is None:
        newer = "" if s.before("0.5.13") else "mooncake_tcp"
        yield error("no-rdma", f"the host has no RDMA device: {backend} looks for one and fails at the first transfer", at,
                    instead=newer, source="srt/disaggregation/mooncake")  # fmt: skip
    forced = s.environment.get("MOONCAKE_PROTOCOL", "") == "tcp"
    if s.role and forced and s.before("0.5.13"):
        yield warning(
            "protocol",
            "MOONCAKE_PROTOCOL=tcp is not heard by the KV engine before 0.5.13 (RDMA was fixed)",
            at,
        )


_SM100_ONLY: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("--moe-runner-backend", frozenset({"flashinfer_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutedsl", "flashinfer_megamoe",
                                        "megamoe", "experimental_sgl_trtllm"})),
    ("--fp8-gemm-backend", frozenset({"flashinfer_trtllm", "flashinfer_cutedsl"})),
    ("--fp8-gemm-runner-backend", frozenset({"flashinfer_trtllm", "flashinfer_cutedsl"})),
    ("--fp4-gemm-backend", frozenset({"flashinfer_trtllm", "flashinfer_cutedsl"})),
    ("--fp4-gemm-runner-backend", frozenset({"flashinfer_trtllm", "flashinfer_cutedsl"})),
    ("--attention-backend", frozenset({"trtllm_mla", "cutlass_mla", "cutedsl_mla", "tokenspeed_mla"})),
    ("--prefill-attention-backend", frozenset({"trtllm_mla", "cutlass_mla", "cutedsl_mla", "tokenspeed_mla"})),
    ("--decode-attention-backend", frozenset({"trtllm_mla", "cutlass_mla", "cutedsl_mla", "tokenspeed_mla"})),
    ("--dsv4-attn-backend", frozenset({"trtllm", "flashmla_mega"})),
    ("--quantization", frozenset({"nvfp4_online"})),
)  # fmt: skip
_SM100: Final = frozenset({"sm_100", "sm_103"})
_HOPPER_ONLY: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("--attention-backend", frozenset({"fa3", "flashmla"})),
    ("--prefill-attention-backend", frozenset({"fa3", "flashmla"})),
    ("--decode-attention-backend", frozenset({"fa3", "flashmla"})),
    ("--moe-runner-backend", frozenset({"hpc_ops"})),
    ("--fp8-gemm-backend", frozenset({"flashinfer_deepgemm"})),
)
_NO_HOPPER_CODE: Final = frozenset({"sm_120", "sm_121"})  # the kernels' binaries hold none for it


def gpu_backends(s: Setting) -> Iterator[Note]:
    """Backends whose kernels this GPU generation has not."""
    if not s.sm:
        return
    for name, words in _SM100_ONLY:
        value = s.given.one(name)
        if value in words and s.sm not in _SM100:
            yield error("gpu", f"{name} {value}: kernels of SM100/SM103 only, not of {s.sm}", s.given.at[name],
                        instead=_elsewhere(name, s.sm), source="backend tables of SGLang 0.5.23")  # fmt: skip
    for name, words in _HOPPER_ONLY:
        value = s.given.one(name)
        if value in words and s.sm in _NO_HOPPER_CODE:
            yield error("gpu", f"{name} {value}: the kernel library has no machine code for {s.sm}", s.given.at[name],
                        instead=_elsewhere(name, s.sm), source="sglang-kernel binaries; backend tables")  # fmt: skip


def _elsewhere(name: str, sm: str) -> str:
    if sm not in _NO_HOPPER_CODE:
        return ""
    if "attention" in name:
        return "flashinfer or triton"
    return {"--moe-runner-backend": "flashinfer_cutlass, marlin or triton", "--fp4-gemm-backend": "flashinfer_cutlass",
            "--fp8-gemm-backend": "cutlass"}.get(name, "")  # fmt: skip


def speculation(s: Setting) -> Iterator[Note]:
    """Speculative flags without an algorithm, and MTP without its tensors."""
    algorithm = s.given.one("--speculative-algorithm")
    if not s.given.has("--speculative-algorithm"):
        for name, at in s.given.at.items():
            if name.startswith("--speculative-") and "moe" not in name:
                yield warning("no-algorithm", f"{name} does nothing without --speculative-algorithm", at)
                return
    own_draft = algorithm in ("EAGLE", "NEXTN") and not s.given.has("--speculative-draft-model-path")
    if own_draft and s.checkpoint is not None and s.checkpoint.mtp == "absent":
        yield error("no-mtp", f"the checkpoint has no MTP tensors ({s.checkpoint.mtp_because}): there is no draft to speculate with",
                    s.given.at["--speculative-algorithm"], source="model loader: num_nextn_predict_layers")  # fmt: skip


# The method a user asks for -> methods of the checkpoint that it may be asked for with.
_COMPATIBLE: Final[dict[str, frozenset[str]]] = {
    "modelopt_fp8": frozenset({"modelopt"}), "modelopt_fp4": frozenset({"modelopt", "fp8"}), "modelopt_mixed": frozenset({"modelopt"}),
    "nvfp4_online": frozenset({"fp8", "modelopt_fp8"}), "petit_nvfp4": frozenset({"modelopt"}), "w8a8_int8": frozenset({"compressed-tensors"}),
    "w8a8_fp8": frozenset({"compressed-tensors"}), "auto-round-int8": frozenset({"compressed-tensors"}), "awq_marlin": frozenset({"awq"}),
    "gptq_marlin": frozenset({"gptq"}), "moe_wna16": frozenset({"awq", "gptq"}), "humming": frozenset({"awq", "gptq", "compressed-tensors", "fp8"}),
    "modelopt": frozenset({"modelopt_fp8", "modelopt_fp4"}), "awq": frozenset({"awq_marlin"}), "gptq": frozenset({"gptq_marlin"}),
}  # fmt: skip


def quantization(s: Setting) -> Iterator[Note]:
    """--quantization against what the checkpoint says of itself."""
    wanted = s.given.one("--quantization")
    if wanted is None or s.checkpoint is None or not s.checkpoint.method:
        return
    has = s.checkpoint.method
    if wanted != has and has not in _COMPATIBLE.get(wanted, frozenset()):
        yield error("quantization", f"the checkpoint is {has}: SGLang refuses --quantization {wanted}", s.given.at["--quantization"],
                    instead="leave it out: the checkpoint says it itself", source="configs/model_config.py: _verify_quantization")  # fmt: skip


def fractions(s: Setting) -> Iterator[Note]:
    """Shares that are none."""
    for name in ("--mem-fraction-static", "--swa-full-tokens-ratio", "--schedule-conservativeness"):
        value = s.given.number(name)
        if value is not None and (value <= 0 or (value >= 1 and name == "--mem-fraction-static")):
            yield error(
                "range",
                f"{name} {value:g} is no share between 0 and 1"
                if "mem" in name
                else f"{name} must be above 0",
                s.given.at[name],
            )


def parallel(s: Setting) -> Iterator[Note]:
    """Sizes that do not divide, and data-parallel attention that is none."""
    tp, dp, ep = (s.given.number(n) for n in ("--tp-size", "--dp-size", "--ep-size"))
    if s.given.has("--enable-dp-attention") and (dp or 1) <= 1:
        yield warning(
            "dp-attention",
            "--enable-dp-attention does nothing with a --dp-size of 1",
            s.given.at["--enable-dp-attention"],
        )
    if s.given.has("--enable-dp-attention") and tp and dp and tp % dp:
        yield error("dp-attention", f"a --tp-size of {tp:g} does not divide by a --dp-size of {dp:g}", s.given.at["--dp-size"],
                    source="server_args: tp_size % dp_size")  # fmt: skip
    if tp and ep and (tp % ep or ep > tp):
        yield error(
            "ep-size",
            f"a --tp-size of {tp:g} does not divide by an --ep-size of {ep:g}",
            s.given.at["--ep-size"],
        )
    visible = [g for g in s.environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if g.strip()]
    pp, base = s.given.number("--pp-size") or 1, s.given.number("--base-gpu-id") or 0
    nodes = s.given.number("--nnodes") or 1
    needed = (tp or 1) * pp / nodes + base
    if visible and needed > len(visible):
        yield error("gpus", f"{needed:g} GPUs are needed (base {base:g} included), CUDA_VISIBLE_DEVICES shows {len(visible)}",
                    s.given.at.get("--base-gpu-id", s.given.at.get("--tp-size")))  # fmt: skip


def contradictions(s: Setting) -> Iterator[Note]:
    """Switches that undo one another."""
    for one, other, text in (
        (
            "--disable-radix-cache",
            "--enable-hierarchical-cache",
            "a hierarchical cache needs the radix cache",
        ),
        ("--disable-cuda-graph", "--cuda-graph-max-bs", "without CUDA graphs their batch sizes do nothing"),
        ("--disable-cuda-graph", "--cuda-graph-bs", "without CUDA graphs their batch sizes do nothing"),
        (
            "--disable-cuda-graph",
            "--cuda-graph-max-bs-decode",
            "without CUDA graphs their batch sizes do nothing",
        ),
        ("--skip-tokenizer-init", "--tool-call-parser", "without a tokenizer there is no text to parse"),
        ("--skip-tokenizer-init", "--reasoning-parser", "without a tokenizer there is no text to parse"),
    ):
        if s.given.has(one) and s.given.has(other):
            yield warning("contradiction", f"{one} and {other}: {text}", s.given.at[other])


RULES: Final[tuple[Callable[[Setting], Iterator[Note]], ...]] = (
    numa_list, roles, transfer, gpu_backends, speculation, quantization, fractions, parallel, contradictions,
)  # fmt: skip


def together(setting: Setting) -> list[Note]:
    """The notes of all rules on one server."""
    return [note for rule in RULES for note in rule(setting)]
