"""`recon inspect model` on every folder of real metadata: no wrong format, and how much of what the data decide is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recon.agent.cli.inspection import load_inspection, look
from recon.agent.connectors.directory import DirectorySource
from recon.agent.model.missions import Intent

ROOT = Path(os.environ.get("RECON_CORPUS", "")) / "models"
pytestmark = pytest.mark.skipif(
    "RECON_CORPUS" not in os.environ, reason="RECON_CORPUS names no corpus folder"
)
FOLDERS = sorted(p.parent for p in ROOT.glob("*/facts.json")) if "RECON_CORPUS" in os.environ else []
# Data that say nothing of formats: a card or a name alone.
SPEAKING = (
    "config.json", "config.partial.json", "config.abridged.json", "hf_quant_config.json", "quantize_config.json", "quant_metadata.json",
    "tensors.json", "model.safetensors.index.json", "params.json", "adapter_config.json",
)  # fmt: skip


def inspected(folder: Path) -> dict[str, Any]:
    """The document of a folder."""
    inspection, source = load_inspection("model"), DirectorySource(folder)
    looked = look(inspection, Intent(model=source.repo), listen=lambda message: None, source=source)
    assert looked.code == 0
    return inspection.document(looked.view, [j.judgement for j in looked.state.judgements])


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    return {folder.name: inspected(folder) for folder in FOLDERS}


def answers(folder: Path) -> dict[str, Any]:
    """The truth beside the data; only this test reads it."""
    return dict(json.loads((folder / "facts.json").read_text()))


def test_no_format_is_wrong_and_nearly_all_that_the_data_decide_is_told(
    documents: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, missed, told = [], [], 0
    for folder in FOLDERS:
        truth, found = answers(folder), documents[folder.name]["components"]
        decided = truth["observed"] == "exact"
        for name, want in truth["components"].items():
            have = found.get(name, {"format": "unknown", "presence": "unknown"})
            word, presence = want.get("format", "unknown"), want.get("presence")
            if presence == "absent":
                ok, said = have["presence"] == "absent", have["presence"] != "unknown"
            else:
                if word == "unknown":
                    continue
                ok, said = have["format"] == word, have["format"] != "unknown"
                ok = ok and (
                    "group_size" not in want
                    or have.get("group_size", want["group_size"]) == want["group_size"]
                )
            if ok:
                told += 1
            elif said:
                wrong.append((folder.name, name, want, have))
            elif decided:
                missed.append(f"{folder.name} {name}: {word if presence != 'absent' else 'absent'}")
    with capsys.disabled():
        print(
            f"\n{len(FOLDERS)} checkpoints: {told} components told, {len(wrong)} wrong, {len(missed)} decided by the data but not told"
        )
        print("".join(f"  {line}\n" for line in missed), end="")
    assert wrong == []
    assert len(missed) <= 0.05 * (told + len(missed))


def test_metadata_alone_never_proves(documents: dict[str, dict[str, Any]]) -> None:
    for name, document in documents.items():
        levels = {row["level"] for row in document["components"].values()}
        assert levels <= {"declared", "claimed", "unknown"}, name


def test_every_document_has_its_parts(documents: dict[str, dict[str, Any]]) -> None:
    keys = {"components", "architecture", "engines_named", "declared", "claimed", "bytes", "bytes_per_rank", "kv_bytes_per_token",
            "discrepancies", "servable", "siblings", "schema"}  # fmt: skip
    for name, document in documents.items():
        assert keys <= set(document), name
        assert json.loads(json.dumps(document)) == document
        for row in document["components"].values():
            assert {"format", "presence", "level", "evidence"} <= set(row)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_command_on_a_folder(form: str, tmp_path: Path) -> None:
    folder = ROOT / "nvidia__Qwen3.6-27B-NVFP4"
    done = subprocess.run(
        [sys.executable, "-m", "recon", "inspect", "model", str(folder), "--tp", "4", "--format", form],
        capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [], "an inspection leaves nothing behind"
    if form == "json":
        assert json.loads(done.stdout)["repo"] == "nvidia/Qwen3.6-27B-NVFP4"
    else:
        assert "NVFP4 weight-only" in done.stdout and max(map(len, done.stdout.splitlines())) <= 80
