"""What a mission waits for from a person, as text: the question, the options with their consequence, the command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from recon.agent.model.findings import Option
from recon.agent.model.state import MissionState, UnknownState, Waiting
from recon.agent.report.clean import clean


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing waited for. `options` are (word to type, title, consequence, effort); `names` the options' whole names."""

    kind: str
    ref: str
    text: str
    command: str
    options: tuple[tuple[str, str, str, str], ...] = ()
    names: tuple[str, ...] = ()


def asks(state: MissionState) -> list[Ask]:
    """Everything waited for, in the order people should answer."""
    return [_ask(state, waiting) for waiting in state.waiting]


def option_name(option: Option) -> str:
    """An option as lists print it: one that takes another model by the model's whole name, which can be typed too."""
    model = option.effects.intent.get("model")
    if isinstance(model, str) and not option.needs_value and model.rpartition("/")[2] == option.id:
        return clean(model)
    return clean(option_word(option))


def option_word(option: Option) -> str:
    """What is typed for an option: its id, with `=<value>` where it needs one."""
    return f"{option.id}=<{option.needs_value}>" if option.needs_value else option.id


def option_command(key: str, option: Option) -> str:
    """The exact command that takes an option."""
    return f'recon decide {_word(key)} {_word(option_word(option))} --because "..."'


def decide_command(key: str, options: tuple[Option, ...]) -> str:
    """The command with OPTION for the word to put in; a single option is written out."""
    if len(options) == 1:
        return option_command(key, options[0])
    return f'recon decide {_word(key)} OPTION --because "..."'


def option_tuples(unknown: UnknownState) -> tuple[tuple[str, str, str, str], ...]:
    """The options of an unknown: word, title, consequence, effort, cleaned."""
    return tuple(
        (clean(option_word(o)), clean(o.title), clean(o.consequence), o.effort or "") for o in unknown.options
    )


def _ask(state: MissionState, waiting: Waiting) -> Ask:
    unknown = state.unknown(waiting.ref) if waiting.kind in ("decision", "answer") else None
    if unknown is None:
        return Ask(waiting.kind, clean(waiting.ref), clean(waiting.text), clean(waiting.command))
    command = (
        decide_command(unknown.planned.key, unknown.options) if unknown.options else clean(waiting.command)
    )
    names = tuple(option_name(option) for option in unknown.options)
    return Ask(waiting.kind, clean(waiting.ref), clean(waiting.text), command, option_tuples(unknown), names)


def _word(text: str) -> str:
    """A word as it is typed in a shell; placeholders in angle brackets are quoted, so that a paste redirects nothing."""
    return shlex.quote(clean(text))
