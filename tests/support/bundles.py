"""The bundled mission in other sizes: the same evidence without the parts that take long."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from recon.agent.connectors.replay import Bundle, read_bundle_bytes, write_bundle


def bundled() -> Bundle:
    """The bundle that recon ships."""
    return read_bundle_bytes(
        resources.files("recon.tasks.recordings").joinpath("flagship.tar.gz").read_bytes()
    )


def without_headers(path: Path) -> Path:
    """Writes the bundled mission without the safetensors headers: their questions answer `not recorded`."""
    whole = bundled()
    rows = [row for row in whole.observations if row["request"]["probe"] != "hub.header"]
    wanted = {row["stdout_sha"] for row in rows} | {row["stderr_sha"] for row in rows}
    blobs = {sha: body for sha, body in whole.blobs.items() if sha in wanted}
    write_bundle(path, Bundle(whole.manifest, rows, blobs))
    return path
