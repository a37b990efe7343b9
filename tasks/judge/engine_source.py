"""Where the engine comes from. A person decides; the options carry what each costs and what is lost."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Effects, Effort, Judged, Judgement, JudgeTask, Option, View
from recon.tasks.deployment import at_least_version, running_python, venv_of
from recon.tasks.environment import chosen_pulls, chosen_ref, unreadable_source
from recon.tasks.judge.engine_support import Port, needs_port
from recon.tasks.judge.reading import judged, judgement, not_known, plain, sides
from recon.tasks.releases import (
    GIT_SOURCES,
    architecture,
    cited,
    installed,
    listed_architectures,
    needed_release,
)

KEY: Final = "engine.source"
_SHOWN: Final = 2  # pull requests named in one line
_LONGEST_REF: Final = 16  # characters that tell a commit from others, and hold most tags
_ASKED: Final = frozenset({"install", "port"})


def judge(view: View) -> Judged:
    """The installed release against the needed one; what the four sources would mean here."""
    version, arch = view.read("engine.version"), view.read("checkpoint.architecture.architectures")
    if not (version.known or version.state == "absent") or not arch.known:
        return judged(
            not_known(
                KEY, "engine source: what is installed and needed is not known", version, arch, about=KEY
            )
        )
    if _will_do(view) and not _ASKED & set(view.intent.verbs):
        title = f"SGLang {plain(installed(view))} is installed and will do"
        return judged(
            judgement(KEY, "pass", title, about=KEY, observed=version.value, sides=sides(version, arch))
        )
    return judged(_question(view), cites=cited(view))


def _will_do(view: View) -> bool:
    need, version = needed_release(view), installed(view)
    fits = need.release is None or (bool(version) and at_least_version(version, need.release))
    settled = not need.unsettled and needs_port(view) == Port()
    return settled and fits and architecture(view) in listed_architectures(view)


def _question(view: View) -> Judgement:
    version, need, port = view.read("engine.version"), needed_release(view), needs_port(view)
    have = installed(view) or "none"
    wants = f"at least {need.release} is needed" if need.release else need.unserved or "any release will do"
    wants = f"needed: {need.unsettled}" if need.unsettled else wants
    chosen, vague = view.intent.engine_source, unreadable_source(view)
    if chosen and not vague:
        rest = f"installed {plain(have)}" + ("" if need.unsettled else f", {wants}")
        taken = _taken(view)  # leaves no room for the rest in the line
        title = f"engine source: {plain(chosen)}" + (f" {' '.join(taken)}" if taken else f"; {rest}")
        return judgement(
            KEY, "pass", title, about=KEY, observed=have, expected=need.release, detail=[rest] if taken else [],
            sides=sides(version),
        )  # fmt: skip
    detail = [
        f"{plain(chosen)}: {vague}" if vague else "",
        ", ".join(need.reasons),
        f"no release is known to change this: {port.why}" if port.why else "",
        f"{port.unread}: {_not_read(view)}" if port.unread else "",
    ]
    return judgement(
        KEY, "unknown", f"engine source: {plain(have)} is installed, {wants}", about=KEY, observed=have,
        expected=need.release, detail=detail, options=options(view),
        sides=sides(version, view.read("engine.architectures"), view.read("checkpoint.architecture.architectures")),
    )  # fmt: skip


def _taken(view: View) -> list[str]:
    """What of the source is taken: commit and pull requests, in the words that were given."""
    if view.intent.engine_source not in GIT_SOURCES:
        return []
    pulls = chosen_pulls(view)
    shown = [f"#{number}" for number in pulls[:_SHOWN]] + (
        [f"{len(pulls) - _SHOWN} more"] if pulls[_SHOWN:] else []
    )
    ref = chosen_ref(view)
    return [ref if len(ref) <= _LONGEST_REF else f"{ref[:_LONGEST_REF]}…", *shown]


def _not_read(view: View) -> str:
    """What was not read of all that says which release will do, and why."""
    paths = (
        "host.gpus.sm",
        "engine.architectures",
        "checkpoint.declared",
        "checkpoint.routed_experts",
        "checkpoint.attention",
    )
    reads = [view.read(path) for path in (*paths, "checkpoint.scale_names")]
    return "; ".join(f"{read.path}: {read.reason or read.state}" for read in reads if not read.known)


def options(view: View) -> tuple[Option, ...]:
    """The four sources, with what each means on this host."""
    need, port = needed_release(view), needs_port(view)
    release = f"SGLang {need.release} or newer" if need.release else "a released SGLang"
    release = f"a release of SGLang ({need.unsettled})" if need.unsettled else release
    venv = venv_of(running_python(view))
    unit = view.value("host.service.unit")
    lost = (
        f"{unit} runs from it: going back means installing its old packages again"
        if unit and venv
        else "its packages change in place"
    )
    short = f"; to be ported: {port.why}" if port.why else ""
    return (
        _option("venv-update", f"update {venv or 'the environment'} to {release}", f"{lost}{short}", "minutes"),
        _option("venv-wheel", f"a new environment with {release}", f"the old service stays startable; takes disk for a second environment{short}", "minutes"),
        _option(
            "git-ref", "a new environment from a commit, tag or branch",
            f"tuning scripts come with it, the build needs a CUDA toolkit{short}", "hours", ref="{value}",
        ),
        _option(
            "git-prs", "a commit plus pull requests, by number",
            "unreviewed code, to be carried along until it is merged" + ("; what others have ported comes with it" if port.why else ""), "days",
            prs="{value}",
        ),
    )  # fmt: skip


def _option(key: str, title: str, consequence: str, effort: Effort, **given: str) -> Option:
    """A source. `given`: the kind of value that it needs, and where that goes in the intent's `extra.engine_*`."""
    effects = {"engine_source": key, **{f"extra.engine_{kind}": value for kind, value in given.items()}}
    return Option(
        id=key, title=title, consequence=consequence, effort=effort, effects=Effects(intent=effects),
        needs_value=next(iter(given), ""),
    )  # fmt: skip


ENGINE_SOURCE = JudgeTask("judge.engine_source", judge=judge)
