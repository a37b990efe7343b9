"""Where the engine will run from: interpreter, virtual environment, checkout, commit and pull requests.

Every act task asks here, so that what one makes is what the others use.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final

from recon.agent.api import UsageError, View, git_ref, pull_numbers
from recon.tasks.deployment import running_python, venv_of
from recon.tasks.facts.process import safe_python
from recon.tasks.releases import GIT_SOURCES, installed, planned_release, release_to_install

DEFAULT_HOME: Final = "/opt/venvs"
_ASKED: Final = frozenset({"install", "port"})
_UNPLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")


def present_python(view: View) -> str:
    """The interpreter of the engine that is there now, "" where none is known."""
    named = view.intent.extra.get("engine_python")
    return running_python(view) or (named if isinstance(named, str) and safe_python(named) else "")


def planned_python(view: View) -> str:
    """The interpreter that the engine will run with, by the decided source; "" until that is known."""
    source, present = view.intent.engine_source, present_python(view)
    if source == "venv-update":
        return present
    if source is None:
        stays = not _ASKED & set(view.intent.verbs) and installed(view) == planned_release(view)
        return present if stays else ""
    name = _environment_name(view)
    home = posixpath.dirname(venv_of(present)) if venv_of(present) else DEFAULT_HOME
    engine = _UNPLAIN.sub("-", view.intent.engine).lstrip(".-") or "engine"
    return f"{home}/{engine}-{name}/bin/python" if name else ""


def _environment_name(view: View) -> str:
    """What tells a new environment from others: the release, or commit and pull requests; "" until that is known."""
    if view.intent.engine_source not in GIT_SOURCES:
        return release_to_install(view)
    ref, pulls = chosen_ref(view), chosen_pulls(view)
    if not ref or (view.intent.engine_source == "git-prs" and not pulls):
        return ""
    return "-".join(["git", ref.replace("/", "-"), *(f"pr{number}" for number in pulls)])


def planned_venv(view: View) -> str:
    """The virtual environment of the planned interpreter, "" until that is known or where it is in none."""
    return venv_of(planned_python(view))


def checkout_dir(view: View) -> str:
    """Where the engine's source lies: inside the planned environment; "" until that is known."""
    venv = planned_venv(view)
    return f"{venv}/src/sglang" if venv else ""


def chosen_ref(view: View) -> str:
    """The commit, tag or branch to check out: as chosen, else the tag of the release; "" where none is known."""
    named = view.intent.extra.get("engine_ref")
    if named in (None, ""):
        release = release_to_install(view)
        return f"v{release}" if release else ""
    try:
        return git_ref(str(named))
    except UsageError:
        return ""


def chosen_pulls(view: View) -> tuple[int, ...]:
    """The chosen pull requests, where the source takes any; empty also where one of them cannot be read as a number."""
    named = view.intent.extra.get("engine_prs")
    if view.intent.engine_source != "git-prs" or named in (None, "", [], ()):
        return ()
    listed = named if isinstance(named, (list, tuple)) else [named]
    try:
        return pull_numbers(" ".join(str(one) for one in listed))
    except UsageError:
        return ()


def unreadable_source(view: View) -> str:
    """Why the chosen source does not say what to take; "" where it does."""
    source = view.intent.engine_source
    if source in GIT_SOURCES and not chosen_ref(view) and view.intent.extra.get("engine_ref"):
        return "the mission's engine_ref is no name of a branch, tag or commit"
    if source == "git-prs" and not chosen_pulls(view):
        return "it names no pull request"
    return ""
