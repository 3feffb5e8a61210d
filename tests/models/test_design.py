"""Which runs are chosen: joint forecasts, the greedy design, the prior and Ernest's design."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import (
    Design,
    FeatureTable,
    FittedPortfolio,
    FloatArray,
    JointForecast,
    RunTable,
    ernest_design,
    ernest_features,
    fit_portfolio,
    joint_forecast,
    prior_forecast,
)
from models.calibration.intervals import tempered
from tests.models.workloads import fit, grid, make_features, make_runs

pytestmark = pytest.mark.lengthy

LAWS = ("scaling_law", "gaussian_process", "scaling_process", "physics_process", "held_process")


def make_portfolio() -> FittedPortfolio:
    return fit(make_runs(grid((1, 2, 4), (1000, 2000))), regressors=LAWS)


def make_joint(covariance: list[list[float]], *, n_targets: int = 1) -> JointForecast:
    matrix = np.array(covariance)
    return JointForecast(
        matrix, np.full(len(matrix), 0.01), np.full(n_targets, 1.64), np.arange(n_targets)
    )


def everything(n: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(n, dtype=np.bool_)


@pytest.mark.parametrize(
    ("asked", "shorter"),
    [
        ({"workers": 3.0, "dataset_size": 1500.0, "epochs": 2.0, "gpu_type": "V100"}, 1.0),
        # Above the workers a forecast's interval reaches less far down, a joint one alike far.
        ({"workers": 16.0, "dataset_size": 1500.0, "epochs": 2.0, "gpu_type": "K80"}, 0.85),
        ({"workers": 2.0, "dataset_size": 9000.0, "epochs": 4.0, "gpu_type": "V100"}, 1.0),
        ({"workers": 2.0, "dataset_size": 1000.0, "epochs": 2.0, "gpu_type": "TPU"}, 1.0),
        ({"workers": 2.0, "epochs": 64.0, "gpu_type": "V100"}, 1.0),
    ],
)
def test_variance_of_one_target_is_that_of_its_forecast(
    asked: dict[str, float | str], shorter: float
) -> None:
    portfolio, target = make_portfolio(), make_features([asked])

    (joint,) = joint_forecast(portfolio, target, target)

    forecast = portfolio.predict(target)
    total = joint.covariance[1, 1] + joint.noise[1]
    scale = float(tempered(np.sqrt([total]))[0])
    assert scale == pytest.approx(float(forecast.scale[0]), rel=0.025)
    assert shorter * joint.half_width[0] == pytest.approx(forecast.curves[0, 2])


def test_joint_covariance_is_symmetric_and_positive() -> None:
    table = make_features(grid((1, 2, 8, 32), (500, 9000), ("V100", "K80", "TPU")))

    for joint in joint_forecast(make_portfolio(), table, table):
        assert joint.covariance == pytest.approx(joint.covariance.T, abs=1e-9)
        assert np.linalg.eigvalsh(joint.covariance).min() > -1e-6


def test_targets_are_grouped_by_their_kind_of_question() -> None:
    candidates = make_features(grid((1, 2), (1000,)))
    targets = make_features(grid((2, 64), (1500,), ("V100",)))

    joints = joint_forecast(make_portfolio(), candidates, targets)

    assert sorted(row for joint in joints for row in joint.targets.tolist()) == [0, 1]
    assert len(joints) == 2


def test_many_questions_with_open_levels_are_told_as_few_are_and_in_little_memory() -> None:
    runs = make_runs(grid((1, 2, 4), (1000, 2000), ("V100", "K80", "T4")))
    portfolio = fit(runs, regressors=LAWS)
    open_rows = [
        {"workers": 1.0 + row % 8, "dataset_size": 900.0 + row, "epochs": 2.0} for row in range(900)
    ]
    few = joint_forecast(portfolio, make_features(open_rows[:5]), make_features(open_rows[-3:]))

    tracemalloc.start()
    many = joint_forecast(portfolio, make_features(open_rows[:897]), make_features(open_rows[897:]))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    kept = [0, 1, 2, 3, 4, 897, 898, 899]
    assert many[0].covariance[np.ix_(kept, kept)] == pytest.approx(few[0].covariance, rel=1e-9)
    # Three stand-ins of each have nine times the covariances, for each of five members.
    assert peak_bytes < 250e6


def test_joint_forecast_without_rows_is_refused() -> None:
    table = make_features(grid())

    with pytest.raises(ValueError, match="needs a candidate and a target"):
        joint_forecast(make_portfolio(), table, table.take(np.empty(0, dtype=np.int64)))


def test_run_on_an_unseen_type_tells_of_others_on_it() -> None:
    portfolio = make_portfolio()
    candidates = make_features(grid((1,), (1000,), ("V100", "TPU")))
    target = make_features(grid((2,), (2000,), ("TPU",)))

    step = Design(joint_forecast(portfolio, candidates, target), np.ones(2)).step(everything(2))

    assert step is not None
    assert candidates.categorical["gpu_type"][step.candidate] == "TPU"


def test_run_that_parts_columns_which_went_together_tells_what_each_does() -> None:
    runs = [{"workers": w, "dataset_size": n} for w, n in ((1.0, 5000.0), (2.0, 2000.0))] * 3
    batches = (64.0, 64.0, 128.0, 256.0, 512.0, 512.0)
    measured = make_features(
        [{**run, "batch_size": batch} for run, batch in zip(runs, batches, strict=True)]
    )
    seconds = np.array([43.0, 24.0, 40.0, 21.0, 36.0, 19.0])
    table = RunTable(measured, seconds, list("abcdef"))
    portfolio = fit_portfolio(table, seed=0, time_budget_s=10)
    kept: dict[str, float | str] = {"workers": 1.0, "dataset_size": 5000.0, "batch_size": 256.0}
    candidates = make_features([kept, {**kept, "workers": 4.0}, {**kept, "dataset_size": 20_000.0}])
    target = make_features([{"workers": 8.0, "dataset_size": 50_000.0, "batch_size": 256.0}])

    (joint,) = joint_forecast(portfolio, candidates, target)

    design = Design([joint], np.ones(3))
    together, more_workers, more_data = (design.gains() / design.half_widths()).tolist()
    assert together < 0.05
    assert min(more_workers, more_data) > 0.5


@pytest.mark.parametrize("constant", [8.0, 0.0])
def test_unknown_exponent_acts_the_other_way_below_the_only_measured_value(constant: float) -> None:
    rows = [{**row, "param.length": constant} for row in grid((1, 2, 4), (1000, 2000))]
    portfolio = fit(make_runs(rows), regressors=LAWS)
    lengths = [constant, constant - 6.0, constant + 24.0]
    questions = make_features([{**rows[0], "param.length": length} for length in lengths])

    ((known, *_), (_, below, between), (*_, above)) = joint_forecast(
        portfolio, questions, questions
    )[0].covariance[:3, :3]

    assert min(below, above) > known + 0.1
    assert between == pytest.approx(known - np.sqrt((below - known) * (above - known)), abs=1e-3)


def test_categories_that_were_parted_alike_share_what_is_unknown() -> None:
    runs: list[dict[str, float | str]] = [
        {"gpu_type": gpu_type, "param.driver": driver, "dataset_size": 1000.0 * n}
        for gpu_type, driver in (("T4", "old"), ("V100", "new"))
        for n in (1, 2, 4, 8)
    ]
    seconds = np.array([10.0, 20.0, 40.0, 80.0, 5.0, 10.0, 20.0, 40.0])
    table = RunTable(make_features(runs), seconds, list("abcdefgh"))
    portfolio = fit_portfolio(table, seed=0, time_budget_s=10)
    mixed: dict[str, float | str] = {**runs[0], "param.driver": "new"}
    other: dict[str, float | str] = {**runs[4], "param.driver": "old"}
    candidates = make_features([mixed, other, runs[0]])
    target = make_features([{**mixed, "dataset_size": 8000.0}])

    (joint,) = joint_forecast(portfolio, candidates, target)

    gains = (Design([joint], np.ones(3)).gains()).tolist()
    assert gains[0] > 5 * max(gains[1:])


def test_run_beyond_the_range_is_worth_more_than_one_inside() -> None:
    runs = make_runs(grid((1, 2, 4), (1000,), ("V100",)))
    candidates = make_features(grid((2, 32), (1000,), ("V100",)))
    target = make_features(grid((64,), (1000,), ("V100",)))

    design = Design(joint_forecast(fit(runs), candidates, target), np.ones(2))

    inside, outside = design.gains()
    assert outside > 2 * inside


def test_expected_narrowing_is_near_what_a_refit_shows() -> None:
    generator = np.random.default_rng(5)
    known = make_runs(grid((1, 2), (1000, 2000), ("V100",)), noise=0.03)
    extra = make_runs(grid((16,), (1000,), ("V100",)), noise=0.03, seed=7)
    target = make_features(grid((32,), (2000,), ("V100",)))
    design = Design(joint_forecast(fit(known), extra.features, target), np.ones(1))

    step = design.step(everything(1))

    assert step is not None
    both = make_runs(
        grid((1, 2), (1000, 2000), ("V100",)) + grid((16,), (1000,), ("V100",)),
        noise=0.03,
        seed=int(generator.integers(100)),
    )
    before, after = (
        float(np.log(each.predict(target).interval(0.9)[1] / each.predict(target).median())[0])
        for each in (fit(known), fit(both))
    )
    assert step.half_widths[0] < before
    assert 0.4 < step.half_widths[0] / after < 2.5


def test_cheaper_run_wins_where_both_say_the_same() -> None:
    joint = make_joint([[1.0, 0.9, 0.8], [0.9, 1.0, 0.8], [0.8, 0.8, 1.0]])

    step = Design([joint], np.array([2.0, 1.0])).step(everything(2))

    assert step is not None
    assert step.candidate == 1


def test_batch_holds_no_two_runs_that_say_the_same() -> None:
    twins = make_joint(
        [
            [1.0, 1.0, 0.0, 0.9],
            [1.0, 1.0, 0.0, 0.9],
            [0.0, 0.0, 1.0, 0.5],
            [0.9, 0.9, 0.5, 1.2],
        ]
    )
    design, left = Design([twins], np.ones(3)), everything(3)

    chosen = []
    for _ in range(2):
        step = design.step(left)
        assert step is not None
        chosen.append(step.candidate)
        left[step.candidate] = False

    assert chosen == [0, 2]


def test_nothing_affordable_ends_the_design() -> None:
    joint = make_joint([[1.0, 0.5], [0.5, 1.0]])

    assert Design([joint], np.ones(1)).step(np.zeros(1, dtype=np.bool_)) is None


@pytest.mark.parametrize("costs", [[0.0], [np.inf], [1.0, 1.0]])
def test_costs_that_are_none_are_refused(costs: list[float]) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        Design([make_joint([[1.0, 0.5], [0.5, 1.0]])], np.array(costs))


@given(st.integers(0, 10_000))
def test_greedy_widths_never_grow_and_match_exact_conditioning(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factor = generator.standard_normal((7, 9))
    covariance = factor @ factor.T
    joint = JointForecast(covariance, np.full(7, 0.1), np.full(2, 1.5), np.arange(2))
    design, left, chosen = Design([joint], generator.uniform(0.5, 2, 5)), everything(5), []
    before = design.half_widths()

    for _ in range(3):
        step = design.step(left)
        assert step is not None
        assert (step.half_widths <= before + 1e-9).all()
        before, left[step.candidate] = step.half_widths, False
        chosen.append(step.candidate)

    assert before == pytest.approx(conditioned(covariance, chosen, 0.1), rel=1e-6)


def conditioned(covariance: FloatArray, chosen: list[int], noise: float) -> FloatArray:
    """Return the targets' half widths after conditioning on all chosen runs at once."""
    seen = covariance[np.ix_(chosen, chosen)] + noise * np.eye(len(chosen))
    cross = covariance[5:, chosen]
    left = covariance[5:, 5:] - cross @ np.linalg.solve(seen, cross.T)
    return 1.5 * tempered(np.sqrt(np.diag(left) + noise))


