"""Which way imports point, and what a start must not load."""

from __future__ import annotations

import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.tree import ROOT

HEAVY = (
    "asyncssh",
    "huggingface_hub",
    "textual",
    "sqlalchemy",
    "alembic",
    "httpx",
    "bs4",
    "torch",
    "sglang",
    "ruamel",
)
TOOLS = Path(sys.executable).parent
# `recon --help` against a bare interpreter, CPU seconds. The target is 0.15 s on a quiet machine; the limit leaves
# room for a slow or shared one and still catches a heavy import (each costs 0.1 s and more).
HELP_CPU_LIMIT_S = 0.30


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that does not have the current folder on its path."""
    return subprocess.run([sys.executable, "-P", *arguments], capture_output=True, text=True, check=False)


def test_imports_point_the_way_the_contracts_say() -> None:
    done = subprocess.run([TOOLS / "lint-imports"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_stands_in_a_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {name.strip() for line in contracts[0]["layers"] for name in line.split("|")}
    rooms = {f"recon.agent.{p.parent.name}" for p in (ROOT / "agent").glob("*/__init__.py")}
    assert rooms - layers == set(), "a new room: say where it stands in pyproject.toml"


_LOADED = "import sys; print(sorted(set({heavy!r}) & {{name.split('.')[0] for name in sys.modules}}))"


@pytest.mark.parametrize("module", ["recon", "recon.agent.cli", "recon.agent.api"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    done = _python("-c", f"import {module}; " + _LOADED.format(heavy=HEAVY))
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    program = (
        f"import sys; sys.argv = ['recon', *{arguments!r}]\n"
        "from recon.agent.cli import main\n"
        "try: code = main()\n"
        "except SystemExit as end: code = end.code\n"
        "print('\\ncode', code or 0)\n" + _LOADED.format(heavy=HEAVY)
    )
    done = _python("-c", program)
    assert done.stdout.splitlines()[-2:] == ["code 0", "[]"], done.stdout + done.stderr


def test_help_starts_fast() -> None:
    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert _python("-m", "recon", "--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)

    cpu_seconds()  # the first start writes the bytecode
    assert min(cpu_seconds() for _ in range(5)) < HELP_CPU_LIMIT_S


def test_kernels_run_alone() -> None:
    """What is sent to a host must import without recon's own rooms."""
    program = (
        "import importlib, pkgutil, sys\n"
        "import recon.kernels.probes as probes, recon.kernels.tuning as tuning\n"
        "print(sorted(n for n in sys.modules if n.startswith(('recon.agent', 'recon.tasks'))))"
    )
    done = _python("-c", program)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
