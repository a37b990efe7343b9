"""What holds for every test run."""

from __future__ import annotations

import resource

# A test that runs away gets a MemoryError with its traceback; without this the kernel ends the whole run without a word.
_MOST_BYTES = 8 << 30
resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
