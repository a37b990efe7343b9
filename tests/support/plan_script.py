"""`recon approve --plan` over a real state file whose plan has one step of each sort. Run by a test, in the folder it names.

Arguments: the folder, then the words after `recon approve`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.engine import Recorder

from recon.agent.cli import looking, run
from recon.agent.cli.plugins import Plugins

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
from test_consent import Later, planned_bench

folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
bench = planned_bench(folder, Later(), Recorder())
bench.close()
looking.load_plugins = lambda: Plugins(bench.registry, {})  # the plug-in that has these definitions
sys.exit(run(["approve", *sys.argv[2:], "--db", str(bench.path)]))
