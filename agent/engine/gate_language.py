"""The language of gates: what may be written, which dimensions fit together, how it reads in words."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from recon.agent.model.errors import PlanError

MAX_NODES: Final = 64
MAX_DEPTH: Final = 8
COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "is", ast.NotEq: "is not", ast.Lt: "is below", ast.LtE: "is at most", ast.Gt: "is above",
    ast.GtE: "is at least", ast.In: "is one of", ast.NotIn: "is none of",
}  # fmt: skip
ARITHMETIC: Final[dict[type[ast.operator], str]] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "x"}
PATH_CALLS: Final = frozenset({"known", "absent", "proved", "fresh"})
KEY_CALLS: Final = frozenset({"decided", "answered", "done"})
VALUE_CALLS: Final[dict[str, int]] = {"GB": 1, "GiB": 1, "s": 1, "set": 1, "count": 1, "subset": 2}
_UNIT_OF_SUFFIX: Final = (("_bytes", "bytes"), ("_mib", "MiB"), ("_gib", "GiB"), ("_s", "s"))


class Scan:
    """Walks a predicate once: allow-list, size limits, paths and keys."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.nodes = 0
        self.paths: list[str] = []
        self.keys: list[str] = []

    def refuse(self, node: ast.AST, why: str) -> PlanError:
        column = getattr(node, "col_offset", 0) + 1
        return PlanError(f"gate {self.text!r}, column {column}: {why}")

    def expression(self, node: ast.expr, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.refuse(node, f"more than {MAX_NODES} parts")
        if depth > MAX_DEPTH:
            raise self.refuse(node, f"nested deeper than {MAX_DEPTH}")
        if (path := path_of(node)) is not None:
            self.paths.append(path)
            return
        for child in self.children(node):
            self.expression(child, depth + 1)

    def children(self, node: ast.expr) -> Sequence[ast.expr]:
        match node:
            case ast.BoolOp(values=values):
                return values
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                return (operand,)
            case ast.Compare(left=left, ops=ops, comparators=right) if all(
                type(op) in COMPARISONS for op in ops
            ):
                return (left, *right)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                return (left, right)
            case ast.Constant(value=value) if isinstance(value, (bool, int, float, str)):
                return ()
            case ast.List(elts=elements):
                return elements
            case ast.Call():
                return self.call(node)
            case _:
                raise self.refuse(node, f"{type(node).__name__} is not part of the gate language")

    def call(self, node: ast.Call) -> Sequence[ast.expr]:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self.refuse(node, 'only plain calls like decided("disk.room") are allowed')
        name = node.func.id
        if name in KEY_CALLS:
            if not node.args or not all(
                isinstance(a, ast.Constant) and isinstance(a.value, str) for a in node.args
            ):
                raise self.refuse(node, f"{name}() takes quoted names")
            if len(node.args) > 1 and name != "decided":
                raise self.refuse(node, f"{name}() takes one name")
            self.keys.append(str(node.args[0].value))  # type: ignore[attr-defined]
        elif name in PATH_CALLS:
            if len(node.args) != 1 or path_of(node.args[0]) is None:
                raise self.refuse(node, f'{name}() takes one path like host.fs["/"].avail_bytes')
        elif VALUE_CALLS.get(name) != len(node.args):
            known = sorted({*KEY_CALLS, *PATH_CALLS, *VALUE_CALLS})
            raise self.refuse(
                node, f"no call {name}() with {len(node.args)} arguments; there are {', '.join(known)}"
            )
        return node.args


def path_of(node: ast.expr) -> str | None:
    """The path text of an attribute/subscript chain, or None where the node is something else."""
    match node:
        case ast.Attribute(value=ast.Name(id=role), attr=attr):
            return f"{role}.{attr}"
        case ast.Attribute(value=inner, attr=attr):
            head = path_of(inner)
            return None if head is None else f"{head}.{attr}"
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)) if not isinstance(
            key, bool
        ):
            head = path_of(inner)
            if head is None:
                return None
            return f'{head}["{key}"]' if isinstance(key, str) else f"{head}[{key}]"
        case _:
            return None


def check_units(node: ast.expr, text: str) -> str | None:
    """The dimension an expression must have, as far as names tell. Raises PlanError where two differ."""
    if (path := path_of(node)) is not None:
        return next((unit for suffix, unit in _UNIT_OF_SUFFIX if path.endswith(suffix)), None)
    match node:
        case ast.Call(func=ast.Name(id="GB" | "GiB")):
            return "bytes"
        case ast.Call(func=ast.Name(id="s")):
            return "s"
        case ast.Call(func=ast.Name(id="count")):
            return "count"
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return check_units(left, text) or check_units(right, text)
        case ast.BinOp(left=left, right=right):
            return _same_unit((left, right), text)
        case ast.Compare(left=left, comparators=right):
            _same_unit((left, *right), text)
        case ast.BoolOp(values=values):
            for value in values:
                check_units(value, text)
        case ast.UnaryOp(operand=operand):
            return check_units(operand, text)
    return None


def _same_unit(nodes: Sequence[ast.expr], text: str) -> str | None:
    units = {unit for node in nodes if (unit := check_units(node, text)) is not None}
    if len(units) > 1:
        raise PlanError(f"gate {text!r} compares {' with '.join(sorted(units))}")
    return next(iter(units), None)


def words_of(node: ast.expr) -> str:
    """The predicate in words."""
    if (path := path_of(node)) is not None:
        return path
    match node:
        case ast.BoolOp(op=op, values=values):
            return (" and " if isinstance(op, ast.And) else " or ").join(words_of(v) for v in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"not ({words_of(operand)})"
        case ast.UnaryOp(operand=operand):
            return f"-{words_of(operand)}"
        case ast.Compare(left=left, ops=ops, comparators=right):
            pairs = zip(ops, right, strict=True)
            return words_of(left) + "".join(
                f" {COMPARISONS[type(op)]} {words_of(value)}" for op, value in pairs
            )
        case ast.BinOp(left=left, op=op, right=right):
            return f"{words_of(left)} {ARITHMETIC[type(op)]} {words_of(right)}"
        case ast.Constant(value=value):
            return str(value)
        case ast.List(elts=elements):
            return "[" + ", ".join(words_of(e) for e in elements) + "]"
        case ast.Call(func=ast.Name(id=name), args=args):
            return _call_words(name, args)
        case _:
            return ast.unparse(node)


def _call_words(name: str, args: Sequence[ast.expr]) -> str:
    inner = [words_of(a) for a in args]
    match name:
        case "decided" if len(inner) > 1:
            return f"{inner[0]} is decided as {' or '.join(inner[1:])}"
        case "decided" | "answered" | "done" | "known" | "absent" | "proved" | "fresh":
            return f"{inner[0]} is {name}"
        case "GB" | "GiB" | "s":
            return f"{inner[0]} {name}"
        case "subset":
            return f"{inner[0]} within {inner[1]}"
        case "count":
            return f"number of {inner[0]}"
        case _:
            return inner[0]
