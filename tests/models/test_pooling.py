"""What a workload learns from summaries of others, and what it must not."""

import itertools

import numpy as np
import pytest

from models import (
    FittedPortfolio,
    FloatArray,
    HardwareDescription,
    PooledPrior,
    RunTable,
    WorkloadSummary,
    dumps,
    fit_portfolio,
    loads,
    summarise,
)
from models.pooling.level_effects import MAX_POOLED_LEVELS, MAX_POOLED_ROWS, pool_levels
from models.pooling.priors import pool_parameter
from models.pooling.summaries import LevelEvidence
from models.selection.arms import pooled_share
from tests.models.workloads import grid, make_features, make_runs

pytestmark = pytest.mark.lengthy

V100 = HardwareDescription(15.7, 125.0, 16.0, 900.0)
A100 = HardwareDescription(19.5, 312.0, 40.0, 1555.0)
ROW: dict[str, float | str] = {"workers": 4, "dataset_size": 1000, "epochs": 2}
TYPES = ("V100", "K80", "T4")


def others(count: int = 6, gpu_types: tuple[str, ...] = TYPES) -> list[WorkloadSummary]:
    """Return summaries of workloads that follow the same law on the same GPU types."""
    return [
        summarise(make_runs(grid(gpu_types=gpu_types), seed=seed + 1), f"other-{seed}")
        for seed in range(count)
    ]


def fit(
    runs: RunTable,
    prior: PooledPrior | None,
    hardware: dict[str, HardwareDescription] | None = None,
) -> FittedPortfolio:
    return fit_portfolio(runs, seed=0, time_budget_s=60, hardware=hardware, prior=prior)


def medians(portfolio: FittedPortfolio, *rows: dict[str, float | str]) -> FloatArray:
    return portfolio.predict(make_features(rows)).median()


def test_one_run_is_scaled_as_the_other_workloads_scale() -> None:
    def hardly_faster(table: RunTable) -> RunTable:
        factor = table.features.numeric["workers"] ** 0.7
        return RunTable(table.features, table.duration_seconds * factor, table.run_ids)

    summaries = [
        summarise(hardly_faster(make_runs(grid(), seed=seed)), f"other-{seed}")
        for seed in range(1, 7)
    ]
    runs = make_runs([{**ROW, "workers": 1, "gpu_type": "V100"}])
    question: dict[str, float | str] = {**ROW, "workers": 8, "gpu_type": "V100"}
    truth = hardly_faster(make_runs([question], noise=0.0)).duration_seconds

    pooled = fit(runs, PooledPrior.from_summaries(summaries, {}))
    alone = fit(runs, None)

    error, error_alone = (
        abs(float(medians(each, question)[0] / truth[0]) - 1) for each in (pooled, alone)
    )
    assert error < 0.5 * error_alone
    assert error < 0.25


def test_siblings_outweigh_many_strangers() -> None:
    def with_scaling(exponent: float, seed: int) -> RunTable:
        table = make_runs(grid(), seed=seed)
        factor = table.features.numeric["workers"] ** exponent
        return RunTable(table.features, table.duration_seconds * factor, table.run_ids)

    strangers = [summarise(with_scaling(0.0, seed), f"public-{seed}") for seed in range(30)]
    siblings = [summarise(with_scaling(0.7, seed), f"sibling-{seed}") for seed in range(1, 6)]
    runs = make_runs([{**ROW, "workers": 1, "gpu_type": "V100"}])
    question: dict[str, float | str] = {**ROW, "workers": 8, "gpu_type": "V100"}
    strange, truth = (
        float(make_runs([question], noise=0.0).duration_seconds[0] * 8**exponent)
        for exponent in (0.0, 0.7)
    )

    pooled = medians(fit(runs, PooledPrior.from_summaries(siblings, {}, strangers)), question)[0]

    assert abs(np.log(pooled / truth)) < abs(np.log(pooled / strange))