def test_prior_expects_more_data_to_take_longer_and_more_workers_less() -> None:
    table = make_features(grid((1, 8), (1000, 4000), ("V100",)))

    log_duration = prior_forecast(table, table).log_duration

    assert log_duration[1] > log_duration[0]
    assert log_duration[2] < log_duration[0]


def test_cold_start_takes_cheap_runs_that_identify_each_axis() -> None:
    candidates = make_features(grid((1, 2, 4, 8), (1000, 2000, 4000, 8000)))
    target = make_features(grid((16,), (64000,)))
    prior = prior_forecast(candidates, target)
    workers = candidates.numeric["workers"]
    design = Design([prior.joint], np.exp(prior.log_duration[: len(workers)]) * workers)
    left, chosen = everything(candidates.n_rows), []

    for _ in range(5):
        step = design.step(left)
        assert step is not None
        left[step.candidate] = False
        chosen.append(step.candidate)

    picked = candidates.take(np.array(chosen))
    assert len(set(picked.numeric["workers"].tolist())) > 1
    assert len(set(picked.numeric["dataset_size"].tolist())) > 1
    assert set(picked.categorical["gpu_type"]) == {"V100", "K80"}
    assert picked.numeric["dataset_size"].mean() < candidates.numeric["dataset_size"].mean()


