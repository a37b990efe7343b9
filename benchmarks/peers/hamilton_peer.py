"""Apache Hamilton with its cache, one function at a time."""

from __future__ import annotations

import importlib
import logging
import sys

from graphs import arguments, body
from hamilton import driver

logging.disable(logging.CRITICAL)
given = arguments()
# Hamilton reads the graph from function signatures and hashes their source, so they come from a real module.
source = "\n".join(
    f"def {key}({', '.join(f'{n}: str' for n in needs)}) -> str:\n    return work({key!r})\n"
    for key, needs in given.graph.items()
)
(given.state / "bench_functions.py").write_text(source)
sys.path.insert(0, str(given.state))
module = importlib.import_module("bench_functions")
vars(module)["work"] = body(given.log, given.seconds)

needed = {n for needs in given.graph.values() for n in needs}
last = [key for key in given.graph if key not in needed]
built = driver.Builder().with_modules(module).with_cache(path=str(given.state / "cache")).build()
assert set(built.execute(last)) == set(last)
