"""Talking to one host on behalf of a task: requests, the boot id everything hangs on, findings bound to it.

Requests are made by small functions, so that a recording asks exactly what the tasks ask.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from recon.agent.api import Draft, Fact, Finding, Raw, ReconContext, Request, Seen
from recon.tasks.deployment import host_name
from recon.tasks.facts import identity

_TIMEOUTS: Final[Mapping[str, float]] = {
    # Without persistence mode the driver wakes every GPU for each call: seconds a GPU.
    "nvidia-smi": 30.0,
    "du": 60.0,
    "df": 10.0,
    "systemctl": 10.0,
}


def host_request(host: str, probe: str, argv: Sequence[str]) -> Request:
    """A read-only question to a host."""
    name = posixpath.basename(argv[0])
    return Request(
        connector="host", target=host, probe=probe, argv=tuple(argv), timeout_s=_TIMEOUTS.get(name, 15.0)
    )


def holding(fact: Fact, valid_while: tuple[tuple[str, str], ...]) -> Fact:
    """The same fact; what it says holds while these identities stay what they are."""
    return Fact(fact.id, partial(_holding_parse, parse=fact.parse, valid_while=valid_while), fact.version)


def _holding_parse(
    raw: Raw, *, parse: Callable[[Raw], Sequence[Draft]], valid_while: tuple[tuple[str, str], ...]
) -> Sequence[Draft]:
    # what an identity holds for cannot be itself
    return [
        draft.model_copy(update={"valid_while": tuple(v for v in valid_while if v[0] != draft.name)})
        for draft in parse(raw)
    ]


def bound(fact: Fact, boot_id: str) -> Fact:
    """The same fact; what it says holds while the host's boot id stays the same."""
    return (
        Fact(fact.id, partial(_bound_parse, parse=fact.parse, boot_id=boot_id), fact.version)
        if boot_id
        else fact
    )


def _bound_parse(raw: Raw, *, parse: Callable[[Raw], Sequence[Draft]], boot_id: str) -> Sequence[Draft]:
    return [while_booted(draft, boot_id) for draft in parse(raw)]


def while_booted(draft: Draft, boot_id: str) -> Draft:
    """A draft that ends with this boot. The boot id itself does not."""
    if not boot_id or draft.name == "boot_id" or draft.valid_while:
        return draft
    return draft.model_copy(update={"valid_while": (("boot_id", boot_id),)})


@dataclass
class HostTalk:
    """A conversation with one host on behalf of a task; stateless beside what it was opened with."""

    ctx: ReconContext
    host: str
    boot_id: str

    @property
    def subject(self) -> str:
        """What findings about the host are recorded on."""
        return f"host:{host_name(self.host)}"

    async def ask(self, fact: Fact, argv: Sequence[str]) -> Seen:
        """Asks one question about the host."""
        return await self.ctx.ask(
            host_request(self.host, fact.id, argv), bound(fact, self.boot_id), subject=self.subject
        )

    async def ask_all(self, asks: Sequence[tuple[Fact, Sequence[str]]]) -> list[Seen]:
        """Several questions side by side, answers in the order asked."""
        return await self.ctx.ask_all(
            [
                (host_request(self.host, fact.id, argv), bound(fact, self.boot_id), self.subject)
                for fact, argv in asks
            ]
        )

    def known(self, name: str) -> Finding | None:
        """What was found about the host already, where it may still be believed."""
        finding = self.ctx.view.findings(self.subject).get(name)
        if finding is None or finding.outcome == "unknown" or self.ctx.view.why_stale(finding):
            return None
        return finding

    def record(self, drafts: Sequence[Draft], inputs: Sequence[Finding]) -> tuple[Finding, ...]:
        """Records what follows from other findings about the host."""
        return self.ctx.record(
            [while_booted(d, self.boot_id) for d in drafts], subject=self.subject, inputs=inputs
        )


async def talk(ctx: ReconContext) -> HostTalk:
    """Opens a conversation: asks the boot id, on which everything else hangs."""
    host = str(ctx.params["host"])
    seen = await ctx.ask(
        host_request(host, identity.BOOT_ID.id, identity.BOOT_ID_ARGV),
        identity.BOOT_ID,
        subject=f"host:{host_name(host)}",
    )
    return HostTalk(ctx, host, str(seen.value("boot_id") or ""))


def finding_of(seen: Seen, name: str) -> Finding | None:
    """One finding of an answer, whatever its outcome."""
    return next((f for f in seen.findings if f.name == name), None)
