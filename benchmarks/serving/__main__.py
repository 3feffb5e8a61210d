"""Measure how fast the service answers, loads and starts relative to floors; print the ratios.

Every row is measured in slices, with the service and the floor in turns within one run; `control`
is the floor relative to itself and shows how much the machine alone varies. A row with an
unsuccessful answer counts as missed. The service and the floors are pinned to one core, the load
generator to another; absolute figures depend on machine and time, so only ratios are printed.

    python -m benchmarks.serving                  # every row, about ten minutes
    python -m benchmarks.serving endpoints batch  # some of them
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final

# Set before numpy is imported, since the goals are for one core.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from rich.table import Table  # noqa: E402 - see above

from benchmarks.console import table_console  # noqa: E402 - see above
from benchmarks.serving.artefacts import measure_loads  # noqa: E402 - see above
from benchmarks.serving.contention import (  # noqa: E402 - see above
    measure_contention,
    measure_fits,
)
from benchmarks.serving.endpoints import measure_endpoints  # noqa: E402 - see above
from benchmarks.serving.gathering import measure_gathering  # noqa: E402 - see above
from benchmarks.serving.many import (  # noqa: E402 - see above
    measure_batches,
    measure_recommendations,
)
from benchmarks.serving.slices import Figure  # noqa: E402 - see above
from benchmarks.serving.stage import Stage, prepared_stage  # noqa: E402 - see above
from benchmarks.serving.starting import measure_start  # noqa: E402 - see above

Measure = Callable[[Stage, int, float], Iterable[Figure]]
PARTS: Final[dict[str, tuple[str, Measure]]] = {
    "endpoints": ("POST /v1/forecasts against bare ASGI", measure_endpoints),
    "gathering": ("forecasts asked at the same time", measure_gathering),
    "batch": ("10,000 forecasts in one request", measure_batches),
    "recommendation": ("5,000 candidates", measure_recommendations),
    "contention": ("forecasts while fits run", measure_contention),
    "fits": ("two fits at once", measure_fits),
    "load": ("loading an artefact", measure_loads),
    "start": ("start to first answer, memory", measure_start),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and fail when a goal is missed."""
    options = _parser().parse_args(arguments)
    figures: list[Figure] = []
    with prepared_stage(options.runs) as stage:
        for name in options.parts or PARTS:
            print(f"measuring {name}: {PARTS[name][0]} ...", file=sys.stderr)
            for figure in PARTS[name][1](stage, options.slices, options.seconds):
                print(f"  {figure.goal.what}: {figure.value:.2f}", file=sys.stderr)
                figures.append(figure)
    # A pipe has no width of its own, and no figure may be cut.
    console = table_console(160)
    console.print(table_of(figures))
    missed = [figure.goal.what for figure in figures if not figure.is_met]
    if missed:
        raise SystemExit(f"Goals missed: {'; '.join(missed)}.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    help_text = "; ".join(f"{name}: {what}" for name, (what, _) in PARTS.items())
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=help_text, metavar="PART")
    parser.add_argument("--slices", type=int, default=7, help="turns of each row (default 7)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="length of a slice of HTTP load (default 2)"
    )
    parser.add_argument("--runs", type=int, default=100, help="of the workload (default 100)")
    return parser


def table_of(figures: Iterable[Figure]) -> Table:
    """Return the figures with their goals."""
    table = Table(title="Ours / floor: medians of paired slices")
    table.add_column("what")
    table.add_column("floor")
    for heading in ("goal", "ratio", "slices", "control", "non-2xx"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("goal met")
    table.add_column("note")
    for figure in figures:
        spread = figure.spread
        table.add_row(
            figure.goal.what,
            figure.goal.floor,
            figure.goal.text(),
            f"{figure.value:.2f}",
            "" if spread is None else f"{spread[0]:.2f} - {spread[1]:.2f}",
            "" if figure.control is None else f"{figure.control:.2f}",
            str(figure.failures),
            "met" if figure.is_met else "MISSED",
            figure.note,
        )
    return table


if __name__ == "__main__":
    main()
