"""The script that reads flags from wheels: both ways of declaring them, spans of releases, and one real wheel."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "regenerate_knowledge.py"

BY_CALL = """
CHOICES = ["a", "b"]
MORE = CHOICES + ["c"]
class ServerArgs:
    port: int = 30000
def add(parser):
    parser.add_argument("--port", type=int, default=ServerArgs.port)
    parser.add_argument("--tensor-size", "--tp", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="Deprecated: use --quicker.")
    parser.add_argument("--kind", choices=MORE)
    parser.add_argument("--nodes", nargs="+", type=int)
    parser.add_argument("--gone", action=DeprecatedAction, error_message="use --port")
"""
BY_FIELD = """
from typing import List, Literal, Optional
class ServerArgs:
    model_path: A[str, Arg(help="where", aliases=["--model"])]
    port: A[int, "the port"] = 30000
    mode: A[Literal["null", "prefill"], "the mode"] = "null"
    nodes: A[Optional[List[int]], "nodes"] = None
    blob: A[Optional[List[str]], Arg(help="json", type_parser=json_list_type)] = None
    fast: A[Optional[bool], Arg(help="fast", action=argparse.BooleanOptionalAction)] = None
    inner: A[int, Arg(help="no", no_cli=True)] = 1
    plain: Optional[dict] = None
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("regenerate_knowledge", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def wheel(folder: Path, version: str, text: str) -> Path:
    """A zip with the one file that the script looks for."""
    path = folder / f"sglang-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sglang/srt/server_args.py", "\ufeff" + text)
    return path


def test_flags_declared_by_calls(script: ModuleType, tmp_path: Path) -> None:
    flags = script.flags_of(script.sources_of(wheel(tmp_path, "1.0", BY_CALL)))
    assert (flags["--port"].type, flags["--port"].default, flags["--port"].nargs) == ("int", 30000, 1)
    assert flags["--tensor-size"].names == ["--tensor-size", "--tp"]
    assert (flags["--quick"].nargs, flags["--quick"].deprecated) == (0, True)
    assert flags["--kind"].choices == ["a", "b", "c"]
    assert flags["--nodes"].nargs == "+"
    assert (flags["--gone"].refused, flags["--gone"].nargs) == ("use --port", 0)


def test_flags_declared_by_fields(script: ModuleType, tmp_path: Path) -> None:
    flags = script.flags_of(script.sources_of(wheel(tmp_path, "1.0", BY_FIELD)))
    assert set(flags) == {"--model-path", "--port", "--mode", "--nodes", "--blob", "--fast"}
    assert flags["--model-path"].required and flags["--model-path"].names[1:] == ["--model"]
    assert flags["--mode"].choices == ["null", "prefill"]
    assert (flags["--nodes"].nargs, flags["--nodes"].type) == ("+", "int")
    assert (flags["--blob"].nargs, flags["--blob"].type) == (1, "json")
    assert (flags["--fast"].nargs, flags["--fast"].negated) == (0, ["--no-fast"])


def test_releases_that_declare_alike_are_one_span(script: ModuleType) -> None:
    flag = script.Flag
    made = script.table(
        {
            "1.9": {"--a": flag(["--a"]), "--b": flag(["--b"])},
            "1.10.post1": {"--a": flag(["--a"]), "--b": flag(["--b"], type="int")},
            "1.11": {"--a": flag(["--a"])},
        }
    )
    assert made["releases"] == ["1.9", "1.10.post1", "1.11"]
    assert made["flags"]["--a"] == [{"from": "1.9", "to": "1.11"}]
    assert made["flags"]["--b"] == [
        {"from": "1.9", "to": "1.9"},
        {"from": "1.10.post1", "to": "1.10.post1", "type": "int"},
    ]
    assert json.loads(script.text_of(made)) == made


def test_what_a_wheel_would_change_is_shown_and_nothing_is_written(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = script.FOLDER / "sglang_flags.json"
    before = table.read_bytes()
    assert script.main([str(wheel(tmp_path, "9.9", BY_CALL))]) == 1
    assert '+   {"default": 30000, "from": "9.9", "to": "9.9", "type": "int"}' in capsys.readouterr().out
    assert table.read_bytes() == before


def test_another_package_is_refused(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="no wheel of sglang"):
        script.version_of(Path("torch-2.0-py3-none-any.whl"))


def test_a_real_wheel_gives_the_flags_of_the_table(script: ModuleType, tmp_path: Path) -> None:
    """SGLang 0.5.9 from the package index: 5 MB, nothing of it is installed."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "sglang==0.5.9",
    ]
    try:
        got = subprocess.run(
            [*command, "-d", str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("the package index did not give the wheel within 120 s")
    wheels = list(tmp_path.glob("sglang-0.5.9-*.whl"))
    if not wheels:
        pytest.skip(f"the package index did not give the wheel: {got.stderr.strip()[-200:]}")
    made = script.table({"0.5.9": script.flags_of(script.sources_of(wheels[0]))})["flags"]
    held = json.loads((script.FOLDER / "sglang_flags.json").read_text())["flags"]
    of_059 = {name: spans[0] for name, spans in held.items() if spans[0]["from"] == "0.5.9"}
    assert set(made) == set(of_059) and len(made) > 300
    for name, spans in made.items():
        mine, theirs = ({k: v for k, v in row.items() if k != "to"} for row in (spans[0], of_059[name]))
        assert mine == theirs, name
