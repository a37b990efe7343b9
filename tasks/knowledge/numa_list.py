"""How SGLang reads `--numa-node`: by GPU number, though its help says by subprocess (srt/utils/numa_utils.py, 0.5.9 on)."""

from __future__ import annotations

from collections.abc import Sequence


def numa_node_flag_crashes(values: Sequence[int], base_gpu_id: int, processes: int | None = None) -> bool:
    """Whether `--numa-node VALUES` ends in an IndexError: the list has to reach the highest GPU number.

    `processes` are the server's processes, one a GPU from `base_gpu_id` on; where it is not said, one a value.
    """
    count = len(values) if processes is None else processes
    return bool(values) and base_gpu_id + count > len(values)
