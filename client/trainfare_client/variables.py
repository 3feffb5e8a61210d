"""The environment variables by which `trainfare profile` describes a run to what makes it.

Tasks of launchers and containers of clusters may describe themselves by the same ones.
"""

from __future__ import annotations

import re
from typing import Final

WORK: Final = ("dataset_size", "batch_size", "epochs")
"""The fields of a run's work."""


def variable_of(field: str) -> str:
    """Return the variable that holds a field of a run.

    Examples
    --------
    >>> variable_of("dataset_size"), variable_of("param.name")
    ('TRAINFARE_DATASET_SIZE', 'TRAINFARE_PARAM_NAME')
    """
    return "TRAINFARE_" + re.sub(r"\W", "_", field).upper()


WORKLOAD: Final = variable_of("workload")
WORKERS: Final = variable_of("workers")
PARAMETER: Final = variable_of("param.")
"""What the variables of all parameters begin with."""
