"""Finds facts of a run that are not finite numbers, which the service does not accept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainfare_client.collectors.guarding import Guard


def kept(facts: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Return the facts that can be sent; complain about the others."""
    finite_facts, faults = split(facts)
    if faults:
        description = ", ".join(f"{name} is {fault}" for name, fault in faults.items())
        guard.complain(f"{description}; it is left out")
    return finite_facts


def split(facts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the facts that can be sent, and what is wrong with the others.

    Examples
    --------
    >>> split({"epochs": 3, "loss": math.nan, "gpu_type": "T4", "n": 10**400})
    ({'epochs': 3, 'gpu_type': 'T4'}, {'loss': 'nan', 'n': 'too large'})
    """
    faults = {name: fault for name, value in facts.items() if (fault := _fault(value))}
    return {name: value for name, value in facts.items() if name not in faults}, faults


def _fault(value: Any) -> str | None:
    """Return how to show a number that is NaN, infinite or too large, None for all else."""
    try:
        return None if isinstance(value, str) or math.isfinite(value) else str(float(value))
    except OverflowError:
        return "too large"
    except Exception:  # noqa: BLE001 - whatever an object of a framework raises
        return None
