"""Judges the runs of a CI report: expectations, verdicts, drift, cost."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from app.decisions.gate import GatedRun, judge
from app.domain.accuracy import DriftReport
from app.domain.ci import CostChange, Gate, GateVerdict, JudgedRun, RunCost
from app.domain.configurations import leaves_nodes_open
from app.domain.identifiers import Slug
from app.domain.prices import PriceQuery
from app.domain.runs import Run
from app.pricing.billing import exact_cost
from app.services.answering.questions import ScenarioResolver
from app.services.judging.expectations import expectations, experience
from app.services.judging.history import History
from app.services.judging.runs import judge_runs
from app.storage.stores import Stores


def judged_runs(
    runs: Sequence[Run], histories: Mapping[Slug, History], gate: Gate
) -> list[JudgedRun]:
    """Return each run with its expectation and verdict, in order."""
    groups: defaultdict[Slug, list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        groups[run.workload].append(index)
    judged: dict[int, JudgedRun] = {}
    for slug, rows in groups.items():
        group = [runs[row] for row in rows]
        judged.update(zip(rows, _expected(group, histories[slug], gate), strict=True))
    return _with_verdicts([judged[index] for index in range(len(runs))], gate)


def _expected(runs: Sequence[Run], history: History, gate: Gate) -> list[JudgedRun]:
    served = history.served
    if served is None:
        return [_unknown(run, history.reason) for run in runs]
    judged = judge_runs(runs, served, history.book)
    by_row = {row: _unknown(runs[row], reason) for row, reason in judged.refusals.items()}
    normal = history.level(served)
    reported = {run.run_id for run in runs}
    # Runs that are sent again do not tell whether they are normal, unless somebody said so.
    past = [
        run
        for run in history.past.runs
        if run.run_id not in reported or run.run_id in history.past.acknowledged
    ]
    learned = experience(
        past,
        served,
        normal,
        gate.fail_probability,
        history.book,
        acknowledged=history.past.acknowledged,
    )
    expected = expectations(runs, judged, learned, normal)
    for index, row in enumerate(judged.rows):
        run, median = runs[row], float(expected.median[index])
        by_row[row] = JudgedRun(
            run=run,
            verdict=GateVerdict.PASS,
            expected_median_seconds=_shown(median),
            expected_lower_seconds=_shown(expected.lower[index]),
            expected_upper_seconds=_shown(expected.upper[index]),
            ratio=_shown(run.duration_seconds / median),
            p_value=_shown(expected.exceedance[index]),
            regressor_version=served.version,
        )
    return [by_row[row] for row in range(len(runs))]


def _unknown(run: Run, reason: str | None) -> JudgedRun:
    return JudgedRun(run, GateVerdict.INSUFFICIENT_DATA, reason=reason)


def _shown(value: float) -> float:
    return float(f"{value:.6g}")


def _with_verdicts(judged: Sequence[JudgedRun], gate: Gate) -> list[JudgedRun]:
    gated = {
        index: GatedRun(run.p_value, run.ratio)
        for index, run in enumerate(judged)
        if run.p_value is not None and run.ratio is not None
    }
    verdicts = dict(zip(gated, judge(list(gated.values()), gate), strict=True))
    return [
        replace(run, verdict=verdicts.get(index, run.verdict)) for index, run in enumerate(judged)
    ]


def drifting_workloads(
    stores: Stores, slugs: Sequence[Slug], histories: Mapping[Slug, History]
) -> dict[Slug, DriftReport]:
    """Return the workloads whose durations creep up, run by run."""
    drifts = {slug: histories[slug].drift(stores) for slug in slugs}
    return {slug: drift for slug, drift in drifts.items() if drift is not None and drift.has_alarm}


def with_costs(judged: Sequence[JudgedRun], histories: Mapping[Slug, History]) -> list[JudgedRun]:
    """Return the runs with their costs, where the price is known and the duration was forecast.

    Costs are in the workload's currency where an exchange rate leads there.
    """
    resolvers = {
        slug: ScenarioResolver(history.served, history.book)
        for slug, history in histories.items()
        if history.served is not None
    }
    return [
        replace(judged_run, cost=_cost(judged_run, histories[judged_run.run.workload], resolvers))
        for judged_run in judged
    ]


def _cost(
    judged: JudgedRun, history: History, resolvers: Mapping[Slug, ScenarioResolver]
) -> RunCost | None:
    served = history.served
    if judged.expected_median_seconds is None or served is None:
        return None
    configuration = judged.run.scenario.configuration
    [offer] = history.book.resolve_all(
        [resolvers[judged.run.workload].resolve_configuration(configuration)],
        PriceQuery(),
        currency=served.currency,
        seconds=[judged.expected_median_seconds],
        nodes_assumed=leaves_nodes_open(configuration),
    )
    if offer is None:
        return None
    observed = exact_cost(offer, judged.run.duration_seconds)
    expected = exact_cost(offer, judged.expected_median_seconds)
    return RunCost(observed, expected, offer.price.currency)


def cost_change(
    judged: Sequence[JudgedRun], runs_per_month: int | None, runs_last_month: Mapping[Slug, int]
) -> CostChange | None:
    """Return the mean cost change of the runs, in the currency that most of them have.

    Parameters
    ----------
    judged
        The runs.
    runs_per_month
        How often such a run is made; None: as often as the workloads with a cost in that currency
        ran in the last month.
    runs_last_month
        The runs of each workload in the last month.
    """
    priced: defaultdict[str, list[JudgedRun]] = defaultdict(list)
    for judged_run in judged:
        if judged_run.cost is not None:
            priced[judged_run.cost.currency].append(judged_run)
    if not priced:
        return None
    currency, largest_group = max(priced.items(), key=lambda item: len(item[1]))
    changes = [
        judged_run.cost.observed - judged_run.cost.expected
        for judged_run in largest_group
        if judged_run.cost is not None
    ]
    per_run = sum(changes, Decimal(0)) / len(changes)
    slugs = {judged_run.run.workload for judged_run in largest_group}
    number = runs_per_month or sum(runs_last_month.get(slug, 0) for slug in slugs)
    return CostChange(per_run, per_run * number if number else None, number, currency)
