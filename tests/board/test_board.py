"""The board shows what is stored, follows it, and says what a person told it to say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.board_session import Session
from support.states import CHANGE, item, judged, mission_state, tasks
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, OptionList, Static

from recon.agent.board import BoardApp, rows
from recon.agent.board.app import VIA
from recon.agent.board.screens import ApproveScreen, DecideScreen, TextScreen
from recon.agent.model.changes import Rendered

SMALL = (80, 24)
WIDE = (130, 36)


async def settle(pilot: Pilot[None]) -> None:
    """Lets messages and the first refresh through."""
    await pilot.pause()
    await pilot.pause()


def shown(app: BoardApp, selector: str) -> str:
    """The text of a static widget."""
    return str(app.query_one(selector, Static).render())


def statuses(app: BoardApp) -> list[str]:
    """The status column."""
    table = app.query_one("#tasks", DataTable)
    return [str(table.get_row_at(n)[0]) for n in range(table.row_count)]


@pytest.mark.parametrize("size", [SMALL, WIDE], ids=["small", "wide"])
async def test_the_first_screen(size: tuple[int, int], screen: Callable[[App[None]], bool]) -> None:
    app = BoardApp(Session())
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert screen(app)


async def test_tasks_carry_a_glyph_and_a_word_and_what_they_wait_for() -> None:
    app = BoardApp(Session())
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        assert statuses(app) == [
            "✓ done", "✗ failed", "○ ready", "✓ done", "! needs approval", "? needs decision",
        ]  # fmt: skip
        assert str(app.query_one("#tasks", DataTable).get_row("download")[3]) == "disk.room, service.stop"
        assert app.query_one("#questions", OptionList).option_count == 3
        assert shown(app, "#head").startswith("DEMO: a recorded host")


async def test_the_board_follows_what_another_process_writes_and_keeps_the_cursor() -> None:
    session = Session()
    app = BoardApp(session)
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("down", "down", "down")
        session.now_state = mission_state(tasks=(item(0, "new", "recon", "running"), *tasks()))
        session.store.version += 1
        await pilot.pause(0.7)
        assert statuses(app)[0] == "▶ running"
        assert app._task_key() == "service.stop"
        assert shown(app, "#detail").startswith("task      service.stop")


async def test_a_decision_needs_an_option_and_a_reason() -> None:
    session = Session()
    app = BoardApp(session)
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("tab", "d")
        assert isinstance(app.screen, DecideScreen)
        await pilot.press("down", "enter", "enter")  # no reason yet
        assert isinstance(app.screen, DecideScreen) and session.calls == []
        await pilot.press(*"more speed", "enter")
        await settle(pilot)
        assert session.calls == [
            ("decide", "checkpoint.format", "sibling:acme/Big-NVFP4", "", "more speed", VIA)
        ]


async def test_an_option_with_a_value_asks_for_it() -> None:
    session = Session()
    app = BoardApp(session)
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("tab", "down", "d", "down", "enter")
        assert app.screen.query_one("#value", Input).has_focus
        await pilot.press(*"/data", "enter", *"room", "enter")
        await settle(pilot)
        assert session.calls == [("decide", "disk.room", "other-mount", "/data", "room", VIA)]


async def test_deciding_on_a_task_asks_what_the_task_waits_for() -> None:
    app = BoardApp(Session())
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press(*["down"] * 4, "d")
        assert isinstance(app.screen, DecideScreen)
        assert "disk.room" in str(app.screen.query_one(".title", Static).render())


async def test_escape_decides_nothing() -> None:
    session = Session()
    app = BoardApp(session)
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("tab", "d", "escape", "q")
    assert session.calls == []


async def test_an_approval_shows_the_change_and_wants_a_word(screen: Callable[[App[None]], bool]) -> None:
    session = Session()
    app = BoardApp(session)
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press(*["down"] * 3, "a")
        assert isinstance(app.screen, ApproveScreen)
        app.screen.query_one(Input).cursor_blink = False
        await settle(pilot)
        assert screen(app)
        await pilot.press(*"no", "enter")
        assert session.calls == [] and isinstance(app.screen, ApproveScreen)
        await pilot.press("backspace", "backspace", *"yes", "enter")
        await settle(pilot)
        assert session.calls == [("approve", "service.stop", "", VIA)]


async def test_what_destroys_wants_its_name() -> None:
    removal = CHANGE.model_copy(update={"task": "disk.free", "exact": (("path", "/models/old"),)})
    state = mission_state(
        tasks=(
            item(
                1,
                "disk.free",
                "act",
                "awaiting_approval",
                effect="destructive",
                rendered=Rendered(change=removal),
            ),
        )
    )
    session = Session(state)
    app = BoardApp(session, confirm_name=lambda task: "/models/old")
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("a", *"yes", "enter")
        assert session.calls == []
        await pilot.press(*["backspace"] * 3, *"/models/old", "enter")
        await settle(pilot)
        assert session.calls == [("approve", "disk.free", "/models/old", VIA)]


async def test_a_change_that_became_another_one_is_not_approved() -> None:
    session = Session(change_hash="other")
    app = BoardApp(session)
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press(*["down"] * 3, "a", *"yes", "enter")
        await settle(pilot)
        assert session.calls == []


async def test_a_task_without_an_open_approval_is_not_asked_about() -> None:
    app = BoardApp(Session())
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("a")
        assert len(app.screen_stack) == 1


async def test_retry_cancel_why_and_help() -> None:
    session = Session()
    app = BoardApp(session)
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("r", "x")
        assert session.calls == [("retry", "host.gpus[gpu01]"), ("cancel", "host.gpus[gpu01]")]
        await pilot.press("w")
        assert isinstance(app.screen, TextScreen)
        await pilot.press("q", "question_mark")
        assert isinstance(app.screen, TextScreen)
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_a_refusal_is_told_and_nothing_breaks() -> None:
    app = BoardApp(Session(refuse="[b]not now[/b]"))
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("r")
        assert [n.message for n in app._notifications] == ["[b]not now[/b] -> recon why"]


async def test_markup_of_others_is_shown_as_text() -> None:
    evil = "[red]x[/red] [@click=app.quit]y[/] \x1b[2J"
    state = mission_state(
        tasks=(item(1, "t[0]", "recon", "failed", title=evil, error={"message": evil}),),
        sentence=evil, judgements=(judged("disk.room", "block", evil, about="disk.room", detail=(evil,)),),
    )  # fmt: skip
    app = BoardApp(Session(state))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        clean = "[red]x[/red] [@click=app.quit]y[/]"
        assert clean in shown(app, "#head")
        assert clean in " ".join(shown(app, "#detail").split())
        assert str(app.query_one("#tasks", DataTable).get_row_at(0)[2]) == "t[0]"
        await pilot.press("tab", "down")
        assert clean in " ".join(shown(app, "#detail").split())


async def test_an_empty_mission_is_calm() -> None:
    state = mission_state(tasks=(), unknowns=(), waiting=(), judgements=(), findings=())
    app = BoardApp(Session(state))
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("d", "a", "w", "r", "x", "tab", "d")
        assert len(app.screen_stack) == 1


@pytest.mark.parametrize(
    ("key", "shown_as"),
    [
        ("download", "download"),
        ("checkpoint.headers[acme/Big-W4A16]", "checkpoint.headers[acme/Big-W4A16]"),
        ("checkpoint.headers[canada/A-Very-Long-Name-NVFP4-MTP]", "checkpoint.headers[…g-Name-NVFP4-MTP]"),
        ("x" * 60, "x" * 36 + "…"),
    ],
)
def test_long_keys_keep_what_tells_them_apart(key: str, shown_as: str) -> None:
    assert rows.short_key(key, 37) == shown_as


async def test_the_cursor_starts_where_something_is_open() -> None:
    app = BoardApp(Session())
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        assert app._task_key() == "host.gpus[gpu01]"


async def test_a_question_can_be_neither_retried_nor_cancelled() -> None:
    session = Session()
    app = BoardApp(session)
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("tab", "r", "x")
        assert [n.message.split(":")[0] for n in app._notifications] == [
            "nothing to retry here", "nothing to cancel here",
        ]  # fmt: skip
        assert session.calls == []


async def test_a_missing_reason_is_said_in_the_dialog() -> None:
    app = BoardApp(Session())
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("tab", "d", "enter", "enter")
        assert "needs its reason" in str(app.screen.query_one("#refused", Static).render())


@pytest.mark.parametrize("first", [(), ("tab", "d")], ids=["board", "dialog"])
async def test_ctrl_c_leaves(first: tuple[str, ...]) -> None:
    app = BoardApp(Session())
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press(*first, "ctrl+c")
        await pilot.pause()
        assert not app.is_running or app._exit


@pytest.mark.parametrize("size", [SMALL, (140, 40), (220, 50)])
async def test_what_tasks_wait_for_has_the_room_that_is_left(size: tuple[int, int]) -> None:
    app = BoardApp(Session())
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        table = app.query_one("#tasks", DataTable)
        widths = [column.width for column in table.ordered_columns]
        assert widths[3] >= 20
        assert sum(widths) + 8 <= table.size.width


async def test_a_resize_lays_the_detail_out_anew() -> None:
    app = BoardApp(Session())
    async with app.run_test(size=(220, 50)) as pilot:
        await settle(pilot)
        await pilot.press(*["down"] * 4)
        wide = shown(app, "#detail")
        await pilot.resize_terminal(80, 30)
        await pilot.pause(0.3)
        assert app._task_key() == "download"
        width = app.query_one("#detail-scroll").size.width
        lines = shown(app, "#detail").splitlines()
        text = [line for line in lines if "$ " not in line and "recon " not in line]  # commands stay whole
        assert max(map(len, text)) <= width
        assert lines != wide.splitlines()
