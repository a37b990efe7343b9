"""Everything recon.tasks brings, registered the way anybody's plug-in is: through the entry point `recon.tasks`."""

from __future__ import annotations

from recon.agent.api import Definition
from recon.tasks.act.launch import LAUNCH_TASKS
from recon.tasks.act.own import OWN_ACTS
from recon.tasks.act.prepare import PREPARE_TASKS
from recon.tasks.act.service import SERVICE_TASKS
from recon.tasks.judge.checkpoint import CHECKPOINT_JUDGES
from recon.tasks.judge.disk import DISK
from recon.tasks.judge.docs import DOCS
from recon.tasks.judge.engine_source import ENGINE_SOURCE
from recon.tasks.judge.engine_support import ENGINE_SUPPORT
from recon.tasks.judge.host import HOST
from recon.tasks.judge.kernels import KERNELS
from recon.tasks.judge.launch import LAUNCH
from recon.tasks.judge.own import OWN_JUDGES
from recon.tasks.judge.placement import PLACEMENT
from recon.tasks.judge.service import SERVICE
from recon.tasks.judge.transfer import TRANSFER
from recon.tasks.recon.checkpoint import CHECKPOINT_TASKS
from recon.tasks.recon.docs import DOCS_TASKS
from recon.tasks.recon.engine import ENGINE_TASKS
from recon.tasks.recon.host import HOST_TASKS
from recon.tasks.recon.own import OWN_TASKS

HOST_JUDGES = (HOST, DISK, PLACEMENT, SERVICE, ENGINE_SUPPORT, ENGINE_SOURCE, TRANSFER, DOCS, KERNELS, LAUNCH)
ACTS = (*SERVICE_TASKS, *PREPARE_TASKS, *LAUNCH_TASKS, *OWN_ACTS)


def definitions() -> tuple[Definition, ...]:
    """Every task definition of this package."""
    return (
        *CHECKPOINT_TASKS,
        *HOST_TASKS,
        *ENGINE_TASKS,
        *DOCS_TASKS,
        *OWN_TASKS,
        *CHECKPOINT_JUDGES,
        *HOST_JUDGES,
        *OWN_JUDGES,
        *ACTS,
    )
