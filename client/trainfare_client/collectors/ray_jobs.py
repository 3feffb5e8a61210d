"""The Ray job in which this process trains, and its driver, without importing Ray."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trainfare_client.collectors.delivering import delivery_settings
from trainfare_client.collectors.guarding import Guard
from trainfare_client.collectors.surroundings import read_labels

if TYPE_CHECKING:
    from trainfare_client.collectors.recording import RunOptions


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


def with_driver_facts(options: RunOptions) -> RunOptions:
    """Return the options with what only the driver knows: its environment and its commit.

    What is wrong with them is logged; the training begins all the same.
    """
    guard = Guard()
    facts: RunOptions = {**options}
    with guard:
        facts["settings"] = options.get("settings") or delivery_settings(guard)
    with guard:
        facts["labels"] = {**read_labels(), **(options.get("labels") or {})}
    return facts
