"""Writes tasks/recordings/flagship.tar.gz, the mission that `recon run` replays without arguments. For maintainers.

    python scripts/compose_flagship.py [--check] [--output FILE]

`--check` writes nothing and ends with 1 where the file in the repository is not what the composers give.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from recon import __version__
from recon.agent.connectors.redact import redact
from recon.agent.connectors.replay import bundle_bytes, bundle_of, write_bundle
from recon.agent.mission import directive_subject, triage
from recon.agent.model.base import sha256_hex
from recon.agent.model.missions import Revision
from recon.tasks.knowledge.vocabulary import VOCABULARY
from recon.tasks.playbooks.deploy_pd import playbook
from recon.tasks.recordings.compose import DIRECTIVE, compose
from recon.tasks.recordings.compose_host import HOST

FLAGSHIP = Path(__file__).resolve().parent.parent / "tasks" / "recordings" / "flagship.tar.gz"


def main() -> int:
    """Composes, then writes or compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    parser.add_argument("--output", type=Path, default=FLAGSHIP)
    options = parser.parse_args()
    observations, blobs, as_of = compose(redact)
    read = triage(DIRECTIVE, VOCABULARY, overrides={"host": HOST})
    digest = sha256_hex(f"{playbook.name} {playbook.version}")[:12]
    first = Revision(
        mission_id="bundled", n=1, parent_n=None, decision_id=None, intent=read.intent,
        bindings=playbook.bindings(read.intent, directive_subject(read)), playbook=read.playbook, playbook_hash=digest,
    )  # fmt: skip
    manifest = {
        "as_of": as_of, "origin": "composed", "recon_version": __version__, "triage": read.model_dump(mode="json"),
        "revisions": [first.model_dump(mode="json")], "decisions": [], "playbook_hash": digest,
    }  # fmt: skip
    bundle = bundle_of(manifest, observations, blobs)
    if options.check:
        same = options.output.exists() and options.output.read_bytes() == bundle_bytes(bundle)
        print(
            f"{options.output.name} {'is up to date' if same else 'differs: run this script without --check'}"
        )
        return 0 if same else 1
    write_bundle(options.output, bundle)
    options.output.chmod(0o644)  # a bundle of a real mission is private; this one ships with recon
    print(
        f"{options.output}: {len(observations)} observations, {len(blobs)} blobs, {options.output.stat().st_size:,} bytes"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
