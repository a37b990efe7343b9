"""Every format from files that the real safetensors library wrote, read over real HTTP: level proved, word, group size.

Each case is a small repository of two layers; its config says nothing of quantization unless the format needs it, so what
comes out was told by headers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.loopback_hub import Hub, Repo, loopback_hub
from support.written import HubContext, Tensors, written

from recon.agent.api import Intent, View
from recon.agent.connectors.hub import HubSource
from recon.tasks.recon.checkpoint import CHECKPOINT_TASKS

N, K, E = 256, 512, 4
TASKS = {task.name: task for task in CHECKPOINT_TASKS}
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": K, "intermediate_size": K, "num_hidden_layers": 2,
    "num_attention_heads": 4, "torch_dtype": "bfloat16",
}  # fmt: skip
MOE = {**CONFIG, "n_routed_experts": E, "num_experts_per_tok": 1, "moe_intermediate_size": K}
INT4_FP8 = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
    "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"},
                            "input_activations": {"num_bits": 8, "type": "float", "dynamic": True}}},
}  # fmt: skip


def gptq(bits: int, group: int, *, g_idx: bool = True) -> Tensors:
    groups = 1 if group < 0 else K // group
    order: Tensors = {"g_idx": ("I32", (K,))} if g_idx else {}
    return {"qweight": ("I32", (K * bits // 32, N)), "qzeros": ("I32", (groups, N * bits // 32)), "scales": ("F16", (groups, N)), **order}  # fmt: skip


def packed(bits: int, group: int, **more: Any) -> Tensors:
    return {"weight_packed": ("I32", (N, K * bits // 32)), "weight_scale": ("BF16", (N, K // group if group > 0 else 1)),
            "weight_shape": ("I64", (2,)), **more}  # fmt: skip


def fp8(scale: str, dtype: str, shape: tuple[int, ...], **more: Any) -> Tensors:
    return {"weight": ("F8_E4M3", (N, K)), scale: (dtype, shape), **more}


STATIC: Tensors = {"input_scale": ("F32", ())}
MODELOPT: Tensors = {
    "weight": ("U8", (N, K // 2)),
    "weight_scale": ("F8_E4M3", (N, K // 16)),
    "weight_scale_2": ("F32", ()),
}
PACKED_FP4: Tensors = {
    "weight_packed": ("U8", (N, K // 2)),
    "weight_scale": ("F8_E4M3", (N, K // 16)),
    "weight_global_scale": ("F32", (1,)),
}
NF4: Tensors = {"weight": ("U8", (N * K // 2, 1)), "weight.absmax": ("F32", (N * K // 64,)), "weight.quant_map": ("F32", (16,)),
                "weight.quant_state.bitsandbytes__nf4": ("U8", (81,))}  # fmt: skip
NESTED: Tensors = {**NF4, "weight.absmax": ("U8", (N * K // 64,)), "weight.nested_absmax": ("F32", (N * K // 64 // 256,)), "weight.nested_quant_map": ("F32", (256,))}  # fmt: skip

# name -> (tensors of one linear layer, format, group size)
LINEAR: dict[str, tuple[Tensors, str, int | None]] = {
    "R1 GPTQ 4 bit": (gptq(4, 128), "w4a16-int4", 128),
    "R1 GPTQ 3 bit without groups": (gptq(3, -1), "w3a16-int3", None),
    "R1 GPTQ 8 bit": (gptq(8, 32), "w8a16-int8", 32),
    "R1 AutoRound, GPTQ packing without g_idx": (gptq(4, 64, g_idx=False), "w4a16-int4", 64),
    "R1 GPTQ 2 bit": (gptq(2, 64), "unknown", 64),
    "R2 AWQ": ({"qweight": ("I32", (K, N // 8)), "qzeros": ("I32", (K // 128, N // 8)), "scales": ("F16", (K // 128, N))}, "w4a16-int4", 128),
    "R2 AWQ GEMV": ({"qweight": ("I32", (N, K // 8)), "qzeros": ("I32", (N, 1)), "scales": ("F16", (N, 8))}, "w4a16-int4", 64),
    "R3 compressed-tensors INT4": (packed(4, 128), "w4a16-int4", 128),
    "R3 compressed-tensors INT4 asymmetric": (packed(4, 64, weight_zero_point=("I32", (N // 8, K // 64))), "w4a16-int4", 64),
    "R3 compressed-tensors INT4 act-order": (packed(4, 128, weight_g_idx=("I32", (K,))), "w4a16-int4", 128),
    "R3 compressed-tensors INT8": (packed(8, 128), "w8a16-int8", 128),
    "R3 compressed-tensors INT8 per channel": (packed(8, -1), "w8a16-int8", None),
    "R3 compressed-tensors INT8 small groups": (packed(8, 32), "w8a16-int8", 32),
    "R4 W8A8 INT8": ({"weight": ("I8", (N, K)), "weight_scale": ("BF16", (N, 1))}, "w8a8-int8", None),
    "R4 W8A8 INT8 static": ({"weight": ("I8", (N, K)), "weight_scale": ("F32", (N, 1)), **STATIC}, "w8a8-int8", None),
    "R5 INT8 block": ({"weight": ("I8", (N, K)), "weight_scale_inv": ("F32", (2, 4))}, "int8-block128", 128),
    "R6 FP8 per tensor": (fp8("weight_scale", "F32", (), **STATIC), "fp8-tensor", None),
    "R6 FP8 per tensor, shape 1": (fp8("weight_scale", "F32", (1,)), "fp8-tensor", None),
    "R7 FP8 per channel": (fp8("weight_scale", "BF16", (N, 1)), "fp8-channel", None),
    "R7 fbgemm": (fp8("weight_scale", "F32", (N, 1), input_scale_ub=("F32", (1,))), "fp8-channel", None),
    "R8a FP8 block": (fp8("weight_scale_inv", "F32", (2, 4)), "fp8-block128", 128),
    "R8b FP8 block, E8M0 scales": (fp8("scale", "F8_E8M0", (2, 4)), "fp8-block128", 128),
    "R8c FP8 block, compressed-tensors": (fp8("weight_scale", "BF16", (2, 4)), "fp8-block128", 128),
    "R8d MXFP8": (fp8("weight_scale", "U8", (N, K // 32)), "mxfp8", 32),
    "R8d MXFP8, E8M0 dtype": (fp8("weight_scale_inv", "F8_E8M0", (N, K // 32)), "mxfp8", 32),
    "R9 NVFP4 ModelOpt": ({**MODELOPT, **STATIC}, "nvfp4", 16),
    "R9 NVFP4 AWQ": ({**MODELOPT, **STATIC, "pre_quant_scale": ("BF16", (K,))}, "nvfp4", 16),
    "R9 W4A16_NVFP4": (MODELOPT, "nvfp4-w4a16", 16),
    "R10 NVFP4 compressed-tensors": ({**PACKED_FP4, "input_global_scale": ("F32", (1,))}, "nvfp4", 16),
    "R10 NVFP4A16": (PACKED_FP4, "nvfp4-w4a16", 16),
    "R11 MXFP4 compressed-tensors": ({"weight_packed": ("U8", (N, K // 2)), "weight_scale": ("U8", (N, K // 32))}, "mxfp4", 32),
    "R13 MXFP4 DeepSeek V4": ({"weight": ("I8", (N, K // 2)), "scale": ("F8_E8M0", (N, K // 32))}, "mxfp4", 32),
    "R14 MXFP4 in the F4 dtype": ({"weight": ("F4", (N, K)), "scale": ("F8_E8M0", (N, K // 32))}, "mxfp4", 32),
    "R14 MXFP4 Quark": ({"weight": ("U8", (N, K // 2)), "weight_scale": ("U8", (N, K // 32))}, "mxfp4", 32),
    "R15 W4AFP8": ({"weight": ("I8", (N, K // 2)), "weight_scale_inv": ("F32", (N, K // 128))}, "w4afp8", 128),
    "R16 NF4": (NF4, "nf4", None),
    "R16 NF4, double quantization": (NESTED, "nf4", None),
    "R17 LLM.int8": ({"weight": ("I8", (N, K)), "SCB": ("F32", (N,))}, "w8a8-int8", None),
    "R18 MLX": ({"weight": ("U32", (N, K // 8)), "scales": ("F16", (N, K // 64)), "biases": ("F16", (N, K // 64))}, "mlx", 64),
    "R19 EXL3": ({"trellis": ("I16", (K // 16, N // 16, 64)), "suh": ("F16", (K,)), "svh": ("F16", (N,))}, "unknown", None),
    "R20 BF16": ({"weight": ("BF16", (N, K))}, "bf16", None),
    "R20 FP16": ({"weight": ("F16", (N, K)), "bias": ("F16", (N,))}, "fp16", None),
    "R20 FP32": ({"weight": ("F32", (N, K))}, "fp32", None),
    "FP8 without a scale": ({"weight": ("F8_E4M3", (N, K))}, "unknown", None),
    "FP8 in blocks of 32": (fp8("scale", "F8_E8M0", (8, 16)), "unknown", None),
}  # fmt: skip


def linear(name: str, tensors: Tensors) -> Tensors:
    """The tensors of one module."""
    return {f"{name}.{suffix}": value for suffix, value in tensors.items()}


def dense(tensors: Tensors) -> Tensors:
    """Two layers, attention and MLP in the format, the rest plain."""
    made: Tensors = {
        "model.embed_tokens.weight": ("BF16", (320, K)),
        "lm_head.weight": ("BF16", (320, K)),
        "model.norm.weight": ("BF16", (K,)),
    }
    for n in range(2):
        for leaf in ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj"):
            made |= linear(f"model.layers.{n}.{leaf}", tensors)
        made[f"model.layers.{n}.input_layernorm.weight"] = ("BF16", (K,))
    return made


def slug(name: str) -> str:
    return "org/" + "-".join("".join(c if c.isalnum() else " " for c in name).split())


def moe(experts: Tensors, attention: Tensors) -> Tensors:
    made = dict(dense(attention))
    for name in [key for key in made if ".mlp." in key]:
        del made[name]
    for n in range(2):
        for e in range(E):
            made |= linear(f"model.layers.{n}.mlp.experts.{e}.down_proj", experts)
        made |= linear(f"model.layers.{n}.mlp.shared_experts.down_proj", {"weight": ("BF16", (N, K))})
        made[f"model.layers.{n}.mlp.gate.weight"] = ("F32", (E, K))
    return made


GPT_OSS: Tensors = {
    **{k: v for k, v in dense({"weight": ("BF16", (N, K))}).items() if ".mlp." not in k},
    "model.layers.0.mlp.experts.gate_up_proj_blocks": ("U8", (E, N, K // 32, 16)), "model.layers.0.mlp.experts.gate_up_proj_scales": ("U8", (E, N, K // 32)),
    "model.layers.0.mlp.experts.gate_up_proj_bias": ("BF16", (E, N)), "model.layers.0.mlp.router.weight": ("BF16", (E, K)),
}  # fmt: skip
FUSED: Tensors = {
    **{k: v for k, v in dense({"weight": ("BF16", (N, K))}).items() if ".mlp." not in k},
    "model.layers.0.mlp.experts.gate_up_proj": ("F8_E4M3", (E, K, N)), "model.layers.0.mlp.experts.gate_up_proj_scale": ("F32", (E, 1, N)),
}  # fmt: skip
PER_EXPERT: Tensors = {**FUSED, "model.layers.0.mlp.experts.gate_up_proj_scale": ("F32", (E,))}
FP8_BLOCK = LINEAR["R8a FP8 block"][0]
# name -> (config, tensors, component -> (format, group size))
MIXED: dict[str, tuple[dict[str, Any], Tensors, dict[str, tuple[str, int | None]]]] = {
    "INT4 experts, FP8 attention": (MOE, moe(packed(4, 128), FP8_BLOCK), {"routed_experts": ("w4a16-int4", 128), "attention": ("fp8-block128", 128), "shared_experts": ("bf16", None), "router": ("fp32", None)}),
    "NVFP4 experts, FP8 attention": (MOE, moe({**MODELOPT, **STATIC}, FP8_BLOCK), {"routed_experts": ("nvfp4", 16), "attention": ("fp8-block128", 128)}),
    "MXFP4 experts, FP8 attention": (MOE, moe(LINEAR["R13 MXFP4 DeepSeek V4"][0], FP8_BLOCK), {"routed_experts": ("mxfp4", 32), "attention": ("fp8-block128", 128)}),
    "W4AFP8 experts": (MOE, moe(LINEAR["R15 W4AFP8"][0], FP8_BLOCK), {"routed_experts": ("w4afp8", 128), "attention": ("fp8-block128", 128)}),
    "gpt-oss": (MOE, GPT_OSS, {"routed_experts": ("mxfp4", 32), "attention": ("bf16", None), "router": ("bf16", None)}),
    "fused experts per channel": (MOE, FUSED, {"routed_experts": ("fp8-channel", None)}),
    "fused experts, a scale each": (MOE, PER_EXPERT, {"routed_experts": ("fp8-tensor", None)}),
    "INT4 that is declared to run with FP8 activations": (
        {**CONFIG, "quantization_config": INT4_FP8}, dense(packed(4, 128)), {"attention": ("w4afp8", 128), "dense_mlp": ("w4afp8", 128), "lm_head": ("bf16", None)}),
}  # fmt: skip


def repos() -> dict[str, Repo]:
    """All cases as repositories of one hub."""
    rows = [(name, CONFIG, dense(tensors)) for name, (tensors, _, _) in LINEAR.items()]
    rows += [(name, config, tensors) for name, (config, tensors, _) in MIXED.items()]
    return {
        slug(name): Repo({"config.json": json.dumps(config).encode(), "model.safetensors": written(tensors)})
        for name, config, tensors in rows
    }


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with loopback_hub(repos()) as served:
        yield served


def read(hub: Hub, repo: str) -> View:
    """What the recon tasks learn of one repository."""

    async def steps() -> View:
        source = HubSource(endpoint=hub.endpoint)
        context = HubContext(source, intent=Intent(model=repo), bindings={"checkpoint": f"hf:{repo}@main"})
        try:
            for name in ("resolve", "files", "config", "headers"):
                await context.run_live(TASKS[f"checkpoint.{name}"], repo=repo, revision="main")
        finally:
            await source.close()
        return context.view

    return asyncio.run(steps())


@pytest.mark.parametrize("name", LINEAR)
def test_a_written_format_is_proved(hub: Hub, name: str) -> None:
    _, fmt, group = LINEAR[name]
    view = read(hub, slug(name))
    for component in ("attention", "dense_mlp"):
        found = view.read(f"checkpoint.{component}")
        assert (found.level, found.value["presence"]) == ("proved", "present")
        assert (found.value["format"], found.value.get("group_size")) == (fmt, group), found.value
        rule = name.split()[0]
        assert not rule.startswith("R") or found.value["signature"].startswith(f"{rule}:")
    assert view.value("checkpoint.lm_head.format") == view.value("checkpoint.embeddings.format") == "bf16"
    assert view.value("checkpoint.mtp") == view.value("checkpoint.routed_experts") == {"presence": "absent"}


@pytest.mark.parametrize("name", MIXED)
def test_a_written_mixture_is_proved_component_by_component(hub: Hub, name: str) -> None:
    view = read(hub, slug(name))
    for component, (fmt, group) in MIXED[name][2].items():
        found = view.read(f"checkpoint.{component}")
        assert found.level == "proved"
        assert (found.value["format"], found.value.get("group_size")) == (fmt, group), (
            component,
            found.value,
        )


@pytest.mark.parametrize(
    "name", ["R1 GPTQ 4 bit", "R1 GPTQ 3 bit without groups", "R2 AWQ", "R3 compressed-tensors INT8", "R9 NVFP4 ModelOpt", "R13 MXFP4 DeepSeek V4",
             "R14 MXFP4 in the F4 dtype", "R15 W4AFP8", "R16 NF4", "R18 MLX", "R20 BF16"],
)  # fmt: skip
def test_logical_parameters_are_those_of_the_model_in_every_packing(hub: Hub, name: str) -> None:
    view = read(hub, slug(name))
    assert view.value("checkpoint.parameters.total") == 8 * N * K + 2 * 320 * K + 3 * K
