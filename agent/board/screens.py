"""The dialogs: decide, approve, and a page of text. Each answers with a value; none touches the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from recon.agent.model.state import UnknownState
from recon.agent.report.asks import option_tuples
from recon.agent.report.clean import clean

Result = TypeVar("Result")


def text_width(screen: int) -> int:
    """Columns of text in a dialog on a screen of so many columns: 90 %, at most 110, less frame, padding, scrollbar."""
    return max(min(screen * 9 // 10, 110) - 7, 30)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person chose, and why."""

    option: str
    value: str
    because: str


class Dialog(ModalScreen[Result | None]):
    """A framed dialog that Escape closes without an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "back")]

    def action_leave(self) -> None:
        """Closes the dialog; nothing happens."""
        self.dismiss(None)


class TextScreen(Dialog[None]):
    """A page of text: why, help."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "leave", "back")]

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title, self._lines = title, list(lines)

    def compose(self) -> ComposeResult:
        """Title and text."""
        with Vertical(classes="dialog tall"):
            yield Static(Text(self._title), classes="title")
            with VerticalScroll(can_focus=True):
                yield Static(Text("\n".join(self._lines)))
            yield Static(Text("Esc: back"), classes="hint")

    def on_mount(self) -> None:
        """Arrow keys scroll at once."""
        self.query_one(VerticalScroll).focus()


class DecideScreen(Dialog[Choice]):
    """The options of a question with their consequence; then the value if one is needed, and the reason."""

    def __init__(self, unknown: UnknownState) -> None:
        super().__init__()
        self._unknown = unknown

    def compose(self) -> ComposeResult:
        """Question, options, value, reason."""
        planned = self._unknown.planned
        with Vertical(classes="dialog"):
            yield Static(Text(f"{planned.key}: {clean(planned.question)}"), classes="title")
            yield OptionList(*self._prompts(), id="options")
            yield Input(placeholder="value", id="value", classes="hidden")
            yield Input(placeholder="because? (Enter records the decision)", id="because")
            yield Static(id="refused", classes="refused", markup=False)
            yield Static(Text("Up/Down, Enter: choose · Tab: reason · Esc: back"), classes="hint")

    def _prompts(self) -> list[Option]:
        prompts = []
        for option, (word, title, consequence, effort) in zip(
            self._unknown.options, option_tuples(self._unknown), strict=True
        ):
            text = Text(f"{word}  {title}{f' [{effort}]' if effort else ''}")
            if consequence:
                text.append(f"\n  {consequence}", style="dim")
            prompts.append(Option(text, id=f"o{self._unknown.options.index(option)}"))
        return prompts

    def on_mount(self) -> None:
        """Options first; a question without options is answered with a value."""
        if self._unknown.options:
            options = self.query_one("#options", OptionList)
            options.highlighted = 0
            options.focus()
        else:
            self._want_value("answer")

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        needs = self._needed_value()
        value = self.query_one("#value", Input)
        value.set_class(not needs, "hidden")
        value.placeholder = needs

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        needs = self._needed_value()
        if needs:
            self._want_value(needs)
        else:
            self.query_one("#because", Input).focus()

    @on(Input.Submitted, "#value")
    def _valued(self) -> None:
        self.query_one("#because", Input).focus()

    @on(Input.Submitted, "#because")
    def _decided(self) -> None:
        because = self.query_one("#because", Input).value.strip()
        value = self.query_one("#value", Input).value.strip()
        if not because:
            self._say("nothing is recorded yet: a decision needs its reason; type it, then Enter")
            return
        at = self.query_one("#options", OptionList).highlighted
        if not self._unknown.options:
            self.dismiss(Choice(value, "", because))
        elif at is not None:
            self.dismiss(Choice(self._unknown.options[at].id, value if self._needed_value() else "", because))

    def _say(self, text: str) -> None:
        self.query_one("#refused", Static).update(Text(text))

    def _needed_value(self) -> str:
        at = self.query_one("#options", OptionList).highlighted
        return self._unknown.options[at].needs_value if at is not None and self._unknown.options else ""

    def _want_value(self, what: str) -> None:
        value = self.query_one("#value", Input)
        value.placeholder = what
        value.remove_class("hidden")
        value.focus()


class ApproveScreen(Dialog[str]):
    """The exact change. Answers with what was typed: the name for what destroys, `yes` for the rest."""

    def __init__(self, title: str, lines: Sequence[str], *, name: str) -> None:
        super().__init__()
        self._title, self._lines, self._name = title, list(lines), name

    def compose(self) -> ComposeResult:
        """The change in full, then the word to type."""
        wanted = clean(self._name) if self._name else "yes"
        with Vertical(classes="dialog tall"):
            yield Static(Text(self._title), classes="title")
            with VerticalScroll(can_focus=True):
                yield Static(Text("\n".join(self._lines)))
            yield Input(placeholder=f"type {wanted} to approve exactly this", id="typed")
            yield Static(Text("Tab: scroll the text · Esc: back, nothing is approved"), classes="hint")

    def on_mount(self) -> None:
        """The cursor is where the word goes."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        if event.value.strip() == (self._name or "yes"):
            self.dismiss(event.value.strip())
        else:
            self.notify("not that word; nothing is approved", severity="warning", markup=False)
