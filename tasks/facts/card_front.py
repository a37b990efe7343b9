"""The YAML head of a model card, read strictly: YAML 1.2, no duplicate keys, no anchors, no tags, bounded depth and size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from recon.agent.api import Json, ParseError
from recon.tasks.facts.card_text import clean_line

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node, ScalarNode

_DEPTH: Final = 8  # model-index with its metrics takes six
_ENTRIES: Final = 5000
_LIMIT: Final = 100_000  # characters
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")
_FLOAT: Final = re.compile(r"[-+]?\d{1,17}\.\d{1,17}(?:[eE][-+]?\d{1,3})?")
_CORE: Final = {"true": True, "false": False, "null": None, "~": None, "": None}


def split_front(text: str) -> tuple[str, str, int]:
    """(YAML head, Markdown body, lines before the body) of a card; without a head all of it is body."""
    lines = text.splitlines()
    if not lines or lines[0].strip().lstrip("\ufeff") != "---":
        return "", text, 0
    for number, line in enumerate(lines[1:2001], start=1):
        if line.rstrip() in ("---", "..."):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), number + 1
    return "", text, 0


def front_matter(text: str) -> dict[str, Json]:
    """The head as JSON. An unquoted `no` or `on` is the word it is (YAML 1.2), not a boolean.

    Raises ParseError, with line and column, where it is not strict YAML or not a mapping.
    """
    if not text.strip():
        return {}
    if len(text) > _LIMIT:
        raise ParseError(f"front matter longer than {_LIMIT} characters")
    node = _composed(text)
    value = _Walk().value(node, 0) if node is not None else None
    if not isinstance(value, dict):
        raise ParseError("front matter is not a YAML mapping")
    return value


def words(value: Json) -> list[str]:
    """A scalar or a list of scalars as cleaned texts; nothing for anything else."""
    rows = value if isinstance(value, list) else [value]
    return [
        clean_line(str(row)) for row in rows[:200] if isinstance(row, (str, int, float)) and str(row).strip()
    ]


def _composed(text: str) -> Node | None:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        node: Node | None = YAML(typ="rt", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 2}, column {mark.column + 1}" if mark is not None else "line 2"
        said = clean_line(error.problem or error.context or "not YAML")[:120]
        raise ParseError(f"front matter, {place}: {said}") from None
    except (YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ParseError(f"front matter is not YAML: {clean_line(str(error))[:120]}") from None
    return node


class _Walk:
    """Turns the nodes of one head into JSON (stateful: counts them)."""

    def __init__(self) -> None:
        self._count = 0

    def value(self, node: Node, depth: int) -> Json:
        from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

        self._count += 1
        where = f"front matter, line {node.start_mark.line + 2}"
        if depth > _DEPTH or self._count > _ENTRIES:
            raise ParseError(f"{where}: nested too deeply or too long")
        if node.anchor:
            raise ParseError(f"{where}: anchors and aliases are not read")
        if isinstance(node, MappingNode):
            return self._mapping(node, depth, where)
        if isinstance(node, SequenceNode):
            return [self.value(child, depth + 1) for child in node.value]
        return _scalar(node) if isinstance(node, ScalarNode) else None

    def _mapping(self, node: Node, depth: int, where: str) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node.value, str) else ""
            if not key or len(key) > 200:
                raise ParseError(f"{where}: a key that is not a short text")
            if key in found:
                raise ParseError(
                    f"front matter, line {key_node.start_mark.line + 2}: {clean_line(key)!r} twice"
                )
            found[key] = self.value(value_node, depth + 1)
        return found


def _scalar(node: ScalarNode) -> Json:
    text = str(node.value)
    if node.style:  # quoted, or a block of text
        return text
    if text in _CORE:
        return _CORE[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
