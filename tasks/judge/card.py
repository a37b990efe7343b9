"""What cards claim: advice for this GPU that contradicts itself, reports of trouble, engines named and not named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from recon.agent.api import Finding, Json, Judged, Judgement, JudgeTask, Read, Side, View
from recon.tasks.judge.quantization import plain_long
from recon.tasks.judge.reading import count_text, judged, judgement, not_known, plain, sides

ADVICE: Final = "siblings.advice"
_ENGINE_NAMES: Final = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tensorrt-llm": "TensorRT-LLM",
    "llama.cpp": "llama.cpp",
}


@dataclass(frozen=True)
class Statement:
    """One sentence of a card about this GPU: which repository it speaks for or against."""

    repo: str
    text: str
    date: str
    favours: str  # a repository or a format word; "" where it only speaks against `against`
    against: str
    finding: Finding


def judge_cards(view: View) -> Judged:
    """Advice of the checkpoint's and its siblings' cards for this GPU; published trouble of the path this checkpoint takes."""
    sm = view.read("host.gpus.sm")
    if not sm.known:
        said = list(_without_gpu(view)) if "host" not in view.bindings else []
        return judged(
            *(said or [not_known(ADVICE, "what the cards advise depends on the GPU, which is not known", sm)])
        )
    cards = _cards(view)
    statements = _sorted(cards, str(sm.value))
    return judged(*_advice(view, statements, cards, str(sm.value)), *_leads(view, str(sm.value)))


def _sorted(cards: list[tuple[Read, str]], sm: str) -> list[Statement]:
    found = (s for read, repo in cards for s in _statements(read, repo, sm))
    return sorted(found, key=lambda s: (s.date, s.repo, s.text))


def _without_gpu(view: View) -> Iterator[Judgement]:
    """Where no host is named: every GPU about which the cards disagree; the first is the line, the others stand under it."""
    cards = _cards(view)
    rows = [row for read, _ in cards if read.known and isinstance(read.value, list) for row in read.value]
    sms = sorted({str(sm) for row in rows if isinstance(row, Mapping) for sm in row.get("sms") or ()})
    found = [j for sm in sms for j in _advice(view, _sorted(cards, sm), cards, sm) if j.verdict == "conflict"]
    if found:
        others = [j.title for j in found[1:]]
        yield found[0].model_copy(update={"detail": (*found[0].detail, *others)})


def _unread(view: View, cards: list[tuple[Read, str]]) -> list[Read]:
    """What might say something else about this GPU and was asked without an answer. Siblings that nobody had to look
    for are not among them."""
    own = [view.read("checkpoint.card.hardware"), view.read("checkpoint.card.leads")]
    siblings = view.read("checkpoint.siblings")
    asked = [siblings] if siblings.state in ("unknown", "stale", "error") else []
    failed = [r for r in [*own, *(read for read, _ in cards)] if not r.known and r.state != "absent"]
    return [*failed, *asked]


def _advice(
    view: View, statements: list[Statement], cards: list[tuple[Read, str]], sm: str
) -> Iterator[Judgement]:
    unread, listed = _unread(view, cards), view.read("checkpoint.siblings")
    proof = tuple({s.finding.id: Side(finding_id=s.finding.id) for s in statements}.values())
    against = [(a, b) for n, a in enumerate(statements) for b in statements[n + 1 :] if _disagree(a, b)]
    if against:
        first, second = against[-1]  # the newest pair
        sides_of = (*proof, Side(finding_id=first.finding.id, side="contradicts"))
        owners = {s.repo.split("/")[0] for s in (first, second)}
        whose = "the publisher's own cards" if len(owners) == 1 else "cards of two publishers"
        yield judgement(
            ADVICE, "conflict", f"{whose} disagree about {sm}", observed=_said(second),
            expected=_said(first), detail=[f"{_said(s)}" for s in _newest_of_each(statements)],
            sides=tuple(dict.fromkeys(sides_of)),
            consequence="settle it by running both with known answers at the concurrency that is wanted",
        )  # fmt: skip
    elif unread:
        who = "advice only: nothing waits for it"
        yield not_known(ADVICE, f"what the cards say about {sm} is not known", *unread, who=who)
    elif statements:
        count = sum(read.known for read, _ in cards)
        alone = (
            "its card does not contradict itself about"
            if count == 1
            else f"{count_text(count)} cards agree about"
        )
        more = "" if listed.known else "; siblings were not looked for"
        yield judgement(
            ADVICE, "pass", f"{alone} {sm}{more}", observed=[_said(s) for s in statements], sides=proof
        )


def _said(statement: Statement) -> str:
    name = statement.repo.split("/")[-1]
    return f'{statement.date or "undated"}, {name}: "{plain_long(statement.text)}"'


def _newest_of_each(statements: list[Statement]) -> list[Statement]:
    """The statements that matter: each card's last word for and against."""
    last: dict[tuple[str, str], Statement] = {}
    for statement in statements:
        last[(statement.repo, statement.favours)] = statement
    return sorted(last.values(), key=lambda s: (s.date, s.repo))


