"""What a run shows while it works: live lines on a terminal, plain lines elsewhere, JSON lines for programs.

Live and plain lines go to stderr, so that stdout holds the result alone; JSON lines are the result and go to stdout.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from recon.agent.cli import output
from recon.agent.report.clean import clean, cut
from recon.agent.report.words import added_text, seconds_text
from recon.agent.runner.messages import (
    Message,
    MissionChanged,
    ReadAgain,
    Reopened,
    TakenOver,
    TaskEnded,
    TaskProgress,
    TasksAdded,
    TaskStarted,
    Waiting,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

_GLYPH: Final = {"succeeded": "✓", "failed": "✗", "pending": "↻", "interrupted": "↯"}
_SHOWN: Final = 12  # running tasks on screen; the rest is counted
_PLAIN: Final = 120  # columns of a line in a log
_RATE: Final = 8  # redraws a second
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Listener(Protocol):
    """What a run talks to."""

    def __call__(self, message: Message) -> None: ...


@contextmanager
def listener(*, as_json: bool) -> Iterator[Listener]:
    """The listener that suits where stdout and stderr go, for as long as the run lasts."""
    if as_json:
        yield json_line
    elif sys.stderr.isatty() and sys.stdout.isatty():
        with _live() as shown:
            yield shown
    else:
        yield plain_line


def json_line(message: Message) -> None:
    """One message as one JSON line on stdout."""
    name = _WORD_START.sub("_", type(message).__name__).lower()
    output.as_json({"event": name, **dataclasses.asdict(message)}, compact=True)


def plain_line(message: Message) -> None:
    """One message as one line on stderr; progress and starts are left out, ends are what counts in a log."""
    match message:
        case TaskEnded(key=key, status=status, summary=summary, seconds=seconds):
            said = [f"{_GLYPH.get(status, '-')} {clean(key)}", clean(summary), seconds_text(seconds)]
            output.note(cut("  ".join(part for part in said if part), _PLAIN))
        case TasksAdded(keys=keys, because=because):
            output.note(*(cut(f"+ {clean(key)}  {added_text(because)}", _PLAIN) for key in keys))
        case Waiting(reason=reason):
            output.note(cut(f"… {clean(reason)}", _PLAIN))
        case ReadAgain() | TakenOver() | Reopened():
            output.note(cut(news_text(message, now=time.time()), _PLAIN))
        case TaskStarted() | TaskProgress() | MissionChanged():
            pass


def news_text(message: ReadAgain | TakenOver | Reopened, *, now: float) -> str:
    """What is said of a fact that is read again, one that is not, and a question that is open again."""
    match message:
        case ReadAgain(key=key, because=because):
            return f"↻ {clean(key)}  read again: {clean(because)}"
        case Reopened(key=key, status=status, reason=reason):
            return f"? {clean(key)}  {clean(status)} again: {clean(reason)}"
        case TakenOver(key=key, mission_id=mission_id, read_at=read_at):
            ago = seconds_text(max(0.0, now - read_at))
            return f"= {clean(key)}  taken over from mission {clean(mission_id)}, read {ago} ago"


@dataclasses.dataclass
class Running:
    """The running tasks as the screen shows them (stateful: messages change it)."""

    started: dict[str, float] = dataclasses.field(default_factory=dict)  # key -> monotonic seconds
    text: dict[str, str] = dataclasses.field(default_factory=dict)
    ended: int = 0
    failed: int = 0
    waiting: str = ""

    def take(self, message: Message, *, now: float) -> None:
        """Folds one message in; `now` is monotonic seconds."""
        match message:
            case TaskStarted(key=key, title=title):
                self.started[key], self.text[key], self.waiting = now, clean(title), ""
            case TaskProgress(key=key, text=text):
                self.text[key] = clean(text)
            case TaskEnded(key=key, status=status):
                self.started.pop(key, None)
                self.text.pop(key, None)
                self.ended += status != "pending"
                self.failed += status == "failed"
            case Waiting(reason=reason):
                self.waiting = clean(reason)
            case TasksAdded() | MissionChanged() | ReadAgain() | TakenOver() | Reopened():
                pass

    def rows(self, *, now: float, width: int) -> list[str]:
        """One line a running task: how long, its key, what it does or waits for; then the counts."""
        out = []
        for key, since in list(self.started.items())[:_SHOWN]:
            out.append(
                cut(f"▶ {seconds_text(now - since):>9}  {clean(key)}  {self.text.get(key, '')}", width)
            )
        if len(self.started) > _SHOWN:
            out.append(f"  and {len(self.started) - _SHOWN} more")
        failed = f", {self.failed} failed" if self.failed else ""
        tail = f"  {self.waiting}" if self.waiting and not self.started else ""
        return [*out, cut(f"{self.ended} done{failed}, {len(self.started)} running{tail}", width)]


@contextmanager
def _live() -> Iterator[Listener]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    running = Running()

    def render() -> RenderableType:
        # Text takes the rows as they are: nothing in them is read as markup.
        return Text("\n".join(running.rows(now=time.monotonic(), width=console.width - 1)), no_wrap=True)

    with Live(get_renderable=render, console=console, transient=True, refresh_per_second=_RATE) as live:

        def listen(message: Message) -> None:
            running.take(message, now=time.monotonic())
            if isinstance(message, (ReadAgain, TakenOver, Reopened)):
                live.console.print(Text(cut(news_text(message, now=time.time()), console.width - 1)))
            elif isinstance(message, TaskEnded) and message.status == "failed":
                live.console.print(
                    Text(cut(f"✗ {clean(message.key)}  {clean(message.summary)}", console.width - 1))
                )

        yield listen
