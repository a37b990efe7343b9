"""systemd units: which run, and what one is made of.

`systemctl show` of a unit that does not exist ends with exit code 0; LoadState tells. Properties come in systemd's order.
Of Environment only the names are kept, with the values of a few harmless variables.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from recon.agent.api import Draft, Fact, Json, Raw
from recon.tasks.facts.host_text import VOLATILE_S, trouble, unknown, whole_lines, whole_number
from recon.tasks.facts.process import launch_value, safe_unit

PROPERTIES: Final = (
    "Id", "Description", "LoadState", "ActiveState", "SubState", "MainPID", "UnitFileState", "FragmentPath", "ExecStart",
    "Environment", "Type", "Restart", "NRestarts", "MemoryCurrent", "LimitMEMLOCK", "LimitNOFILE", "ActiveEnterTimestamp",
)  # fmt: skip
UNITS_ARGV: Final = (
    "systemctl",
    "list-units",
    "--type=service",
    "--state=running",
    "--plain",
    "--no-legend",
    "--no-pager",
)
_ENGINE_UNIT: Final = re.compile(r"sglang|vllm|llm|tgi|triton-server|lmdeploy", re.IGNORECASE)
# Values that are no secrets and say what a service uses; every other value is dropped.
_SHOWN_VALUES: Final = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "VIRTUAL_ENV",
    "HF_HOME",
    "HF_HUB_CACHE",
)
_INFINITY: Final = (1 << 64) - 1  # how older systemd prints "no limit"


def show_argv(unit: str) -> tuple[str, ...]:
    """What systemd knows of one unit."""
    return ("systemctl", "show", unit, "-p", ",".join(PROPERTIES), "--no-pager")


def engine_units(units: Sequence[Mapping[str, Json]]) -> list[str]:
    """Units whose names say that they serve a model."""
    return [str(u["unit"]) for u in units if _ENGINE_UNIT.search(f"{u['unit']} {u.get('description', '')}")]


def parse_units(raw: Raw) -> Sequence[Draft]:
    """`units`: running services with their states and descriptions, good for a minute."""
    if reason := trouble(raw, "systemctl"):
        return unknown(["units"], reason, lifetime_s=VOLATILE_S)
    units: list[Json] = []
    for line in whole_lines(raw):
        words = line.replace("●", " ").split(maxsplit=4)
        if len(words) >= 4 and safe_unit(words[0]):
            units.append(
                {
                    "unit": words[0],
                    "load": words[1],
                    "active": words[2],
                    "sub": words[3],
                    "description": "".join(words[4:]),
                }
            )
    return [Draft(name="units", value=units, lifetime_s=VOLATILE_S, locator=f"{len(units)} lines")]


def properties(lines: Sequence[str]) -> dict[str, str]:
    """Name -> value of `systemctl show`, split at the first equals sign."""
    found: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition("=")
        if separator and re.fullmatch(r"[A-Za-z0-9]+", name):
            found.setdefault(name, value)
    return found


def parse_show(raw: Raw) -> Sequence[Draft]:
    """`service_unit`: the unit as systemd has it, or absent where it is not loaded; good for a minute."""
    if reason := trouble(raw, "systemctl show"):
        return unknown(["service_unit"], reason, lifetime_s=VOLATILE_S)
    found = properties(whole_lines(raw))
    if not found:
        return unknown(["service_unit"], "systemctl show printed no property", lifetime_s=VOLATILE_S)
    if found.get("LoadState") == "not-found":
        name = found.get("Id", "the unit")
        return [
            Draft(
                name="service_unit",
                outcome="absent",
                reason=f"systemd does not know {name}",
                lifetime_s=VOLATILE_S,
            )
        ]
    return [Draft(name="service_unit", value=unit_value(found), lifetime_s=VOLATILE_S)]


def unit_value(found: Mapping[str, str]) -> dict[str, Json]:
    """The properties as values: limits in bytes or `unlimited`, the launch line taken apart."""
    argv = exec_argv(found.get("ExecStart", ""))
    names, shown = environment(found.get("Environment", ""))
    main_pid = whole_number(found.get("MainPID", ""))
    value: dict[str, Json] = {
        "unit": found.get("Id"),
        "description": found.get("Description"),
        "load_state": found.get("LoadState"),
        "active_state": found.get("ActiveState"),
        "sub_state": found.get("SubState"),
        "main_pid": main_pid or None,
        "restart": found.get("Restart"),
        "restarts": whole_number(found.get("NRestarts", "")),
        "fragment_path": found.get("FragmentPath") or None,
        "unit_file_state": found.get("UnitFileState") or None,
        "type": found.get("Type"),
        "active_since": found.get("ActiveEnterTimestamp") or None,
        "memory_bytes": limit_bytes(found.get("MemoryCurrent", "")),
        "memlock_bytes": limit_bytes(found.get("LimitMEMLOCK", "")),
        "nofile": limit_bytes(found.get("LimitNOFILE", "")),
        "environment_names": names,
        "environment": shown,
        "argv": argv,
    }
    return {**value, **launch_value(argv)}


def limit_bytes(text: str) -> int | str | None:
    """A limit: a number, `unlimited`, or None where systemd does not say (`[not set]`)."""
    if text in ("infinity", "unlimited"):
        return "unlimited"
    number = int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None
    return "unlimited" if number == _INFINITY else number


def exec_argv(text: str) -> list[str]:
    """The argument vector in `{ path=... ; argv[]=... ; ignore_errors=... }`, of the first command."""
    match = re.search(r"\bargv\[\]=(.*?) ; ignore_errors=", text)
    if match is None:
        return []
    try:
        return shlex.split(match.group(1))
    except ValueError:  # systemd prints arguments unquoted: an apostrophe inside one is not a quote
        return match.group(1).split()


def environment(text: str) -> tuple[list[str], dict[str, str]]:
    """Names of the variables set for the unit, and the values of those that are harmless."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    pairs = [word.partition("=") for word in words if "=" in word]
    names = sorted({name for name, _, _ in pairs})
    return names, {name: value for name, _, value in pairs if name in _SHOWN_VALUES}


UNITS: Final = Fact("service.units", parse_units)
SHOW: Final = Fact("service.show", parse_show)
