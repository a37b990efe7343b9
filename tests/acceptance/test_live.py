"""A live mission on real parts: an HTTP hub on loopback serving published files, and a real OpenSSH server.

Stand-ins: the hub (tests/support/loopback_hub.py) and the programs in the PATH of the SSH session, which print what a
host of the corpus printed (tests/support/fake_host.py). Everything between them and the report is the product.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.fake_host import build_path, corpus_host
from support.loopback_hub import Hub, Repo, header_bytes, loopback_hub
from support.sshd import Server, new_key, sshd

REPO = "Qwen/Qwen3-30B-A3B-FP8"
PATH = "/usr/local/bin:/usr/bin:/bin"
HIDDEN, INTERMEDIATE, BLOCK = 2048, 768, 128


@dataclass(frozen=True)
class World:
    """Where everything is."""

    folder: Path
    hub: Hub
    server: Server

    def recon(self, *words: str, db: str = "state.db") -> subprocess.CompletedProcess[str]:
        """The command as a user runs it, with a home of its own."""
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("HF_", "RECON_", "SSH_"))},
            "HOME": str(self.folder / "home"), "COLUMNS": "80",
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, "-m", "recon", *words, "--db", str(self.folder / db)], capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=120, env=environment, cwd=self.folder, check=False,
        )  # fmt: skip

    def report(self, db: str = "state.db") -> dict[str, object]:
        """The canonical JSON report."""
        shown = self.recon("report", "--format", "json", "--canonical", db=db)
        assert shown.returncode == 0, shown.stderr
        return dict(json.loads(shown.stdout))


def fp8_moe() -> dict[str, object]:
    """The header of one expert and one attention block in the published layout (weight + weight_scale_inv, 128x128)."""
    tensors: dict[str, object] = {}
    at = 0
    rows = [("mlp.experts.0.gate_proj", INTERMEDIATE, HIDDEN), ("mlp.experts.0.up_proj", INTERMEDIATE, HIDDEN),
            ("mlp.experts.0.down_proj", HIDDEN, INTERMEDIATE), ("self_attn.q_proj", 4096, HIDDEN)]  # fmt: skip
    for name, n, k in rows:
        for suffix, dtype, shape, width in (
            ("weight", "F8_E4M3", [n, k], 1),
            ("weight_scale_inv", "BF16", [n // BLOCK, k // BLOCK], 2),
        ):
            end = at + shape[0] * shape[1] * width
            tensors[f"model.layers.0.{name}.{suffix}"] = {
                "dtype": dtype,
                "shape": shape,
                "data_offsets": [at, end],
            }
            at = end
    return tensors


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("live")
    host = corpus_host("ct200")
    published = Path(os.environ["RECON_CORPUS"]) / "models" / REPO.replace("/", "__")
    tools = build_path(host, folder / "tools")
    files = {
        "config.json": (published / "config.json").read_bytes(),
        "README.md": (published / "card.md").read_bytes(),
        "model.safetensors": header_bytes(fp8_moe()),
    }
    with (
        loopback_hub({REPO: Repo(files=files)}) as hub,
        sshd(folder / "sshd", path=f"{tools}:{PATH}") as server,
    ):
        ssh = folder / "home" / ".ssh"
        ssh.mkdir(parents=True, mode=0o700)
        (ssh / "known_hosts").write_text(Path(server.known_hosts).read_text())
        (ssh / "config").write_text(
            f"Host gpu01\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n"
            f"  IdentityFile {server.client_key}\n"
        )
        yield World(folder, hub, server)


def test_a_strange_host_and_checkpoint_are_read_over_ssh_and_http(world: World) -> None:
    run = world.recon("run", REPO, "gpu01", "--hub", world.hub.endpoint, "--tp", "2", "--quant", "nvfp4")
    assert run.returncode == 3, run.stderr[-3000:]
    assert "routed experts FP8" in run.stdout and "wanted NVFP4" in run.stdout
    assert "sglang-k26-ddtree.service" in run.stdout
    report = world.report()
    found = {(f["subject"].split("@")[0], f["name"]): f for f in report["findings"]}  # type: ignore[attr-defined]
    gpus = found["host:gpu01", "gpus"]
    assert (gpus["value"]["count"], gpus["value"]["sm"], gpus["level"]) == (8, "sm_120", "proved")
    experts = found[f"hf:{REPO}", "routed_experts"]
    assert (experts["value"]["format"], experts["level"]) == ("fp8-block128", "proved")
    assert report["verdict"] == "needs_decision"
    asked = {
        (path.split("?")[0], headers.get("range") or headers.get("Range"))
        for _, path, headers in world.hub.requests
    }
    weights = [r for path, r in asked if path.endswith("model.safetensors")]
    assert weights and all(weights), "weights are read by ranges alone"


def test_the_same_evidence_gives_the_same_report_anywhere(world: World) -> None:
    if not (world.folder / "state.db").exists():
        world.recon("run", REPO, "gpu01", "--hub", world.hub.endpoint, "--tp", "2", "--quant", "nvfp4")
    exported = world.recon("export", "bundle.tar.gz")
    assert exported.returncode == 0, exported.stderr
    replayed = world.recon("run", "--replay", "bundle.tar.gz", db="replay.db")
    assert replayed.returncode == 3, replayed.stderr
    assert json.dumps(world.report("replay.db"), sort_keys=True) == json.dumps(world.report(), sort_keys=True)


def test_the_hosts_secrets_are_nowhere(world: World) -> None:
    world.recon("run", REPO, "gpu01", "--hub", world.hub.endpoint, "--tp", "2", db="secrets.db")
    world.recon("export", "secrets.tar.gz", db="secrets.db")
    shown = (
        world.recon("report", db="secrets.db").stdout
        + world.recon("report", "--format", "json", db="secrets.db").stdout
    )
    import gzip
    import sqlite3
    import zlib

    with sqlite3.connect(world.folder / "secrets.db") as raw:
        blobs = [
            zlib.decompress(body) if encoding == "zlib" else bytes(body)
            for body, encoding in raw.execute("SELECT body, encoding FROM blob")
        ]
    raw.close()
    everything = (
        b"".join(blobs) + gzip.decompress((world.folder / "secrets.tar.gz").read_bytes()) + shown.encode()
    )
    everything += (world.folder / "secrets.db").read_bytes()
    assert b"sglang-k26-ddtree" in everything
    for secret in (b"sk-fake-0000", b"hf_FAKE"):
        assert secret not in everything


def test_a_changed_host_key_is_explained_and_ends_with_4(world: World) -> None:
    known = world.folder / "home" / ".ssh" / "known_hosts"
    honest = known.read_text()
    other = new_key(world.folder / "other_key").with_suffix(".pub").read_text().split()[:2]
    known.write_text(f"[127.0.0.1]:{world.server.port} {' '.join(other)}\n")
    try:
        run = world.recon("run", REPO, "gpu01", "--hub", world.hub.endpoint, "--tp", "2", db="changed.db")
    finally:
        known.write_text(honest)
    assert run.returncode == 4
    assert "CHANGED" in run.stdout + run.stderr
    assert "? unknown" in run.stdout and "routed experts FP8" in world.recon("report", db="changed.db").stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("Qwen/There-Is-No-Such", "gpu01"), "private"),
        ((REPO, "gpu01", "--hub", "http://127.0.0.1:9"), "cannot reach"),
        ((REPO, "no-such-host.invalid"), "cannot be resolved"),
    ],
)
def test_what_cannot_be_reached_is_named_and_ends_with_4(
    world: World, words: tuple[str, ...], text: str
) -> None:
    hub = () if "--hub" in words else ("--hub", world.hub.endpoint)
    run = world.recon("run", *words, *hub, "--tp", "2", "--new", db="unreachable.db")
    assert run.returncode == 4, run.stdout + run.stderr
    assert text in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
