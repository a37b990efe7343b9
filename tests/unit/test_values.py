"""What people may give with an option, and what is refused before it can become part of a command."""

from __future__ import annotations

import pytest

from recon.agent.cli.choices import find_option
from recon.agent.mission.values import check_value, git_ref, pull_numbers
from recon.agent.model.errors import UsageError
from recon.agent.model.findings import Option
from recon.agent.model.state import UnknownState
from recon.agent.model.tasks import PlannedUnknown

PULL = "https://github.com/sgl-project/sglang/pull/456"


@pytest.mark.parametrize("text", ["v0.5.20", "main", "feature/pd-tcp", "01c5c03f", "a" * 40, "0.5.13.post1"])
def test_a_commit_tag_or_branch_is_taken_as_given(text: str) -> None:
    assert git_ref(f" {text} ") == text


@pytest.mark.parametrize(
    "text",
    ["", "-b", "--upload-pack=x", "a b", "a;b", "$(id)", "a..b", "a//b", "x.lock", "a/", "a\nb", "é", "<ref>", "v" * 101, "HEAD@{1}"],
)  # fmt: skip
def test_what_git_or_a_shell_would_read_otherwise_is_no_ref(text: str) -> None:
    with pytest.raises(UsageError):
        git_ref(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("123", (123,)), ("#123", (123,)), (PULL, (456,)), (f"12, #7 {PULL}/,12", (12, 7, 456))],
)
def test_pull_requests_are_numbers_however_they_are_written(text: str, numbers: tuple[int, ...]) -> None:
    assert pull_numbers(text) == numbers


@pytest.mark.parametrize(
    "text",
    ["", " , ", "0", "-1", "abc", "12;reboot", "12345678", "12.5", "١٢", "https://github.com/someone/sglang/pull/5",
     "https://github.com.evil.example/sgl-project/sglang/pull/5", f"{PULL}/files", " ".join(map(str, range(1, 30)))],
)  # fmt: skip
def test_anything_else_is_no_pull_request(text: str) -> None:
    with pytest.raises(UsageError):
        pull_numbers(text)


def test_other_kinds_of_values_are_one_line() -> None:
    check_value("path", "/data/models")
    for text in ("a\nb", "\x1b[31m", "x" * 5000):
        with pytest.raises(UsageError):
            check_value("path", text)


def unknown(*options: Option) -> UnknownState:
    planned = PlannedUnknown(key="q", question="?", who="person", domain="choice")
    return UnknownState(planned=planned, status="open", options=options)


def test_an_option_without_a_value_refuses_one_and_a_wrong_value_is_told() -> None:
    asked = unknown(Option(id="nixl", title="t"), Option(id="git-prs", title="t", needs_value="prs"))
    assert find_option(asked, "nixl", "").id == "nixl"
    assert find_option(asked, "git-prs", "#12").id == "git-prs"
    for option, value, told in (
        ("nixl", "foo", "nixl takes no value"), ("git-prs", "", "needs its prs"), ("git-prs", "latest", "'latest' is no number"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=told) as refused:
            find_option(asked, option, value)
        assert refused.value.hint
