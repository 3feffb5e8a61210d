"""Counts how often the cost interval of held-out runs covers their real cost.

Every folder of the data has `runs.csv` and `tasks.json` (train and test by run). A regressor is
fitted on the training runs of a task, and each test run is forecast and billed by the given rules.
If runs come with their cost (`cost_usd`), that cost has to be covered, at the price per hour and
worker that the training runs show; otherwise the bill of the measured duration, including minimum
and step.

Bills in steps take few values, so an interval of them holds more than its confidence says. The
covered share should equal the probability that the forecast itself gives to the interval (`told`);
the share of the durations that their own interval covered is shown beside both.

    python -m benchmarks.costs --data DIR --tasks 2 --step 60 --minimum 60
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from app.domain.configurations import Configuration
from app.domain.prices import PriceQuery
from app.pricing.billing import bill
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook, PricingFacts
from app.services.tables.frames import hardware_descriptions
from benchmarks.accuracy.traces import Row, Task, read_tasks, to_tables
from models import RunTable, fit_portfolio

_CONFIDENCES = (0.5, 0.8, 0.9, 0.95)
_SECONDS_PER_HOUR = 3600.0
_SHARES = tuple((np.arange(40) + 0.5) / 40)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of test runs by confidence.

    `cost` and `duration` are the shares within their intervals, `told` is the probability that the
    forecast gives to the interval of the cost.
    """

    runs: int
    measured: int
    cost: tuple[float, ...]
    told: tuple[float, ...]
    duration: tuple[float, ...]


def _price(rows: Sequence[Row], given: Decimal) -> Decimal:
    """Return the price per hour and worker that runs with a cost show, else the given one."""
    prices = [
        float(row["cost_usd"])
        * _SECONDS_PER_HOUR
        / (float(row["duration_seconds"]) * _workers(row))
        for row in rows
        if row.get("cost_usd")
    ]
    return Decimal(str(round(median(prices), 6))) if prices else given


def _workers(row: Row) -> int:
    return int(float(row["workers"] or 1))


def _offer(row: Row, price: Decimal, arguments: argparse.Namespace) -> Offer:
    query = PriceQuery(
        price_per_hour=price,
        currency="USD",
        billing_step_s=arguments.step,
        minimum_billed_s=arguments.minimum,
    )
    offer = PriceBook(PricingFacts(), datetime.now(UTC)).resolve(
        Configuration(workers=_workers(row)), query
    )
    assert offer is not None
    return offer


def _judge(task: Task, arguments: argparse.Namespace) -> Coverage:
    train, test = to_tables(task)
    portfolio = fit_portfolio(
        train,
        seed=arguments.seed,
        time_budget_s=arguments.seconds,
        hardware=hardware_descriptions(),
    )
    forecast = portfolio.predict(test.features)
    price = _price(task.train, arguments.price)
    medians = forecast.median()
    offers = [_offer(row, price, arguments) for row in task.test]
    seconds = _seconds(test)
    measured = [
        _measured(offer, row, duration_s)
        for offer, row, duration_s in zip(offers, task.test, seconds.tolist(), strict=True)
    ]
    quantiles = np.stack([forecast.quantile(share) for share in _SHARES], axis=1).tolist()
    bills = [
        [_billed(offer, duration_s) for duration_s in row]
        for offer, row in zip(offers, quantiles, strict=True)
    ]
    costs, probabilities, durations = [], [], []
    for confidence in _CONFIDENCES:
        lower, upper = forecast.interval(confidence)
        bounds = np.stack([medians, lower, upper], axis=1).tolist()
        durations.append(float(np.mean((lower <= seconds) & (seconds <= upper))))
        intervals = [bill(offer, *bound) for offer, bound in zip(offers, bounds, strict=True)]
        costs.append(
            _share(
                interval.lower <= cost <= interval.upper
                for interval, cost in zip(intervals, measured, strict=True)
            )
        )
        probabilities.append(
            _share(
                interval.lower <= amount <= interval.upper
                for interval, row in zip(intervals, bills, strict=True)
                for amount in row
            )
        )
    with_cost = sum(bool(row.get("cost_usd")) for row in task.test)
    return Coverage(len(task.test), with_cost, tuple(costs), tuple(probabilities), tuple(durations))


def _share(covered: Iterable[bool]) -> float:
    return float(np.mean(list(covered)))


def _seconds(runs: RunTable) -> np.ndarray:
    return np.asarray(runs.duration_seconds, dtype=np.float64)


def _billed(offer: Offer, seconds: float) -> Decimal:
    return bill(offer, seconds, seconds, seconds).median


def _measured(offer: Offer, row: Row, seconds: float) -> Decimal:
    cost = row.get("cost_usd")
    return Decimal(cost) if cost else _billed(offer, seconds)


def _row(name: str, coverage: Coverage) -> tuple[str, ...]:
    figures = zip(coverage.cost, coverage.told, coverage.duration, strict=True)
    shares = [f"{cost:.2f} told {told:.2f} ({seconds:.2f})" for cost, told, seconds in figures]
    return name, str(coverage.runs), str(coverage.measured), *shares


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.costs")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of data sets with runs.csv and tasks.json"
    )
    parser.add_argument("--tasks", type=int, default=3, help="of each folder, evenly spaced")
    parser.add_argument("--step", type=int, help="billing step in seconds")
    parser.add_argument("--minimum", type=int, help="billed seconds at least")
    parser.add_argument("--price", type=Decimal, default=Decimal("1.00"), help="worker and hour")
    parser.add_argument("--seconds", type=float, default=60.0, help="time budget of a fit")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    headings = [f"cost in {confidence} (duration)" for confidence in _CONFIDENCES]
    table = Table("task", "runs", "with cost", *headings)
    coverages = []
    for path in sorted(arguments.data.glob("*/tasks.json")):
        tasks = read_tasks(path.parent)
        for task in tasks[:: max(len(tasks) // arguments.tasks, 1)][: arguments.tasks]:
            coverages.append(_judge(task, arguments))
            table.add_row(*_row(task.name, coverages[-1]))
    runs = sum(coverage.runs for coverage in coverages)
    mean = Coverage(
        runs,
        sum(coverage.measured for coverage in coverages),
        tuple(np.average([coverage.cost for coverage in coverages], axis=0).tolist()),
        tuple(np.average([coverage.told for coverage in coverages], axis=0).tolist()),
        tuple(np.average([coverage.duration for coverage in coverages], axis=0).tolist()),
    )
    table.add_row(*_row("mean over tasks", mean))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
