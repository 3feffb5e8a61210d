"""A process that fits like the fitter's children: `python -m benchmarks.serving.fitting`.

It prints `ready` when all is imported, then computes a fit for each line of its standard input and
answers each with a line.
"""

import os

# Set before numpy is imported, as the fitter does for its children.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import sys  # noqa: E402 - see above

from app.domain.fits import FitRequest  # noqa: E402 - see above
from app.services.computing.child import NICENESS  # noqa: E402 - see above
from app.services.computing.task import FitTask, compute_fit  # noqa: E402 - see above
from benchmarks.evaluation.workloads import generate_runs  # noqa: E402 - see above

_RUNS, _WARMING = 200, 25


def main() -> None:
    """Fit once for each line of input."""
    os.nice(NICENESS)
    _fit(_WARMING)
    print("ready", flush=True)
    for _ in sys.stdin:
        _fit(_RUNS)
        print("fitted", flush=True)


def _fit(n_runs: int) -> None:
    compute_fit(FitTask(FitRequest(), generate_runs(n_runs, 0), {}), lambda _share, _step: None)


if __name__ == "__main__":
    main()
