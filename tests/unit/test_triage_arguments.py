"""What the words behind `recon run` are taken for."""

from __future__ import annotations

import pytest

from recon.agent.mission import mission_key, read_arguments, sentence
from recon.agent.model.errors import MissionError
from recon.agent.model.missions import Intent, Triage
from recon.tasks.knowledge.vocabulary import VOCABULARY


def read(*words: str, **flags: object) -> Triage:
    return read_arguments(list(words), VOCABULARY, flags)


@pytest.mark.parametrize(
    ("words", "model", "host"),
    [
        (("Qwen/Qwen3-32B",), "Qwen/Qwen3-32B", None),
        (("Qwen/Qwen3-32B", "athena"), "Qwen/Qwen3-32B", "athena"),
        (("Qwen/Qwen3-32B", "me@athena:2222"), "Qwen/Qwen3-32B", "me@athena:2222"),
        (("Qwen/Qwen3-32B", "on", "athena"), "Qwen/Qwen3-32B", "athena"),
        (("Qwen/Qwen3-32B", "localhost"), "Qwen/Qwen3-32B", "localhost"),
        (("Qwen/Qwen3-32B", "10.0.0.7"), "Qwen/Qwen3-32B", "10.0.0.7"),
        (("https://huggingface.co/Qwen/Qwen3-32B", "gpu07"), "Qwen/Qwen3-32B", "gpu07"),
        (("openai/whisper", "athena"), "openai/whisper", "athena"),
        (("deploy", "Qwen/Qwen3-32B", "on", "ct200"), "Qwen/Qwen3-32B", "ct200"),
        (("deploy Qwen/Qwen3-32B on ct200",), "Qwen/Qwen3-32B", "ct200"),
        (("Qwen/Qwen3-32B", "TP4"), "Qwen/Qwen3-32B", None),
        (("Qwen/Qwen3-32B", "nvfp4"), "Qwen/Qwen3-32B", None),
        (("prefill/decode", "on", "two", "nodes"), None, None),
    ],
)
def test_words_become_a_model_and_a_host(words: tuple[str, ...], model: str | None, host: str | None) -> None:
    intent = read(*words).intent
    assert (intent.model, intent.host) == (model, host)


def test_what_follows_the_host_is_read_as_words() -> None:
    found = read("Qwen/Qwen3-32B@abc1234", "athena", "TP4", "nvfp4", "only")
    assert (found.intent.layout.tp, found.intent.revision) == (4, "abc1234")
    assert found.intent.wanted_format is not None and found.intent.wanted_format.strength == "must"
    assert found.text == "Qwen/Qwen3-32B@abc1234 athena TP4 nvfp4 only"


def test_flags_alone_are_a_mission() -> None:
    found = read(model="Qwen/Qwen3-32B", host="ct200", pd="4+4", quant="nvfp4")
    assert (
        sentence(found.intent)
        == "Serve Qwen/Qwen3-32B with SGLang on ct200: prefill TP4 + decode TP4; it must be NVFP4."
    )


def test_the_short_form_asks_for_every_step() -> None:
    assert read("Qwen/Qwen3-32B", "athena").intent == Intent(model="Qwen/Qwen3-32B", host="athena")


def test_a_host_flag_wins_over_the_host_behind_the_model() -> None:
    assert read("Qwen/Qwen3-32B", "athena", host="ct200").intent.host == "ct200"


def test_other_words_are_another_mission() -> None:
    keys = {mission_key(read("Qwen/Qwen3-32B", host)) for host in ("athena", "ct200")}
    assert len(keys) == 2


def test_nothing_asked_is_said() -> None:
    with pytest.raises(MissionError, match="nothing was asked") as caught:
        read()
    assert caught.value.hint.startswith("recon run ORG/MODEL")
