"""All judges about a checkpoint."""

from __future__ import annotations

from typing import Final

from recon.tasks.judge.card import CARDS, ENGINES_NAMED
from recon.tasks.judge.memory import MEMORY, SIZE
from recon.tasks.judge.quantization import QUANTIZATION

CHECKPOINT_JUDGES: Final = (QUANTIZATION, SIZE, MEMORY, CARDS, ENGINES_NAMED)
