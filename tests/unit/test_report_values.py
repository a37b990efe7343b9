"""Values, sizes and addresses as people read and copy them."""

from __future__ import annotations

import unicodedata

import pytest
from support.states import finding_of, mission_state

from recon.agent.engine.units import bytes_text
from recon.agent.report import markdown
from recon.agent.report.words import value_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (168_276_817_736, "168.3 GB (156.7 GiB)"),
        (100_000_000, "0.1 GB (0.1 GiB)"),
        (23_000_000, "23.0 MB (21.9 MiB)"),
        (89_904, "89.9 kB"),
        (512, "512 bytes"),
        (0, "0 bytes"),
        (-5_000_000_000, "-5.0 GB (-4.7 GiB)"),
    ],
)
def test_sizes_have_the_unit_that_says_something(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ({"packages": {"mooncake": None, "nixl": None}, "rdma": []}, "packages: mooncake none, nixl none; rdma none"),
        ({"0": [0, 1], "1": [4, 5]}, "0: 0, 1; 1: 4, 5"),
        ({"a": {"b": {"c": 1}, "d": 2}}, "a: b (c 1), d 2"),
        ([{"pid": 1, "unit": None}, {"pid": 2, "unit": "x"}], "pid 1; pid 2, unit x"),
        ({"bytes_by_dtype": {"BF16": 17_727_907_072, "I64": 89_904}}, "bytes_by_dtype: BF16 17.7 GB (16.5 GiB), I64 89.9 kB"),
        ({"avail_bytes": 10**9}, "avail_bytes 1.0 GB (0.9 GiB)"),
        ([1, 2], "1, 2"),
    ],
)  # fmt: skip
def test_nested_values_say_what_belongs_to_what(value: object, text: str) -> None:
    assert value_text(value) == text


def test_addresses_in_markdown_are_no_links_and_hold_nothing_invisible() -> None:
    found = finding_of("source", "see https://evil.example/a_b and www.evil.example or me@evil.example")
    body = markdown.report(mission_state(findings=(found,)))
    assert not [c for c in body if unicodedata.category(c) in ("Cf", "Cc") and c != "\n"]
    assert r"https:\//evil.example/a\_b" in body and r"www\.evil" in body and r"me\@evil" in body
    assert "://" not in body
