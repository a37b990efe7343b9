"""The public face of recon for authors of tasks: exactly what `recon.agent.api` lists."""

from __future__ import annotations

import ast
import inspect

from support.tree import ROOT

from recon.agent import api


def _declared() -> set[str]:
    """Public names that api.py defines, or imports from recon (what it takes from the library is not part of it)."""
    names: set[str] = set()
    for node in ast.parse((ROOT / "agent" / "api.py").read_text()).body:
        match node:
            case ast.ImportFrom(module=module) if module is not None and module.startswith("recon."):
                names |= {alias.asname or alias.name for alias in node.names}
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def test_all_lists_exactly_what_the_module_declares() -> None:
    assert set(api.__all__) == _declared()
    assert len(api.__all__) == len(set(api.__all__))


def test_all_is_sorted() -> None:
    """Constants, then classes, then functions, each by name."""

    def order(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert list(api.__all__) == sorted(api.__all__, key=order)


def test_every_listed_class_says_what_it_is() -> None:
    listed = {name: getattr(api, name) for name in api.__all__}
    silent = [
        name for name, value in listed.items() if inspect.isclass(value) and not value.__dict__.get("__doc__")
    ]
    assert silent == []


def test_the_public_face_is_that_of_the_installed_package() -> None:
    source = inspect.getsourcefile(api)
    assert source is not None
    assert source.endswith("/recon/agent/api.py"), "loaded under a bare name: a second copy"
