"""Outside text is harmless wherever it is shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recon.agent.report.clean import clean, clean_lines, columns, cut, wrap

HOSTILE = (
    "\x1b[31mred\x1b[0m\x1b]0;title\x07 \x9b2J a\u202eb\u200b\x00\x08\nnext\tline\u2028end [bold]x[/bold]"
)


def test_escapes_and_invisible_controls_are_gone_and_markup_stays_text() -> None:
    assert clean(HOSTILE) == "red ab next line end [bold]x[/bold]"


def test_an_unfinished_escape_takes_nothing_with_it() -> None:
    assert clean("a\x1b[31") == "a"
    assert clean("a\x1b") == "a"


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert clean("x" * 50, limit=10) == "x" * 9 + "…"


def test_lines_are_kept_and_counted() -> None:
    assert clean_lines("a\r\nb\tc\x1b[1m\nd", lines=2) == ["a", "b   c", "… 1 more lines"]


def test_wide_characters_count_two_columns() -> None:
    assert columns("数据 e\u0301") == 6
    assert cut("数据数据", 5) == "数据…"


@given(st.text())
def test_nothing_that_is_not_printable_comes_out(text: str) -> None:
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} for c in clean(text))


@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cf"]), max_size=200),
    st.integers(20, 80),
)
def test_no_wrapped_line_is_too_wide_and_no_word_is_lost(text: str, width: int) -> None:
    line = clean(text)
    wrapped = wrap(line, width, first="* ", rest="  ")
    assert all(columns(row) <= width for row in wrapped)
    assert "".join("".join(row[2:] for row in wrapped).split()) == "".join(line.split())


@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_hostile_megabytes_are_cut_early(size: int) -> None:
    assert clean("\x1b]" * size) == ""
    assert columns(clean("\x1b[" + "9" * size, limit=100)) <= 100
