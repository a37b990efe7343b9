"""Where the engine comes from. A person decides; the options carry what each costs and what is lost."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Effects, Effort, Judged, Judgement, JudgeTask, Option, View
from recon.tasks.deployment import at_least_version, running_python, venv_of
from recon.tasks.judge.engine_support import needs_port
from recon.tasks.judge.reading import judged, judgement, not_known, plain, sides
from recon.tasks.releases import architecture, cited, installed, listed_architectures, needed_release

KEY: Final = "engine.source"
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
    return fits and architecture(view) in listed_architectures(view) and not needs_port(view)


def _question(view: View) -> Judgement:
    version, need, port = view.read("engine.version"), needed_release(view), needs_port(view)
    have = installed(view) or "none"
    wants = f"at least {need.release} is needed" if need.release else need.unserved or "any release will do"
    chosen = view.intent.engine_source
    if chosen:
        title = f"engine source: {plain(chosen)}; installed {plain(have)}, {wants}"
        return judgement(
            KEY, "pass", title, about=KEY, observed=have, expected=need.release, sides=sides(version)
        )
    detail = [", ".join(need.reasons), f"no release is known to change this: {port}" if port else ""]
    return judgement(
        KEY, "unknown", f"engine source: {plain(have)} is installed, {wants}", about=KEY, observed=have,
        expected=need.release, detail=detail, options=options(view),
        sides=sides(version, view.read("engine.architectures"), view.read("checkpoint.architecture.architectures")),
    )  # fmt: skip


def options(view: View) -> tuple[Option, ...]:
    """The four sources, with what each means on this host."""
    need, port = needed_release(view), needs_port(view)
    release = f"SGLang {need.release} or newer" if need.release else "a released SGLang"
    venv = venv_of(running_python(view))
    unit = view.value("host.service.unit")
    lost = (
        f"{unit} runs from it: going back means installing its old packages again"
        if unit and venv
        else "its packages change in place"
    )
    short = "; the port is still to be written" if port else ""
    return (
        _option("venv-update", f"update {venv or 'the environment'} to {release}", f"{lost}{short}", "minutes"),
        _option("venv-wheel", f"a new environment with {release}", f"the old service stays startable; takes disk for a second environment{short}", "minutes"),
        _option("git-ref", "a new environment from a commit", f"tuning scripts come with it, the build needs a CUDA toolkit{short}", "hours"),
        _option(
            "git-prs", "a commit plus chosen pull requests",
            "unreviewed code, to be carried along until it is merged" + ("; what others have ported comes with it" if port else ""), "days",
        ),
    )  # fmt: skip


def _option(key: str, title: str, consequence: str, effort: Effort) -> Option:
    return Option(
        id=key,
        title=title,
        consequence=consequence,
        effort=effort,
        effects=Effects(intent={"engine_source": key}),
    )


ENGINE_SOURCE = JudgeTask("judge.engine_source", judge=judge)
