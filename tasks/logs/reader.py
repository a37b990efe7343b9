"""Reads an SGLang log: the memory numbers, the chosen backends, the cause of a failure. One pass, line by line.

Line formats of 0.4.1 to 0.5.23. What the engine calls GB is GiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from recon.tasks.logs.causes import (
    ENDED,
    ERROR_LINE,
    FALLBACK,
    FATAL,
    HIDDEN_IMPORT,
    REFUSED_LENGTH,
    SILENT,
    Row,
)

MAX_LINE: Final = 4000
_ANSI: Final = re.compile(r"\x1b\[[0-9;]{0,40}[A-Za-z]")
_GB: Final = r"(-?\d+(?:\.\d+)?) ?GB"
_RANK: Final = re.compile(r"\b(TP|DP|PP)(\d{1,4})\b")
_LOAD_BEGIN: Final = re.compile(rf"Load weight begin\. avail mem={_GB}")
_LOAD_END: Final = re.compile(r"Load weight end\b")
_USAGE: Final = re.compile(rf"mem usage={_GB}")
_AVAIL: Final = re.compile(rf"avail mem={_GB}")
_TYPE: Final = re.compile(r"\btype=(\w{1,100})")
_QUANT: Final = re.compile(r"\bquant=([\w-]{1,40})")
_TOKENS: Final = re.compile(r"#tokens: (\d{1,15})")
_HALVES: Final = re.compile(rf"K size: {_GB}, V size: {_GB}")
_WHOLE: Final = re.compile(rf"\bKV size: {_GB}")
_FULL: Final = re.compile(r"full_layer_tokens=(\d{1,15})|\bfull_token=(\d{1,15})|pool sizes: full=(\d{1,15})")
_BUDGET: Final = re.compile(rf"memory calculation: bytes_per_full_token=[\d.]{{1,20}}, available_bytes={_GB}")
_PER_TOKEN: Final = re.compile(r"bytes_per_full_token=(\d{1,12}(?:\.\d{1,6})?)")
_POOL_END: Final = re.compile(rf"Memory pool end\. avail mem={_GB}")
_GRAPH_END: Final = re.compile(r"[Cc]apture (?:[\w -]{0,40})?(?:cuda|CUDA) graph end\b")
_CAPACITY: Final = re.compile(r"max_total_num_tokens=(\d{1,15})")
_AVAILABLE: Final = re.compile(rf"available_gpu_mem={_GB}")
_FRACTION: Final = re.compile(r"mem_fraction_static=([\d.]{1,10})")
_VERSION: Final = re.compile(
    r"sglang[ =_-]{0,3}(?:version)?[ =:]{0,3}v?(0\.\d{1,2}\.\d{1,2}(?:\.post\d{1,2})?)\b", re.IGNORECASE
)
_READY: Final = re.compile(r"The server is fired up and ready to roll!")
_STARTED: Final = re.compile(r"Application startup complete|Uvicorn running on")
_SMALLEST_POOL: Final = 2048  # tokens: fewer hold no request of everyday length

_BACKENDS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("moe", r"Use (\w{1,40}) as MoE runner backend"),
        ("moe", r"moe_runner_backend=((?!auto\b)\w{1,40}), quant_method="),
        ("moe", r"enabling (triton_kernels) MOE kernel"),
        ("moe", r"Using CompressedTensorsWNA16(Marlin|Triton)MoE"),
        ("attention", r"Use (\w{1,40}) attention backend for"),
        ("attention", r"Attention backend not specified\. Use (\w{1,40}) backend by default"),
        ("attention", r"Using (hybrid linear attention) backend"),
        ("draft_attention", r"Overriding draft attention backend to (\w{1,40})"),
        ("linear_attention", r"Linear attention kernel backend: decode=(\w{1,40})"),
        ("transfer", r"disaggregation/(nixl|mooncake|mori)/conn\.py"),
        ("transfer", r"(NIXL) KVManager initialized"),
        ("prefill_graph", r"Capture target prefill CUDA graph begin\. backend=(\w{1,40})"),
        ("custom_allreduce", r"Custom ?allreduce is (disabled)"),
    )
)
_MEMORY: Final = frozenset(
    {"fraction-too-low", "not-enough-memory"}
)  # the load line's figure is what was left
_TRANSFORMERS: Final = "Transformers fallback"


@dataclass(frozen=True)
class Cause:
    """Why it failed: `line` counts from 1, `evidence` is the line itself, cleaned."""

    code: str
    cause: str
    remedy: str
    line: int
    evidence: str


@dataclass
class Log:
    """What a log says so far (stateful). Sizes are GiB, which the engine prints as GB."""

    weights: float | None = None
    tokens: int | None = None
    kv: float | None = None
    free: float | None = None
    graph: float | None = None
    capacity: int | None = None
    per_token: float | None = None
    fraction: float | None = None
    version: str | None = None
    ready: bool = False
    started: bool = False
    backends: dict[str, str] = field(default_factory=dict)
    silent: list[tuple[int, str]] = field(default_factory=list)
    silent_count: int = 0
    imports: list[tuple[int, str, str]] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)
    refused: tuple[int, int, int] | None = None
    lines: int = 0
    _before: float | None = None
    _last_load: float | None = None
    _fallback: int = 0
    _ended: int = 0
    _free_rank: int | None = None

    # ---- one line

    def add(self, raw: str) -> None:
        """Takes the next line."""
        self.lines += 1
        line = clean(raw)
        if not line:
            return
        self._memory(line)
        self._words(line)
        self._trouble(line)

    def _memory(self, line: str) -> None:
        if (match := _LOAD_BEGIN.search(line)) is not None:
            self._before = float(match[1])
        if _LOAD_END.search(line):
            self._load_end(line)
        if "KV Cache is allocated" in line:
            self._kv_line(line)
        if (match := _FULL.search(line)) is not None:
            self.tokens = int(next(g for g in match.groups() if g))
        if (match := _BUDGET.search(line)) is not None:
            self.kv = float(match[1]) if self.kv is None else self.kv
        if (match := _PER_TOKEN.search(line)) is not None:
            self.per_token = float(match[1])
        if (match := _POOL_END.search(line)) is not None:
            self._free(float(match[1]), line)
        if _GRAPH_END.search(line):
            self._graph_end(line)
        if (match := _CAPACITY.search(line)) is not None:
            self.capacity = int(match[1]) if self.capacity is None else self.capacity
            if (free := _AVAILABLE.search(line)) is not None:
                self._free(float(free[1]), line)
        if self.fraction is None and (match := _FRACTION.search(line)) is not None:
            self.fraction = _number(match[1])

    def _load_end(self, line: str) -> None:
        usage, avail = _USAGE.search(line), _AVAIL.search(line)
        if avail is not None:
            self._last_load = float(avail[1])
        if self.weights is None:
            if usage is not None:
                self.weights = float(usage[1])
            elif avail is not None and self._before is not None:
                self.weights = round(self._before - float(avail[1]), 2)
        if (quant := _QUANT.search(line)) is not None:
            self.backends.setdefault("quant", quant[1])
        if (kind := _TYPE.search(line)) is not None and kind[1].startswith("Transformers"):
            self.backends["model_impl"] = _TRANSFORMERS

    def _kv_line(self, line: str) -> None:
        tokens, halves, whole = _TOKENS.search(line), _HALVES.search(line), _WHOLE.search(line)
        if tokens is not None and self.tokens is None:
            self.tokens = int(tokens[1])
        if self.kv is None:
            if halves is not None:
                self.kv = round(float(halves[1]) + float(halves[2]), 2)
            elif whole is not None:
                self.kv = float(whole[1])

    def _graph_end(self, line: str) -> None:
        usage, avail = _USAGE.search(line), _AVAIL.search(line)
        if usage is not None and self.graph is None:
            self.graph = float(usage[1])
        if avail is not None:
            self._free(float(avail[1]), line)

    def _free(self, value: float, line: str) -> None:
        """The last free figure, of the lowest rank that prints one: ranks differ by their share of the work around."""
        ranks = [int(n) for kind, n in _RANK.findall(line) if kind == "TP"]
        rank = ranks[0] if ranks else 0
        if self._free_rank is None or rank <= self._free_rank:
            self.free, self._free_rank = value, rank

    def _words(self, line: str) -> None:
        self.ready |= _READY.search(line) is not None
        self.started |= _STARTED.search(line) is not None
        if self.version is None and (match := _VERSION.search(line)) is not None:
            self.version = match[1]
        for name, pattern in _BACKENDS:
            if name not in self.backends and (match := pattern.search(line)) is not None:
                self.backends[name] = match[1].lower() if name in ("moe", "transfer") else match[1]

    def _trouble(self, line: str) -> None:
        if SILENT.search(line):
            self.silent_count += 1
            if len(self.silent) < 20:
                self.silent.append((self.lines, line[:300]))
        if (match := HIDDEN_IMPORT.search(line)) is not None and len(self.imports) < 50:
            self.imports.append((self.lines, match[1], match[2]))
        if FALLBACK.search(line):
            self._fallback = self.lines
            self.backends["model_impl"] = _TRANSFORMERS
        if ENDED.search(line):
            self._ended = self.lines
        if (match := REFUSED_LENGTH.search(line)) is not None and self.refused is None:
            self.refused = (self.lines, int(match[1]), int(match[2]))
        if (match := ERROR_LINE.search(line)) is not None and len(self.errors) < 50:
            self.errors.append((self.lines, line.strip()[:400]))
        for row in FATAL:
            if (match := row.pattern.search(line)) is not None and not any(
                c.code == row.code for c in self.causes
            ):
                says = row.says.format(*(g or "" for g in match.groups()))
                self.causes.append(Cause(row.code, says, row.remedy, self.lines, line.strip()[:400]))

    # ---- the end

    def told(self) -> list[Cause]:
        """The causes in the order of trust, an import that hides an architecture first; empty for a log without one."""
        order = {row.code: i for i, row in enumerate(reversed(FATAL))}
        found = sorted(self.causes, key=lambda c: -order[c.code])
        found = [self._hidden(cause) for cause in found]
        if not found and self._fallback and self.errors:
            row = _by_code("fallback-failed")
            at, text = self.errors[-1]
            found = [Cause(row.code, row.says, row.remedy, at, text)]
        if not found and self.errors and (self._ended or not self.ready):
            at, text = self.errors[-1]
            found = [Cause("error", text, "the line above it in the log says where", at, text)]
        if self.refused is not None and not found:
            at, asked, most = self.refused
            says = f"the pool is far too small: requests above {most} tokens are refused ({asked} asked)"
            found = [Cause("pool-too-small", says, _POOL_REMEDY, at, says)]
        return found

    def _hidden(self, cause: Cause) -> Cause:
        """An architecture that is missing because its module did not import: the import error is the cause."""
        if cause.code != "unsupported-architecture" or not self.imports:
            return cause
        wanted = re.sub(r"[^a-z0-9]", "", cause.cause.lower())
        for at, module, why in self.imports:
            name = re.sub(r"[^a-z0-9]", "", module.rpartition(".")[2].lower())
            stem = name[: max(6, len(name) - 2)]
            if stem and stem[:8] in wanted:
                says = f"the model's module {module} failed to import, so the registry lacks the architecture: {why[:160]}"
                return Cause(
                    "hidden-import",
                    says,
                    "mend that import first; the architecture is in this release",
                    at,
                    why[:400],
                )
        return cause

    @property
    def small_pool(self) -> bool:
        """Whether the KV pool holds no request of everyday length, though the server is ready."""
        size = self.tokens if self.tokens is not None else self.capacity
        return size is not None and size < _SMALLEST_POOL

    def document(self) -> dict[str, Any]:
        """The document `recon.inspection.log/1`. `healthy` false: failed, serves nonsense, or holds no request."""
        causes = self.told()
        tokens = self.tokens if self.tokens is not None else self.capacity
        full = any(c.code in _MEMORY for c in causes)
        free = self.free if self.free is not None else (self._last_load if full else None)
        healthy = not causes and not self.silent and not self.small_pool
        return {
            "schema": "recon.inspection.log/1", "healthy": healthy, "ready": self.ready or self.started, "lines": self.lines,
            "observed": {
                "weights_mem_gb_per_rank": self.weights, "kv_tokens": tokens, "kv_gb": self.kv, "avail_mem_after_gb": free,
                "cuda_graph_gb": self.graph, "max_total_num_tokens": self.capacity, "chosen_backends": dict(sorted(self.backends.items())),
                "fatal_cause": causes[0].cause if causes else None, "silent_corruption_lines": [text for _, text in self.silent],
            },
            "engine_version": self.version, "mem_fraction_static": self.fraction, "bytes_per_token": self.per_token,
            "causes": [
                {"code": c.code, "cause": c.cause, "remedy": c.remedy, "line": c.line, "evidence": c.evidence} for c in causes
            ],
            "findings": list(self._findings(healthy=healthy)),
        }  # fmt: skip

    def _findings(self, *, healthy: bool) -> Iterator[dict[str, Any]]:
        if self.silent:
            yield {
                "name": "silent corruption", "line": self.silent[0][0], "value": self.silent_count,
                "text": f"{self.silent_count} line(s) say that weights found no place: it loads, and answers with garbage",
            }  # fmt: skip
        if self.small_pool:
            size = self.tokens if self.tokens is not None else self.capacity
            yield {
                "name": "unusable",
                "line": 0,
                "value": size,
                "text": f"the KV pool holds {size:,} tokens: {_POOL_REMEDY}",
            }
        for at, module, why in self.imports[:5]:
            yield {
                "name": "import error",
                "line": at,
                "value": module,
                "text": f"{module} is not offered: {why[:120]}",
            }
        if (self.ready or self.started) and not healthy:
            yield {
                "name": "ready but unusable",
                "line": 0,
                "value": True,
                "text": "it says that it is ready, which proves nothing here",
            }


_POOL_REMEDY: Final = "more memory for it: --mem-fraction-static, fewer GPUs in use by others, more ranks"


def read_log(lines: Iterable[str]) -> Log:
    """Reads a log to its end. Any text is taken; lines are cut at 4,000 characters."""
    log = Log()
    for line in lines:
        log.add(line)
    return log


def clean(raw: str) -> str:
    """A line without escapes and control characters, cut."""
    text = _ANSI.sub("", raw[: 2 * MAX_LINE])[:MAX_LINE]
    return "".join(c if c.isprintable() else " " for c in text).rstrip()


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _by_code(code: str) -> Row:
    return next(row for row in FATAL if row.code == code)
