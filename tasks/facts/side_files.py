"""The files beside config.json that speak of formats or of what the repository is: ModelOpt, GPTQ, ModelSlim, adapters, others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from recon.agent.api import Draft, Fact, Json, ParseError, Raw
from recon.tasks.facts.card import clean_line
from recon.tasks.facts.config import read_object
from recon.tasks.facts.declared import described, hf_quant_value, modelslim_value, quantize_value
from recon.tasks.facts.statements import of_params

Reader = Callable[[Mapping[str, Json]], dict[str, Json] | None]
_ADAPTER: Final = (
    "peft_type",
    "base_model_name_or_path",
    "r",
    "lora_alpha",
    "target_modules",
    "modules_to_save",
    "task_type",
)


def adapter_value(file: Mapping[str, Json]) -> dict[str, Json] | None:
    """A PEFT adapter_config.json: its kind, the base it needs (`base_model`), its rank. An adapter is never served alone."""
    if not (file.get("peft_type") or file.get("base_model_name_or_path")):
        return None
    value = {key: _short(file[key]) for key in _ADAPTER if file.get(key) is not None}
    base = value.get("base_model_name_or_path")
    return {**value, "base_model": base} if isinstance(base, str) and base else value


def own_value(file: Mapping[str, Json]) -> dict[str, Json] | None:
    """A quant_metadata.json, which is a format of somebody's own: its scalar keys. No engine reads it."""
    return {clean_line(str(k))[:80]: _short(v) for k, v in list(file.items())[:40] if not isinstance(v, (Mapping, list))} or None  # fmt: skip


def params_value(file: Mapping[str, Json]) -> dict[str, Json] | None:
    """A params.json in Mistral's layout: what it says of quantization, and its sizes."""
    statement = of_params(file)
    if statement is not None:
        return described(statement, {}, layers=None)
    sizes = {
        k: file[k]
        for k in ("dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim")
        if isinstance(file.get(k), int)
    }
    return {"quant_method": "none", "source": "params.json", **sizes} if sizes else None


def _short(value: Json) -> Json:
    if isinstance(value, str):
        return clean_line(value)[:200]
    if isinstance(value, list):
        return [clean_line(str(item))[:120] for item in value[:40]]
    return value if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else None


def side_fact(name: str, finding: str, read: Reader) -> Fact:
    """The fact that reads one such file into one finding, level declared; absent where the commit has no such file."""

    def parse(raw: Raw) -> list[Draft]:
        return [_draft(finding, raw, read)]

    return Fact(id=f"checkpoint.{name}", parse=parse)


def _draft(name: str, raw: Raw, read: Reader) -> Draft:
    if raw.state == "missing":
        return Draft(name=name, outcome="absent", reason="the repository has no such file at this commit")
    try:
        value = read(read_object(raw))
    except ParseError as error:
        return Draft(name=name, outcome="unknown", reason=error.message, level="declared")
    if value is None:
        reason = "the file says nothing that is understood"
        return Draft(name=name, outcome="unknown", reason=reason, level="declared")
    return Draft(name=name, value=value, level="declared", locator="/")


HF_QUANT: Final = side_fact("hf_quant", "hf_quant.declared", hf_quant_value)
QUANTIZE: Final = side_fact("quantize", "quantize.declared", quantize_value)
# Asked where the file list names them: path -> the fact that reads it.
LISTED: Final[dict[str, Fact]] = {
    "quant_config.json": side_fact("quant_config", "quant_config.declared", quantize_value),  # llm-awq's name
    "quant_model_description.json": side_fact("modelslim", "modelslim.declared", modelslim_value),
    "quant_metadata.json": side_fact("quant_metadata", "quant_metadata.declared", own_value),
    "adapter_config.json": side_fact("adapter", "adapter", adapter_value),
    "params.json": side_fact("params", "params.declared", params_value),
}
