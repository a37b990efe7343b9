"""The mission file: strict, with the place of every error."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.mission import load_mission, mission_key, mission_schema, triage_file
from recon.agent.model.errors import MissionError
from recon.agent.model.missions import Intent, Layout, Triage, Wish
from recon.tasks.knowledge.vocabulary import VOCABULARY

HEAD = "mission: recon.mission/1\n"
WHOLE = """\
mission: recon.mission/1
directive: >
  Deploy and benchmark Qwen/Qwen3-32B on ct200, fp8 preferred.
intent:
  host: root@gpu01:2222
  revision: "0123456"
  wanted_format: {value: nvfp4, strength: prefer}
  layout:
    mode: pd
    prefill_tp: 4
    decode_tp: 2
    one_node_per_instance: true
  docs: [https://docs.example/pd]
  target_dir: /mnt/models
playbook: deploy_pd
facts:
  disk.inodes: {argv: [df, -iP, /], parser: {csv: {columns: [IFree], separator: space, row: 0}}, type: {IFree: number}}
tasks:
  ask.owner: {title: ask the owner of the service, priority: high, needs: [download]}
unknowns:
  maintenance.window: {question: When may the service stop?, required: false}
gates:
  service.stop: [{text: 'answered("maintenance.window")', words: the window is known}]
"""


def read(text: str, **overrides: Any) -> Triage:
    return triage_file(load_mission(text, source="m.yaml"), VOCABULARY, overrides=overrides)


def refusal(text: str) -> tuple[str, str]:
    with pytest.raises(MissionError) as caught:
        read(text)
    return caught.value.message, caught.value.hint


def test_a_whole_file_gives_the_mission() -> None:
    found = read(WHOLE)
    additions = found.intent.extra["additions"]
    assert found.intent.model_copy(update={"extra": {}}) == Intent(
        model="Qwen/Qwen3-32B", revision="0123456", host="root@gpu01:2222",
        wanted_format=Wish(value="nvfp4", strength="prefer", words="nvfp4"),
        layout=Layout(mode="pd", prefill_tp=4, decode_tp=2, one_node_per_instance=True),
        verbs=("launch", "benchmark"), docs=("https://docs.example/pd",), target_dir="/mnt/models",
    )  # fmt: skip
    assert sorted(additions) == ["facts", "gates", "tasks", "unknowns"]
    assert additions["facts"]["disk.inodes"] == {
        "argv": ["df", "-iP", "/"], "parser": {"csv": {"columns": ["IFree"], "separator": "space", "row": 0}},
        "type": {"IFree": "number"},
    }  # fmt: skip
    assert found.playbook == "deploy_pd"


def test_the_file_wins_over_its_directive_and_flags_over_the_file() -> None:
    assert read(WHOLE).intent.host == "root@gpu01:2222"
    changed = read(WHOLE, host="athena", tp=8, quant="mxfp4").intent
    assert (changed.host, changed.layout) == ("athena", Layout(tp=8, one_node_per_instance=True))
    assert changed.wanted_format == Wish(value="mxfp4", strength="must", words="mxfp4")


def test_a_file_without_a_directive_is_told_in_one_sentence() -> None:
    found = read(HEAD + "intent: {model: Qwen/Qwen3-32B, host: athena, layout: {tp: 2}}\n")
    assert found.text == "Serve Qwen/Qwen3-32B with SGLang on athena: TP2."
    assert mission_key(found) == mission_key(
        read(HEAD + "intent:\n  layout: {tp: 2}\n  host: athena\n  model: Qwen/Qwen3-32B\n")
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "m.yaml:1:1: the file is empty", "start with: mission: recon.mission/1"),
        ("- a", "m.yaml:1:1: a mission file is a mapping", "start with: mission: recon.mission/1"),
        ("directive: x", "m.yaml:1:1: mission is missing", "add mission: ..."),
        ("mission: recon.mission/2", "m.yaml:1:10: mission is 'recon.mission/2'", "write 'recon.mission/1'"),
        (HEAD + "intnet: {}", "m.yaml:2:1: unknown key 'intnet'", "did you mean intent?"),
        (HEAD + "intent:\n  modell: a/b", "m.yaml:3:3: unknown key 'modell'", "did you mean model?"),
        (HEAD + "intent:\n  layout: {prefil_tp: 4}", "m.yaml:3:12: unknown key 'prefil_tp'", "did you mean prefill_tp?"),
        (HEAD + HEAD, "m.yaml:2:1: 'mission' is there twice", "the first one is at m.yaml:1:1; keep one"),
        (
            HEAD + "intent:\n  layout: {one_node_per_instance: yes}", "m.yaml:3:35: yes may be a word or a yes/no",
            'write true, or "yes" in quotes for the word',
        ),
        (
            HEAD + "intent:\n  layout: {one_node_per_instance: 'true'}",
            "m.yaml:3:35: intent.layout.one_node_per_instance must be true or false, not 'true'", "without quotes",
        ),
        (HEAD + "intent:\n  revision: 1234567", "m.yaml:3:13: intent.revision must be text", 'write it in quotes: "1234567"'),
        (HEAD + "intent:\n  layout: {tp: '4'}", "m.yaml:3:16: intent.layout.tp must be a whole number, not '4'", "without quotes"),
        (HEAD + "intent:\n  wanted_format: nvpf4", "m.yaml:3:18: unknown format of weights: 'nvpf4'", "did you mean nvfp4?"),
        (
            HEAD + "intent:\n  wanted_format: {value: nvfp4, strength: maybe}",
            "m.yaml:3:43: intent.wanted_format.strength is 'maybe'", "write 'must', 'prefer' or 'mentioned'",
        ),
        (
            HEAD + "intent:\n  layout: {mode: pd, tp: 4}", "m.yaml:3:11: intent.layout: mode pd has prefill_tp and decode_tp, not tp",
            "got {'mode': 'pd', 'tp': 4}",
        ),
        (HEAD + "intent:\n\tmodel: x", "m.yaml:3:1: found character '\\t' that cannot start any token", "indent with spaces, not tabs"),
        (HEAD + "directive: a: b", "m.yaml:2:13: mapping values are not allowed here", "a text with ': ' in it needs quotes"),
        (
            HEAD + "intent: {model: no repo}", "m.yaml:2:17: not a model: 'no repo'",
            "write ORG/NAME, its address on the Hub, or an absolute directory of the host",
        ),
        (HEAD + "intent: {host: '-x'}", "m.yaml:2:16: not a host: '-x'", "write [user@]name[:port], or localhost"),
        (HEAD + "intent: {verbs: [dowload]}", "m.yaml:2:18: unknown step: 'dowload'", "did you mean download?"),
        (HEAD + "intent: {target_dir: models}", "m.yaml:2:22: intent.target_dir must be an absolute directory", "start it with /"),
        (HEAD + "gates: {download: [{txt: a, text: b}]}", "m.yaml:2:21: unknown key 'txt'", "did you mean text?"),
        (
            HEAD + "facts: {x: {argv: df -B1}}", "m.yaml:2:19: facts.x.argv must be a list, not 'df -B1'",
            "write [a, b] or one a line behind dashes",
        ),
        (HEAD + "tasks: {a: {title: x, needs: [a]}}", "m.yaml:2:31: a needs itself", "take it out"),
        (
            "mission: &m recon.mission/1\ndirective: *m", "m.yaml:1:10: anchors and aliases (&, *) are not allowed", "write the value out",
        ),
        ("mission: !!python/name:os.system x", "m.yaml:1:10: tags like tag:yaml.org,2002:python/name:os.system are not allowed", "write plain values"),
        ("[" * 5000, "m.yaml:1:1: nested too deeply", "at most 32 levels"),
        ("a: " + "x" * 2**20, "m.yaml: larger than 1 MiB", "a mission file holds the mission, not the evidence"),
    ],
)  # fmt: skip
def test_what_is_wrong_gets_its_place_and_a_suggestion(text: str, message: str, hint: str) -> None:
    assert refusal(text) == (message, hint)


def test_several_errors_are_told_together() -> None:
    message, hint = refusal(HEAD + "intent:\n  modell: a/b\n  revision: 1\n")
    assert message.splitlines() == [
        "m.yaml:3:3: unknown key 'modell' (did you mean model?)",
        'm.yaml:4:13: intent.revision must be text (write it in quotes: "1")',
    ]
    assert hint


@pytest.mark.parametrize("word", ["yes", "No", "on", "OFF", "y", "True", "FALSE"])
def test_implicit_booleans_are_refused_and_quoted_words_are_not(word: str) -> None:
    assert "may be a word or a yes/no" in refusal(HEAD + f"directive: {word}")[0]
    assert read(HEAD + f'directive: "{word}"').text == word


def test_the_schema_accepts_what_the_loader_accepts() -> None:
    schema = mission_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    loaded = load_mission(WHOLE, source="m.yaml").model_dump(mode="json", exclude_defaults=True)
    jsonschema.validate(loaded, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"mission": "recon.mission/1", "intnet": {}}, schema)
    assert json.loads(json.dumps(schema)) == schema


@given(
    st.one_of(
        st.text(max_size=120), st.text("-: {}[]&*!|>'\"%@`#?,\n ab1\t~", max_size=80).map(lambda t: HEAD + t)
    )
)
@settings(max_examples=150, deadline=None)
def test_any_text_is_a_mission_or_a_mission_error(text: str) -> None:
    try:
        found = read(text)
    except MissionError as error:
        assert error.message.startswith("m.yaml:") or "names" in error.message
        return
    assert found.text
