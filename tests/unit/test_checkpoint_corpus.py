"""Conformance over a folder of real checkpoints' metadata, named by RECON_CORPUS (its `models` folder is read).

Each folder's files together must declare no format that is wrong, and nearly all that they decide. `facts.json` is the answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from recon.agent.api import Raw
from recon.tasks.facts.config import parse_config
from recon.tasks.facts.declared import declare
from recon.tasks.facts.hub import download_plan
from recon.tasks.facts.index_names import index_names, modules_of, stored
from recon.tasks.facts.module_names import real_names
from recon.tasks.facts.tensor_rules import component_of, split_name, template_of

ROOT = Path(os.environ.get("RECON_CORPUS", "")) / "models"
pytestmark = pytest.mark.skipif(
    "RECON_CORPUS" not in os.environ, reason="RECON_CORPUS names no corpus folder"
)
FOLDERS = sorted(p.parent for p in ROOT.glob("*/facts.json")) if "RECON_CORPUS" in os.environ else []
INDEX = "model.safetensors.index.json"
NEVER = ("facts.json", "tensors.json", INDEX)
AS = {"config.partial.json": "config.json", "config.abridged.json": "config.json"}


@cache
def declared(folder: Path) -> dict[str, Any]:
    """The components that a folder's files declare together; empty where none says anything."""
    found = sorted(folder.glob("*.json"), reverse=True)
    files = {AS.get(p.name, p.name): json.loads(p.read_text()) for p in found if p.name not in NEVER}
    drafts = {
        d.name: d
        for d in parse_config(Raw(state="ok", stdout=json.dumps(files.get("config.json", {})).encode()))
    }
    known = drafts["architecture"].value if "config.json" in files else {}
    more: dict[str, Any] = {}
    if (folder / INDEX).exists():
        modules, layers = (
            modules_of(index_names(json.loads((folder / INDEX).read_text()))),
            known.get("layers"),
        )
        more = {"real": real_names(modules, layers=layers), "stored": stored(modules, layers=layers)}
    value = declare(files, known, plain=str(drafts["plain_dtype"].value), **more)
    return {} if value is None else dict(value["components"])


def wanted(folder: Path) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """(component, the answer, whether the folder's files decide it) of everything the answer knows."""
    facts = json.loads((folder / "facts.json").read_text())
    for name, want in facts["components"].items():
        if want.get("format", "unknown") != "unknown" or want["presence"] == "absent":
            yield name, want, facts["observed"] == "exact"


def right(have: dict[str, Any], want: dict[str, Any]) -> bool:
    if want["presence"] == "absent":
        return have.get("presence") == "absent"
    same = have.get("format") == want["format"] and have.get("presence") != "absent"
    return same and ("group_size" not in want or have.get("group_size") == want["group_size"])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_no_declared_format_is_wrong(folder: Path) -> None:
    """Unknown is allowed, a wrong word, group size or presence is not."""
    for name, want, _ in wanted(folder):
        have = declared(folder).get(name, {})
        silent = have.get("format", "unknown") == "unknown" and have.get("presence") != "absent"
        unsaid = want["presence"] == "absent" and have.get("presence") != "present"
        assert silent or unsaid or right(have, want), (name, want, have)


def test_nearly_all_that_the_files_decide_is_told() -> None:
    rows = [(f.name, n, w, declared(f).get(n, {})) for f in FOLDERS for n, w, decided in wanted(f) if decided]
    told = sum(right(have, want) for _, _, want, have in rows)
    print(f"\ncomponents told: {told} of {len(rows)} that the files of {len(FOLDERS)} folders decide")
    missed = [row for row in rows if not right(row[3], row[2])]
    assert told >= 0.95 * len(rows), missed


@pytest.mark.skipif(
    not list(ROOT.glob("*/model.safetensors.index.json")), reason="the corpus holds no index file"
)
def test_every_name_of_a_real_index_but_norms_finds_a_component() -> None:
    for index in ROOT.glob("*/model.safetensors.index.json"):
        names = json.loads(index.read_text())["weight_map"]
        modules = {template_of(split_name(name)[0]) for name in names}
        lost = {m for m in modules if component_of(m) == "other" and "norm" not in m and ".ln_" not in m}
        assert not lost, index.parent.name


def test_two_copies_of_the_weights_are_counted_once() -> None:
    """A consolidated file beside the shards holds the same tensors again."""
    names = json.loads((ROOT / "mistralai__Devstral-Small-2507/model.safetensors.index.json").read_text())[
        "weight_map"
    ]
    shards = sorted(set(names.values()))
    files = [(name, 1) for name in [*shards, "consolidated.safetensors", "model.safetensors.index.json"]]
    wanted, skipped = download_plan(files)
    assert "consolidated.safetensors" in skipped
    assert set(shards) <= wanted