def test_type_nobody_ran_is_told_by_the_ratios_of_other_workloads() -> None:
    runs = make_runs(grid(gpu_types=("V100",)))
    portfolio = fit(runs, PooledPrior.from_summaries(others(), {}))
    questions = [{**ROW, "gpu_type": gpu} for gpu in ("V100", "K80", "TPU")]
    truth = make_runs([{**ROW, "gpu_type": "K80"}], noise=0.0).duration_seconds[0]

    median = medians(portfolio, *questions)
    lower, upper = portfolio.predict(make_features(questions)).interval(0.9)
    support = portfolio.support(make_features(questions))

    assert [item.basis for item in support] == ["measured", "transferred", "prior"]
    assert median[1] == pytest.approx(truth, rel=0.2)
    assert lower[1] < truth < upper[1]
    assert (upper / lower)[1] < (upper / lower)[2]


def test_other_categories_are_told_by_other_workloads_too() -> None:
    def rows(levels: tuple[str, ...]) -> list[dict[str, float | str]]:
        return [
            {**row, "param.mode": level} for row in grid(gpu_types=("V100",)) for level in levels
        ]

    def slowed(table: RunTable) -> RunTable:
        factor = np.array(
            [4.0 if m == "slow" else 1.0 for m in table.features.categorical["param.mode"]]
        )
        return RunTable(table.features, table.duration_seconds * factor, table.run_ids)

    summaries = [
        summarise(slowed(make_runs(rows(("fast", "slow")), seed=seed)), f"other-{seed}")
        for seed in range(1, 7)
    ]
    portfolio = fit(slowed(make_runs(rows(("fast",)))), PooledPrior.from_summaries(summaries, {}))

    fast, slow = medians(
        portfolio, *({**ROW, "gpu_type": "V100", "param.mode": m} for m in ("fast", "slow"))
    )

    assert slow / fast == pytest.approx(4.0, rel=0.3)


def test_rated_power_does_not_shift_a_type_twice() -> None:
    watts = {"V100": 300.0, "K80": 150.0, "T4": 70.0}
    rows = [
        {**row, "param.watt": watts[str(row["gpu_type"])] * float(row["workers"])}
        for row in grid(gpu_types=TYPES)
    ]
    summaries = [summarise(make_runs(rows, seed=seed), f"other-{seed}") for seed in range(1, 7)]
    known = [row for row in rows if row["gpu_type"] != "T4"]
    portfolio = fit(make_runs(known), PooledPrior.from_summaries(summaries, {}))
    question = {**ROW, "gpu_type": "T4", "param.watt": 280.0}

    median = medians(portfolio, question)[0]
    support = portfolio.support(make_features([question]))[0]

    truth = make_runs([question], noise=0.0).duration_seconds[0]
    assert median == pytest.approx(truth, rel=0.25)
    assert (support.basis, support.axes) == ("transferred", ())


def test_workload_unlike_the_others_is_not_harmed_from_12_configurations_on() -> None:
    runs = make_runs(grid(gpu_types=("V100", "K80")))
    swapped = RunTable(runs.features, runs.duration_seconds[::-1].copy(), runs.run_ids)
    question = {**ROW, "dataset_size": 2000, "gpu_type": "V100"}
    unlike = [summarise(swapped, f"other-{index}") for index in range(6)]

    pooled, alone = fit(runs, PooledPrior.from_summaries(unlike, {})), fit(runs, None)

    truth = make_runs([question], noise=0.0).duration_seconds[0]
    assert medians(pooled, question)[0] == pytest.approx(truth, rel=0.06)
    assert medians(pooled, question)[0] == pytest.approx(medians(alone, question)[0], rel=0.06)


def pooled_weight(portfolio: FittedPortfolio, regime: str) -> float:
    pairs = zip(portfolio.members, portfolio.regimes[regime].weights.tolist(), strict=True)
    return float(sum(weight for name, weight in pairs if name.startswith("pooled.")))


@pytest.mark.parametrize("sizes", [(1000, 2000), (500, 1000, 2000), (500, 1000, 2000, 4000)])
def test_pool_of_workloads_unlike_it_loses_most_of_its_weight(sizes: tuple[int, ...]) -> None:
    runs = make_runs(grid((1, 2, 4, 8), sizes, ("V100", "K80")))
    swapped = RunTable(runs.features, runs.duration_seconds[::-1].copy(), runs.run_ids)
    unlike = [summarise(swapped, f"other-{index}") for index in range(6)]

    portfolio = fit(runs, PooledPrior.from_summaries(unlike, {}))

    tested = portfolio.report.accuracy_by_axis
    assert {"interpolation", "workers"} <= set(tested)
    # One kind of question is a draw of a few held-out sets; all of them together are not.
    assert np.mean([pooled_weight(portfolio, regime) for regime in tested]) < 0.5