def test_ernest_design_keeps_its_budget_and_identifies_the_law() -> None:
    workers, size = (axis.ravel() for axis in np.meshgrid([1.0, 2, 4, 8], [1.0, 2, 4, 8]))
    features, costs = ernest_features(workers, size), size + 0.5 * workers

    share = ernest_design(features, costs, budget=20.0)

    assert float(costs @ share) <= 20.0 + 1e-6
    assert ((share >= 0) & (share <= 1)).all()
    assert np.linalg.matrix_rank(features[share > 0.1]) == 4


def test_ernest_design_beats_random_ones_of_the_same_cost() -> None:
    workers, size = (axis.ravel() for axis in np.meshgrid([1.0, 2, 4, 8, 16], [1.0, 2, 4, 8]))
    features, costs = ernest_features(workers, size), size + 0.5 * workers
    generator = np.random.default_rng(3)

    best = trace_of_error(features, ernest_design(features, costs, budget=30.0))

    for _ in range(20):
        share = generator.uniform(size=len(costs))
        share *= 30.0 / (costs @ share)
        assert best <= trace_of_error(features, np.minimum(share, 1.0))


def trace_of_error(features: FloatArray, share: FloatArray) -> float:
    scaled = features / np.sqrt((features**2).mean(axis=0))
    return float(np.trace(np.linalg.inv((scaled * share[:, None]).T @ scaled)))


