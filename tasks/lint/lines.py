"""Launch lines in any text: an argument list, a shell script, a unit file, what `systemctl show` prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["server", "router"]

_MODULES: Final[dict[str, Kind]] = {
    "sglang.launch_server": "server",
    "sglang_router.launch_router": "router",
    "sglang_router": "router",
}
_ASSIGNMENT: Final = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)=(.*)$", re.DOTALL)
_OPERATOR: Final = re.compile(r"^[;&|<>()]+$")
_EXEC: Final = re.compile(r"^\s*ExecStart(?:Pre|Post)?=[-@:+!]*(.*)$", re.DOTALL)
_SHOWN: Final = re.compile(r"argv\[\]=(.*?)\s;\s", re.DOTALL)  # ExecStart as systemctl show prints it
_ENVIRONMENT: Final = re.compile(r"^\s*Environment=(.*)$", re.DOTALL)
MAX_CHARS: Final = 1 << 20


@dataclass(frozen=True)
class Launch:
    """One launch of a server or a router. `arguments` come after the program; `at`: the line it began on, from 1."""

    kind: Kind
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    at: int = 1

    @property
    def shown(self) -> str:
        """The program and its arguments as one line."""
        return shlex.join([*self.program, *self.arguments])

    def column(self, argument: int) -> tuple[int, int]:
        """Where an argument stands in `shown`: (first column from 0, width)."""
        before = shlex.join([*self.program, *self.arguments[:argument]])
        return len(before) + 1, len(shlex.quote(self.arguments[argument]))


def launch_of(words: Sequence[str]) -> Launch | None:
    """The launch in an argument list; None where it starts neither a server nor a router."""
    return _launch(list(words), {}, 1)


def launches_in(text: str) -> list[Launch]:
    """Every launch in a text. Raises ValueError, with the line, where quotes do not close or the text is too long."""
    if len(text) > MAX_CHARS:
        raise ValueError(f"more than {MAX_CHARS >> 20} MiB of text is no launch line")
    found: list[Launch] = []
    environment: dict[str, str] = {}
    for at, line in _logical_lines(text.replace("\r\n", "\n")):
        if (match := _ENVIRONMENT.match(line)) is not None:
            environment |= _assignments(_words(match[1], at))
            continue
        if (match := _EXEC.match(line)) is not None:
            shown = _SHOWN.search(match[1] + " ")
            line = shown[1] if shown is not None else match[1]
        for words in _commands(_words(line, at)):
            if words[:1] == ["export"]:
                environment |= _assignments(words[1:])
            elif (launch := _launch(words, environment, at)) is not None:
                found.append(launch)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, text): a backslash at the end joins the next line."""
    held, begun = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        begun = begun or number
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
            held += line.rstrip()[:-1] + " "
            continue
        yield begun, held + line
        held, begun = "", 0
    if held:
        yield begun, held


def _words(line: str, at: int) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError as error:
        if not any(name in line for name in ("launch_server", "sglang", "smg")):
            return []  # not a launch: an apostrophe in a comment or a here-document
        raise ValueError(f"line {at}: {str(error).lower()}") from None


def _commands(words: Sequence[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for word in [*words, ";"]:
        if _OPERATOR.match(word):
            if command:
                yield command
            command = []
        else:
            command.append(word)


def _launch(words: list[str], environment: Mapping[str, str], at: int) -> Launch | None:
    for i, word in enumerate(words):
        begin, kind = _program(words, i, word)
        if kind is not None:
            own = _assignments(words[:i])
            first = next((k for k, w in enumerate(words[:begin]) if _runs_it(w)), i)
            return Launch(
                kind, tuple(words[max(first, 0) : begin]), tuple(words[begin:]), {**environment, **own}, at
            )
    return None


def _program(words: Sequence[str], i: int, word: str) -> tuple[int, Kind | None]:
    """(where the arguments begin, what is started) where a launch stands at this word."""
    following = words[i + 1] if i + 1 < len(words) else ""
    if word == "-m" and following in _MODULES:
        return i + 2, _MODULES[following]
    name = word.rpartition("/")[2]
    if name == "sglang" and following == "serve":
        return i + 2, "server"
    if name in ("sglang-router", "smg", "amg"):
        return i + 1 + (following == "launch"), "router"
    if name in ("launch_server.py", "launch_router.py"):
        return i + 1, "server" if "server" in name else "router"
    return i, None


def _runs_it(word: str) -> bool:
    name = word.rpartition("/")[2]
    return name.startswith("python") or name in ("sglang", "sglang-router", "smg", "amg")


def _assignments(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        match = _ASSIGNMENT.match(word.removeprefix("--setenv="))
        if match is not None:
            found[match[1]] = match[2]
    return found
