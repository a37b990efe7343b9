"""The gate language: what it accepts, what it refuses, and that nothing but `true` opens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recon.agent.engine.gates import parse_gate
from recon.agent.engine.view import View
from recon.agent.model.errors import PlanError
from recon.agent.model.findings import Draft, Finding, make_finding
from recon.agent.model.missions import Intent
from recon.agent.model.records import Decision

GB = 10**9


def finding(subject: str, draft: Draft, *, at: float = 0.0) -> Finding:
    return make_finding(
        draft, subject=subject, producer="t", producer_version="1", observation_id=None, inputs=(), observed_at=at,
        origin="captured",
    )  # fmt: skip


def decision(key: str, option: str = "yes") -> Decision:
    return Decision(
        id=1, mission_id="m", about_key=key, option=option, value="", because="b", by="p", via="cli", at=0.0,
        shown_sha="", from_n=1, to_n=1,
    )  # fmt: skip


@pytest.fixture
def view() -> View:
    facts = [
        finding("host:a", Draft(name="fs", value={"/": {"avail_bytes": 23 * GB}}, lifetime_s=60)),
        finding("host:a", Draft(name="gpu_numa", value={"0": [0, 1, 2, 3]})),
        finding("host:a", Draft(name="boot_id", value="b1")),
        finding("host:a", Draft(name="rdma", outcome="absent", reason="no such directory")),
        finding("host:a", Draft(name="memlock_kib", outcome="unknown", reason="timeout")),
        finding("host:a", Draft(name="driver", value="580", valid_while=(("boot_id", "b0"),))),
        finding("hf:m@main", Draft(name="same_as", value="hf:m@1")),
        finding("hf:m@1", Draft(name="download_bytes", value=168 * GB, unit="bytes")),
        finding("hf:m@1", Draft(name="routed_experts", value={"format": "w4a16-int4"})),
        finding("hf:m@1", Draft(name="card.sizes", value=["159 GB"], level="claimed")),
        finding("d", Draft(name="wanted_format", value="nvfp4", level="claimed")),
    ]
    return View.of(
        facts, bindings={"host": "host:a", "checkpoint": "hf:m@main", "mission": "d"}, intent=Intent(), now=30.0,
        decisions={"disk.room": decision("disk.room", "free")}, answered={"kv.transfer"}, done={"service.stop"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ('host.fs["/"].avail_bytes >= 1.05 * checkpoint.download_bytes', "false"),
        ('host.fs["/"].avail_bytes >= GB(20)', "true"),
        ('host.fs["/"].avail_bytes + GiB(200) >= checkpoint.download_bytes', "true"),
        ('set(host.gpu_numa["0"]) == set([3, 2, 1, 0])', "true"),
        ('subset([0, 1], host.gpu_numa["0"]) and count(host.gpu_numa["0"]) == 4', "true"),
        ("checkpoint.routed_experts.format == mission.wanted_format", "false"),
        ('checkpoint.routed_experts.format == mission.wanted_format or decided("disk.room", "free")', "true"),
        ('decided("disk.room", "waive")', "false"),
        ('answered("kv.transfer") and done("service.stop")', "true"),
        ('done("download")', "false"),
        ("absent(host.rdma)", "true"),
        ("host.rdma.devices == 0", "unknown"),
        ("host.nothing == 1", "unknown"),
        ("not host.nothing == 1", "unknown"),
        ("known(host.memlock_kib)", "unknown"),
        ("not known(host.memlock_kib)", "unknown"),
        ("fresh(host.memlock_kib)", "unknown"),
        ("known(checkpoint.card.sizes)", "unknown"),
        ("known(host.rdma)", "false"),
        ("host.memlock_kib > 1", "unknown"),
        ("host.driver == '580'", "stale"),
        ("host.nothing == 1 and host.driver == '580'", "unknown"),
        ("host.nothing == 1 and decided('x')", "false"),
        ("host.nothing == 1 or decided('disk.room')", "true"),
        ("proved(checkpoint.download_bytes)", "true"),
        ("proved(checkpoint.card.sizes)", "false"),
        ("count(checkpoint.card.sizes) == 1", "unknown"),
        ("checkpoint.routed_experts > 3", "error"),
        ("host.fs['/'].avail_bytes == 3 and host.nothing == 1", "false"),
        ("engine.version == '1'", "unknown"),
        ("checkpoint.routed_experts.format in ['nvfp4', 'w4a16-int4']", "true"),
    ],
)
def test_a_gate_is_true_only_where_every_part_is_known_and_fresh(view: View, text: str, truth: str) -> None:
    result = parse_gate(text).evaluate(view)
    assert result.truth == truth, result
    assert result.reasons


def test_an_aged_fact_closes_the_gate_it_opened(view: View) -> None:
    gate = parse_gate('host.fs["/"].avail_bytes >= GB(20)')
    assert gate.evaluate(view).truth == "true"
    view.now = 100.0
    result = gate.evaluate(view)
    assert (result.truth, result.refs) == ("stale", ('host.fs["/"].avail_bytes',))


def test_every_blocker_is_named_not_only_the_first(view: View) -> None:
    result = parse_gate('decided("a") and host.nothing == 1 and decided("b")').evaluate(view)
    assert result.refs == ("a", "host.nothing", "b")


def test_the_gate_is_shown_in_words() -> None:
    gate = parse_gate('host.fs["/"].avail_bytes >= GB(20) and not decided("disk.room", "stop")')
    assert gate.words == 'host.fs["/"].avail_bytes is at least 20 GB and not (disk.room is decided as stop)'


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "1 +", "__import__('os').system('x')", "host.fs()", "[x for x in host.fs]", "lambda: 1",
        "1 if host.a else 2", "host.a ** 2", "host.a / 2", "f'{host.a}'", "{1: 2} == host.a", "host.a[1:2] == 1",
        "known(1)", "known(host.a, host.b)", "decided()", "decided(host.a)", "answered('a', 'b')", "GB(1, 2)",
        "host.a_bytes > s(3)", "host.a_bytes - host.b_s > 0", "host.a is None", "print('x')", "(host.a := 3)",
        " and ".join(["host.a == 1"] * 33), "not " * 12 + "decided('a')", "b'x' == host.a", "None == host.a",
    ],
)  # fmt: skip
def test_anything_outside_the_language_is_a_plan_error(text: str) -> None:
    with pytest.raises(PlanError):
        parse_gate(text)


@given(st.text(max_size=200))
def test_no_text_makes_the_parser_do_anything_but_parse_or_refuse(text: str) -> None:
    try:
        gate = parse_gate(text)
    except PlanError:
        return
    empty = View.of([], bindings={}, intent=Intent(), now=0.0)
    assert gate.evaluate(empty).truth in ("true", "false", "unknown", "error")


@given(st.recursive(st.sampled_from(["decided('y')", "decided('n')", "host.u == 1", "host.stale == 1", "host.o > 1"]),
                    lambda inner: st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
                    max_leaves=6))  # fmt: skip
def test_the_logic_is_the_three_valued_one_with_the_worst_reason_kept(text: str) -> None:
    facts = [
        finding("h", Draft(name="stale", value=1, lifetime_s=1)),
        finding("h", Draft(name="o", value={"a": 1})),
    ]
    view = View.of(facts, bindings={"host": "h"}, intent=Intent(), now=50.0, decisions={"y": decision("y")})
    expected = _model(text)
    assert parse_gate(text).evaluate(view).truth == expected


def _model(text: str) -> str:
    """The truth table of the contract, spelled independently of the implementation: ranks and min/max."""
    import ast

    leaves = {"decided('y')": "true", "decided('n')": "false", "host.u == 1": "unknown", "host.stale == 1": "stale",
              "host.o > 1": "error"}  # fmt: skip
    order = ["stale", "unknown", "error"]

    def truth(node: ast.expr) -> str:
        if isinstance(node, ast.BoolOp):
            parts = [truth(v) for v in node.values]
            wins = "false" if isinstance(node.op, ast.And) else "true"
            if wins in parts:
                return wins
            bad = [p for p in parts if p in order]
            return max(bad, key=order.index) if bad else parts[0]
        return leaves[ast.unparse(node)]

    return truth(ast.parse(text, mode="eval").body)
