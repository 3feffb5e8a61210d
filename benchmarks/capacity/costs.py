"""Measure what forecasts and fits cost: the defaults of `benchmarks.capacity`.

    python -m benchmarks.capacity.costs [--runs 900] [--rounds 7] [--postgresql-url URL]

Bytes are measured if the URL of a server is given whose user may create databases. The service is
asked over HTTP as often as it answers; its CPU time counts, not wall-clock time. Other load on the
machine makes cores slower, never faster.
"""

import argparse
import os
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from rich.console import Console  # noqa: E402 - threads are set before numpy is imported
from rich.table import Table  # noqa: E402 - see above

from app.domain.access import DEFAULT_PROJECT  # noqa: E402 - see above
from app.domain.fits import FitRequest  # noqa: E402 - see above
from app.services.computing.task import InProcessComputer  # noqa: E402 - see above
from app.services.fitting import FittingService  # noqa: E402 - see above
from benchmarks.capacity.ledger import bytes_a_forecast  # noqa: E402 - see above
from benchmarks.serving.load import Order  # noqa: E402 - see above
from benchmarks.serving.processes import (  # noqa: E402 - see above
    LoadGenerator,
    Server,
    started_load,
    started_service,
)
from benchmarks.serving.stage import (  # noqa: E402 - see above
    WORKLOAD,
    Stage,
    forecast_body,
    prepared_stage,
)

_KINDS = {
    "new, not recorded": forecast_body(record=False, is_new=True),
    "new, recorded": forecast_body(record=True, is_new=True),
    "asked again, not recorded": forecast_body(record=False, is_new=False),
    "asked again, recorded": forecast_body(record=True, is_new=False),
}
_FIRST, _SPACING = 100_000_000, 1_000_000
_CONNECTIONS = 1
"""Simultaneous questions about one workload would be answered together; among thousands of
workloads this hardly happens."""
_FITS = 4


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=900, help="of the workload")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a kind in a round")
    parser.add_argument("--postgresql-url", help="a server, for the bytes of a recorded forecast")
    arguments = parser.parse_args()
    size = None
    table = Table("what", "least round", "median round", title="core time")
    with (
        prepared_stage(arguments.runs) as stage,
        started_service(stage.database_url) as server,
        started_load() as load,
    ):
        times_ms: dict[str, list[float]] = {kind: [] for kind in _KINDS}
        for number in range(arguments.rounds + 1):
            for index, (kind, body) in enumerate(_KINDS.items()):
                # No question is asked twice, since its earlier answer would be repeated.
                first = _FIRST + _SPACING * (len(_KINDS) * number + index)
                times_ms[kind].append(_milliseconds(server, load, body, first, arguments.seconds))
        fits = [_fit_seconds(stage) for _ in range(_FITS)]
        if arguments.postgresql_url:
            size = bytes_a_forecast(stage.database_url, arguments.postgresql_url)
    for kind, rounds in times_ms.items():
        # The first round warms the service up.
        table.add_row(f"forecast, {kind}", *_cells(rounds[1:], "ms"))
    table.add_row(f"fit of {arguments.runs} runs, all regressors", *_cells(fits[1:], "s"))
    console = Console(width=110)
    console.print(table)
    console.print(f"The artefact takes {len(stage.artifact):,} bytes.")
    if size is not None:
        console.print(f"A recorded forecast takes {size:,.0f} bytes in PostgreSQL.")


def _cells(rounds: list[float], unit: str) -> tuple[str, str]:
    ordered = sorted(rounds)
    return f"{ordered[0]:.2f} {unit}", f"{ordered[len(ordered) // 2]:.2f} {unit}"


def _fit_seconds(stage: Stage) -> float:
    fitting = FittingService(stage.services.context)
    fit, _ = stage.services.fits.request_fit(DEFAULT_PROJECT, WORKLOAD, FitRequest())
    claim = fitting.claim("benchmark")
    assert claim is not None
    task = fitting.prepare(claim)
    before = time.process_time()
    InProcessComputer().compute(task, lambda _share, _step: None)
    taken = time.process_time() - before
    stage.services.fits.cancel(DEFAULT_PROJECT, fit.fit_id)
    fitting.leave(claim)
    return taken


def _milliseconds(
    server: Server, load: LoadGenerator, body: str, first: int, seconds: float
) -> float:
    before = server.cpu_seconds()
    order = Order(server.port, "/v1/forecasts", body, first, _CONNECTIONS, seconds=seconds)
    outcome = load.carry_out(order)
    if outcome.failures or not outcome.answered:
        raise SystemExit(f"{outcome.failures} of {outcome.answered} answers were no forecasts.")
    return 1e3 * (server.cpu_seconds() - before) / outcome.answered


if __name__ == "__main__":
    main()