def test_untested_kind_of_question_does_without_the_pool_from_12_configurations_on() -> None:
    runs = make_runs(grid((1, 2), (500, 1000, 2000), ("V100", "K80")))

    portfolio = fit(runs, PooledPrior.from_summaries(others(), {}))

    assert pooled_weight(portfolio, "workers") == 0
    assert pooled_weight(portfolio, "gpu_type:new") == pytest.approx(1)
    assert 0 < pooled_weight(portfolio, "interpolation") < 1


@pytest.mark.parametrize("sizes", [(500, 1000, 2000), (500, 1000, 2000, 4000, 8000, 16000)])
def test_axis_of_one_value_is_asked_of_the_pool_however_many_configurations(
    sizes: tuple[float, ...],
) -> None:
    runs = make_runs(grid((1,), sizes, ("V100", "K80")))

    portfolio = fit(runs, PooledPrior.from_summaries(others(), {}))

    assert portfolio.regime_map.kinds["workers"] == "constant_axis"
    assert pooled_weight(portfolio, "workers") >= 0.75 - 1e-9
    assert pooled_weight(portfolio, "workers") < 1


def test_pool_counts_for_less_with_every_configuration() -> None:
    prior = PooledPrior.from_summaries(others(3), {})
    rows = grid((1, 2, 4, 8), gpu_types=("V100", "K80"))

    shares = [pooled_weight(fit(make_runs(rows[:n]), prior), "interpolation") for n in (1, 3, 6, 9)]

    assert all(more > less for more, less in itertools.pairwise(shares))


def test_pool_counts_for_more_where_it_makes_a_forecast_surer() -> None:
    runs = make_runs(grid((1, 2), (1000, 4000), ("V100",))[:3])
    nobody, others_too = (
        fit(runs, PooledPrior.from_summaries(summaries, {})) for summaries in ([], others())
    )

    shares = [pooled_weight(portfolio, "workers") for portfolio in (nobody, others_too)]

    assert shares[0] == pytest.approx(4 / 7, abs=0.03)
    assert shares[1] > shares[0] + 0.05


@pytest.mark.parametrize(("gain", "share"), [(0.5, 0.25), (1.0, 0.4), (3.0, 2 / 3), (1e9, 1.0)])
def test_pool_counts_as_four_configurations_times_its_gain(gain: float, share: float) -> None:
    found = pooled_share("interpolation", 6, np.nan, np.nan, gain=gain)

    assert found == pytest.approx(share)


@pytest.mark.parametrize(("n", "share"), [(1, 4 / 5), (6, 0.75), (11, 0.75), (12, 1.0)])
def test_pool_answers_most_of_what_no_run_tells(n: int, share: float) -> None:
    assert pooled_share("new_level", n, np.nan, np.nan) == pytest.approx(share)


@pytest.mark.parametrize(
    ("alone", "pooled", "share"),
    [(0.0, 0.0, 0.5), (0.1, 0.2, 1 / 17), (0.1, np.inf, 0.0), (np.inf, 0.1, 1.0)],
)
def test_held_out_losses_share_a_question_out(alone: float, pooled: float, share: float) -> None:
    assert pooled_share("interpolation", 12, alone, pooled) == pytest.approx(share)


def test_large_workload_learns_its_laws_from_its_own_runs_alone() -> None:
    rows = grid((1, 2, 4, 8, 16, 32), tuple(float(500 * (1 + k)) for k in range(26)), ("V100",))
    portfolio = fit_portfolio(
        make_runs(rows),
        seed=0,
        time_budget_s=60,
        regressors=["log_linear"],
        prior=PooledPrior.from_summaries(others(2), {}),
    )

    assert [item.regressor for item in portfolio.report.candidates] == ["log_linear"]
    assert portfolio.support(make_features([{**ROW, "gpu_type": "K80"}]))[0].basis == "transferred"