def _disagree(a: Statement, b: Statement) -> bool:
    """Two statements that cannot both be followed."""
    if a.favours and b.favours:
        return not _same(a.favours, b.favours)
    return bool((a.against and _same(b.favours, a.against)) or (b.against and _same(a.favours, b.against)))


def _same(a: str, b: str) -> bool:
    """Whether two names mean one repository: cards write the tail of a name for the whole."""
    short_a, short_b = a.split("/")[-1].lower(), b.split("/")[-1].lower()
    return bool(a and b) and (short_a.endswith(short_b) or short_b.endswith(short_a))


def _cards(view: View) -> list[tuple[Read, str]]:
    """What its own card and those of its siblings that were asked for say about hardware, with their repositories."""
    listed = view.read(
        "checkpoint.siblings"
    )  # when the siblings become known, their cards are to be read too
    rows = listed.value if listed.known and isinstance(listed.value, (list, tuple)) else ()
    own = view.subject("checkpoint")
    publisher = own.removeprefix("hf:").split("/")[0]
    named = {str(row.get("repo")) for row in rows if isinstance(row, Mapping)}
    subjects = {
        f.subject
        for f in view.all_findings()
        if f.name in ("card", "card.hardware")
        and (
            f.subject.startswith(f"hf:{publisher}/")
            or f.subject.removeprefix("hf:").rpartition("@")[0] in named
        )
    }
    found = []
    for number, subject in enumerate(sorted(subjects)):
        role = f"card{number}"
        read = view.rebound(role, subject).read(f"{role}.card.hardware")
        found.append((read, subject.removeprefix("hf:").rpartition("@")[0]))
    return found


def _statements(read: Read, repo: str, sm: str) -> Iterator[Statement]:
    if not read.known or not isinstance(read.value, list) or read.finding is None:
        return
    for row in read.value:
        statement = _statement(row, repo, sm, read.finding)
        if statement is not None:
            yield statement


def _statement(row: Json, repo: str, sm: str, finding: Finding) -> Statement | None:
    if not isinstance(row, Mapping):
        return None
    here = sm in (row.get("sms") or [])
    text, date, advice = str(row.get("text") or ""), str(row.get("date") or ""), row.get("advice")
    if advice == "only":
        favours, against = (repo, "") if here else ("", repo)
    elif not here:
        return None
    elif advice == "use_other":
        favours, against = str(row.get("target") or ""), repo
    elif advice == "avoid":
        favours, against = "", repo
    else:
        favours, against = repo, ""
    return Statement(repo, text, date, favours, against, finding)


def _leads(view: View, sm: str) -> Iterator[Judgement]:
    """Published trouble on this GPU: a lead, with what would settle it."""
    read, path = view.read("checkpoint.card.leads"), view.read("checkpoint.routed_experts.format")
    rows = (
        [r for r in read.value if isinstance(r, Mapping)]
        if read.known and isinstance(read.value, list)
        else []
    )
    here = [row for row in rows if sm in (row.get("sms") or [])]
    if not here:
        return
    first = here[0]
    load = " under concurrency" if first.get("under_load") else ""
    date = f" ({plain(first['date'])})" if first.get("date") else ""
    yield judgement(
        "checkpoint.lead.corruption", "warn", f"a lead: corrupted output on {sm}{load}{date}",
        observed=[plain_long(row.get("text")) for row in here],
        detail=[f'"{plain_long(first.get("text"))}"', f"settles it: {plain(first.get('settle'))}"],
        consequence="wrong tokens without an error message", sides=sides(read, path),
    )  # fmt: skip


def judge_engines(view: View) -> Judged:
    """Whether the card speaks of the engine that is wanted."""
    key, read, wanted = (
        "checkpoint.engines_named",
        view.read("checkpoint.card.engines"),
        view.intent.engine.lower(),
    )
    if not read.known or not isinstance(read.value, Mapping):
        return judged(not_known(key, "which engines the card names is not known", read))
    names = read.value.get("named")
    named = [str(n) for n in names] if isinstance(names, (list, tuple)) else []
    name = _ENGINE_NAMES.get(wanted, plain(view.intent.engine))
    if wanted in named:
        return judged(judgement(key, "pass", f"the card names {name}", observed=named, sides=sides(read)))
    if not named:
        return judged(
            judgement(
                key, "warn", "the card names no engine", observed=named, expected=wanted, sides=sides(read)
            )
        )
    patched = "a patched " if read.value.get("patched") else ""
    others = " and ".join(_ENGINE_NAMES.get(n, n) for n in named[:3])
    return judged(
        judgement(
            key, "warn", f"the card names {patched}{others} and never {name}", observed=named, expected=wanted,
            detail=[f'"{plain_long(read.value["patched"])}"' if patched else ""], sides=sides(read),
            consequence=f"nobody says that it was ever run with {name}",
        )
    )  # fmt: skip


CARDS: Final = JudgeTask(name="judge.cards", judge=judge_cards)
ENGINES_NAMED: Final = JudgeTask(name="judge.engines_named", judge=judge_engines)
