"""Facts of a mission file: what an answer is read as, and patterns that cannot run for ever."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.agent.api import Draft, Raw, UsageError, bounded_pattern
from recon.agent.mission.patterns import BUDGET
from recon.tasks.act.own import parse_look
from recon.tasks.facts.own import parse

DF = "Filesystem Type 1B-blocks Used Available Capacity Mounted\n/dev/sda ext4 100 40 60 40% /\n/dev/sdb xfs 10 1 9 10% /a b\n"


def read(text: str | bytes, /, *, raw: dict[str, Any] | None = None, **spec: Any) -> Draft:
    answer = {
        "state": "ok",
        "exit_code": 0,
        "stdout": text.encode() if isinstance(text, str) else text,
        **(raw or {}),
    }
    (draft,) = parse(Raw(**answer), spec={"id": "x", **spec})
    return draft


@pytest.mark.parametrize(
    ("text", "spec", "value"),
    [
        ("  hello\n", {}, "hello"),
        ("16\n", {"type": "number"}, 16),
        ("1.5e3", {"type": "number"}, 1500.0),
        ("87%", {"type": "number"}, 87),
        ("Yes", {"type": "yes_no"}, True),
        ('{"a": [{"b/c": 7}]}', {"parser": {"json_pointer": "/a/0/b~1c"}}, 7),
        ("[1, 2]", {"parser": {"json_pointer": ""}}, [1, 2]),
        ("a,b\n1,x\n2,y\n", {"parser": {"csv": {"columns": ["b", "a"]}}, "type": {"a": "number"}}, [{"b": "x", "a": 1}, {"b": "y", "a": 2}]),
        (DF, {"parser": {"csv": {"columns": ["Available", "Mounted"], "separator": "space", "row": 1}}}, {"Available": "9", "Mounted": "/a b"}),
        ("A=1\n# c\nB = two=2\n", {"parser": {"key_value": {"separator": "="}}}, {"A": "1", "B": "two=2"}),
        ("A=1\nB=2\n", {"parser": {"key_value": {"separator": "=", "keys": ["B"]}}, "type": {"B": "number"}}, {"B": 2}),
        ("x 1\nx 2\n", {"parser": {"regex": {"pattern": r"^x (?P<n>\d)$"}}, "type": {"n": "number"}}, {"n": 1}),
        ("x 1\ny\nx 2\n", {"parser": {"regex": {"pattern": r"^x (?P<n>\d)$", "all": True}}, "type": {"n": "number"}}, [{"n": 1}, {"n": 2}]),
    ],
)  # fmt: skip
def test_an_answer_is_read_as_the_file_says(text: str, spec: dict[str, Any], value: Any) -> None:
    draft = read(text, **spec)
    assert (draft.outcome, draft.value) == ("known", value)


@pytest.mark.parametrize(
    ("text", "spec", "outcome", "reason"),
    [
        ("{}", {"parser": {"json_pointer": "/a"}}, "absent", "the JSON has nothing at /a"),
        ("{", {"parser": {"json_pointer": "/a"}}, "unknown", "not JSON"),
        ("NaN", {"parser": {"json_pointer": ""}}, "unknown", "NaN is not JSON"),
        ("[" * 100_000, {"parser": {"json_pointer": ""}}, "unknown", "nested too deeply"),
        ("a,b\n1\n", {"parser": {"csv": {"columns": ["b"]}}}, "unknown", "row 0 has 1 columns"),
        ("a,a\n1,2\n", {"parser": {"csv": {"columns": ["a"]}}}, "unknown", "column 'a' is twice in the header"),
        ("a\n1\n", {"parser": {"csv": {"columns": ["b"]}}}, "unknown", "column 'b' is not in the header"),
        ("a\n1\n", {"parser": {"csv": {"columns": ["a"], "row": 4}}}, "absent", "there is no row 4"),
        ("", {"parser": {"csv": {"columns": ["a"]}}}, "absent", "the answer is empty"),
        ("A=1\nA=2\n", {"parser": {"key_value": {"separator": "="}}}, "unknown", "A is there twice"),
        ("A=1\n", {"parser": {"key_value": {"separator": "=", "keys": ["B"]}}}, "absent", "no B among 1 keys"),
        ("z", {"parser": {"regex": {"pattern": "(?P<a>y)"}}}, "absent", "no line of 1 matches"),
        ("many", {"type": "number"}, "unknown", "not a number: 'many'"),
        ("maybe", {"type": "yes_no"}, "unknown", "not a yes or no"),
        ("x" * 70_000, {}, "unknown", "longer than 64 KiB"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(text: str, spec: dict[str, Any], outcome: str, reason: str) -> None:
    draft = read(text, **spec)
    assert (draft.outcome, draft.value) == (outcome, None)
    assert reason in draft.reason


@pytest.mark.parametrize(
    ("raw", "spec", "outcome"),
    [
        ({"state": "failed", "exit_code": 3}, {}, "unknown"),
        ({"state": "failed", "exit_code": 3}, {"exit_codes": [0, 3]}, "known"),
        ({"state": "ok", "exit_code": 0}, {"exit_codes": [3]}, "unknown"),
        ({"state": "timeout", "exit_code": 124, "reason": "no end"}, {"exit_codes": [124]}, "unknown"),
        ({"state": "denied", "exit_code": 1, "reason": "not allowed"}, {"exit_codes": [1]}, "unknown"),
        ({"state": "missing", "exit_code": 127, "stderr": b"foo: not found"}, {}, "unknown"),
        ({"state": "failed", "exit_code": 1, "stderr": b"cat: /x: No such file or directory"}, {}, "absent"),
        ({"state": "ok", "exit_code": 0, "truncated": True}, {}, "unknown"),
    ],
)  # fmt: skip
def test_how_a_command_ended_decides_first(raw: dict[str, Any], spec: dict[str, Any], outcome: str) -> None:
    assert read("inactive", raw=raw, **spec).outcome == outcome


def test_level_unit_and_lifetime_are_the_files() -> None:
    draft = read("5", type="number", unit="GiB", level="declared", lifetime_s=7.0)
    assert (draft.name, draft.unit, draft.level, draft.lifetime_s) == ("x", "GiB", "declared", 7.0)


@given(st.binary(max_size=300), st.sampled_from([
    {}, {"parser": {"json_pointer": "/a"}}, {"parser": {"csv": {"columns": ["a"], "separator": ","}}},
    {"parser": {"csv": {"columns": ["a"], "separator": "space", "row": 0}}}, {"parser": {"key_value": {"separator": "="}}},
    {"parser": {"regex": {"pattern": r"(?P<a>\w+)=(?P<b>.*)"}}, "type": "number"},
]))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_one_finding(body: bytes, spec: dict[str, Any]) -> None:
    assert read(body, **spec).outcome in ("known", "absent", "unknown")


# ---- patterns


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?P<a>(?:x+)+)y", "a repeat around something that repeats"),
        (r"(?P<a>(?:x|xx)*)y", "a repeat around something that repeats"),
        (r"(?P<a>x)\1", "a back-reference"),
        (r"(?P<a>x)(?P=a)", "is not allowed"),
        (r"(?=x)(?P<a>x)", "is not allowed"),
        (r"(?i)(?P<a>x)", "is not allowed"),
        (r"(?P<a>a?a?a?a?a?a?a?a?a?a?a?a?a?)aaaaaaaaaaaaa", "repeats of open length"),
        (r"(?P<a>.*.*.*.*.*)x", "repeats of open length"),
        (
            r"(?P<a>(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b))",
            "ways to choose",
        ),
        (r"(?P<a>x{101})", "more than 100 times"),
        (r"(?P<a>x", "without its )"),
        (r"(?P<a>[x)", "without its ]"),
        (r"x", "no named group"),
        (r"(x)(?P<a>y)", "a group without a name"),
        ("(?P<a>" + "x" * 300 + ")", "longer than 300"),
    ],
)
def test_a_pattern_that_may_run_for_ever_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        bounded_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", [r"(?P<x>a*)a*a*a*b", r"(?P<x>a*)a*b", r"(?P<x>.*).*.*b", r"^(?P<x>(?:a|aa)(?:a|aa)a*)a*b"]
)
def test_the_worst_text_within_the_budget_takes_seconds_at_most(pattern: str) -> None:
    bounded = bounded_pattern(pattern)
    length = 1
    while bounded.cost(length * 2) <= BUDGET:
        length *= 2
    began = time.process_time()
    assert list(bounded.matches("a" * length)) == []
    assert time.process_time() - began < 5.0
    with pytest.raises(UsageError, match="too much for a pattern"):
        list(bounded.matches("a" * length * 8))


def test_columns_of_a_table_cost_nothing_extra() -> None:
    bounded = bounded_pattern(r"^(?P<a>\S+)\s+(?P<b>\d+)\s+(?P<c>\d+)\s+(?P<d>\d+)%")
    assert bounded.repeats == 0
    assert len(list(bounded.matches("/dev/x 10 20 30%\n" * 5000))) == 5000


# ---- looks of a command


@pytest.mark.parametrize(
    ("raw", "spec", "holds"),
    [
        ({"state": "ok", "exit_code": 0}, {}, True),
        ({"state": "failed", "exit_code": 1}, {}, False),
        ({"state": "failed", "exit_code": 2}, {}, None),
        ({"state": "failed", "exit_code": 3}, {"not_so": [3]}, False),
        ({"state": "denied", "exit_code": 1}, {}, None),
        ({"state": "missing", "exit_code": 127}, {}, None),
        ({"state": "timeout", "exit_code": None}, {}, None),
        ({"state": "ok", "exit_code": 0, "stdout": b"active\n"}, {"prints": "^active$"}, True),
        ({"state": "ok", "exit_code": 0, "stdout": b"inactive\n"}, {"prints": "^active$"}, False),
        ({"state": "ok", "exit_code": 0, "stdout": b"x", "truncated": True}, {"prints": "^active$"}, None),
    ],
)
def test_a_look_says_yes_no_or_could_not_tell(
    raw: dict[str, Any], spec: dict[str, Any], holds: bool | None
) -> None:
    (draft,) = parse_look(Raw(**raw), name="check:x", spec=spec)
    assert (draft.value["holds"] if draft.outcome == "known" else None) is holds
