"""Writes the machine-made tables of SGLang's server and router flags anew from wheels, or shows what a release would change.

    python scripts/regenerate_knowledge.py WHEEL|FOLDER ...            the difference to the table in the repository
    python scripts/regenerate_knowledge.py --write WHEEL|FOLDER ...    and writes it

Give the wheels of all releases the table shall know (pip download --no-deps sglang==VERSION); nothing of them is imported
or run. Two ways of declaring flags are read: `parser.add_argument(...)` (all releases) and fields annotated
`A[type, Arg(...)]` (0.5.14 and later), both from the syntax tree.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "tasks" / "knowledge"
# package -> (table, files that declare flags)
PACKAGES: Final = {
    "sglang": ("sglang_flags.json", re.compile(r"^sglang/srt/(server_args\.py|arg_groups/.*\.py)$")),
    "sglang_router": (
        "sglang_router_flags.json",
        re.compile(r"^sglang_router/(router_args|launch_router)\.py$"),
    ),
}
_WHEEL: Final = re.compile(r"^(sglang|sglang_router)-([^-]+)-")
_CALLED_IN: Final = ("server_args.py", "router_args.py", "launch_router.py")
# functions that read a value -> the kind of word they take; any other is "any"
_KINDS: Final = {
    "int": "int", "float": "float", "str": "str", "nullable_str": "str", "human_readable_int": "size", "loads": "json",
    "json_list_type": "json",
}  # fmt: skip


@dataclass
class Flag:
    """How one release declares a flag. `nargs`: 0 (a switch), 1, "+", "*" or "?"; `choices` None where they are open."""

    names: list[str]
    nargs: int | str = 1
    type: str = "str"
    choices: list[str] | None = None
    deprecated: bool = False
    use: str = ""  # what its own warning names instead
    refused: str = ""  # the words it stops the launch with
    required: bool = False
    negated: list[str] = field(default_factory=list)  # --no-... spellings
    default: Any = None  # where it is a plain word or number


def flags_of(sources: Mapping[str, str]) -> dict[str, Flag]:
    """The flags that the sources of one release declare, by first name.

    `sources`: text by path inside the wheel. Raises SyntaxError where a file is no Python.
    """
    trees = {path: ast.parse(text.lstrip("\ufeff")) for path, text in sorted(sources.items())}
    constants, defaults = _constants(trees.values()), _defaults(trees.values())
    found: dict[str, Flag] = {}
    for path, tree in trees.items():
        if path.endswith(_CALLED_IN):
            for call in _calls(tree):
                _keep(found, _from_call(call, constants, defaults))
        for name, annotation, has_default in _fields(tree):
            flag = _from_field(name, annotation, has_default, constants)
            if flag is not None and flag.nargs != 0:
                flag.default = defaults.get(name)
            _keep(found, flag)
    return found


def _keep(found: dict[str, Flag], flag: Flag | None) -> None:
    if flag is not None:
        found.setdefault(flag.names[0], flag)


# ---- declarations by call


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_argument"
        ):
            yield node


def _from_call(
    call: ast.Call, constants: Mapping[str, list[str]], defaults: Mapping[str, Any]
) -> Flag | None:
    names = [name for a in call.args if (name := _option(a))]
    if not names or not names[0].startswith("--"):
        return None
    given = {k.arg: k.value for k in call.keywords if k.arg}
    flag = Flag(names)
    flag.type = _type_name(given.get("type"))
    flag.choices = _strings(given.get("choices"), constants)
    flag.required = _literal(given.get("required")) is True
    _apply_action(flag, given.get("action"), given)
    nargs = _literal(given.get("nargs"))
    if "nargs" in given:
        flag.nargs = 1 if nargs is None else nargs
    flag.deprecated = flag.deprecated or _says_deprecated(given.get("help"))
    said = given.get("default")
    if flag.nargs != 0:
        flag.default = defaults.get(said.attr) if isinstance(said, ast.Attribute) else _plain(said)
    return flag


def _option(node: ast.expr) -> str:
    """The spelling of an option; a prefix that is filled in only when embedded in another program is left out."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    value = _literal(node)
    return value if isinstance(value, str) else ""


def _apply_action(flag: Flag, action: ast.expr | None, given: Mapping[str, ast.expr]) -> None:
    name = _name(action) or str(_literal(action) or "")
    if name in ("store_true", "store_false", "store_const", "help"):
        flag.nargs = 0
    elif name == "BooleanOptionalAction":
        flag.nargs = 0
        flag.negated = [f"--no-{n.removeprefix('--')}" for n in flag.names if n.startswith("--")]
    elif name.startswith("Deprecated"):
        flag.deprecated = True
        flag.nargs = 1 if "Alias" in name else 0
        flag.use = str(_literal(given.get("new_flag")) or "")
        flag.refused = str(_literal(given.get("error_message")) or "")


