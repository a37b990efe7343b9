"""The bundle that recon ships is what its composers give, holds no secret, and answers all that its mission asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from recon.agent.connectors.replay import read_bundle
from recon.agent.model.findings import Observation

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "tasks" / "recordings" / "flagship.tar.gz"


def test_the_bundle_is_what_the_composers_give() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "compose_flagship.py"), "--check"],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "flagship.tar.gz is up to date"), done.stderr


def test_the_bundle_holds_no_planted_secret() -> None:
    bundle = read_bundle(BUNDLE)
    everything = b"".join(bundle.blobs.values()) + repr((bundle.manifest, bundle.observations)).encode()
    assert b"sk-fake" not in everything and b"hf_FAKE" not in everything


def test_facts_that_age_in_a_minute_are_fresh_when_the_replay_looks() -> None:
    bundle = read_bundle(BUNDLE)
    times = [Observation.model_validate(row).observed_at for row in bundle.observations]
    assert 0 < bundle.manifest["as_of"] - max(times) <= 5.0
    assert bundle.manifest["as_of"] - min(times) < 60.0


def test_the_manifest_names_the_mission() -> None:
    manifest = read_bundle(BUNDLE).manifest
    assert (manifest["format"], manifest["origin"], manifest["decisions"]) == (
        "recon-bundle/1",
        "composed",
        [],
    )
    intent = manifest["triage"]["intent"]
    assert (intent["host"], intent["model"]) == ("ct200", "canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP")
    assert manifest["revisions"][0]["bindings"]["host"] == "host:ct200"
