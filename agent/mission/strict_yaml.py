"""YAML 1.2 read strictly, with the place of every value: no duplicate keys, no implicit booleans, no aliases, no tags."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from recon.agent.model.base import Json
from recon.agent.model.errors import MissionError

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node, ScalarNode

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]  # line and column, from 1

_LIMIT: Final = 1 << 20  # bytes: a mission file is a page, not a database
_DEPTH: Final = 32
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")
_FLOAT: Final = re.compile(r"[-+]?\d{1,17}\.\d{1,17}(?:[eE][-+]?\d{1,3})?")
_LOOSE: Final = {
    "yes": "true", "no": "false", "on": "true", "off": "false", "y": "true", "n": "false", "true": "true", "false": "false",
}  # fmt: skip
_CORE: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")
)


@dataclass
class Document:
    """A YAML document as plain JSON, with the place of every key and value."""

    source: str
    value: Json = None
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)

    def where(self, path: Path, *, key: bool = False) -> str:
        """`FILE:LINE:COLUMN` of a value (or of its key); of the nearest one around it where it is not there."""
        while path and path not in self.values:
            path = path[:-1]
        line, column = (self.keys if key and path in self.keys else self.values).get(path, (1, 1))
        return f"{self.source}:{line}:{column}"


def read_yaml(text: str, *, source: str) -> Document:
    """Reads one document. Raises MissionError with source, line, column and what to write instead."""
    if len(text) > _LIMIT:
        raise MissionError(
            f"{source}: larger than 1 MiB", hint="a mission file holds the mission, not the evidence"
        )
    document = Document(source)
    node = _composed(text, source)
    if node is None:
        raise MissionError(f"{source}:1:1: the file is empty", hint="start with: mission: recon.mission/1")
    document.value = _Reader(document).value(node, ())
    return document


def _composed(text: str, source: str) -> Node | None:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        node: Node | None = YAML(typ="rt", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{mark.line + 1}:{mark.column + 1}" if mark is not None else "1:1"
        raise MissionError(
            f"{source}:{place}: {_problem(error.problem or error.context)}", hint=_hint(error.problem)
        ) from None
    except RecursionError:
        raise MissionError(f"{source}:1:1: nested too deeply", hint=f"at most {_DEPTH} levels") from None
    except (YAMLError, ValueError, OverflowError) as error:
        raise MissionError(
            f"{source}:1:1: not YAML: {_problem(str(error).splitlines()[0] if str(error) else '')}"
        ) from None
    return node


def _problem(text: str | None) -> str:
    shown = "".join(c for c in (text or "") if c.isprintable())[:120]
    return shown or "cannot be read"


def _hint(problem: str | None) -> str:
    text = problem or ""
    if "\\t" in text or "tab" in text:
        return "indent with spaces, not tabs"
    if "mapping values are not allowed" in text:
        return "a text with ': ' in it needs quotes"
    return "YAML 1.2 is expected"


class _Reader:
    """Walks the nodes of one document; writes places into it."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._seen: set[int] = set()

    def value(self, node: Node, path: Path) -> Json:
        from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

        self._document.values[path] = _place(node)
        if len(path) > _DEPTH:
            raise self._error(node, "nested too deeply", hint=f"at most {_DEPTH} levels")
        if id(node) in self._seen or node.anchor:
            raise self._error(node, "anchors and aliases (&, *) are not allowed", hint="write the value out")
        self._seen.add(id(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            self._plain_tag(node)
            return [self.value(child, (*path, n)) for n, child in enumerate(node.value)]
        return self._scalar(node) if isinstance(node, ScalarNode) else None

    def _mapping(self, node: Node, path: Path) -> dict[str, Json]:
        self._plain_tag(node)
        found: dict[str, Json] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            at = (*path, key)
            if key in found:
                first = self._document.where(at, key=True)
                raise self._error(
                    key_node, f"{key!r} is there twice", hint=f"the first one is at {first}; keep one"
                )
            self._document.keys[at] = _place(key_node)
            found[key] = self.value(value_node, at)
        return found

    def _key(self, node: Node) -> str:
        if not isinstance(node.value, str) or node.anchor:
            raise self._error(node, "a key must be plain text", hint="write key: value")
        if node.value == "<<":
            raise self._error(node, "merge keys (<<) are not allowed", hint="write the values out")
        self._plain_tag(node)
        return str(node.value)

    def _scalar(self, node: ScalarNode) -> Json:
        self._plain_tag(node)
        text = str(node.value)
        if node.style in ("'", '"', "|", ">"):
            return text
        if text in ("", "~", "null"):
            return None
        if text in ("true", "false"):
            return text == "true"
        if loose := _LOOSE.get(text.lower()):
            raise self._error(
                node,
                f"{text} may be a word or a yes/no",
                hint=f'write {loose}, or "{text}" in quotes for the word',
            )
        if _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) else text

    def _plain_tag(self, node: Node) -> None:
        tag = str(node.tag or "")
        if tag and tag not in _CORE:
            raise self._error(node, f"tags like {tag[:40]} are not allowed", hint="write plain values")

    def _error(self, node: Node, message: str, *, hint: str) -> MissionError:
        line, column = _place(node)
        return MissionError(f"{self._document.source}:{line}:{column}: {message}", hint=hint)


def _place(node: Node) -> Place:
    mark = node.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