# ---- declarations by annotated field


def _fields(tree: ast.AST) -> Iterator[tuple[str, ast.Subscript, bool]]:
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef):
            for node in owner.body:
                annotated = isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Subscript)
                if annotated and _name(node.annotation.value) == "A" and isinstance(node.target, ast.Name):
                    yield node.target.id, node.annotation, node.value is not None


def _from_field(
    name: str, annotation: ast.Subscript, has_default: bool, constants: Mapping[str, list[str]]
) -> Flag | None:  # fmt: skip
    parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    given: dict[str, ast.expr] = {}
    about: ast.expr | None = None
    for part in parts[1:]:
        if isinstance(part, ast.Call) and _name(part.func) == "Arg":
            given = {k.arg: k.value for k in part.keywords if k.arg}
            about = given.get("help") or (part.args[0] if part.args else None)
        elif about is None:
            about = part
    if about is None or _literal(given.get("no_cli")) is True:
        return None
    first = str(_literal(given.get("cli_name")) or f"--{name.replace('_', '-')}")
    if not first.startswith("--"):
        return None
    flag = Flag([first, *(_strings(given.get("aliases"), constants) or [])])
    _apply_type(flag, parts[0], parser=given.get("type_parser"))
    flag.choices = _strings(given.get("choices"), constants) or flag.choices
    if "action" in given:
        flag.nargs = 1
        extra = given.get("action_kwargs")
        more = (
            dict(zip(map(_literal, extra.keys), extra.values, strict=True))
            if isinstance(extra, ast.Dict)
            else {}
        )
        _apply_action(flag, given["action"], {str(k): v for k, v in more.items()})
        flag.nargs = _literal(more["nargs"]) if "nargs" in more else flag.nargs
    if "nargs" in given:
        flag.nargs = _literal(given["nargs"]) or 1
    flag.required = _literal(given.get("required")) is True or (not has_default and "required" not in given)
    flag.deprecated = flag.deprecated or _says_deprecated(about)
    return flag


def _apply_type(flag: Flag, annotation: ast.expr, *, parser: ast.expr | None) -> None:
    inner = _without_optional(annotation)
    outer = _name(inner.value) if isinstance(inner, ast.Subscript) else _name(inner)
    if outer == "Literal" and isinstance(inner, ast.Subscript):
        parts = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
        values = [_literal(part) for part in parts]
        flag.choices = [str(v) for v in values if v is not None]
        flag.type = "int" if values and isinstance(values[0], int) else "str"
    elif outer in ("List", "list") and parser is None:
        flag.nargs = "+"
        flag.type = _type_name(inner.slice) if isinstance(inner, ast.Subscript) else "str"
    elif outer == "bool" and parser is None:
        flag.nargs = 0
    else:
        flag.type = _type_name(inner if parser is None else parser)


def _without_optional(annotation: ast.expr) -> ast.expr:
    if isinstance(annotation, ast.Subscript) and _name(annotation.value) == "Optional":
        return annotation.slice
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return annotation.left
    return annotation


# ---- reading expressions


def _constants(trees: Sequence[ast.AST] | Any) -> dict[str, list[str]]:
    """Module-level lists of words, also those put together from others."""
    found: dict[str, list[str]] = {}
    for _ in range(2):  # a list may be named before the file that defines it is read
        for tree in trees:
            for node in tree.body:
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
                value = getattr(node, "value", None)
                if isinstance(target, ast.Name) and value is not None:
                    words = _strings(value, found)
                    if words is not None:
                        found[target.id] = words
    return found


def _defaults(trees: Any) -> dict[str, Any]:
    """The plain values that fields of classes have from the start, by field name."""
    return {
        node.target.id: value
        for tree in trees
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        for value in [_plain(node.value)]
        if value is not None
    }


def _plain(node: ast.expr | None) -> Any:
    value = _literal(node)
    return value if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None


