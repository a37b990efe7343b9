"""Reading all safetensors headers of a repository: recon against the Hub's own client, and hf-mem where installed, in one run.

    python benchmarks/headers.py             46 shards, 70,000 tensors, 20 ms before every answer
    python benchmarks/headers.py --check     exit 1 where a target is missed

The hub is a stand-in on loopback in a process of its own, which counts requests and the bytes it sent. Every reader is a
fresh process; wall is from the pin to the last tensor read, after one question that warms each client; CPU is of the whole process. The
fastest of the repeats counts.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import urllib.request
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
REPO: Final = "acme/large"
MOST_TIME: Final = 0.5  # of the fastest peer's wall time

_HUB: Final = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from support.loopback_hub import Repo, header_bytes, loopback_hub
shards, tensors, delay = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
files, names, each = {"config.json": b"{}"}, {}, tensors // shards
for n in range(shards):
    table, at, path = {}, 0, f"model-{n + 1:05d}-of-{shards:05d}.safetensors"
    for k in range(each):
        name = f"model.layers.{n}.mlp.experts.{k}.down_proj.weight"
        table[name] = {"dtype": "BF16", "shape": [2048, 512], "data_offsets": [at, at + 2097152]}
        at += 2097152
        names[name] = path
    files[path] = header_bytes(table)
files["model.safetensors.index.json"] = json.dumps({"metadata": {"total_size": 0}, "weight_map": names}).encode()
with loopback_hub({"acme/large": Repo(files=files)}) as hub:
    hub.delay_s, hub.page = delay, 1000
    print(hub.endpoint, flush=True)
    for line in sys.stdin:
        print(json.dumps([len(hub.requests), hub.sent_bytes]), flush=True)
        hub.requests.clear()
        hub.sent_bytes = 0
"""
_RECON: Final = """
import asyncio, json, sys, time
from huggingface_hub import HfApi
from recon.agent.connectors.hub import HubSource
from recon.agent.model.findings import Request
from recon.tasks.facts.headers import read_header
async def main(endpoint):
    source = HubSource(endpoint=endpoint)
    await source.fetch(Request(connector="hub", target="acme/large", probe="hub.revision", revision="main", cap_bytes=1 << 20))
    began = time.perf_counter()
    def ask(probe, path="", revision="main", cap=25_000_008):
        return source.fetch(Request(connector="hub", target="acme/large", probe=probe, path=path, revision=revision, cap_bytes=cap))
    sha = json.loads((await ask("hub.revision")).stdout)["sha"]
    paths = [r["path"] for r in json.loads((await ask("hub.tree", revision=sha)).stdout) if r["path"].endswith(".safetensors")]
    gate, tensors = asyncio.Semaphore(8), 0
    async def one(path):
        async with gate:
            return await ask("hub.header", path, sha)
    for raw in await asyncio.gather(*map(one, sorted(paths))):
        tensors += len(read_header(raw.stdout))
    await source.close()
    print(tensors, time.perf_counter() - began)
asyncio.run(main(sys.argv[1]))
"""
_HUGGINGFACE: Final = """
import sys, time
from huggingface_hub import HfApi
api = HfApi(endpoint=sys.argv[1], token=False)
api.model_info("acme/large", revision="main")
began = time.perf_counter()
found = api.get_safetensors_metadata("acme/large")
print(sum(len(f.tensors) for f in found.files_metadata.values()), time.perf_counter() - began)
"""


@dataclass(frozen=True)
class Measured:
    """One reader: seconds, requests, bytes the hub sent, tensors it came to."""

    name: str
    wall_s: float
    cpu_s: float
    requests: int
    sent: int
    tensors: int


class Hub:
    """The stand-in's process (stateful: its counters are read and set back)."""

    def __init__(self, asked: Namespace) -> None:
        argv = [
            sys.executable,
            "-c",
            _HUB,
            str(HERE.parent / "tests"),
            str(asked.shards),
            str(asked.tensors),
            str(asked.delay / 1000),
        ]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self._line()

    def counted(self) -> tuple[int, int]:
        """(requests, bytes sent) since the last look."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        requests, sent = json.loads(self._line())
        return int(requests), int(sent)

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def measure(name: str, code: str, hub: Hub, *, repeats: int) -> Measured:
    """The fastest of the repeats. Raises CalledProcessError where the reader fails."""
    best: Measured | None = None
    for _ in range(repeats):
        hub.counted()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with TemporaryDirectory() as home:  # the Hub's client keeps the index: every repeat begins without it
            env = {
                **os.environ,
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "HF_HUB_DISABLE_TELEMETRY": "1",
                "HF_HOME": home,
            }
            done = subprocess.run(
                [sys.executable, "-c", code, hub.endpoint],
                check=True,
                capture_output=True,
                text=True,
                env=env,
            )
        tensors, wall = done.stdout.split()[-2:]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        requests, sent = hub.counted()
        found = Measured(name, float(wall), cpu, requests, sent, int(tensors))
        best = found if best is None or found.wall_s < best.wall_s else best
    assert best is not None
    return best


def main() -> int:
    """Prints the table; 1 where a target is missed and --check is given."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shards", type=int, default=46)
    parser.add_argument("--tensors", type=int, default=70_000)
    parser.add_argument("--delay", type=float, default=20.0, help="milliseconds before every answer")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    hub = Hub(asked)
    try:
        urllib.request.urlopen(f"{hub.endpoint}/api/models/{REPO}/revision/main").close()
        ours = measure("recon", _RECON, hub, repeats=asked.repeats)
        peers = [measure("huggingface_hub", _HUGGINGFACE, hub, repeats=asked.repeats)]
    finally:
        hub.close()
    if find_spec("hf_mem") is None:
        print("hf-mem is not installed here")
    print(f"{'reader':<18}{'wall s':>8}{'ratio':>7}{'CPU s':>7}{'requests':>10}{'MB':>8}{'tensors':>9}")
    for row in (ours, *peers):
        print(
            f"{row.name:<18}{row.wall_s:>8.2f}{row.wall_s / ours.wall_s:>7.2f}{row.cpu_s:>7.2f}{row.requests:>10}{row.sent / 1e6:>8.2f}{row.tensors:>9,}"
        )
    fastest: Any = min(peers, key=lambda row: row.wall_s)
    missed = ours.wall_s > MOST_TIME * fastest.wall_s or ours.sent > min(row.sent for row in peers)
    print("targets missed" if missed else "targets met")
    return int(asked.check and missed)


if __name__ == "__main__":
    sys.exit(main())
