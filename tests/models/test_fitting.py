"""Fits of ordinary and odd workloads: finite forecasts of honest width, or a named error."""

import numpy as np
import pytest

from models import (
    FeatureTable,
    HardwareDescription,
    NotEnoughRunsError,
    NothingFittedError,
    RunTable,
    UnknownRegressorError,
    dumps,
    fit_portfolio,
    loads,
)
from models.selection.budget import Budget
from tests.models.workloads import fit, grid, law_seconds, make_features, make_runs

V100 = HardwareDescription(15.7, 125.0, 16.0, 900.0)
A100 = HardwareDescription(19.5, 312.0, 40.0, 1555.0)
K80 = HardwareDescription(4.1, None, 12.0, 240.0)


def _log_width(portfolio_rows: list[dict[str, float | str]], runs: RunTable) -> np.ndarray:
    lower, upper = fit(runs).predict(make_features(portfolio_rows)).interval(0.9)
    return np.log(upper / lower)


def test_forecast_inside_the_range_is_close_and_covered() -> None:
    portfolio = fit(make_runs(grid((1, 2, 4, 8, 16), repetitions=2)))
    question: dict[str, float | str] = {
        "workers": 8, "dataset_size": 2000, "epochs": 2, "gpu_type": "K80",
    }  # fmt: skip

    forecast = portfolio.predict(make_features([question]))

    lower, upper = forecast.interval(0.95)
    assert abs(forecast.median()[0] / law_seconds(question) - 1) < 0.15
    assert lower[0] < law_seconds(question) < upper[0]


def test_intervals_widen_with_the_distance_from_the_range() -> None:
    runs = make_runs(grid((1, 2, 4, 8)))
    rows: list[dict[str, float | str]] = [
        {"workers": w, "dataset_size": 1000, "epochs": 2, "gpu_type": "V100"}
        for w in (4, 16, 64, 256)
    ]

    assert (np.diff(_log_width(rows, runs)) > 0).all()


def test_durations_that_rise_again_with_more_workers_go_on_rising() -> None:
    workers = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
    noise = np.random.default_rng(0).standard_normal(8)
    seconds = (20 + 1000 / workers + workers) * np.exp(0.02 * noise)
    names = [f"r{row}" for row in range(8)]

    portfolio = fit(RunTable(FeatureTable({"workers": workers}, {}, 8), seconds, names))

    questions = FeatureTable({"workers": np.array([128.0, 200.0, 256.0])}, {}, 3)
    median = portfolio.predict(questions).median()
    lower, upper = portfolio.predict(questions).interval(0.9)
    assert (np.diff(median) > 0).all()
    assert lower[2] < 280 < upper[2]


def test_one_run_gives_a_wide_forecast_that_follows_the_work() -> None:
    portfolio = fit(make_runs([{"workers": 4, "dataset_size": 1000, "epochs": 1}]))
    questions = make_features(
        [{"workers": 4, "dataset_size": 1000, "epochs": epochs} for epochs in (1, 10)]
    )

    median = portfolio.predict(questions).median()
    lower, upper = portfolio.predict(questions).interval(0.9)

    assert 4 < median[1] / median[0] < 25
    assert (upper / lower > 1.5).all()
    assert upper[1] / lower[1] > upper[0] / lower[0]


@pytest.mark.parametrize("n_runs", [1, 2, 3, 4, 5])
def test_few_runs_are_enough(n_runs: int) -> None:
    runs = make_runs(grid()[:n_runs])

    portfolio = fit(runs)

    assert np.isfinite(portfolio.predict(runs.features).interval(0.99)[1]).all()
    assert portfolio.report.n_runs == n_runs


def test_no_run_is_refused_with_the_number_needed() -> None:
    nothing = RunTable(FeatureTable({}, {}, 0), np.empty(0), [])

    with pytest.raises(NotEnoughRunsError) as refusal:
        fit(nothing)

    assert (refusal.value.found, refusal.value.needed) == (0, 1)


def test_unknown_regressor_is_named() -> None:
    with pytest.raises(UnknownRegressorError, match="oracle"):
        fit(make_runs(grid()), regressors=["oracle"])


def test_chosen_regressors_alone_compete() -> None:
    portfolio = fit(make_runs(grid()), regressors=["log_linear", "scaling_law"])

    assert {item.regressor for item in portfolio.report.candidates} == {
        "log_linear", "scaling_law",
    }  # fmt: skip


def test_fit_that_nothing_survives_names_the_reasons() -> None:
    with pytest.raises(NothingFittedError, match="needs 20 configurations"):
        fit(make_runs(grid()), regressors=["boosted_trees"])


def test_missing_candidate_is_reported_with_its_reason() -> None:
    report = fit(make_runs(grid())).report

    reason = "needs 20 configurations, found 16"
    assert report.failed_candidates == {"residual_trees": reason, "boosted_trees": reason}


