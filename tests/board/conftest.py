"""Pictures of the board: one SVG a screen and size, compared cell by cell."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.app import App


class Svg(SingleFileSnapshotExtension):
    """A picture a file."""

    file_extension = "svg"
    _write_mode = WriteMode.TEXT


@pytest.fixture
def screen(snapshot: SnapshotAssertion) -> Callable[[App[None]], bool]:
    """Whether the screen looks as it did."""
    svg = snapshot.use_extension(Svg)
    return lambda app: svg == picture(app)


def picture(app: App[None]) -> str:
    """The screen as SVG, without what differs from run to run (ids) and what is not the screen (fonts, a remark)."""
    text = app.export_screenshot(title="recon")
    text = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", text, flags=re.DOTALL)
    return re.sub(r"terminal-\d+", "terminal", text)
