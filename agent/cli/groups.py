"""The command group whose help has two parts: what people use daily, and the tools."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperGroup

DAILY: Final = ("run", "resume", "report", "board", "decide", "approve", "why", "todo")
PANELS: Final = (("Daily", DAILY), ("Tools", ()))


class Panels(TyperGroup):
    """Lists commands under `Daily` and `Tools`, each in the order written down, not by the alphabet."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Daily commands first, the others in the order they were added."""
        known = list(self.commands)
        return [*(name for name in DAILY if name in known), *(name for name in known if name not in DAILY)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the two lists of the help page."""
        names = self.list_commands(ctx)
        wide = max(map(len, names), default=0)
        for title, members in PANELS:
            shown = [n for n in names if (n in DAILY) == bool(members)]
            rows = [(n.ljust(wide), self._short(n, limit=formatter.width - wide - 6)) for n in shown]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _short(self, name: str, *, limit: int) -> str:
        return self.commands[name].get_short_help_str(limit)
