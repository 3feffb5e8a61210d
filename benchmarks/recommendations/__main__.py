r"""Times a recommendation relative to forecasts of the same candidates, and checks the optimum.

Every workload of the profiles (the CSV form of an upload) is fitted by the engine in a separate
database. Candidates are numbers of workers in several regions, at an inline price; the best of each
objective is compared with an exhaustive search over the forecasts of all candidates. A folder may
have one folder per source, with its `runs.csv`. Times are CPU times of this process, with the
wall-clock time beside them.

    python -m benchmarks.recommendations examples/profiles --regions 5 --workers 1000
    python -m benchmarks.recommendations DATA --regions 2 --workers 64 --regressors log_linear
    python -m benchmarks.recommendations examples/profiles --workers 500 \
        --gpu-types T4 L4 V100-16GB A100-40GB A100-80GB H100-80GB A10G K80 P100-16GB L40S

With ``--gpu-types``, these types are searched at the prices of the built-in catalogue instead,
where the cheapest place and packing of each candidate has to be found; `first` is the first
question, after which the price book caches its offers.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from rich.console import Console
from rich.table import Table

from app.domain.access import DEFAULT_PROJECT
from app.domain.configurations import Configuration, Scenario
from app.domain.energy import EnergyTerms
from app.domain.fits import FitRequest
from app.domain.forecasts import Forecast, ForecastRequest
from app.domain.identifiers import Slug
from app.domain.prices import PriceQuery
from app.domain.recommendations import Objective, RecommendationRequest, Search
from app.fitter import Fitter
from app.pricing.gpus import variants_of
from app.services.computing.task import InProcessComputer
from app.services.context import ServiceContext
from app.services.fitting import FittingService
from app.services.searching.room import TOO_FEW_GPUS
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import migrate

_ROUNDS = 5
_CLOSE = 1.0 + 1e-6  # quantities are shown to nine digits
_ENERGY = EnergyTerms(watts_per_worker=100.0, kg_co2e_per_kwh=0.4)
_PRICING = PriceQuery(price_per_hour=Decimal("3.00"))


def _upload(services: Services, path: Path) -> None:
    with path.open("rb") as body:
        services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.CSV)


def _fit(services: Services, workload: Slug, arguments: argparse.Namespace) -> None:
    request = FitRequest(regressors=arguments.regressors)
    services.fits.request_fit(DEFAULT_PROJECT, workload, request)
    context = services.context
    fitter = Fitter(FittingService(context), InProcessComputer(), context.settings)
    while fitter.step():
        pass


def _request(
    services: Services, workload: Slug, arguments: argparse.Namespace
) -> RecommendationRequest:
    run = services.runs.list_page(DEFAULT_PROJECT, workload).items[0]
    scenario = run.scenario
    gpu_type = scenario.configuration.gpu_type
    workers = tuple(range(1, arguments.workers + 1))
    if arguments.gpu_types:
        search = Search(gpu_types=tuple(arguments.gpu_types), workers=workers)
        return RecommendationRequest(
            workload,
            scenario.work,
            scenario.parameters,
            search,
            limit=1,
            energy=EnergyTerms(kg_co2e_per_kwh=0.4),
        )
    search = Search(
        gpu_types=() if gpu_type is None else (gpu_type,),
        regions=tuple(f"region-{number}" for number in range(arguments.regions)),
        nodes=(1,),
        workers=workers,
    )
    # If no data sheet gives the power, it is set here, so that every objective is known.
    known = gpu_type is not None and len(variants_of(gpu_type)) == 1
    energy = EnergyTerms(kg_co2e_per_kwh=0.4) if known else _ENERGY
    return RecommendationRequest(
        workload,
        scenario.work,
        scenario.parameters,
        search,
        limit=1,
        pricing=_PRICING,
        energy=energy,
    )


def _questions(request: RecommendationRequest, best: Configuration) -> list[ForecastRequest]:
    search = request.search
    gpu_types = search.gpu_types if len(search.gpu_types) > 1 else (best.gpu_type,)
    hardware = product(gpu_types, search.regions or (None,), search.nodes or (None,))
    return [
        ForecastRequest(
            request.workload,
            Scenario(
                Configuration(
                    gpu_type, best.instance_type, region=region, nodes=nodes, workers=workers
                ),
                request.work,
                request.parameters,
            ),
            pricing=request.pricing,
            energy=request.energy,
            record=False,
        )
        for (gpu_type, region, nodes), workers in product(hardware, search.workers)
    ]


def _place(configuration: Configuration) -> tuple[object, ...]:
    return (
        configuration.gpu_type,
        configuration.region,
        configuration.nodes,
        configuration.workers,
    )


def _impossible(services: Services, request: RecommendationRequest) -> set[tuple[object, ...]]:
    """Return the candidates whose nodes have fewer GPUs than workers: nobody can run them."""
    asked = replace(request, rejected_limit=1_000_000)
    answer = services.recommendations.recommend(DEFAULT_PROJECT, asked)
    return {
        _place(rejected.configuration)
        for rejected in answer.rejected
        if rejected.reason == TOO_FEW_GPUS
    }


def _value(forecast: Forecast, objective: Objective) -> float:
    seconds = forecast.duration_seconds.median
    assert forecast.cost is not None
    # Amounts are rounded to three digits, by which small ones would differ from the best.
    cost = float(sum(item.quantity * item.unit_price for item in forecast.cost.line_items))
    match objective:
        case Objective.DURATION:
            return seconds
        case Objective.COST:
            return cost
        case Objective.COST_DURATION_PRODUCT:
            return cost * seconds
        case Objective.ENERGY:
            return _or_nan(forecast.energy.kilowatt_hours)
        case Objective.CARBON:
            return _or_nan(forecast.energy.kg_co2e)


def _or_nan(figure: float | None) -> float:
    return float("nan") if figure is None else figure


def _compare(
    services: Services, workload: Slug, arguments: argparse.Namespace
) -> Iterator[tuple[str, ...]]:
    _fit(services, workload, arguments)
    # Carbon considers every place that sells the hardware, hence other candidates than these.
    left_out = {Objective.CARBON} if arguments.gpu_types else set()
    for objective in (item for item in Objective if item not in left_out):
        request = replace(_request(services, workload, arguments), objective=objective)
        services.prices.forget(DEFAULT_PROJECT)
        start = process_time()
        answer = services.recommendations.recommend(DEFAULT_PROJECT, request)
        first = process_time() - start
        if not answer.ranked:
            yield workload, objective, str(answer.considered), *"-----", "nothing qualifies"
            continue
        best = answer.ranked[0]
        impossible = _impossible(services, request)
        questions = _questions(request, best.scenario.configuration)
        recommend_s, forecast_s, wall_s = [], [], []
        for _ in range(arguments.rounds):
            start, wall_start = process_time(), perf_counter()
            services.recommendations.recommend(DEFAULT_PROJECT, request)
            recommend_s.append(process_time() - start)
            wall_s.append(perf_counter() - wall_start)
            start = process_time()
            forecasts = services.forecasts.forecast_many(DEFAULT_PROJECT, questions)
            forecast_s.append(process_time() - start)
        values = [
            _value(forecast, objective)
            for question, forecast in zip(questions, forecasts, strict=True)
            if isinstance(forecast, Forecast)
            and forecast.cost is not None
            and _place(question.scenario.configuration) not in impossible
        ]
        is_best = _value(best, objective) <= min(values) * _CLOSE
        ratio = median(recommend_s) / median(forecast_s)
        timings = ([first], recommend_s, wall_s, forecast_s)
        times = tuple(f"{1e3 * median(seconds):.0f} ms" for seconds in timings)
        verdict = "yes" if is_best else "NO"
        yield workload, objective, str(answer.considered), *times, f"{ratio:.2f}", verdict


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m benchmarks.recommendations"
    )
    parser.add_argument("folder", type=Path, help="profiles as CSV")
    parser.add_argument("--regions", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--gpu-types", nargs="*", help="searched at catalogue prices")
    parser.add_argument("--regressors", nargs="*", help="of a fit; default: all")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    arguments = parser.parse_args()
    columns = ("first", "choose", "choose (wall)", "forecasts", "ratio", "optimum")
    table = Table("workload", "objective", "candidates", *columns)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder))
        database = Database(settings.url)
        migrate(database)
        services = Services(ServiceContext(database, settings, lambda: datetime.now(UTC)))
        folders = sorted(arguments.folder.glob("*/runs.csv"))
        for path in folders or sorted(arguments.folder.glob("*.csv")):
            _upload(services, path)
        for workload in services.workloads.list_page(DEFAULT_PROJECT, page_size=1000).items:
            for row in _compare(services, workload.workload.slug, arguments):
                table.add_row(*row)
        services.close()
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
