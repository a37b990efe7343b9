"""The predicate language of gates: parsed from text once, evaluated on a view, always with reasons.

Results follow three-valued logic with the kind of not-knowing kept apart: `true`, `false`, `unknown` (nobody has
looked, or the source does not say), `stale` (looked, but too long ago), `error` (cannot be evaluated). Only `true`
opens. `and` is false if any part is false, else the worst of error > unknown > stale; `or` is true if any part is true,
else likewise; `not` swaps true and false only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from recon.agent.engine.gate_language import (
    ARITHMETIC,
    KEY_CALLS,
    PATH_CALLS,
    VALUE_CALLS,
    Scan,
    check_units,
    path_of,
    words_of,
)
from recon.agent.engine.units import GB, GIB
from recon.agent.engine.view import Read, View
from recon.agent.model.base import Json
from recon.agent.model.errors import PlanError
from recon.agent.model.state import GateState
from recon.agent.model.tasks import GateSpec
from recon.agent.model.words import Level, at_least

Truth: TypeAlias = Literal["true", "false", "unknown", "stale", "error"]

_BADNESS: Final[dict[Truth, int]] = {"stale": 1, "unknown": 2, "error": 3}


@dataclass(frozen=True, slots=True)
class Result:
    """A truth with what it hangs on."""

    truth: Truth
    refs: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Value:
    """A value on its way through an expression; `bad` is set where there is none."""

    value: Json = None
    unit: str | None = None
    text: str = ""
    refs: tuple[str, ...] = ()
    bad: Result | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """A parsed predicate. `paths` and `keys` are what it reads."""

    text: str
    words: str
    body: ast.expr
    paths: tuple[str, ...]
    keys: tuple[str, ...]

    def evaluate(self, view: View, *, min_level: Level = "declared") -> Result:
        """The truth now. Findings below `min_level` do not count, save the directive's own words (role `mission`)."""
        return _truth(self.body, _Env(view, min_level))

    def state(self, spec: GateSpec, view: View, *, min_level: Level = "declared") -> GateState:
        """The same as a value for reports."""
        result = self.evaluate(view, min_level=min_level)
        return GateState(spec=spec, result=result.truth, refs=result.refs, reasons=result.reasons)


@dataclass(frozen=True, slots=True)
class _Env:
    view: View
    min_level: Level