def _strings(node: ast.expr | None, constants: Mapping[str, list[str]]) -> list[str] | None:
    """The words of a list expression; None where they are not all in the text."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        out: list[str] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = _strings(element.value, constants)
                if inner is None:
                    return None
                out += inner
            elif isinstance(element, ast.Constant):
                out.append(str(element.value))
            else:
                return None
        return out
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _strings(node.left, constants), _strings(node.right, constants)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    return None


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError):
        return None


def _name(node: ast.expr | None) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _type_name(node: ast.expr | None) -> str:
    if node is None:
        return "str"
    return _KINDS.get(_name(node), "any")


def _says_deprecated(node: ast.expr | None) -> bool:
    text = _literal(node)
    return isinstance(text, str) and re.search(r"(?i)^\W{0,3}deprecated|\[deprecated\]", text) is not None


# ---- many releases


def sources_of(wheel: Path) -> dict[str, str]:
    """The files of a wheel that declare flags, by path. Raises zipfile.BadZipFile where it is none."""
    wanted = PACKAGES[package_of(wheel)][1]
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if wanted.match(n)]
        return {n: archive.read(n).decode("utf-8-sig") for n in names}


def package_of(wheel: Path) -> str:
    """The package a wheel's name says. Raises ValueError for a file that is no wheel of SGLang or its router."""
    return _name_of(wheel)[1]


def version_of(wheel: Path) -> str:
    """The release a wheel's name says. Raises ValueError as `package_of`."""
    return _name_of(wheel)[2]


def _name_of(wheel: Path) -> re.Match[str]:
    match = _WHEEL.match(wheel.name)
    if match is None:
        raise ValueError(f"{wheel.name} is no wheel of {' or '.join(PACKAGES)}")
    return match


def in_order(version: str) -> tuple[int, ...]:
    """A key that sorts releases: 0.5.9 < 0.5.10.post1 < 0.5.10.post2."""
    return tuple(int(n) for n in re.findall(r"\d+", version))


def table(releases: Mapping[str, Mapping[str, Flag]]) -> dict[str, Any]:
    """All releases as one table: per flag the spans of releases in which it was declared alike."""
    versions = sorted(releases, key=in_order)
    names = sorted({n for flags in releases.values() for n in flags})
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        spans: list[dict[str, Any]] = []
        previous = None
        for version in versions:
            flag = releases[version].get(name)
            row = None if flag is None else _row(flag)
            if row is not None and row == previous:
                spans[-1]["to"] = version
            elif row is not None:
                spans.append({"from": version, "to": version, **row})
            previous = row
        rows[name] = spans
    return {
        "about": "Flags by release, read from the syntax tree of the wheels by scripts/regenerate_knowledge.py",
        "releases": versions,
        "flags": rows,
    }


def _row(flag: Flag) -> dict[str, Any]:
    plain = Flag([flag.names[0]])
    row = {k: v for k, v in asdict(flag).items() if v != getattr(plain, k)}
    if row.pop("names", None):
        row["aliases"] = sorted(flag.names[1:])
    if "choices" in row:
        row["choices"] = sorted(row["choices"])
    return row


def text_of(made: Mapping[str, Any]) -> str:
    """The table as it stands in the repository: one line a span."""
    lines = [
        f'{{"about": {json.dumps(made["about"])},',
        f' "releases": {json.dumps(made["releases"])},',
        ' "flags": {',
    ]
    flags = list(made["flags"].items())
    for i, (name, spans) in enumerate(flags):
        end = "," if i + 1 < len(flags) else ""
        lines.append(f"  {json.dumps(name)}: [")
        lines += [
            f"   {json.dumps(s, sort_keys=True)}{',' if k + 1 < len(spans) else ''}"
            for k, s in enumerate(spans)
        ]
        lines.append(f"  ]{end}")
    return "\n".join([*lines, " }", "}", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Shows the difference, writes it where asked; 0 where nothing changed or it was written, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL|FOLDER")
    parser.add_argument("--write", action="store_true", help="write the table")
    asked = parser.parse_args(arguments)
    wheels = [w for p in asked.wheels for w in (sorted(p.glob("sglang*.whl")) if p.is_dir() else [p])]
    changed = False
    for package, (name, _) in PACKAGES.items():
        releases = {version_of(w): flags_of(sources_of(w)) for w in wheels if package_of(w) == package}
        if releases:
            changed |= _renew(FOLDER / name, text_of(table(releases)), write=asked.write)
    return 1 if changed and not asked.write else 0


def _renew(path: Path, new: str, *, write: bool) -> bool:
    """Shows what differs; whether anything does."""
    old = path.read_text() if path.exists() else ""
    sys.stdout.writelines(
        difflib.unified_diff(old.splitlines(True), new.splitlines(True), path.name, "wheels", n=0)
    )
    if write:
        path.write_text(new)
    return new != old


if __name__ == "__main__":
    sys.exit(main())
