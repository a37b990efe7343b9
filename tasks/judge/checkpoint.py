"""All judges about a checkpoint."""

from __future__ import annotations

from typing import Final

from recon.tasks.judge.card import CARDS, ENGINES_NAMED
from recon.tasks.judge.claims import CLAIMS
from recon.tasks.judge.memory import MEMORY
from recon.tasks.judge.quantization import QUANTIZATION
from recon.tasks.judge.servable import SERVABLE
from recon.tasks.judge.size import SIZE

CHECKPOINT_JUDGES: Final = (QUANTIZATION, CLAIMS, SERVABLE, SIZE, MEMORY, CARDS, ENGINES_NAMED)
