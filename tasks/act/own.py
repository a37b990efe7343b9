"""The definitions `file.command` (check -> apply -> verify) and `file.step` (for a person), made of a mission file's words.

Parameters of a command: `key`, `subject`, `check` and `verify` ({argv, prints, not_so}), `apply`, `rollback`, `cwd`, `target`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from recon.agent.api import (
    ActContext,
    ActTask,
    Change,
    CheckResult,
    Draft,
    Fact,
    Json,
    Raw,
    Rendered,
    UsageError,
    View,
    bounded_pattern,
    join_argv,
)
from recon.tasks.deployment import host_name, host_user, latest
from recon.tasks.facts.host_text import plain_text
from recon.tasks.recon.host_talk import finding_of, host_request


def render_command(view: View, params: Mapping[str, Json]) -> Rendered:
    """Exactly the commands of the file, bound to the boot of the host and to what they destroy."""
    steps = tuple(tuple(str(word) for word in step) for step in params["apply"])
    lines = tuple(join_argv(step) for step in steps)
    boot_id = latest(view, "host.boot_id")
    if not boot_id:
        return Rendered(lines=lines, missing=("boot id",))
    target = str(params.get("target") or "")
    exact = [("boot_id", str(boot_id)), *([("target", target)] if target else [])]
    change = Change(
        task=str(params["key"]), host=host_name(view.intent.host), user=host_user(view.intent.host),
        cwd=str(params.get("cwd") or ""), steps=steps, exact=tuple(exact), takes_bytes=params.get("takes_bytes"),
        frees_bytes=params.get("frees_bytes"),
        rollback=tuple(tuple(str(word) for word in step) for step in params.get("rollback") or ()),
    )  # fmt: skip
    return Rendered(change=change, lines=lines)


def render_step(view: View, params: Mapping[str, Json]) -> Rendered:
    """A step that a person carries out."""
    del view
    return Rendered(lines=(str(params["title"]),), manual=True)


async def check_command(context: ActContext, change: Change) -> CheckResult:
    """Whether it is so already, by the file's `check`."""
    return await _look(context, change, "check")


async def verify_command(context: ActContext, change: Change) -> CheckResult:
    """Whether it is so now, by the file's `verify`."""
    return await _look(context, change, "verify")


async def _look(context: ActContext, change: Change, which: str) -> CheckResult:
    spec = context.params[which]
    name = f"{which}:{change.task}"  # no path of a gate can name it
    fact = Fact(f"own.{which}", partial(parse_look, name=name, spec=spec))
    seen = await context.ask(
        host_request(change.host, f"own.{which}.{change.task}", [str(word) for word in spec["argv"]]), fact,
        subject=str(context.params["subject"]),
    )  # fmt: skip
    finding = finding_of(seen, name)
    line = join_argv([str(word) for word in spec["argv"]])
    if finding is None or finding.outcome != "known":
        return CheckResult(
            holds=None, because=f"{line}: {finding.reason if finding is not None else 'no answer'}"
        )
    return CheckResult(holds=bool(finding.value["holds"]), because=f"{line}: {finding.value['because']}")


def parse_look(raw: Raw, *, name: str, spec: Mapping[str, Json]) -> list[Draft]:
    """`{holds, because}`; unknown where the command did not end in one of the ways that mean something."""
    draft = Draft(name=name, lifetime_s=60.0)
    prints = spec.get("prints")
    if raw.state == "ok" and (prints is None or not raw.truncated):
        holds, because = True, "exit code 0"
        if prints is not None:
            try:
                line = next(bounded_pattern(f"(?P<line>{prints})").matches(plain_text(raw.stdout)), None)
            except UsageError as error:
                return [draft.model_copy(update={"outcome": "unknown", "reason": error.message})]
            holds, because = line is not None, f"line {line[0]} matches" if line else "no line matches"
        return [draft.model_copy(update={"value": {"holds": holds, "because": because}})]
    if raw.state == "failed" and raw.exit_code in spec.get("not_so", [1]):
        return [draft.model_copy(update={"value": {"holds": False, "because": f"exit code {raw.exit_code}"}})]
    reason = "the answer was cut" if raw.state == "ok" else raw.reason or f"exit code {raw.exit_code}"
    return [draft.model_copy(update={"outcome": "unknown", "reason": reason})]


OWN_ACTS: Final = (
    ActTask("file.command", render=render_command, check=check_command, verify=verify_command),
    ActTask("file.step", render=render_step),
)
