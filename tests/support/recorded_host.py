"""The recorded context for hosts: answers carry stderr and the boot id as well."""

from __future__ import annotations

from support.recorded_hub import RecordedContext

from recon.agent.api import Observation, Raw, Request


class HostContext(RecordedContext):
    """A recon context over recorded answers of a host."""

    def _answer(self, request: Request) -> tuple[Observation, Raw]:
        held, raw = super()._answer(request)
        stderr = self._blobs.get(held.stderr_sha, b"")
        return held, raw.model_copy(update={"stderr": stderr, "host_boot_id": held.host_boot_id})
