"""What the documentation page counts on, held against what is installed on the host."""

from __future__ import annotations

from typing import Final

from recon.agent.api import Judged, Judgement, JudgeTask, View
from recon.tasks.judge.reading import judged, judgement, not_known, sides
from recon.tasks.judge.transfer import NAMES
from recon.tasks.releases import has_package

KEY: Final = "docs.backends"


def judge(view: View) -> Judged:
    """The transfer backends that the page names x the packages of the engine; nothing waits for it."""
    return judged(*_backends(view))


def _backends(view: View) -> list[Judgement]:
    page, packages = view.read("docs.backends"), view.read("engine.transfer_backends")
    if not page.known:
        return [not_known(KEY, "documentation page: not read", page, who="nothing waits for it")]
    named = [str(name) for name in page.value] if isinstance(page.value, (list, tuple)) else []
    ours = sorted({name.lower() for name in named} & {"mooncake", "nixl"})
    if not ours:
        return []
    if not packages.known:
        title = "documentation: whether what it counts on is here is not known"
        return [not_known(KEY, title, packages, page, who="nothing waits for it")]
    there = [NAMES[name] for name in ours if has_package(packages.value, name)]
    said = " and ".join(NAMES[name] for name in ours)
    if there:
        title = f"documentation: {said}; installed here: {', '.join(there)}"
        return [
            judgement(
                KEY,
                "pass",
                title,
                observed=packages.value,
                expected=named,
                sides=sides(packages, expected=(page,)),
            )
        ]
    title = f"the documentation's way needs {said}: {'neither' if len(ours) > 1 else 'it'} is{'' if len(ours) > 1 else ' not'} here"
    return [
        judgement(
            KEY,
            "warn",
            title,
            observed=packages.value,
            expected=named,
            sides=sides(packages, expected=(page,)),
        )
    ]


DOCS = JudgeTask("judge.docs", judge=judge)