@lru_cache(maxsize=1024)
def parse_gate(text: str) -> Gate:
    """Parses a predicate. Raises PlanError naming the construct that is not allowed, and where."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PlanError(f"gate is not an expression: {text!r}: {error}") from None
    scan = Scan(text)
    scan.expression(tree.body, 1)
    check_units(tree.body, text)
    return Gate(text, words_of(tree.body), tree.body, tuple(scan.paths), tuple(scan.keys))


def _truth(node: ast.expr, env: _Env) -> Result:
    match node:
        case ast.BoolOp(op=op, values=values):
            return _combine(
                [_truth(v, env) for v in values], decisive="false" if isinstance(op, ast.And) else "true"
            )
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(operand, env)
            flipped: dict[Truth, Truth] = {"true": "false", "false": "true"}
            return Result(flipped.get(inner.truth, inner.truth), inner.refs, inner.reasons)
        case ast.Compare():
            return _compare(node, env)
        case ast.Call(func=ast.Name(id=name), args=args) if name in KEY_CALLS:
            return _key_call(name, [str(a.value) for a in args if isinstance(a, ast.Constant)], env.view)
        case ast.Call(func=ast.Name(id=name), args=args) if name in PATH_CALLS:
            return _path_call(name, env.view.read(path_of(args[0]) or ""), env.min_level)
        case _:
            value = _value(node, env)
            if value.bad is not None:
                return value.bad
            if isinstance(value.value, bool):
                return Result(
                    "true" if value.value else "false", value.refs, (f"{value.text} is {value.value}",)
                )
            return Result("error", value.refs, (f"{value.text} is {value.value!r}, not a yes or no",))


def _combine(parts: Sequence[Result], *, decisive: Truth) -> Result:
    deciding = [p for p in parts if p.truth == decisive]
    if deciding:
        chosen = deciding
        truth: Truth = decisive
    else:
        open_parts = [p for p in parts if p.truth in _BADNESS]
        chosen = open_parts or list(parts)
        truth = max((p.truth for p in open_parts), key=_BADNESS.__getitem__) if open_parts else parts[0].truth
    if decisive == "false" and deciding:
        # the reader wants every blocker, also those that are merely open
        chosen = [p for p in parts if p.truth != "true"]
    refs = dict.fromkeys(r for p in chosen for r in p.refs)
    return Result(truth, tuple(refs), tuple(dict.fromkeys(r for p in chosen for r in p.reasons)))


def _key_call(name: str, args: Sequence[str], view: View) -> Result:
    key = args[0]
    if name == "decided":
        decision = view.decided(key)
        void = view.void.get(key, "")
        ok = decision is not None and not void and (len(args) == 1 or decision.option in args[1:])
        reason = "is not decided" if decision is None else f"is decided as {decision.option}"
        if decision is not None and void:
            reason = f"was decided as {decision.option}, but {void}"
    elif name == "answered":
        ok = key in view.answered_keys
        reason = "is answered" if ok else "is not answered"
        view.seen[f"answered:{key}"] = str(ok)
    else:
        ok = key in view.done_keys
        reason = "is done" if ok else "is not done"
        view.seen[f"done:{key}"] = str(ok)
    return Result("true" if ok else "false", (key,), (f"{key} {reason}",))


def _path_call(name: str, read: Read, min_level: Level) -> Result:
    """`known`, `absent`, `fresh`, `proved`: what was not read, or could not be, is neither true nor false."""
    refs = (read.path,)
    reason = f"{read.path}: {read.reason}" if read.reason else f"{read.path} is {read.state}"
    if name == "fresh" and read.state == "stale":
        return Result("false", refs, (reason,))
    if read.state not in ("known", "absent"):
        open_states: dict[str, Truth] = {"stale": "stale", "error": "error"}
        return Result(open_states.get(read.state, "unknown"), refs, (reason,))
    if name == "proved" and read.state == "known":
        return Result("true" if read.level == "proved" else "false", refs, (f"{read.path} is {read.level}",))
    if weak := _too_weak(read, min_level):
        return Result("unknown", refs, (weak,))
    holds = {"known": read.known, "absent": read.state == "absent", "fresh": True, "proved": False}[name]
    return Result("true" if holds else "false", refs, (f"{read.path} is {read.state}",))


def _too_weak(read: Read, min_level: Level) -> str:
    """Why a reading is not proof enough; the directive's own words (role `mission`) always are."""
    of_directive = read.path.startswith(("mission.", "mission["))
    if read.level is None or of_directive or at_least(read.level, min_level):
        return ""
    return f"{read.path} is only {read.level}, {min_level} is needed"


def _compare(node: ast.Compare, env: _Env) -> Result:
    values = [_value(operand, env) for operand in (node.left, *node.comparators)]
    refs = tuple(dict.fromkeys(r for v in values for r in v.refs))
    bad = [v.bad for v in values if v.bad is not None]
    if bad:
        worst = max(bad, key=lambda r: _BADNESS[r.truth])
        return Result(worst.truth, refs, tuple(dict.fromkeys(r for b in bad for r in b.reasons)))
    for op, left, right in zip(node.ops, values, values[1:], strict=False):
        if left.unit and right.unit and left.unit != right.unit:
            return Result("error", refs, (f"{left.text} is in {left.unit}, {right.text} in {right.unit}",))
        try:
            holds = _OPERATIONS[type(op)](left.value, right.value)
        except TypeError:
            return Result("error", refs, (f"cannot compare {left.text} with {right.text}",))
        if not holds:
            return Result("false", refs, (f"{_shown(left)} {_NEGATED[type(op)]} {_shown(right)}",))
    return Result("true", refs, (words_of(node),))


_OPERATIONS: Final[dict[type[ast.cmpop], Callable[[Json, Json], bool]]] = {
    ast.Eq: lambda a, b: bool(a == b), ast.NotEq: lambda a, b: bool(a != b), ast.Lt: lambda a, b: bool(a < b),
    ast.LtE: lambda a, b: bool(a <= b), ast.Gt: lambda a, b: bool(a > b), ast.GtE: lambda a, b: bool(a >= b),
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_NEGATED: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "is not", ast.NotEq: "is", ast.Lt: "is not below", ast.LtE: "is above", ast.Gt: "is not above",
    ast.GtE: "is below", ast.In: "is not one of", ast.NotIn: "is one of",
}  # fmt: skip


def _shown(value: _Value) -> str:
    if value.unit == "bytes" and isinstance(value.value, (int, float)):
        amount = f"{value.value / GB:.1f} GB"
    elif isinstance(value.value, float):
        amount = f"{value.value:g}"
    else:
        amount = ast.unparse(ast.Constant(value.value)) if isinstance(value.value, str) else str(value.value)
        amount = amount if len(amount) <= 60 else amount[:57] + "..."
    return amount if value.text == amount or not value.refs else f"{value.text} ({amount})"


