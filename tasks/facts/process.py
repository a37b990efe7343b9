"""Processes: the launch line of an engine, its owner, its limits, the Python it runs with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import (
    VOLATILE_S,
    no_such_file,
    plain_text,
    trouble,
    unknown,
    whole_lines,
    whole_number,
)

SELF_LIMITS_ARGV: Final = ("grep", "-E", "Limit|open files|locked", "/proc/self/limits")
SITE_PATTERN: Final = "/[^ ]*/site-packages"
_PYTHON: Final = re.compile(r"(?:/[A-Za-z0-9._+-]+)+/(?:python|pypy)[0-9.]*")
_UNIT_NAME: Final = re.compile(r"^[A-Za-z0-9@:._\\-]{1,250}\.(?:service|scope|slice)$")
_LIMIT: Final = re.compile(r"^Max (?P<name>.+?)\s{2,}(?P<soft>\S+)\s+(?P<hard>\S+)(?:\s+(?P<unit>\S+))?\s*$")
_FLAGS: Final = {
    "model_path": ("--model-path", "--model"), "port": ("--port",), "tp": ("--tp-size", "--tp", "--tensor-parallel-size"),
    "served_name": ("--served-model-name",), "address": ("--host",), "mem_fraction": ("--mem-fraction-static",),
    "quantization": ("--quantization",), "disaggregation_mode": ("--disaggregation-mode",),
}  # fmt: skip
_DEFAULT_PORTS: Final = {"sglang": 30000, "vllm": 8000}
_NUMBERS: Final = ("port", "tp")


def safe_python(path: str) -> bool:
    """Whether a path may be run as an interpreter: absolute, plain characters, named python."""
    return bool(_PYTHON.fullmatch(path)) and "/../" not in path


def safe_unit(unit: str) -> bool:
    """Whether a unit name that came from a host may go into an argument vector."""
    return bool(_UNIT_NAME.fullmatch(unit)) and not unit.startswith("-")


def cmdline_argv(pid: int) -> tuple[str, ...]:
    """The arguments a process was started with, NUL separated."""
    return ("cat", f"/proc/{pid}/cmdline")


def cgroup_argv(pid: int) -> tuple[str, ...]:
    """The control group of a process: which unit or container owns it."""
    return ("cat", f"/proc/{pid}/cgroup")


def limits_argv(pid: int) -> tuple[str, ...]:
    """The limits of a process; those of the login differ from a service's."""
    return ("grep", "-E", "Limit|open files|locked", f"/proc/{pid}/limits")


def site_packages_argv(pid: int) -> tuple[str, ...]:
    """The package directories that a process has mapped files of."""
    return ("grep", "-o", SITE_PATTERN, f"/proc/{pid}/maps")


def split_cmdline(data: bytes) -> list[str]:
    """The arguments in a cmdline file. A title that a process wrote over them is one argument; padding is dropped."""
    return [plain_text(part) for part in data.rstrip(b"\0").split(b"\0")] if data.strip(b"\0") else []


def launch_value(argv: Sequence[str]) -> dict[str, Json]:
    """What a launch line says: engine, interpreter, model, port, tensor-parallel size. Keys it does not say are None."""
    value: dict[str, Json] = {"engine": _engine(argv), "interpreter": None}
    if argv and safe_python(argv[0]):
        value["interpreter"] = argv[0]
    for key, flags in _FLAGS.items():
        text = _flag(argv, flags)
        value[key] = whole_number(text or "") if key in _NUMBERS else text
    if value["port"] is None and value["engine"] in _DEFAULT_PORTS and _flag(argv, _FLAGS["port"]) is None:
        value["port"] = _DEFAULT_PORTS[value["engine"]]
    return value


def _flag(argv: Sequence[str], names: Sequence[str]) -> str | None:
    for at, word in enumerate(argv):
        name, separator, value = word.partition("=")
        if name in names:
            return value if separator else argv[at + 1] if at + 1 < len(argv) else None
    return None


def _engine(argv: Sequence[str]) -> str | None:
    for word in argv[:6]:
        for engine in ("sglang", "vllm"):
            if re.search(rf"(?:^|[/.]){engine}(?:[.]|$)", word):
                return engine
    return None


def parse_cmdline(raw: Raw, *, pid: int) -> Sequence[Draft]:
    """`process.PID.cmdline`: the arguments and what they say; absent where the process has ended."""
    name = f"process.{pid}.cmdline"
    if no_such_file(raw):
        return [Draft(name=name, outcome="absent", reason=f"process {pid} has ended", lifetime_s=VOLATILE_S)]
    if reason := trouble(raw, f"/proc/{pid}/cmdline"):
        return unknown([name], reason, lifetime_s=VOLATILE_S)
    argv = split_cmdline(raw.stdout)
    return [Draft(name=name, value={"argv": argv, **launch_value(argv)}, lifetime_s=VOLATILE_S)]


