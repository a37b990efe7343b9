"""Several launches of one deployment against one another: prefill and decode must agree, and share no port.

Parity rules of srt/disaggregation/common/conn.py: a mismatch is found at the first request only, after both servers said
that they are ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from recon.tasks.lint.notes import Note, error, warning
from recon.tasks.lint.rules import Setting

_SAME: Final[tuple[tuple[str, str], ...]] = (
    ("--page-size", "the first request fails: page size mismatch"),
    ("--kv-cache-dtype", "the first request fails: KV cache dtype mismatch"),
    ("--disaggregation-transfer-backend", "the two cannot talk to one another"),
    ("--disaggregation-decode-allocation-policy", "both roles have to use one policy"),
    ("--disaggregation-enable-kv-checksum", "both roles have to use it, or none"),
    ("--dsv4-attn-backend", "the KV layout differs"),
    ("--speculative-algorithm", "both roles need the same speculative flags"),
)
_PORT: Final = 30000
_BOOTSTRAP: Final = 8998


def between(settings: Sequence[Setting]) -> Iterator[tuple[int, Note]]:
    """(index of the launch, note) of what does not go together."""
    for (_, one), (k, two) in combinations(enumerate(settings), 2):
        if {one.role, two.role} == {"prefill", "decode"}:
            yield from ((k, note) for note in _parity(one, two))
        yield from ((k, note) for note in _ports(one, two))


def _parity(one: Setting, two: Setting) -> Iterator[Note]:
    for name, why in _SAME:
        left, right = one.given.values.get(name), two.given.values.get(name)
        if left != right:
            shown = f"{_word(left)} ({one.role}) and {_word(right)} ({two.role})"
            yield error(
                "parity",
                f"{name}: {shown}; {why}",
                two.given.at.get(name),
                source="srt/disaggregation/common/conn.py",
            )
    tps = [s.given.number("--tp-size") or 1 for s in (one, two)]
    if tps[0] != tps[1]:
        yield warning(
            "parity-tp",
            f"--tp-size {tps[0]:g} ({one.role}) and {tps[1]:g} ({two.role}): refused for hybrid models (sliding window, Mamba, "
            "DeepSeek V4 state), slow for others but MLA",
            two.given.at.get("--tp-size"),
            source="srt/disaggregation/common/conn.py",
        )


def _ports(one: Setting, two: Setting) -> Iterator[Note]:
    if (one.given.number("--port") or _PORT) == (two.given.number("--port") or _PORT):
        yield error("port", "two servers of one host on one --port", two.given.at.get("--port"))
    if one.role == two.role == "prefill":
        ports = [s.given.number("--disaggregation-bootstrap-port") or _BOOTSTRAP for s in (one, two)]
        if ports[0] == ports[1]:
            yield error("bootstrap-port", "two prefill servers of one host need a --disaggregation-bootstrap-port each",
                        two.given.at.get("--disaggregation-bootstrap-port"))  # fmt: skip


def _word(values: list[str] | None) -> str:
    return "not given" if values is None else " ".join(values) or "given"
