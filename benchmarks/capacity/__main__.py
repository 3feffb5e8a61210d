"""Plan a service beyond one machine from measured inputs; print replicas, cores, storage, dollars.

    python -m benchmarks.capacity [--workloads 10000] [--runs 1000000000] [--forecasts-per-s 50000]

Every input is an option. Defaults of the measured ones come from `python -m
benchmarks.capacity.costs` (core time) and `python -m benchmarks.scale` (bytes); docs/scale.md names
the machine. Prices are assumptions; replace them by your own.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.capacity.refits import Demand, Outcome, simulate

_HOURS_A_MONTH = 730.0
_SECONDS_A_MONTH = 3600 * _HOURS_A_MONTH
_GB = 1e9


@dataclass(frozen=True, slots=True)
class Line:
    """One needed resource: what, how many, and its cost per month."""

    what: str
    amount: str
    usd_per_month: float


def main() -> None:
    """Print the plan."""
    arguments = parse()
    console = Console(width=110)
    demand = Demand(
        arguments.workloads, arguments.fits_per_hour, arguments.fit_s, arguments.fit_spread
    )
    outcomes = [simulate(demand, cores, hours=arguments.hours) for cores in arguments.cores]
    in_portions = [
        simulate(demand, cores, hours=arguments.hours, portions=arguments.portions)
        for cores in arguments.cores
    ]
    chosen = next(
        (outcome for outcome in outcomes if outcome.drained_h <= arguments.drain_h), outcomes[-1]
    )
    console.print(_queue_table(demand, outcomes, "at once"))
    console.print(_queue_table(demand, in_portions, f"in {arguments.portions} portions"))
    lines = [*_services(arguments), _fitters(arguments, chosen), *_storage(arguments)]
    console.print(_plan_table(lines))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the inputs of the plan; None: those of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    wanted = parser.add_argument_group("what is wanted")
    wanted.add_argument("--workloads", type=int, default=10_000)
    wanted.add_argument("--runs", type=float, default=1e9)
    wanted.add_argument("--forecasts-per-s", type=float, default=50_000)
    wanted.add_argument("--recorded-share", type=float, default=0.001, help="of forecasts")
    wanted.add_argument("--fits-per-hour", type=float, default=500, help="besides the refit of all")
    wanted.add_argument("--refits-per-month", type=float, default=30 / 7)
    wanted.add_argument("--drain-h", type=float, default=2, help="a refit of all may take")
    wanted.add_argument("--versions", type=int, default=10, help="kept of each workload")
    measured = parser.add_argument_group("what was measured")
    measured.add_argument("--forecast-ms", type=float, default=1.2, help="of a core")
    measured.add_argument("--fit-s", type=float, default=5.6, help="of a core")
    measured.add_argument("--fit-spread", type=float, default=0.7, help="of its logarithm")
    measured.add_argument("--bytes-a-run", type=float, default=604)
    measured.add_argument("--bytes-a-forecast", type=float, default=2150)
    measured.add_argument("--bytes-a-version", type=float, default=2_000_000)
    measured.add_argument("--memory-a-version", type=float, default=1.6, help="in its bytes")
    assumed = parser.add_argument_group("what is assumed")
    assumed.add_argument("--utilisation", type=float, default=0.6, help="of the services' cores")
    assumed.add_argument("--usd-per-core-hour", type=float, default=0.05)
    assumed.add_argument("--usd-per-gb-month", type=float, default=0.12)
    assumed.add_argument("--database-cores", type=int, default=32, help="primary and standby")
    simulated = parser.add_argument_group("what is simulated")
    simulated.add_argument("--cores", type=int, nargs="+", default=[2, 4, 8, 16, 32])
    simulated.add_argument("--hours", type=float, default=24)
    simulated.add_argument("--portions", type=int, default=24, help="of the refit, over the hours")
    return parser.parse_args(arguments)


def _services(arguments: argparse.Namespace) -> list[Line]:
    busy = arguments.forecasts_per_s * arguments.forecast_ms / 1e3
    cores = math.ceil(busy / arguments.utilisation) + 1
    usd = cores * arguments.usd_per_core_hour * _HOURS_A_MONTH
    bytes_of_all = arguments.workloads * arguments.bytes_a_version * arguments.memory_a_version
    megabytes = bytes_of_all / (cores - 1) / 1e6
    routed = f"{megabytes:,.0f} MB of each replica, each workload on one"
    return [
        Line("service", f"{cores} replicas of one core, one of them spare", usd),
        Line("regressors in memory", routed, 0.0),
    ]


def _fitters(arguments: argparse.Namespace, chosen: Outcome) -> Line:
    fits = arguments.workloads * arguments.refits_per_month
    fits += arguments.fits_per_hour * _HOURS_A_MONTH
    hours = fits * arguments.fit_s / 3600
    usd = hours * arguments.usd_per_core_hour
    amount = f"{chosen.cores} cores (Ray) at the most, {hours:,.0f} core hours a month"
    return Line("fits", amount, usd)


def _storage(arguments: argparse.Namespace) -> list[Line]:
    recorded = arguments.forecasts_per_s * arguments.recorded_share * _SECONDS_A_MONTH
    sizes = {
        "runs and their indexes": arguments.runs * arguments.bytes_a_run,
        "regressors": arguments.workloads * arguments.versions * arguments.bytes_a_version,
        "recorded forecasts, a month": recorded * arguments.bytes_a_forecast,
    }
    lines = [
        # Twice: primary and standby.
        Line(name, f"{size / _GB:,.0f} GB", 2 * size / _GB * arguments.usd_per_gb_month)
        for name, size in sizes.items()
    ]
    cores = 2 * arguments.database_cores
    usd = cores * arguments.usd_per_core_hour * _HOURS_A_MONTH
    return [Line("PostgreSQL", f"primary and standby, {cores} cores in all", usd), *lines]


def _queue_table(demand: Demand, outcomes: list[Outcome], way: str) -> Table:
    title = f"{demand.workloads:,} workloads refitted {way}, {demand.fits_per_hour:g} more an hour"
    table = Table(
        "cores", "all refitted after", "wait meanwhile (p95)", "wait afterwards (p95)", title=title
    )
    for outcome in outcomes:
        table.add_row(
            str(outcome.cores),
            f"{outcome.drained_h:.1f} h",
            f"{outcome.wait_during_s / 60:.1f} min",
            f"{outcome.wait_after_s:.1f} s",
        )
    return table


def _plan_table(lines: list[Line]) -> Table:
    table = Table("what", "how much", "USD a month")
    for line in lines:
        table.add_row(line.what, line.amount, f"{line.usd_per_month:,.0f}")
    table.add_row("all", "", f"{sum(line.usd_per_month for line in lines):,.0f}")
    return table


if __name__ == "__main__":
    main()
