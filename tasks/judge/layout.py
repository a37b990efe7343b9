"""Which of a repository's weight files count: what an engine loads, and what lies beside it unread.

Rules of SGLang 0.5.23 (`srt/model_loader`): it lists the top folder only; `*.safetensors` win over `*.bin`; where
`model.safetensors.index.json` is there, files it does not name are dropped without a word; without an index every
top-level `*.safetensors` is loaded, except `consolidated.safetensors` beside `model.safetensors` alone. What its own
download fetches is in `recon.tasks.facts.engine_download`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from recon.agent.api import Judgement, Read, View, bytes_text
from recon.tasks.facts.hub import missing_shards
from recon.tasks.judge.reading import count_text, fit, judgement, plain, sides

KEY: Final = "checkpoint.layout"
INDEX: Final = "model.safetensors.index.json"
_WEIGHTS: Final = (
    "*.safetensors", "*.gguf", "*.pth", "*.pt", "*.npz", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*pytorch_model*.bin", "*/model*.bin",
    "model*.bin", "*adapter_model*.bin",
)  # fmt: skip
_SERIES: Final = re.compile(r"-\d{5,6}-of-\d{5,6}\.safetensors$")
# Files of one rank each, as engines and trainers that shard before they save name them.
_RANKED: Final = re.compile(
    r"(?:^|[/_.-])(?:model-)?(?:rank|tp|pp|ep|mp)[_-]?(?P<n>\d{1,4})(?=[/_.-])", re.IGNORECASE
)
_SHARDED_STATE: Final = re.compile(r"^model-rank-(\d{1,4})-part-\d{1,5}\.safetensors$")


@dataclass(frozen=True)
class Copy:
    """Weight files that no engine loads from this repository, and why."""

    name: str
    paths: tuple[str, ...]
    bytes: int
    why: str


@dataclass(frozen=True)
class Weights:
    """The weight files of a commit: those that count, those beside them."""

    sizes: Mapping[str, int]  # every file
    loaded: tuple[str, ...]
    copies: tuple[Copy, ...]
    index: frozenset[str] | None  # the files the index names; None where it was not read or is not there

    @property
    def any(self) -> tuple[str, ...]:
        """Every weight file, of whatever kind."""
        return tuple(path for path in self.sizes if _is_weight(path))

    def of(self, pattern: str) -> list[str]:
        """The files whose path matches a glob."""
        return [path for path in self.sizes if fnmatchcase(path, pattern)]

    @property
    def missing(self) -> list[str]:
        """Shards that their own numbering or the index promises and the commit does not have."""
        named = sorted((self.index or frozenset()) - set(self.sizes))
        return list(dict.fromkeys([*missing_shards(self.loaded), *named]))

    @property
    def ranks(self) -> int:
        """How many ranks the files were cut for before they were saved; 0 where they were not."""
        numbers = {int(m["n"]) for path in self.any if (m := _RANKED.search(path)) is not None}
        return max(numbers) + 1 if len(numbers) > 1 or (numbers and not self.loaded) else 0

    @property
    def sharded_state(self) -> bool:
        """Whether all of them are named as SGLang's own sharded state."""
        return bool(self.loaded) and all(_SHARDED_STATE.match(path) for path in self.loaded)


def weights(view: View) -> Weights | Read:
    """What the file list holds; the read that failed where it is not known."""
    files, index = view.read("checkpoint.files"), view.read("checkpoint.index_files")
    if not files.known or not isinstance(files.value, (list, tuple)):
        return files
    sizes = {
        str(row["path"]): row["size_bytes"] if isinstance(row.get("size_bytes"), int) else 0
        for row in files.value
        if isinstance(row, Mapping) and isinstance(row.get("path"), str)
    }
    named = (
        frozenset(map(str, index.value)) if index.known and isinstance(index.value, (list, tuple)) else None
    )
    loaded = tuple(_loaded(sizes, named))
    return Weights(sizes, loaded, tuple(_copies(sizes, loaded)), named)


