"""What an engine that downloads a repository by itself fetches, beside what is needed to serve it.

Read from SGLang 0.5.23 (`srt/model_loader/weight_utils.py`, `download_weights_from_hf`; `loader.py`, `_prepare_weights`;
`configs/load_config.py`): of `*.safetensors` and `*.bin` the first that matches a name in the top folder is fetched with
`snapshot_download(allow_patterns=[it], ignore_patterns=["original/**/*"])`, where both are; then the top folder alone is
listed for what to load. `*` crosses `/`, so nested files come along; `original/**/*` asks for two slashes, so it leaves out
`original/a/b` and not `original/b`. vLLM 0.33 has the same patterns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

_PATTERNS: Final = ("*.safetensors", "*.bin")
_IGNORED: Final = "original/**/*"


class EngineDownload(NamedTuple):
    """Weight files that the engine fetches; `loads`: whether it then finds any of them in the top folder."""

    files: tuple[tuple[str, int], ...]
    patterns: tuple[str, ...]
    loads: bool

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(size for _, size in self.files)

    def beyond(self, wanted: Collection[str]) -> list[tuple[str, int]]:
        """(path, bytes) of files it fetches that are not among the ones that are needed."""
        return [(path, size) for path, size in self.files if path not in wanted]


def engine_download(files: Iterable[tuple[str, int]]) -> EngineDownload:
    """What SGLang fetches of a repository with these (path, bytes) as its weights."""
    listed = sorted(files)
    top = [path for path, _ in listed if "/" not in path]
    chosen = next(((p,) for p in _PATTERNS if any(fnmatchcase(name, p) for name in top)), _PATTERNS)
    fetched = tuple(
        (path, size)
        for path, size in listed
        if any(fnmatchcase(path, p) for p in chosen) and not fnmatchcase(path, _IGNORED)
    )
    return EngineDownload(fetched, chosen, loads=any("/" not in path for path, _ in fetched))
