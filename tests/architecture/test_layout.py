"""How the tree is laid out, and what must never be in it."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tree import ROOT, project_files

ROOMS = ("agent", "tasks", "kernels")
LONGEST_MODULE = 600  # lines; tables and migrations are data and may be longer
EXEMPT = ("tasks/knowledge/", "agent/store/migrations/")

# Spelled in halves, so that this file does not hold what it forbids.
FORBIDDEN = tuple(
    "".join(halves)
    for halves in (
        ("pypi", ".org"), ("pythonhosted", ".org"), ("pypi", "-more"), ("registry.npm", "js.org"), ("deb.debian", ".org"),
        ("proxy.golang", ".org"), ("/work", "/main"), ("/work", "/shared"), ("/work", "/.library"), ("/tmp", "/v/bin"),
        ("--index", "-url"), ("--extra-index", "-url"), ("index", "-url ="),
    )
)  # fmt: skip


def test_each_room_is_a_link_to_its_folder_at_the_top() -> None:
    for room in ROOMS:
        link = ROOT / "src" / "recon" / room
        assert link.is_symlink(), f"{link} is no link: was this cloned with core.symlinks=false?"
        assert not link.readlink().is_absolute()
        assert link.resolve() == ROOT / room


def test_kernels_does_not_hide_the_package_of_the_same_name() -> None:
    assert not (ROOT / "kernels" / "__init__.py").exists()
    for room in ("probes", "tuning"):
        assert (ROOT / "kernels" / room / "__init__.py").is_file()


def test_no_tests_folder_is_a_package() -> None:
    assert [str(p) for p in (ROOT / "tests").rglob("__init__.py")] == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_is_too_long_to_read(room: str) -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in (ROOT / room).rglob("*.py")}
    assert lengths, f"no module found in {room}"
    long = {name: n for name, n in lengths.items() if n > LONGEST_MODULE and not name.startswith(EXEMPT)}
    assert long == {}


def _texts(path: Path) -> Iterator[tuple[str, bytes]]:
    """The bytes of a file; for an archive also those of its members."""
    if path.name.endswith((".tar.gz", ".tgz")):
        with tarfile.open(path) as archive:
            for member in archive:
                held = archive.extractfile(member)
                if held is not None:
                    yield f"{path.relative_to(ROOT)}:{member.name}", held.read()
    yield str(path.relative_to(ROOT)), path.read_bytes()


def test_no_file_names_a_package_registry_or_a_path_of_the_machine_it_was_written_on() -> None:
    found = [
        f"{name}: {words}"
        for path in project_files()
        for name, body in _texts(path)
        for words in FORBIDDEN
        if words.encode() in body
    ]
    assert found == []


def test_every_subpackage_is_importable_as_one() -> None:
    """A folder of modules without __init__.py would be left out of import contracts without a word."""
    bare = {
        str(p.parent.relative_to(ROOT))
        for room in ("agent", "tasks")
        for p in (ROOT / room).rglob("*.py")
        if not (p.parent / "__init__.py").exists()
    }
    assert {name for name in bare if "/migrations" not in name} == set()


def test_hooks_run_local_tools_only() -> None:
    from ruamel.yaml import YAML

    config = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    assert {hook["language"] for repo in config["repos"] for hook in repo["hooks"]} == {"system"}