def _value(node: ast.expr, env: _Env) -> _Value:
    if (path := path_of(node)) is not None:
        return _path_value(path, env)
    match node:
        case ast.Constant(value=value):
            return _Value(value, text=repr(value) if isinstance(value, str) else str(value))
        case ast.List(elts=elements):
            return _list(elements, env)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _arithmetic(ast.Sub(), _Value(0, text=""), _value(operand, env))
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(op, _value(left, env), _value(right, env))
        case ast.Call(func=ast.Name(id=name), args=args) if name in VALUE_CALLS:
            return _value_call(name, [_value(a, env) for a in args])
        case _:
            result = _truth(node, env)
            if result.truth in _BADNESS:
                return _Value(refs=result.refs, bad=result)
            return _Value(result.truth == "true", text=words_of(node), refs=result.refs)


def _path_value(path: str, env: _Env) -> _Value:
    read = env.view.read(path)
    refs = (path,)
    if not read.known:
        truths: dict[str, Truth] = {"stale": "stale", "error": "error"}
        reason = f"{path}: {read.reason or read.state}"
        return _Value(text=path, refs=refs, bad=Result(truths.get(read.state, "unknown"), refs, (reason,)))
    if weak := _too_weak(read, env.min_level):
        return _Value(text=path, refs=refs, bad=Result("unknown", refs, (weak,)))
    return _Value(read.value, read.unit, path, refs)


def _list(elements: Sequence[ast.expr], env: _Env) -> _Value:
    parts = [_value(e, env) for e in elements]
    refs = tuple(dict.fromkeys(r for p in parts for r in p.refs))
    bad = next((p.bad for p in parts if p.bad is not None), None)
    return _Value(
        [p.value for p in parts], text="[" + ", ".join(p.text for p in parts) + "]", refs=refs, bad=bad
    )


def _arithmetic(op: ast.operator, left: _Value, right: _Value) -> _Value:
    refs = tuple(dict.fromkeys((*left.refs, *right.refs)))
    text = f"{left.text} {ARITHMETIC[type(op)]} {right.text}".strip()
    if bad := left.bad or right.bad:
        return _Value(text=text, refs=refs, bad=bad)
    numbers = (left.value, right.value)
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
        return _Value(text=text, refs=refs, bad=Result("error", refs, (f"{text}: not numbers",)))
    if not isinstance(op, ast.Mult) and left.unit and right.unit and left.unit != right.unit:
        return _Value(
            text=text, refs=refs, bad=Result("error", refs, (f"{text}: {left.unit} and {right.unit}",))
        )
    a, b = numbers
    value = a + b if isinstance(op, ast.Add) else a - b if isinstance(op, ast.Sub) else a * b
    return _Value(value, left.unit or right.unit, text, refs)


def _value_call(name: str, args: Sequence[_Value]) -> _Value:
    refs = tuple(dict.fromkeys(r for a in args for r in a.refs))
    text = _CALL_TEXT[name](*[a.text for a in args])
    bad = next((a.bad for a in args if a.bad is not None), None)
    if bad is not None:
        return _Value(text=text, refs=refs, bad=bad)
    try:
        value, unit = _CALLS[name](*[a.value for a in args])
    except TypeError:
        return _Value(
            text=text, refs=refs, bad=Result("error", refs, (f"{name}() of {args[0].text}: wrong kind",))
        )
    return _Value(value, unit, text, refs)


def _frozen_set(items: Json) -> frozenset[Json]:
    if not isinstance(items, (list, tuple, set, frozenset)):
        raise TypeError
    return frozenset(items)


def _length(items: Json) -> int:
    if not isinstance(items, (list, tuple, dict, set, frozenset)):
        raise TypeError
    return len(items)


_CALLS: Final[dict[str, Callable[..., tuple[Json, str | None]]]] = {
    "GB": lambda n: (n * GB, "bytes"),
    "GiB": lambda n: (n * GIB, "bytes"),
    "s": lambda n: (n, "s"),
    "set": lambda items: (_frozen_set(items), None),
    "subset": lambda a, b: (_frozen_set(a) <= _frozen_set(b), None),
    "count": lambda items: (_length(items), "count"),
}
_CALL_TEXT: Final[dict[str, Callable[..., str]]] = {
    "GB": lambda n: f"{n} GB", "GiB": lambda n: f"{n} GiB", "s": lambda n: f"{n} s", "set": lambda x: x,
    "subset": lambda a, b: f"{a} within {b}", "count": lambda x: f"number of {x}",
}  # fmt: skip
