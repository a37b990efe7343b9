"""A mission in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recon.agent.model.base import Json
from recon.agent.model.missions import Intent, Wish

_ENGINES: Final = {
    "sglang": "SGLang", "vllm": "vLLM", "tensorrt-llm": "TensorRT-LLM", "lmdeploy": "LMDeploy", "tgi": "TGI",
    "ktransformers": "KTransformers", "ollama": "Ollama",
}  # fmt: skip
_SERVE: Final = "Serve {model} with {engine}"
_WANTED: Final = {"must": "it must be {}", "prefer": "{} wanted", "mentioned": "{} mentioned"}


def sentence(intent: Intent, facts: Mapping[str, Json] | None = None) -> str:
    """The mission in one sentence, ending in a full stop.

    `facts` may add what was found out: `commit` (the model's, shortened), `engine_version`, `gpu` (a name).
    """
    facts = facts or {}
    if own := _own_only(intent):
        return own
    if intent.model is None and intent.verbs and not {"launch", "benchmark"} & set(intent.verbs):
        return _engine_only(intent)
    if intent.extra.get("check_only"):
        return _check(intent)
    verb = _SERVE if not intent.verbs or "launch" in intent.verbs else _first_verb(intent)
    model = intent.model or "a model that is not named yet"
    if facts.get("commit"):
        model += f" at {str(facts['commit'])[:7]}"
    elif intent.revision != "main":
        model += f" at {intent.revision}"
    engine = _ENGINES.get(intent.engine, intent.engine)
    if facts.get("engine_version"):
        engine += f" {facts['engine_version']}"
    host = f"on {_host(intent.host)}" if intent.host else "on a host that is not named yet"
    if facts.get("gpu"):
        host += f" ({facts['gpu']})"
    opening = verb.format(model=model, engine=engine)
    return f"{opening} {host}{_layout(intent)}{_then(intent)}{_wish(intent.wanted_format)}."


def _own_only(intent: Intent) -> str:
    """A mission file without a model: its title, or how much it brings; "" for any other mission."""
    own = intent.extra.get("additions")
    if intent.model is not None or intent.verbs or not isinstance(own, Mapping):
        return ""
    host = f" on {_host(intent.host)}" if intent.host else ""
    title = str(own.get("title") or "")
    if title:
        return f"{title.rstrip('.')}{host if _host(intent.host or '') not in title else ''}."
    counts = [(len(own.get(name, ())), name) for name in ("facts", "tasks", "unknowns")]
    said = [f"{n} {word if n > 1 else word[:-1]}" for n, word in counts if n]
    return f"Carry out a mission of one's own{host}: {', '.join(said) or 'gates only'}."


def _check(intent: Intent) -> str:
    """A mission that only asks: `Check whether openai/gpt-oss-20b can run on ct200 with SGLang: TP4.`"""
    model = intent.model or "a model that is not named yet"
    at = f" at {intent.revision}" if intent.revision != "main" else ""
    host = f"on {_host(intent.host)}" if intent.host else "on a host that is not named yet"
    engine = _ENGINES.get(intent.engine, intent.engine)
    return f"Check whether {model}{at} can run {host} with {engine}{_layout(intent)}{_wish(intent.wanted_format)}."


def _engine_only(intent: Intent) -> str:
    """A mission about the engine alone: `Stop what runs and set up SGLang on ct200.`"""
    words = {"stop": "stop what runs", "download": "download a model", "install": "set up {}", "port": "port changes to {}",
             "kernels": "tune kernels for {}"}  # fmt: skip
    engine = _ENGINES.get(intent.engine, intent.engine)
    steps = [words[v].format(engine) for v in words if v in intent.verbs]
    text = (
        ", ".join(steps[:-1]) + (" and " if len(steps) > 1 else "") + steps[-1]
        if steps
        else f"look at {engine}"
    )
    return f"{text[0].upper()}{text[1:]} on {_host(intent.host) if intent.host else 'a host that is not named yet'}."


def _first_verb(intent: Intent) -> str:
    """What is asked for where nothing is to be served."""
    words = {
        "benchmark": "Benchmark {model} with {engine}",
        "port": "Port to {engine} what {model} needs",
        "kernels": "Tune kernels of {engine} for {model}",
        "install": "Set up {engine} for {model}",
        "download": "Download {model} for {engine}",
    }
    return next(
        (text for verb, text in words.items() if verb in intent.verbs), "Look at {model} with {engine}"
    )


def _host(host: str) -> str:
    return host.rpartition("@")[2].partition(":")[0]


def _layout(intent: Intent) -> str:
    layout = intent.layout
    node = ""
    if layout.one_node_per_instance:
        node = " on one NUMA node each" if layout.mode == "pd" else " on one NUMA node"
    if layout.mode == "single":
        return f": TP{layout.tp}{node}" if layout.tp else f",{node}" if node else ""
    sizes = [
        f"{role} TP{tp}" if tp else role
        for role, tp in (("prefill", layout.prefill_tp), ("decode", layout.decode_tp))
    ]
    return f": {' + '.join(sizes)}{node}"


def _then(intent: Intent) -> str:
    """The benchmark, where it follows the launch."""
    return ", then benchmark" if "benchmark" in intent.verbs and "launch" in intent.verbs else ""


def _wish(wish: Wish | None) -> str:
    return f"; {_WANTED[wish.strength].format(_format(wish.value))}" if wish else ""


def _format(value: str) -> str:
    """`NVFP4`, `INT4 W4A16`, `FP8`: the way people write it."""
    known = {
        "w4a16-int4": "INT4 W4A16",
        "w3a16-int3": "INT3 W3A16",
        "w8a16-int8": "INT8 W8A16",
        "w8a8-int8": "INT8 W8A8",
    }
    return known.get(value) or value.replace("fp8-block128", "fp8").upper()