def parse_cgroup(raw: Raw, *, pid: int) -> Sequence[Draft]:
    """`process.PID.owner`: the unit and container of a process; both None for a login session."""
    name = f"process.{pid}.owner"
    if no_such_file(raw):
        return [Draft(name=name, outcome="absent", reason=f"process {pid} has ended", lifetime_s=VOLATILE_S)]
    if reason := trouble(raw, f"/proc/{pid}/cgroup"):
        return unknown([name], reason, lifetime_s=VOLATILE_S)
    if not re.search(r"^\d+:[^:]*:/", plain_text(raw.stdout), re.MULTILINE):
        return unknown([name], f"/proc/{pid}/cgroup has no line that can be read", lifetime_s=VOLATILE_S)
    unit, container = unit_of_cgroup(plain_text(raw.stdout))
    return [Draft(name=name, value={"unit": unit, "container": container}, lifetime_s=VOLATILE_S)]


def unit_of_cgroup(text: str) -> tuple[str | None, str | None]:
    """(unit, container id) that own a process, by the content of its cgroup file."""
    unit = container = None
    for line in text.split("\n"):
        path = line.split(":", 2)[-1]
        for part in path.split("/"):
            if (
                match := re.match(r"^(?:docker|cri-containerd|crio|libpod)-([0-9a-f]{12,64})\.scope$", part)
            ) or (match := re.match(r"^([0-9a-f]{64})$", part)):
                container = match.group(1)[:12]
            elif part.endswith(".service") and safe_unit(part) and not part.startswith("user@"):
                unit = part
    return unit, container


def limits(lines: Sequence[str]) -> dict[str, dict[str, Json]]:
    """Name -> soft and hard limit: a number or `unlimited`."""
    found: dict[str, dict[str, Json]] = {}
    for line in lines:
        if match := _LIMIT.match(line):
            found[match["name"]] = {side: _limit(match[side]) for side in ("soft", "hard")}
    return found


def _limit(text: str) -> int | str | None:
    return "unlimited" if text == "unlimited" else whole_number(text)


def parse_limits(raw: Raw, *, pid: int) -> Sequence[Draft]:
    """`process.PID.limits`: bytes it may lock in memory and files it may open."""
    name = f"process.{pid}.limits"
    found = limits(whole_lines(raw))
    if "locked memory" not in found:
        return unknown(
            [name],
            trouble(raw, f"/proc/{pid}/limits") or "no line about locked memory",
            lifetime_s=VOLATILE_S,
        )
    value = {
        "memlock_soft_bytes": found["locked memory"]["soft"],
        "memlock_hard_bytes": found["locked memory"]["hard"],
        "nofile_soft": found.get("open files", {}).get("soft"),
    }
    return [Draft(name=name, value=value, lifetime_s=VOLATILE_S)]


def parse_self_limits(raw: Raw) -> Sequence[Draft]:
    """`memlock_kib`: KiB that a process of this login may lock in memory, or `unlimited`."""
    soft = limits(whole_lines(raw)).get("locked memory", {}).get("soft")
    if soft is None:
        return unknown(["memlock_kib"], trouble(raw, "/proc/self/limits") or "no line about locked memory")
    return [
        Draft(
            name="memlock_kib",
            value=soft if soft == "unlimited" else soft // 1024,
            locator="Max locked memory",
        )
    ]


def parse_ulimit(raw: Raw) -> Sequence[Draft]:
    """`memlock_kib` from what a shell prints for `ulimit -l`."""
    text = plain_text(raw.stdout).strip()
    value = text if text == "unlimited" else whole_number(text)
    if raw.state != "ok" or value is None:
        return unknown(["memlock_kib"], trouble(raw, "ulimit -l") or "ulimit -l printed no number")
    return [Draft(name="memlock_kib", value=value)]


def parse_site_packages(raw: Raw, *, pid: int) -> Sequence[Draft]:
    """`process.PID.site_packages`: package directories in use, the most used first."""
    name = f"process.{pid}.site_packages"
    counts: dict[str, int] = {}
    for line in whole_lines(raw):
        if line.startswith("/") and line.endswith("/site-packages"):
            counts[line] = counts.get(line, 0) + 1
    if not counts:
        return unknown(
            [name], trouble(raw, f"/proc/{pid}/maps") or "no site-packages is mapped", lifetime_s=VOLATILE_S
        )
    return [
        Draft(name=name, value=sorted(counts, key=lambda path: (-counts[path], path)), lifetime_s=VOLATILE_S)
    ]


def cmdline_fact(pid: int) -> Fact:
    """The fact that reads one process's arguments."""
    return Fact("process.cmdline", partial(parse_cmdline, pid=pid))


def cgroup_fact(pid: int) -> Fact:
    """The fact that reads one process's owner."""
    return Fact("process.cgroup", partial(parse_cgroup, pid=pid))


def limits_fact(pid: int) -> Fact:
    """The fact that reads one process's limits."""
    return Fact("process.limits", partial(parse_limits, pid=pid))


def site_packages_fact(pid: int) -> Fact:
    """The fact that reads which packages a process runs with."""
    return Fact("process.site_packages", partial(parse_site_packages, pid=pid))


SELF_LIMITS: Final = Fact("host.limits", parse_self_limits)