def test_identical_runs_give_a_narrow_but_positive_interval() -> None:
    rows: list[dict[str, float | str]] = [{"workers": 2.0}] * 8
    runs = RunTable(make_features(rows), np.full(8, 100.0), [str(i) for i in range(8)])

    forecast = fit(runs).predict(make_features(rows[:1]))

    lower, upper = forecast.interval(0.9)
    assert lower[0] < forecast.median()[0] < upper[0]
    assert abs(forecast.median()[0] - 100) < 1


@pytest.mark.parametrize("seconds", [1e-3, 1e9])
def test_extreme_durations_are_forecast(seconds: float) -> None:
    runs = make_runs(grid())
    scaled = RunTable(
        runs.features, runs.duration_seconds / runs.duration_seconds[0] * seconds, runs.run_ids
    )

    median = fit(scaled).predict(runs.features).median()

    assert abs(np.log(median[0] / seconds)) < 0.3


def test_more_features_than_rows_is_no_obstacle() -> None:
    generator = np.random.default_rng(3)
    numeric = {f"param.p{i}": generator.lognormal(size=12) for i in range(40)}
    features = FeatureTable({"workers": np.arange(1.0, 13.0), **numeric}, {}, 12)
    runs = RunTable(features, 100 / np.arange(1.0, 13.0), [str(i) for i in range(12)])

    forecast = fit(runs).predict(features)

    assert np.isfinite(forecast.interval(0.95)[1]).all()


def test_workload_without_any_feature_forecasts_its_typical_duration() -> None:
    runs = RunTable(FeatureTable({}, {}, 5), np.array([9.0, 10, 11, 10, 10]), list("abcde"))

    forecast = fit(runs).predict(FeatureTable({}, {}, 1))

    assert 9 < forecast.median()[0] < 11


def test_columns_with_zeros_and_negative_values_are_features() -> None:
    rows: list[dict[str, float | str]] = [
        {"workers": w, "param.dropout": 0.1 * k, "param.offset": k - 2.0, "param.size": 1000.0**k}
        for w in (1, 2, 4)
        for k in (0, 1, 2, 3)
    ]
    for row in rows[:2]:
        row["param.size"] = 0.0

    forecast = fit(make_runs(rows)).predict(make_features(rows))

    assert np.isfinite(forecast.scale).all()


def test_unseen_level_widens_the_interval_even_where_one_level_was_measured() -> None:
    runs = make_runs([{"workers": w, "param.precision": "fp32"} for w in (1, 2, 4, 8)])

    known, other = _log_width(
        [{"workers": 4, "param.precision": level} for level in ("fp32", "fp16")], runs
    )

    assert other > known + 0.5


def test_gpu_type_known_by_its_data_sheet_is_shifted_by_it() -> None:
    runs = make_runs(grid(gpu_types=("V100",)))
    hardware = {"V100": V100, "A100": A100, "K80": K80}
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=60, hardware=hardware)
    questions = make_features(
        [
            {"workers": 4, "dataset_size": 1000, "epochs": 2, "gpu_type": gpu}
            for gpu in ("V100", "A100", "K80", "TPU")
        ]
    )

    median = portfolio.predict(questions).median()
    lower, upper = portfolio.predict(questions).interval(0.9)
    bases = [support.basis for support in portfolio.support(questions)]

    assert median[1] < median[0] < median[2]
    assert bases == ["measured", "transferred", "transferred", "prior"]
    assert (upper / lower)[0] < (upper / lower)[1] < (upper / lower)[3]


def test_described_types_are_weighed_by_likeness() -> None:
    runs = make_runs(grid(gpu_types=("V100", "K80")))
    hardware = {"V100": V100, "K80": K80, "V100-32GB": V100}
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=60, hardware=hardware)
    row: dict[str, float | str] = {"workers": 4, "dataset_size": 1000, "epochs": 2}

    twin, v100 = portfolio.predict(
        make_features([{**row, "gpu_type": "V100-32GB"}, {**row, "gpu_type": "V100"}])
    ).median()

    assert abs(twin / v100 - 1) < 0.35


def test_missing_feature_is_answered_with_a_wider_interval() -> None:
    runs = make_runs(grid())
    row: dict[str, float | str] = {"workers": 4, "dataset_size": 2000, "epochs": 2}

    whole, part = _log_width([{**row, "gpu_type": "V100"}, row], runs)
    without_size: dict[str, float | str] = {"workers": 4, "epochs": 2, "gpu_type": "V100"}
    portfolio = fit(runs)
    lower, upper = portfolio.predict(make_features([without_size])).interval(0.9)

    assert part > whole
    assert np.log(upper / lower)[0] > whole


def test_progress_rises_to_one_and_may_cancel() -> None:
    seen: list[tuple[float, str]] = []

    fit_portfolio(
        make_runs(grid()), seed=0, time_budget_s=60,
        on_progress=lambda fraction, step: seen.append((fraction, step)),
    )  # fmt: skip

    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert len(seen) > 15

    def cancel(fraction: float, step: str) -> None:
        raise KeyboardInterrupt(step)

    with pytest.raises(KeyboardInterrupt, match="encoding"):
        fit_portfolio(make_runs(grid()), seed=0, time_budget_s=60, on_progress=cancel)