def test_artefact_names_its_prior_and_forecasts_the_same() -> None:
    runs, prior = make_runs(grid((1, 2, 4), (1000,))), PooledPrior.from_summaries(others(3), {})
    portfolio = fit(runs, prior)

    artefact = dumps(portfolio)
    back = loads(artefact)

    assert artefact == dumps(fit(runs, PooledPrior.from_summaries(others(3)[::-1], {})))
    assert back.report.pooling == portfolio.report.pooling == prior.report
    assert prior.report.contributors == ("other-0", "other-1", "other-2")
    questions = [{**ROW, "gpu_type": gpu} for gpu in ("V100", "T4", "TPU")]
    assert medians(back, *questions).tolist() == medians(portfolio, *questions).tolist()


def test_order_of_summaries_is_no_matter_and_their_content_is() -> None:
    summaries = others(3)

    first, second, fewer = (
        PooledPrior.from_summaries(items, {"V100": V100}).report.prior_hash
        for items in (summaries, summaries[::-1], summaries[:2])
    )

    assert first == second != fewer


def test_seconds_times_k_scale_pooled_forecasts_by_k() -> None:
    runs, prior = make_runs(grid((1, 2, 4), (1000,))), PooledPrior.from_summaries(others(3), {})
    longer = RunTable(runs.features, 60 * runs.duration_seconds, runs.run_ids)
    question = {**ROW, "workers": 16, "gpu_type": "T4"}

    assert medians(fit(longer, prior), question)[0] == pytest.approx(
        60 * medians(fit(runs, prior), question)[0], rel=1e-6
    )


def test_same_workload_twice_is_refused() -> None:
    summaries = others(1)

    with pytest.raises(ValueError, match="one summary"):
        PooledPrior.from_summaries([*summaries, *summaries], {})


def test_uninformative_workloads_leave_the_templates_prior() -> None:
    mean, sd = pool_parameter(np.array([5.0]), np.array([1e-9]), -1.0, 0.4)

    assert mean == pytest.approx(-1.0, abs=1e-3)
    assert sd == pytest.approx(0.4, rel=0.45)


def test_workload_unlike_the_others_hardly_moves_a_prior() -> None:
    alike, sure = np.full(8, -1.0), np.full(9, 1e3)

    without, _ = pool_parameter(alike, sure[:8], -0.8, 0.4)
    with_one, sd = pool_parameter(np.append(alike, 4.0), sure, -0.8, 0.4)

    assert abs(with_one - without) < 0.1 * (4.0 + 1.0) / 9
    assert sd < 0.4


def test_pool_beyond_its_limit_takes_the_first_workloads() -> None:
    evidence = LevelEvidence("color", ("a", "b"), np.array([0.0, 1.0]), 1e-4 * np.eye(2))
    unusual = LevelEvidence("color", ("a", "c"), np.array([0.0, 1.0]), 1e-4 * np.eye(2))

    effects = pool_levels("color", [evidence] * (MAX_POOLED_ROWS // 2) + [unusual], {})

    assert effects.levels == ("a", "b")


def test_pool_with_too_many_levels_goes_on_with_those_that_it_has() -> None:
    names = [f"{number:03}" for number in range(MAX_POOLED_LEVELS + 1)]
    evidence = [
        LevelEvidence("color", (one, other), np.array([0.0, 1.0]), 1e-4 * np.eye(2))
        for one, other in [*itertools.pairwise(names), ("000", "002")]
    ]

    effects = pool_levels("color", evidence, {})
    without_last = pool_levels("color", evidence[:-2], {})

    assert effects.levels == without_last.levels == tuple(names[:-1])
    assert effects.sds != without_last.sds


def test_types_without_a_data_sheet_are_pooled_beside_those_with_one() -> None:
    hardware = {"V100": V100, "A100": A100}
    evidence = LevelEvidence(
        "gpu_type", ("A100", "TPU", "V100"), np.array([-0.5, 0.7, 0.0]), 1e-4 * np.eye(3)
    )

    effects = pool_levels("gpu_type", [evidence] * 5, hardware)
    mean, covariance = effects.joint(["V100", "TPU", "A100"], hardware)

    assert mean[1] - mean[0] == pytest.approx(0.7, abs=0.15)
    assert mean[2] - mean[0] == pytest.approx(-0.5, abs=0.15)
    assert np.linalg.eigvalsh(covariance).min() > 0
