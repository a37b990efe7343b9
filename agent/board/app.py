"""The board itself: tasks, what waits for a person, detail. It shows what is stored; widgets hold no truth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import DataTable, Footer, OptionList, Static
from textual.widgets.option_list import Option

from recon.agent.board import rows
from recon.agent.board.messages import PanelResized, StateChanged
from recon.agent.board.screens import ApproveScreen, Choice, DecideScreen, TextScreen, text_width
from recon.agent.board.session import BoardSession
from recon.agent.board.style import CSS, HELP
from recon.agent.model.errors import ReconError
from recon.agent.model.state import MissionState, TaskState
from recon.agent.report import why
from recon.agent.report.clean import clean, cut
from recon.agent.report.sections import change_lines

POLL_S: Final = 0.5  # seconds between two looks at whether another process wrote
REFRESH_S: Final = 15.0  # seconds after which freshness is worked out anew although nobody wrote
_WIDE: Final = 110  # columns from which the panels stand side by side
VIA: Final = "board, on a terminal"


def _key(task: TaskState) -> str:
    return task.task.key


class DetailPanel(VerticalScroll):
    """The detail panel; tells when the layout has given it another size."""

    def on_resize(self) -> None:
        """Its text is wrapped for its width."""
        self.post_message(PanelResized())


class BoardApp(App[None]):
    """A live board over one session (stateful: the last state seen)."""

    CSS = CSS
    TITLE = "recon"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide")]  # noqa: RUF012  the base class has it so
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "decide", "decide"),
        Binding("a", "approve", "approve"),
        Binding("w", "why", "why"),
        Binding("r", "retry", "retry"),
        Binding("x", "cancel", "cancel"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    ]

    def __init__(self, session: BoardSession, *, confirm_name: Callable[[TaskState], str] = _key) -> None:
        """`confirm_name` says what has to be typed to approve a change that destroys something."""
        super().__init__()
        self._session = session
        self._confirm_name = confirm_name
        self._state: MissionState | None = None

    # ---- screen

    def compose(self) -> ComposeResult:
        """Head, tasks, questions and detail, footer."""
        yield Static(id="head", markup=False)
        with Vertical(id="body"):
            tasks: DataTable[Text] = DataTable(id="tasks", cursor_type="row", zebra_stripes=True)
            tasks.border_title = "tasks"
            yield tasks
            with Horizontal(id="lower"):
                questions = OptionList(id="questions")
                questions.border_title = "waiting for you"
                yield questions
                with DetailPanel(id="detail-scroll") as scroll:
                    scroll.border_title = "detail"
                    yield Static(id="detail", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Fills the screen and starts watching."""
        self._table.focus()
        self._reload()
        self._watch()

    @on(PanelResized)
    def _resized(self) -> None:
        self._show()

    @work(exclusive=True, group="watch")
    async def _watch(self) -> None:
        """Looks every half second whether another process wrote; tells by message, changes no widget."""
        seen, idle = self._session.store.data_version(), 0.0
        while True:
            await asyncio.sleep(POLL_S)
            idle += POLL_S
            version = self._session.store.data_version()
            if version != seen or idle >= REFRESH_S:
                seen, idle = version, 0.0
                self._reload()

    def _reload(self) -> None:
        try:
            self.post_message(StateChanged(self._session.state()))
        except ReconError as error:
            self._tell(error)

    @on(StateChanged)
    def _changed(self, event: StateChanged) -> None:
        self._state = event.state
        self._show()

    def _show(self) -> None:
        state = self._state
        if state is None or not self.is_running:
            return
        head = "\n".join(rows.head(state, width=self.size.width))
        self.screen_stack[0].query_one("#head", Static).update(Text(head, overflow="ellipsis"))
        self._fill_tasks(state)
        self._fill_questions(state)
        self._show_detail()

    def _fill_tasks(self, state: MissionState) -> None:
        table = self._table
        at = self._task_key() or rows.first_open(state)
        shown = rows.rows(state)
        key_width, note_width = rows.widths(shown, table.size.width)
        table.clear(columns=True)
        for label, columns in (
            ("status", rows.STATUS_COLUMNS), ("kind", rows.KIND_COLUMNS), ("task", key_width),
            ("waits for / result", note_width),
        ):  # fmt: skip
            table.add_column(Text(label), width=columns)
        for row in shown:
            style = rows.STYLE[row.status]
            cells = (
                Text(row.status_text, style=style),
                Text(row.kind, style="dim"),
                Text(rows.short_key(row.key, key_width)),
                Text(cut(row.note, note_width), style="dim"),
            )
            table.add_row(*cells, key=row.key)
        keys = [row.key for row in shown]
        if at in keys:
            table.move_cursor(row=keys.index(at), animate=False)

    def _fill_questions(self, state: MissionState) -> None:
        questions = self._questions
        at = questions.highlighted
        questions.clear_options()
        shown = rows.questions(state)
        for n, question in enumerate(shown, 1):
            text = Text(f"{n}. {question.kind} {question.ref}")
            text.append(f"\n   {question.text}", style="dim")
            questions.add_option(Option(text))
        if shown:
            questions.highlighted = min(at or 0, len(shown) - 1)
        questions.border_title = f"waiting for you ({len(shown)})"

    # ---- where the cursor is

    @property
    def _table(self) -> DataTable[Text]:
        return self.screen_stack[0].query_one("#tasks", DataTable)

    @property
    def _questions(self) -> OptionList:
        return self.screen_stack[0].query_one("#questions", OptionList)

    def _task_key(self) -> str | None:
        table = self._table
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def _question(self) -> rows.Question | None:
        at = self._questions.highlighted
        shown = rows.questions(self._state) if self._state is not None else []
        return shown[at] if at is not None and at < len(shown) else None

    def _on_questions(self) -> bool:
        return self.focused is self._questions

    def _selected(self) -> str | None:
        """The key under the cursor of the list that has the focus."""
        if self._on_questions():
            question = self._question()
            return question.ref if question is not None else None
        return self._task_key()

    @on(DataTable.RowHighlighted)
    @on(OptionList.OptionHighlighted, "#questions")
    def _moved(self) -> None:
        self._show_detail()

    def on_descendant_focus(self) -> None:
        """The detail follows the focus."""
        if self.is_running and self.screen is self.screen_stack[0]:
            self._show_detail()

    def _show_detail(self) -> None:
        key = self._selected()
        if self._state is None or key is None:
            return
        board = self.screen_stack[0]
        scroll = board.query_one("#detail-scroll", VerticalScroll)
        width = max(scroll.size.width - 2, 30)
        make = rows.question_detail if self._on_questions() else rows.task_detail
        board.query_one("#detail", Static).update(Text("\n".join(make(self._state, key, width=width))))

    # ---- what keys do

    def action_decide(self) -> None:
        """Asks for an option and a reason: the selected question, else the first one the task waits for."""
        state = self._state
        key = self._decidable()
        unknown = state.unknown(key) if state is not None and key is not None else None
        if state is None or unknown is None:
            self._say("nothing to decide here")
            return

        def record(choice: Choice | None) -> None:
            if choice is not None:
                self._do(
                    lambda: self._session.decide(
                        state.mission,
                        unknown.planned.key,
                        choice.option,
                        because=choice.because,
                        value=choice.value,
                        via=VIA,
                        shown=unknown.shown,
                    ),
                    f"decided {unknown.planned.key}: {choice.option}; recon resume goes on",
                )

        self.push_screen(DecideScreen(unknown), record)

    def _decidable(self) -> str | None:
        state = self._state
        if state is None:
            return None
        key = self._selected()
        if key is not None and state.unknown(key) is not None:
            return key
        task = state.task(key) if key is not None else None
        asked = [b.ref for b in task.blocked_by if b.kind == "decision"] if task is not None else []
        waited = [q.ref for q in rows.questions(state) if q.kind == "decision"]
        return next(iter((*asked, *waited)), None)

    def action_approve(self) -> None:
        """Shows the exact change of the selected task and asks for the word."""
        state, key = self._state, self._selected()
        task = state.task(key) if state is not None and key is not None else None
        change = task.rendered.change if task is not None and task.rendered is not None else None
        if state is None or task is None or task.status != "awaiting_approval" or change is None:
            self._say("this task waits for no approval")
            return
        planned = task.task.planned
        name = self._confirm_name(task) if planned.effect == "destructive" else ""

        def record(typed: str | None) -> None:
            if typed is not None:
                self._do(
                    lambda: self._approve(state, task, typed if name else ""),
                    f"approved {planned.key}; recon resume goes on",
                )

        self.push_screen(
            ApproveScreen(f"{clean(planned.title)} ({planned.effect})", change_lines(change), name=name),
            record,
        )

    def _approve(self, state: MissionState, task: TaskState, confirm: str) -> None:
        """Records consent to the change that was shown; refused where it became another one meanwhile."""
        shown = task.rendered.change if task.rendered is not None else None
        self._session.approve(state.mission, task.task.key, confirm=confirm, via=VIA, shown=shown)

    def action_retry(self) -> None:
        """Lets the selected task run again."""
        state, key = self._state, self._selected()
        if state is None or key is None or state.task(key) is None:
            self._say("nothing to retry here: a question is decided (d)" if key else "nothing to retry")
        else:
            self._do(
                lambda: self._session.retry(state.mission, key), f"pending again: {key}; recon resume goes on"
            )

    def action_cancel(self) -> None:
        """Cancels the selected task."""
        state, key = self._state, self._selected()
        if state is None or key is None or state.task(key) is None:
            self._say("nothing to cancel here")
        else:
            self._do(lambda: self._session.cancel(state.mission, key), f"cancelled: {key}")

    def action_why(self) -> None:
        """The chain under the selected task or question."""
        state, key = self._state, self._selected()
        if state is None or key is None:
            return
        try:
            lines = why.explain_lines(state, key, width=text_width(self.size.width))
        except ReconError as error:
            self._tell(error)
            return
        self.push_screen(TextScreen(f"why {clean(key)}", lines))

    def action_help(self) -> None:
        """What the keys do."""
        self.push_screen(TextScreen("keys", HELP))

    def _do(self, act: Callable[[], object], said: str) -> None:
        try:
            act()
        except ReconError as error:
            self._tell(error)
            return
        self._say(said)
        self._reload()

    def _say(self, text: str) -> None:
        self.notify(clean(text), markup=False)

    def _tell(self, error: ReconError) -> None:
        hint = f" -> {clean(error.hint)}" if error.hint else ""
        self.notify(f"{clean(error.message)}{hint}", severity="error", markup=False)
