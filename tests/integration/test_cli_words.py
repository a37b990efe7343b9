"""Words that say nothing are refused before anything is made; words that found no place are always shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import recon, within


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("hello",), ("'hello': it names no model", "understood: nothing", "not understood: hello")),
        (("a", "b", "c", "d"), ("'a b c d': it names no model", "not understood: a b c d")),
        (("sglang", "tp4"), ("understood: engine sglang, tp 4",)),
        (("folder",), ("folder: is a folder",)),
        (("./folder",), ("./folder: is a folder",)),
        (("m.yaml", "extra"), ("m.yaml: a mission file says everything itself; 'extra' does not belong",)),
        (("extra", "m.yaml"), ("m.yaml: a mission file says everything itself; 'extra' does not belong",)),
        (("gone.yaml", "extra"), ("gone.yaml: a mission file says everything itself",)),
    ],
    ids=lambda v: " ".join(v)[:20],
)
def test_words_without_a_mission_are_refused(
    tmp_path: Path, words: tuple[str, ...], told: tuple[str, ...]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "m.yaml").write_text("mission: recon.mission/1\nintent: {host: localhost}\n")
    ended = within(tmp_path, "run", *words, code=2)
    assert all(part in ended.stderr for part in told) and "\n  -> recon run " in ended.stderr
    assert not (tmp_path / "state.db").exists()


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (("acme/x-1", "bad host"), "bad host"),
        (("acme/x-1", "hello"), "hello"),
        (("acme/x-1", "gpu07", "please", "frobnicate"), "please frobnicate"),
        (("GLM-5", "TP4", "frobnicate"), "frobnicate"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else v,
)
def test_what_found_no_place_is_shown(tmp_path: Path, words: tuple[str, ...], lost: str) -> None:
    shown = within(tmp_path, "triage", *words).stdout
    assert f"not understood\n  {lost}\n" in shown


def test_a_run_says_at_once_what_it_did_not_understand(tmp_path: Path) -> None:
    ended = recon(tmp_path, "run", "acme/x-1", "bad host", "--hub", "http://127.0.0.1:9", code=4)
    assert ended.stderr.startswith("not understood: bad host\n")
    assert "not understood: bad host" in ended.stdout
    assert "acme/x-1 bad host" in within(tmp_path, "missions").stdout


def test_a_mission_without_words_is_listed_by_its_sentence(tmp_path: Path) -> None:
    recon(tmp_path, "run", "--model", "acme/x-1", "--hub", "http://127.0.0.1:9", code=4)
    assert "Serve acme/x-1 " in within(tmp_path, "missions").stdout
