"""Which Ray job this process trains in, without importing Ray where nobody did."""

from __future__ import annotations

import sys


def ray_job() -> str | None:
    """Return what all workers of one Ray job share and no other job has; None outside of Ray.

    It is the id of the workers' placement group: a job that Ray starts anew after a failure has
    another one.
    """
    ray = sys.modules.get("ray")
    # Asking Ray more than this where it does not run would start it.
    if ray is None or not ray.is_initialized():
        return None
    from ray.util import get_current_placement_group

    group = get_current_placement_group()
    return None if group is None else str(group.id.hex())
