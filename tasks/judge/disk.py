"""Is there room for the download, and if not, what could make room. What goes is never chosen for anybody."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from recon.agent.api import Effects, Json, Judged, Judgement, JudgeTask, Option, Read, View, bytes_text
from recon.tasks.deployment import (
    DISK_MARGIN,
    holds_data,
    is_count,
    is_within,
    latest,
    mapping_at,
    model_dir,
    mount_of,
    running_python,
    sizes_at,
    target_mount,
    venv_of,
)  # fmt: skip
from recon.tasks.judge.reading import judged, judgement, not_known, sides

KEY: Final = "disk.room"
_OFFERED: Final = 4  # more than these are too many to choose from on one screen
_INODES_LOW: Final = 95  # percent
# A directory of more files than a download has; what is below these belongs to the system or to its package manager.
_SYSTEM: Final = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var",
)
_CACHES: Final = frozenset({".cache", "cache", "hub", "huggingface", "__pycache__", "pip", "uv"})


@dataclass(frozen=True)
class Candidate:
    """A directory that could go: its size and what is lost with it."""

    path: str
    size: int
    loss: str

    def option(self) -> Option:
        """The option to remove it."""
        return Option(
            id=f"free:{self.path}", title=f"remove {self.path}: frees {bytes_text(self.size)}", consequence=self.loss,
            effort="minutes", effects=Effects(intent={"extra.free_path": [self.path]}),
        )  # fmt: skip


def judge(view: View) -> Judged:
    """Free bytes on the mount of the target directory against the download plus 5 %."""
    need, fs = view.read("checkpoint.download_bytes"), view.read("host.fs")
    models = view.read("host.models")
    if is_count(need.value) and models.known and _already_there(view, models.value, int(need.value)):
        return judged(_looks_complete(view, need, models))
    mount = target_mount(view)
    free = view.read(f'host.fs["{mount}"].avail_bytes')
    if not (is_count(need.value) and fs.known and is_count(free.value)):
        return judged(
            not_known(
                KEY, "disk: room for the download is not known", need, fs if not fs.known else free, about=KEY
            )
        )
    wanted, avail = int(int(need.value) * DISK_MARGIN), int(free.value)
    if avail < wanted:
        return judged(_block(view, mount, need, free, wanted))
    return judged(_fits(view, mount, need, free, wanted))


def _already_there(view: View, models: Json, download: int) -> bool:
    held = models.get(model_dir(view)) if isinstance(models, Mapping) else None
    return isinstance(held, (int, float)) and held >= download


def _looks_complete(view: View, need: Read, models: Read) -> Judgement:
    """A directory of the right name and size proves neither the commit nor the bytes."""
    return judgement(
        KEY, "warn", "disk: the target directory looks complete: verify it", about=KEY,
        observed=models.value, expected=need.value, sides=sides(models, expected=(need,)),
        detail=[
            f"{model_dir(view)} has the name and at least the size; which commit it is, and whether all bytes are right, was not read",
            "`hf download` into it fetches only what differs from the commit",
        ],
    )  # fmt: skip


def _fits(view: View, mount: str, need: Read, free: Read, wanted: int) -> Judgement:
    inodes = view.read(f'host.fs_inodes["{mount}"].inode_use_percent')
    # a mount without a number of inodes has no limit of them; a reading that failed is another matter
    unread = inodes.finding is None or inodes.state == "stale" or inodes.finding.outcome == "unknown"
    low = inodes.known and is_count(inodes.value) and inodes.value >= _INODES_LOW
    said = f"{inodes.value} % of the inodes of {mount} are used" if low else ""
    said = f"free inodes of {mount} are not known: {inodes.reason}" if unread else said
    title = f"disk: {_gb(need.value)} fits the {_gb(free.value)} free on {mount}"
    return judgement(
        KEY, "warn" if said else "pass", title, about=KEY, observed={"avail_bytes": free.value, "mount": mount},
        expected={"at_least_bytes": wanted}, sides=sides(free, expected=(need,)),
        detail=[said],
    )  # fmt: skip


def _block(view: View, mount: str, need: Read, free: Read, wanted: int) -> Judgement:
    short = wanted - int(free.value)
    candidates = find_candidates(view, mount)
    options = [*_free_options(candidates, short), *_other_mounts(view, mount, wanted), *_always(mount)]
    could = [f"{c.path} {_gb(c.size)}" for c in candidates[:_OFFERED] if c.size * 10 >= short]
    room = f"; {_gb(candidates[0].size)} could go" if could else ""
    return judgement(
        KEY, "block", f"disk: {_gb(need.value)} to download, {_gb(free.value)} free on {mount}{room}", about=KEY,
        observed={"avail_bytes": free.value, "mount": mount}, expected={"at_least_bytes": wanted},
        consequence=f"the download would fill {mount} and stop; what else writes there stops too",
        detail=[
            f"short by {bytes_text(short)}, 5 % margin included",
            f"could go (never chosen for you): {', '.join(could)}" if could else "",
        ],
        options=options,
        sides=sides(free, view.read("host.models"), view.read("host.disk_usage"), expected=(need,)),
    )  # fmt: skip


def find_candidates(view: View, mount: str) -> list[Candidate]:
    """Directories on a mount that a person could give up, largest first; never a system folder, never a parent of another."""
    models = sizes_at(view, "host.models")
    usage = {path: size for path, size in sizes_at(view, "host.disk_usage").items() if path not in models}
    mounts = mapping_at(view, "host.fs")
    venv = venv_of(running_python(view))
    everything = {**usage, **models}
    found = [
        Candidate(path, size, _loss(view, path, is_model=path in models))
        for path, size in everything.items()
        if mount_of(path, mounts) == mount
        and path.isprintable()
        and not _keeps_something(path, everything, venv)
        and not (path not in models and _is_system(path))
    ]
    return sorted(found, key=lambda c: (-c.size, c.path))


def _keeps_something(path: str, everything: Mapping[str, int], venv: str) -> bool:
    """Whether a path is a parent of another candidate, or holds the engine that runs."""
    return any(other != path and is_within(other, path) for other in everything) or (
        bool(venv) and is_within(venv, path)
    )


def _is_system(path: str) -> bool:
    # a folder right below / (also a swap file or a home) is no one thing that can be given up
    return posixpath.dirname(path.rstrip("/")) == "/" or any(is_within(path, top) for top in _SYSTEM)


def _loss(view: View, path: str, *, is_model: bool) -> str:
    serving, unit = latest(view, "host.service.model_path"), latest(view, "host.service.unit")
    if isinstance(serving, str) and serving and is_within(serving, path):
        return f"the weights that {unit or 'the running service'} serves: it cannot be started again without fetching them anew"
    if is_model:
        return "a model directory: gone until it is fetched again, where its source still has it"
    if posixpath.basename(path.rstrip("/")) in _CACHES:
        return "a cache: comes back by downloading or compiling again"
    return "what is in it is not known to recon: look before you choose it"


def _free_options(candidates: list[Candidate], short: int) -> list[Option]:
    enough = [c for c in candidates if c.size >= short][:_OFFERED]
    options = [c.option() for c in enough]
    rest, total, chosen = [c for c in candidates if c.size < short], 0, []
    for candidate in rest:
        if total >= short:
            break
        chosen.append(candidate)
        total += candidate.size
    if total >= short and len(chosen) > 1:
        options.append(_set_option(chosen, total))
    return options


def _set_option(chosen: list[Candidate], total: int) -> Option:
    paths = [c.path for c in chosen]
    return Option(
        id="free:" + "+".join(paths), title=f"remove {', '.join(paths)}: frees {bytes_text(total)}",
        consequence="; ".join(f"{c.path}: {c.loss}" for c in chosen), effort="minutes",
        effects=Effects(intent={"extra.free_path": paths}),
    )  # fmt: skip


def _other_mounts(view: View, mount: str, wanted: int) -> list[Option]:
    options = []
    for other, entry in sorted(mapping_at(view, "host.fs").items()):
        if other == mount or not isinstance(entry, Mapping) or not holds_data(other, entry):
            continue
        avail = entry.get("avail_bytes")
        if is_count(avail) and avail >= wanted:
            options.append(
                Option(
                    id=f"other-mount:{other}", title=f"download to {posixpath.join(other, 'models')}: {bytes_text(avail)} free",
                    consequence=f"nothing is removed; the engine reads its weights from {other}", effort="minutes",
                    effects=Effects(intent={"target_dir": posixpath.join(other, "models")}),
                )
            )  # fmt: skip
    return options


def _always(mount: str) -> list[Option]:
    return [
        Option(
            id="stop", title="stop here", consequence=f"{mount} stays as it is", effects=Effects(stop=True)
        )
    ]


def _gb(count: float) -> str:
    return f"{count / 10**9:.1f} GB"


DISK = JudgeTask("judge.disk", judge=judge)
