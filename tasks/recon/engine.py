"""Read-only tasks about the installed engine: packages and versions, KV transfer, architectures. Parameter: `host`.

The interpreter is that of the running service's main process: its first argument, not /proc/PID/exe, which shows the
base interpreter of a virtual environment. A mission may name one (`intent.extra.engine_python`). Nothing of the engine
is imported: that would create CUDA contexts on busy GPUs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from recon.agent.api import Draft, Finding, Json, ReconContext, ReconTask
from recon.tasks.deployment import host_name
from recon.tasks.facts import disk, engine, files, process
from recon.tasks.recon.host import ask_service
from recon.tasks.recon.host_talk import HostTalk, finding_of, holding, host_request, talk

UNSAID: Final = ("name", "version", "packages", "transfer_backends", "architectures", "router")
HOW: Final = "name its interpreter in the mission: intent.extra.engine_python: /path/to/venv/bin/python"


def pointer(host: str) -> str:
    """The subject that stands for "the engine of this host"."""
    return f"engine:{host_name(host)}"


async def read_installed(ctx: ReconContext) -> str:
    """Packages of the engine's interpreter, and what follows: version, KV transfer packages, router."""
    host = await talk(ctx)
    service = await _service(host)
    python, why = interpreter(ctx, service)
    if not python:
        drafts = [Draft(name=name, outcome="unknown", reason=f"{why}; {HOW}") for name in UNSAID]
        ctx.record(drafts, subject=pointer(host.host), inputs=[service] if service is not None else [])
        return why
    package = package_name(ctx)
    subject = f"{pointer(host.host)}:{python}"
    served = while_served(host, service, python)
    request = host_request(host.host, engine.PYTHON_VERSION.id, engine.python_version_argv(python))
    asked = await ctx.ask(request, holding(engine.PYTHON_VERSION, served), subject=subject)
    site = await _site_packages(host, service, python, str(asked.value("python_version") or ""))
    holds = (*served, *await _while_unchanged(host, site))
    request = host_request(host.host, "engine.pip_list", engine.pip_list_argv(python))
    listed = await ctx.ask(request, holding(engine.pip_list_fact(package), holds), subject=subject)
    if listed.value("packages") is None and site:  # an environment made by uv has no pip
        request = host_request(host.host, "engine.site_listing", engine.site_listing_argv(site))
        listed = await ctx.ask(request, holding(engine.site_listing_fact(package), holds), subject=subject)
    version = finding_of(listed, "version")
    if version is None or version.outcome != "known":
        return _not_there(ctx, host, version, list(listed.findings))
    drafts = [Draft(name="python", value=python, valid_while=holds), _site_draft(site, holds)]
    ctx.record(drafts, subject=subject, inputs=[version, *([service] if service is not None else [])])
    same = Draft(name="same_as", value=subject, valid_while=holds)
    ctx.record([same], subject=pointer(host.host), inputs=[version])
    backends = listed.value("transfer_backends", {})
    there = [f"{name} {found}" for name, found in backends.items() if found] or ["no KV transfer package"]
    return f"{package} {version.value}, {', '.join(there)}"


def while_served(host: HostTalk, service: Finding | None, python: str) -> tuple[tuple[str, str], ...]:
    """What is read of a running engine's interpreter holds while the same main process serves: a restarted service may
    have been updated. An interpreter that the mission names holds by its package version alone."""
    value = service.value if service is not None and service.outcome == "known" else {}
    pid = value.get("main_pid")
    if not pid or value.get("interpreter") != python:
        return ()
    return ((f"service.main_pid of {host.subject}", str(pid)),)


async def _while_unchanged(host: HostTalk, site: str) -> tuple[tuple[str, str], ...]:
    """What was read of the packages holds while nothing is installed or removed: that changes the folder they lie in."""
    if not disk.safe_path(site):
        return ()
    seen = await host.ask(files.identity_fact(files.ENGINE_FILES), files.stat_argv(site))
    held = seen.value(files.ENGINE_FILES)
    return ((f"{files.ENGINE_FILES}.stamp of {host.subject}", str(held["stamp"])),) if held else ()


async def _service(host: HostTalk) -> Finding | None:
    return host.known("service") or await ask_service(host)


def package_name(ctx: ReconContext) -> str:
    """The distribution of the mission's engine."""
    return engine.normal_name(ctx.intent.engine or "sglang")


