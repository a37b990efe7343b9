"""How the board is laid out, and its help page."""

from __future__ import annotations

from typing import Final

CSS: Final = """
#head { height: auto; max-height: 5; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
#body { height: 1fr; }
#tasks { height: 1fr; border: round $primary; }
#lower { height: 45%; }
#questions { width: 2fr; height: 100%; border: round $warning; padding: 0; }
#detail-scroll { width: 3fr; height: 100%; border: round $secondary; padding: 0 1; }
#tasks:focus, #questions:focus, #detail-scroll:focus { border: heavy $accent; }
.-wide #body { layout: horizontal; }
.-wide #tasks { width: 3fr; height: 100%; }
.-wide #lower { width: 2fr; height: 100%; layout: vertical; }
.-wide #questions, .-wide #detail-scroll { width: 100%; height: 1fr; }
Dialog { align: center middle; }
.dialog { width: 90%; max-width: 110; height: auto; max-height: 90%; border: heavy $accent; background: $surface; padding: 0 1; }
.dialog.tall { height: 90%; }
.dialog OptionList { height: auto; max-height: 12; border: none; }
.dialog VerticalScroll { height: 1fr; }
.title { text-style: bold; height: auto; }
.hint { color: $text-muted; height: auto; }
.refused { color: $warning; height: auto; }
.hidden { display: none; }
"""

HELP: Final = (
    "Tab, Shift+Tab   go from tasks to questions to detail",
    "Up, Down         move; the detail follows",
    "d                decide: the selected question, or what the selected task waits for",
    "a                approve: shows the exact change first",
    "w                why: gates, unknowns, findings, evidence, and who can move it on",
    "r                retry a failed or cancelled task",
    "x                cancel a task",
    "q, Ctrl-C        leave; whatever runs goes on",
    "",
    "The board shows what is stored and follows it twice a second. It starts nothing by itself:",
    "recon resume, here or in another terminal, goes on.",
)