def test_trees_have_no_part_in_the_joint_forecast() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    portfolio = fit_portfolio(
        runs, seed=0, time_budget_s=600, regressors=["boosted_trees", "residual_trees"]
    )

    for joint in joint_forecast(portfolio, runs.features, runs.features):
        assert np.isfinite(joint.covariance).all()
        assert (joint.noise > 0).all()


def test_runs_before_a_fit_tell_the_scale_and_narrow_the_prior() -> None:
    candidates = make_features(grid((1, 2, 4, 8), (1000, 2000), ("V100",)))
    target = make_features(grid((16,), (4000,), ("V100",)))
    runs = make_runs(grid((1,), (1000,), ("V100",)))

    free, informed = (
        prior_forecast(candidates, target, measured=measured) for measured in (None, runs)
    )

    assert informed.joint.covariance[-1, -1] < free.joint.covariance[-1, -1]
    assert np.exp(informed.log_duration[0]) == pytest.approx(runs.duration_seconds[0], rel=0.05)


def test_thousands_of_runs_before_a_fit_tell_as_much_in_little_memory_in_any_order() -> None:
    rng = np.random.default_rng(0)
    sizes, workers = rng.lognormal(8, 1, 5000).round(3), rng.integers(1, 9, 5000).astype(np.float64)
    seconds = sizes / workers * np.exp(rng.normal(0, 0.05, 5000))
    features = FeatureTable({"dataset_size": sizes, "workers": workers}, {}, 5000)
    runs = RunTable(features, seconds, [f"run_{row}" for row in range(5000)])
    asked = FeatureTable(
        {"dataset_size": np.full(2, 3000.0), "workers": np.array([2.0, 16.0])}, {}, 2
    )

    tracemalloc.start()
    prior = prior_forecast(asked, asked, measured=runs)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    shuffled = prior_forecast(asked, asked, measured=runs.take(rng.permutation(5000)))

    assert peak_bytes < 150e6
    assert np.exp(prior.log_duration) == pytest.approx([1500.0, 187.5] * 2, rel=0.1)
    assert shuffled.log_duration == pytest.approx(prior.log_duration, abs=1e-6)