def test_exhausted_budget_leaves_questions_untested_but_forecasts() -> None:
    runs = make_runs(grid())

    portfolio = fit_portfolio(runs, seed=0, time_budget_s=0.0)

    assert portfolio.report.accuracy_by_axis == {}
    assert np.isfinite(portfolio.predict(runs.features).median()).all()


def test_budget_leaves_time_for_what_follows_the_last_regressor() -> None:
    moments = iter([0.0, 2.0, 2.1, 2.25, 2.9])
    budget = Budget(3.3, lambda _share, _step: None, lambda: next(moments))

    budget.mark_prepared()  # preparing took 2 s: the last step takes 1 s

    assert budget.begin(0.1, "the first took .1 s")
    assert not budget.begin(0.2, "2.25 + .15 + 1 are too much")
    assert not budget.begin_all(0.3, "half of .9 s more are too much as well")


def test_first_held_out_set_is_left_out_when_refitting_all_would_take_too_long() -> None:
    moments = iter([0.0, 0.0, 4.0, 4.0])
    budget = Budget(5.5, lambda _share, _step: None, lambda: next(moments))

    budget.mark_prepared()

    assert not budget.begin_all(0.3, "4 + 2 s")


def test_report_tells_accuracy_noise_ranges_and_versions() -> None:
    report = fit(make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000), repetitions=3))).report

    assert {"interpolation", "workers", "dataset_size", "gpu_type"} <= set(report.accuracy_by_axis)
    assert report.accuracy_by_axis["interpolation"] < 0.1
    assert set(report.coverage) == {"0.8", "0.9"}
    assert report.noise_floor is not None
    assert 0.01 < report.noise_floor < 0.03
    assert report.numeric_ranges["workers"] == (1.0, 8.0)
    assert report.category_levels == {"gpu_type": ("K80", "V100")}
    assert {"python", "numpy", "scipy", "lightgbm"} <= set(report.library_versions)
    assert sum(item.weight for item in report.candidates) == pytest.approx(1.0)
    assert all(set(item.by_axis) <= set(report.accuracy_by_axis) for item in report.candidates)


def test_fits_with_the_same_seed_are_byte_identical_in_any_order() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000), repetitions=2))
    order = np.random.default_rng(1).permutation(runs.n_runs)

    assert dumps(fit(runs)) == dumps(fit(runs.take(order)))


@pytest.mark.lengthy
def test_large_workload_is_fitted_within_its_bound() -> None:
    generator = np.random.default_rng(0)
    rows: list[dict[str, float | str]] = [
        {
            "workers": float(generator.integers(1, 64)),
            "dataset_size": float(generator.integers(100, 100_000)),
            "epochs": float(generator.integers(1, 90)),
            "gpu_type": str(generator.choice(["V100", "K80", "T4"])),
        }
        for _ in range(3000)
    ]
    runs = make_runs(rows)

    portfolio = fit_portfolio(runs, seed=0, time_budget_s=5.0)

    error = np.abs(portfolio.predict(runs.features).median() / runs.duration_seconds - 1)
    assert np.median(error) < 0.1


def test_trees_that_no_held_out_set_can_grow_are_published_with_prior_bounds() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))

    portfolio = loads(dumps(fit(runs, regressors=["boosted_trees", "residual_trees"])))

    lower, upper = portfolio.predict(runs.features).interval(0.9)
    assert np.isfinite(lower).all()
    assert (upper / lower > 1.5).all()


def test_budget_that_is_spent_is_told_by_name_and_the_answer_is_good() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))

    portfolio = fit_portfolio(runs, seed=0, time_budget_s=1e-9)

    left_out = portfolio.report.failed_candidates
    assert len(portfolio.report.candidates) == 1
    assert left_out["log_linear"] == "left out: the time budget of 1e-09 s was spent"
    assert "left out: the time budget of 1e-09 s was spent" in left_out["held_out_sets"]
    ratio = portfolio.predict(runs.features).median() / runs.duration_seconds
    assert np.abs(ratio - 1).max() < 0.25


def test_level_with_few_runs_beside_one_with_many_is_not_judged_by_those_few() -> None:
    many = grid((1, 2, 4, 8, 16, 32), (1000, 2000, 4000, 8000, 16000), ("V100",))
    few = [{**row, "gpu_type": "K80"} for row in many[:9:4]]
    questions: list[dict[str, float | str]] = [{**row, "gpu_type": "K80"} for row in many[9::4]]

    portfolio = fit(make_runs(many + few))

    assert "gpu_type" not in portfolio.report.accuracy_by_axis
    assert "interpolation" in portfolio.report.accuracy_by_axis
    lower, upper = portfolio.predict(make_features(questions)).interval(0.9)
    truth = np.array([law_seconds(row) for row in questions])
    assert ((lower < truth) & (truth < upper)).all()
    assert (upper / lower < 3).all()
