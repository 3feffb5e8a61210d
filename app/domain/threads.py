"""Settings that limit linear algebra to one thread, read when its libraries are loaded."""

from collections.abc import Mapping
from typing import Final

ONE_THREAD: Final[Mapping[str, str]] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
"""The environment of a process whose linear algebra must stay on one core."""