def interpreter(ctx: ReconContext, service: Finding | None) -> tuple[str, str]:
    """(path, "") of the engine's interpreter, or ("", why it is not known)."""
    named = ctx.intent.extra.get("engine_python")
    if named is not None:
        return (
            (str(named), "")
            if process.safe_python(str(named))
            else ("", "engine_python is not an absolute path of a python")
        )
    if service is None or service.outcome == "unknown":
        return "", f"the running service is not known{f' ({service.reason})' if service is not None else ''}"
    if service.outcome == "absent":
        return "", f"no running service tells where an engine is installed ({service.reason})"
    python = str(service.value.get("interpreter") or "")
    if process.safe_python(python):
        return python, ""
    return "", f"the launch line of {service.value.get('unit')} does not begin with an interpreter's path"


async def _site_packages(host: HostTalk, service: Finding | None, python: str, version: str) -> str:
    """Where the packages lie: mapped by a running process, else by the layout of virtual environments."""
    value: dict[str, Json] = service.value if service is not None and service.outcome == "known" else {}
    if value.get("interpreter") == python:
        pids = [*value.get("gpu_pids", [])[:1], *([value["main_pid"]] if value.get("main_pid") else [])]
        for pid in pids[:2]:
            seen = await host.ask(process.site_packages_fact(pid), process.site_packages_argv(pid))
            home = posixpath.dirname(posixpath.dirname(python))
            mapped: list[str] = [
                p for p in seen.value(f"process.{pid}.site_packages", []) if disk.safe_path(p)
            ]
            if mapped:
                return next((p for p in mapped if p.startswith(f"{home}/")), mapped[0])
    short = re.match(r"\d+\.\d+", version)
    home = posixpath.dirname(posixpath.dirname(python))
    return f"{home}/lib/python{short.group()}/site-packages" if short else ""


def _site_draft(site: str, holds: tuple[tuple[str, str], ...]) -> Draft:
    if site:
        return Draft(name="site_packages", value=site, valid_while=holds)
    return Draft(
        name="site_packages",
        outcome="unknown",
        reason="neither a process nor the interpreter's version tells",
    )


def _not_there(ctx: ReconContext, host: HostTalk, version: Finding | None, found: Sequence[Finding]) -> str:
    absent = version is not None and version.outcome == "absent"
    reason = version.reason if version is not None and version.reason else "the packages are not known"
    drafts = [Draft(name=name, outcome="absent" if absent else "unknown", reason=reason) for name in UNSAID]
    ctx.record(drafts, subject=pointer(host.host), inputs=found)
    return reason


async def read_architectures(ctx: ReconContext) -> str:
    """Model classes that the installed engine offers, by the text of its modules."""
    host = await talk(ctx)
    subject = ctx.view.resolve(pointer(host.host))
    site = ctx.view.findings(subject).get("site_packages")
    if subject == pointer(host.host) or site is None or site.outcome != "known":
        reason = site.reason if site is not None else "where the engine is installed is not known"
        known = ctx.view.findings(subject).get("architectures")
        if known is None:
            ctx.record([Draft(name="architectures", outcome="unknown", reason=reason)], subject=subject)
        return reason
    package = package_name(ctx)
    if not disk.safe_path(str(site.value)) or not re.fullmatch(r"[a-z0-9-]+", package):
        ctx.record(
            [Draft(name="architectures", outcome="unknown", reason="odd package path")], subject=subject
        )
        return "the package path holds odd characters: not scanned"
    request = host_request(
        host.host,
        engine.ARCHITECTURES.id,
        engine.architectures_argv(str(site.value), package.replace("-", "_")),
    )
    version = ctx.view.findings(subject).get("version")
    same = (("version", str(version.value)),) if version is not None and version.outcome == "known" else ()
    holds = (*site.valid_while, *same)
    seen = await ctx.ask(request, holding(engine.ARCHITECTURES, holds), subject=subject)
    names = seen.value("architectures")
    if names is None:
        return next((f.reason for f in seen.findings), "no answer")
    return f"{len(names)} model classes"


ENGINE_TASKS: Final = (
    ReconTask("engine.installed", run=read_installed, reads_intent=("engine", "extra")),
    ReconTask("engine.architectures", run=read_architectures, reads_intent=("engine", "extra")),
)
