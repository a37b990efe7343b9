"""The installed engine, read without importing it: package versions, KV transfer packages, the architectures it has."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from recon.agent.api import Draft, Fact, Raw
from recon.tasks.facts.host_text import no_such_file, plain_text, trouble, unknown, whole_lines

# Distributions that bring each transfer engine; CUDA variants have names of their own.
TRANSFER_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "mooncake": (
        "mooncake-transfer-engine",
        "mooncake-transfer-engine-cuda13",
        "mooncake-transfer-engine-non-cuda",
    ),
    "nixl": ("nixl", "nixl-cu12", "nixl-cu13"),
}
ROUTER_PACKAGES: Final = ("sglang-router",)
PACKAGE_NAMES: Final = ("packages", "version", "transfer_backends", "router", "name")
_DIST_INFO: Final = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[0-9][A-Za-z0-9.+!_]*)\.dist-info/?$"
)
ENTRY_PATTERN: Final = r"^EntryClass|^ {4}[A-Z][A-Za-z0-9_]*(, [A-Z][A-Za-z0-9_]*)*,?( *#.*)?$|^[])]"
_MODEL_LINE: Final = re.compile(r"^(?P<path>.+?\.py):(?P<text>.*)$")
_CLASS: Final = re.compile(r"\b[A-Z][A-Za-z0-9_]*\b")
_VERSION: Final = re.compile(r"Python (\d+\.\d+(?:\.\d+)?\S*)")


def pip_list_argv(python: str) -> tuple[str, ...]:
    """The packages of an interpreter by its own pip."""
    return (python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check")


def python_version_argv(python: str) -> tuple[str, ...]:
    """The version of an interpreter."""
    return (python, "--version")


def site_listing_argv(site_packages: str) -> tuple[str, ...]:
    """The names in a package directory: what there is where the environment has no pip."""
    return ("ls", "-1", "--", site_packages)


def architectures_argv(site_packages: str, engine: str) -> tuple[str, ...]:
    """Every model module's `EntryClass`, and the lines a list of classes may run on over: names alone, a closing bracket."""
    folder = posixpath.join(site_packages, engine, "srt", "models")
    return ("grep", "-rE", "--include=*.py", "--", ENTRY_PATTERN, folder)


def normal_name(name: str) -> str:
    """A distribution's name as it is compared: lower case, hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


def package_drafts(packages: Mapping[str, str], *, engine: str, source: str) -> list[Draft]:
    """`packages`, and what follows from them: `name`, `version`, `transfer_backends`, `router`."""
    version = packages.get(normal_name(engine))
    transfer = {
        name: next((packages[p] for p in known if p in packages), None)
        for name, known in TRANSFER_PACKAGES.items()
    }
    router = next((packages[p] for p in ROUTER_PACKAGES if p in packages), None)
    drafts = [
        Draft(name="packages", value=dict(sorted(packages.items())), locator=source),
        Draft(name="transfer_backends", value=transfer, locator=source),
        Draft(name="router", value=router, locator=source)
        if router
        else Draft(
            name="router",
            outcome="absent",
            reason=f"no {' or '.join(ROUTER_PACKAGES)} among {len(packages)} packages",
        ),
    ]
    if version is None:
        reason = f"no {engine} among {len(packages)} packages"
        return [*drafts, *(Draft(name=name, outcome="absent", reason=reason) for name in ("name", "version"))]
    return [
        *drafts,
        Draft(name="name", value=engine, locator=source),
        Draft(name="version", value=version, locator=source),
    ]


def parse_pip_list(raw: Raw, *, engine: str) -> Sequence[Draft]:
    """Packages out of `pip list --format json`. Warnings of pip may stand before the list."""
    if reason := trouble(raw, "pip list"):
        return unknown(PACKAGE_NAMES, reason)
    text = plain_text(raw.stdout)
    start = text.find("[{")
    if text.strip() == "[]":
        return package_drafts({}, engine=engine, source="pip list")
    try:
        rows, _ = json.JSONDecoder().raw_decode(text[start:] if start >= 0 else "")
        packages = {normal_name(str(row["name"])): str(row["version"]) for row in rows}
    except (ValueError, KeyError, TypeError):
        return unknown(PACKAGE_NAMES, "pip list printed no JSON that can be read")
    return package_drafts(packages, engine=engine, source="pip list")


def parse_site_listing(raw: Raw, *, engine: str) -> Sequence[Draft]:
    """Packages by the metadata directories in a package directory."""
    if reason := trouble(raw, "the package directory"):
        return unknown(PACKAGE_NAMES, reason)
    found = [m for line in whole_lines(raw) if (m := _DIST_INFO.match(line.strip()))]
    if not found or raw.truncated:
        return unknown(
            PACKAGE_NAMES,
            "the package directory lists no *.dist-info" if not found else "the listing was cut",
        )
    packages = {normal_name(m["name"]): m["version"] for m in found}
    return package_drafts(packages, engine=engine, source="*.dist-info directories")


def parse_python_version(raw: Raw) -> Sequence[Draft]:
    """`python_version` of an interpreter. Very old ones print it on stderr."""
    if reason := trouble(raw, "python --version"):
        return unknown(["python_version"], reason)
    found = _VERSION.search(plain_text(raw.stdout) + plain_text(raw.stderr))
    if found is None:
        return unknown(["python_version"], "python --version names no version")
    return [Draft(name="python_version", value=found.group(1))]


def entry_classes(lines: Sequence[str]) -> set[str]:
    """Class names assigned to `EntryClass` in the scan's lines; a list ends at its bracket, comments are no names."""
    names: set[str] = set()
    open_in = ""  # the file whose list is not closed yet
    for line in lines:
        match = _MODEL_LINE.match(line)
        if match is None:
            open_in = ""
            continue
        path, text = match["path"], match["text"].partition("#")[0]
        starts = text.startswith("EntryClass")
        if not starts and path != open_in:
            continue
        code = text.partition("=")[2] if starts else text
        names.update(_CLASS.findall(code))
        more = ("[" in code or "(" in code or not starts) and not any(bracket in code for bracket in "])")
        open_in = path if more else ""
    return names


def parse_architectures(raw: Raw) -> Sequence[Draft]:
    """`architectures`: class names that the engine's model modules offer, by their text.

    What the text offers is an upper bound: at run time a module that fails to import is left out with a log line.
    """
    if no_such_file(raw):
        return [
            Draft(name="architectures", outcome="absent", reason="the engine has no srt/models directory")
        ]
    if raw.state == "failed" and raw.exit_code == 1 and not raw.stderr.strip():
        return [Draft(name="architectures", outcome="absent", reason="no model module assigns EntryClass")]
    if reason := trouble(raw, "the scan of model modules"):
        return unknown(["architectures"], reason)
    if raw.truncated:
        return unknown(["architectures"], "the scan of model modules was cut at the size limit")
    names = entry_classes(whole_lines(raw))
    if not names:
        return unknown(["architectures"], "the scan of model modules names no class")
    return [Draft(name="architectures", value=sorted(names), locator=f"EntryClass, {len(names)} classes")]


def pip_list_fact(engine: str) -> Fact:
    """The fact that lists packages, with an eye on one engine."""
    return Fact("engine.pip_list", partial(parse_pip_list, engine=engine))


def site_listing_fact(engine: str) -> Fact:
    """The same from the package directory."""
    return Fact("engine.site_listing", partial(parse_site_listing, engine=engine))


PYTHON_VERSION: Final = Fact("engine.python_version", parse_python_version)
ARCHITECTURES: Final = Fact("engine.architectures", parse_architectures)