def _loaded(sizes: Mapping[str, int], named: frozenset[str] | None) -> list[str]:
    top = sorted(p for p in sizes if p.endswith(".safetensors") and "/" not in p)
    if named is not None:
        return [path for path in top if path in named]
    if INDEX in sizes and any(_SERIES.search(p) for p in top):  # the index of a series names the series
        return [path for path in top if _SERIES.search(path) and not path.startswith("consolidated")]
    if set(top) == {"consolidated.safetensors", "model.safetensors"}:
        return ["model.safetensors"]
    return top or sorted(p for p in sizes if fnmatchcase(p, "*pytorch_model*.bin") and "/" not in p)


def _is_weight(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in _WEIGHTS)


def _copies(sizes: Mapping[str, int], loaded: Iterable[str]) -> Iterator[Copy]:
    rest = [path for path in sorted(sizes) if _is_weight(path) and path not in set(loaded)]
    groups: dict[tuple[str, str], list[str]] = {}
    for path in rest:
        groups.setdefault(_kind(path, bool(list(loaded))), []).append(path)
    for (name, why), paths in groups.items():
        yield Copy(name, tuple(paths), sum(sizes[p] for p in paths), why)


def _kind(path: str, others: bool) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    if folder:
        return f"{folder.split('/')[0]}/", "engines list the top folder only"
    if name.startswith("consolidated"):
        return name, "read only with --load-format mistral"
    if name.endswith(".gguf"):
        return "GGUF files", "another runtime's format"
    if name.endswith(".safetensors"):
        return name, f"{INDEX} does not name it"
    return f"*.{name.rpartition('.')[2]}", "safetensors win" if others else "no engine's format"


def judge_layout(view: View, held: Weights, files: Read) -> Iterator[Judgement]:
    """More than one layout of the weights, or files that nothing loads: which counts. Nothing where all is one layout."""
    if not held.loaded or not held.copies:
        return
    largest = max(held.copies, key=lambda copy: copy.bytes)
    total = sum(held.sizes[path] for path in held.loaded)
    count = f"{count_text(len(held.loaded))} file{'s' * (len(held.loaded) != 1)}"
    index, skipped = view.read("checkpoint.index_files"), view.read("checkpoint.not_loaded")
    extra = view.read("checkpoint.engine_download_extra")
    rows = extra.value if extra.known and isinstance(extra.value, (list, tuple)) else ()
    counted = [row.get("size_bytes") for row in rows if isinstance(row, Mapping)]
    unused = sum(size for size in counted if isinstance(size, int))
    detail = [f"loaded: {count}, {bytes_text(total)}", *(_line(copy) for copy in held.copies[:6])]
    if unused:
        detail.append(f"a download left to SGLang fetches {bytes_text(unused)} more than is loaded")
    yield judgement(
        KEY, "warn", fit(f"{_short(largest)} beside the {count} that count{_more(held)}"), detail=detail,
        observed={"loaded": list(held.loaded)[:50], "loaded_bytes": total, "beside": [_row(c) for c in held.copies]},
        consequence="the sum of all weight files is not the size of the model", sides=sides(files, index, skipped, extra),
    )  # fmt: skip


def _short(copy: Copy) -> str:
    size = bytes_text(copy.bytes).partition(" (")[0] if copy.bytes else ""
    return f"{plain(copy.name)}{f' ({size})' if size else ''}"


def _more(held: Weights) -> str:
    return f", and {len(held.copies) - 1} more" if len(held.copies) > 1 else ""


def _line(copy: Copy) -> str:
    return f"not loaded: {plain(copy.name)}, {len(copy.paths)} file{'s' * (len(copy.paths) != 1)}, {bytes_text(copy.bytes)}: {copy.why}"


def _row(copy: Copy) -> dict[str, object]:
    return {"name": copy.name, "files": len(copy.paths), "bytes": copy.bytes, "why": copy.why}
