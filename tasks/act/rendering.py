"""How act tasks look before they run: command lines with `<...>` where something is not decided, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from recon.agent.api import Rendered, View, join_argv
from recon.tasks.deployment import host_user, latest

# Lines of a load log that are errors in disguise: the engine goes on, and answers garbage.
LOAD_TROUBLE: Final = "not found in params_dict|not initialized from checkpoints|Ignore import error"


@dataclass
class Sheet:
    """Lines and gaps of one rendering, collected in order (stateful: it is filled line by line)."""

    lines: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def gap(self, what: str, value: object) -> str:
        """The value as text, or `<what>` noted as missing."""
        if value not in (None, ""):
            return str(value)
        if what not in self.missing:
            self.missing.append(what)
        return f"<{what}>"

    def run(self, argv: Sequence[str]) -> None:
        """Adds a command line, every word quoted; only the gaps that this sheet made itself stay readable."""
        self.lines.append(" ".join(self._word(word) for word in argv))

    def _word(self, word: str) -> str:
        marks = {f"gap{n}gap": f"<{what}>" for n, what in enumerate(self.missing)}
        for mark, gap in marks.items():
            word = word.replace(gap, mark)
        shown = join_argv([word])
        for mark, gap in marks.items():
            shown = shown.replace(mark, gap)
        return shown

    def note(self, text: str) -> None:
        """Adds a comment line; an empty text adds none. Nothing in it can begin another line."""
        if text:
            self.lines.append("# " + "".join(c if c.isprintable() else " " for c in text))

    def manual(self) -> Rendered:
        """The rendering of something a person carries out."""
        return Rendered(lines=tuple(self.lines), missing=tuple(self.missing), manual=True)


def as_root(view: View) -> tuple[str, ...]:
    """The words in front of a command that needs root on the host: none for root or where no user is named."""
    return () if host_user(view.intent.host) in ("", "root") else ("sudo", "-n")


def detached(
    view: View, unit: str, argv: Sequence[str], *, env: Sequence[str] = (), properties: Sequence[str] = ()
) -> list[str]:
    """A command as a transient unit: it outlives the login, its log is in the journal, its exit is recorded."""
    words = [*as_root(view), "systemd-run", f"--unit={unit}", "--property=RemainAfterExit=yes"]
    words += [f"--property={p}" for p in properties] + [f"--setenv={e}" for e in env]
    return [*words, *argv]


def identity(view: View, *names: str) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    """What a change must find as it was: (name, value) of boot id and service fields, and the names that are not known."""
    paths = {"boot_id": "host.boot_id", **{n: f"host.service.{n}" for n in names}}
    known = {name: latest(view, path) for name, path in paths.items()}
    missing = [name.replace("_", " ") for name, value in known.items() if value in (None, "")]
    return tuple((name, str(value)) for name, value in known.items() if value not in (None, "")), missing
