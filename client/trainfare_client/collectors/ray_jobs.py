"""The Ray job in which this process trains, found without importing Ray."""

from __future__ import annotations

import sys


def ray_job() -> str | None:
    """Return an id that all workers of one Ray job share and no other job has; None outside of Ray.

    It is the id of the workers' placement group: a job that Ray restarts after a failure gets
    another one.
    """
    ray = sys.modules.get("ray")
    # Asking Ray for more than this would start it if it is not running.
    if ray is None or not ray.is_initialized():
        return None
    from ray.util import get_current_placement_group

    group = get_current_placement_group()
    return None if group is None else str(group.id.hex())
