"""Puts the bundled recording together: the host's part, the hub's part, and the words of the mission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from recon.agent.api import Observation
from recon.tasks.recordings import compose_host, compose_hub

DIRECTIVE: Final = (
    "New experiment, now focusing on nvfp4. Deploy and benchmark "
    "https://huggingface.co/canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP TP4, make it work on SGLang with "
    "https://docs.sglang.io/docs/advanced_features/pd_disaggregation - Prefill TP4, Decode TP4, each using "
    "4 gpus (comms stay on 1 cpu for each that way). Stop current sglang instance, download model, pull "
    "fresh sglang and port needed changes (if any, e.g. set up GEMMs for PRO 6000 if that's still needed)."
)
# After the last answer: what is good for a minute is still good when the replay asks.
LOOKED_AT_AFTER_S: Final = 5.0


def compose(redact: Callable[[bytes], bytes]) -> tuple[list[Observation], dict[str, bytes], float]:
    """All observations by time, all blobs by sha256, and the time that counts as now (UTC seconds).

    `redact` takes secrets out of the host's answers before they are hashed.
    """
    host, host_blobs = compose_host.compose(redact)
    hub, hub_blobs = compose_hub.compose()
    observations = sorted([*host, *hub], key=lambda o: (o.observed_at, o.id))
    as_of = round(observations[-1].observed_at + LOOKED_AT_AFTER_S, 3)
    return observations, {**host_blobs, **hub_blobs}, as_of
