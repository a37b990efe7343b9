"""The shape of a vocabulary: which words stand for which things. The words themselves come from whoever knows them."""

from __future__ import annotations

from pydantic import Field

from recon.agent.model.base import Frozen


class Term(Frozen):
    """One thing and the phrases people write for it.

    `words` are lower-case phrases whose parts are separated by one space; hyphens, slashes and underscores in a text
    count as spaces, so `kv cache` also stands for `kv-cache`. `title` is how people write the name.
    """

    value: str
    words: tuple[str, ...]
    title: str = ""


class Action(Frozen):
    """A step somebody may ask for: its verb, the words that ask for it, and what they must be about.

    Without `objects` a head alone is enough. An object is a word or one of `<model>`, `<engine>`, `<service>`,
    `<host>`: something of that kind that was found in the text. With `spares` the words ask to leave the step out
    ("keep the running instance").
    """

    verb: str
    heads: tuple[str, ...]
    objects: tuple[str, ...] = ()
    spares: bool = False


class Vocabulary(Frozen):
    """What triage knows about the subject of directives. Order matters where noted."""

    formats: tuple[Term, ...] = ()  # value: a format name of the contracts
    engines: tuple[Term, ...] = ()
    gpus: tuple[Term, ...] = ()
    transfer_backends: tuple[Term, ...] = ()
    engine_sources: tuple[Term, ...] = ()  # words that hint where the engine should come from
    topics: tuple[Term, ...] = ()  # features that are worth a claim: value is the claim's name
    actions: tuple[Action, ...] = ()  # first match wins
    verbs: tuple[str, ...] = ()  # every verb, in the order a deployment carries them out
    uncertain_claims: dict[str, str] = Field(
        default_factory=dict
    )  # verb -> claim that says whether it is needed
    families: tuple[str, ...] = ()  # beginnings of model names
    datasets: tuple[str, ...] = ()
    filler: tuple[str, ...] = ()  # words of the trade that carry no wish of their own
    hub_hosts: tuple[str, ...] = ("huggingface.co", "hf.co")
    code_hosts: tuple[str, ...] = ()  # pages there are code or tickets, not documentation
    pd_pages: tuple[str, ...] = ()  # parts of a documentation address that mean prefill/decode
    playbooks: dict[str, str] = Field(
        default_factory=dict
    )  # layout mode (or `check`: only asked) -> playbook

    def title(self, group: tuple[Term, ...], value: str) -> str:
        """How people write a value of one of the groups; the value itself where it is not in there."""
        return next((term.title or term.value for term in group if term.value == value), value)
