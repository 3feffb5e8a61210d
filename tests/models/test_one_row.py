"""One question alone is answered as it is among many: bit for bit where that can be, else 1e-12."""

from dataclasses import replace

import numpy as np
import pytest

from models import (
    Evidence,
    FeatureTable,
    FittedPortfolio,
    FloatArray,
    MemoryRuns,
    PhaseRuns,
    RunTable,
    fit_portfolio,
)
from models.answers.inquiry import MAX_LOG_DISTANCE, MAX_LOG_SCALE
from models.trees.boosting import BoostedTrees, ResidualTrees
from tests.models.workloads import fit, grid, make_runs

pytestmark = pytest.mark.lengthy

GPUS = {"T4": 1.0, "V100": 0.4, "mine": 0.7}


def _features(n: int, seed: int, *, is_odd: bool) -> FeatureTable:
    """Return configurations; odd ones leave ranges, levels and columns open."""
    generator = np.random.default_rng(seed)
    workers = np.exp2(generator.integers(0, 5 + 2 * is_odd, n)).astype(np.float64)
    gpus = generator.choice([*GPUS, *(["H100", "TPU"] if is_odd else [])], n).tolist()
    sizes = np.rint(np.exp(generator.uniform(7, 12 + is_odd, n)))
    layers = generator.integers(0, 40, n).astype(np.float64)
    precision: list[str | None] = generator.choice(["fp16", "fp32"], n).tolist()
    if is_odd:
        sizes[generator.random(n) < 0.1] = np.nan
        layers[generator.random(n) < 0.1] = np.nan
        precision = [
            None if number < 0.1 else level
            for number, level in zip(generator.random(n), precision, strict=True)
        ]
    numeric = {
        "workers": workers,
        "dataset_size": sizes,
        "batch_size": 32.0 * workers * np.exp2(generator.integers(0, 3, n)),
        "param.layers": layers,
        "param.share": generator.random(n),
    }
    if is_odd:
        numeric["param.never_seen"] = np.where(generator.random(n) < 0.5, np.nan, 1.0)
    return FeatureTable(numeric, {"gpu_type": gpus, "param.precision": precision}, n)


def _seconds(features: FeatureTable, seed: int) -> FloatArray:
    numeric = features.numeric
    speed = np.array([GPUS[str(gpu)] for gpu in features.categorical["gpu_type"]])
    work = 1e-2 * numeric["dataset_size"] * (1 + numeric["param.layers"]) ** 0.8 * speed
    noise = 0.04 * np.random.default_rng(seed).standard_normal(features.n_rows)
    seconds: FloatArray = (work / numeric["workers"] + 15 + numeric["workers"]) * np.exp(noise)
    return seconds


@pytest.fixture(scope="module")
def rich() -> FittedPortfolio:
    """A fit with trees, processes, categories, repetitions, phases and a memory law."""
    features = _features(70, 1, is_odd=False)
    features = features.take(np.concatenate([np.arange(70), np.arange(10)]))
    seconds = _seconds(features, 2)
    runs = RunTable(features, seconds, [f"run_{row}" for row in range(80)])
    evidence = Evidence(
        memory=MemoryRuns(features, seconds > np.quantile(seconds, 0.9), np.full(80, np.nan)),
        phases=PhaseRuns(features, seconds, {"compute": 0.7 * seconds, "data": 0.1 * seconds}),
    )
    return fit_portfolio(runs, seed=0, time_budget_s=20, evidence=evidence)


@pytest.fixture(scope="module")
def plain() -> FittedPortfolio:
    """A fit of few runs without any category that varies."""
    return fit(make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000))))


def _assert_alike(portfolio: FittedPortfolio, questions: FeatureTable) -> None:
    every, fits = portfolio.ask(questions), portfolio.feasibility(questions)
    lower, upper = every.forecast.interval(0.8)
    for row in range(questions.n_rows):
        single = questions.take(np.array([row]))
        one, found = portfolio.ask(single), portfolio.feasibility(single)
        assert one.forecast.log_median[0] == pytest.approx(
            every.forecast.log_median[row], abs=1e-12
        )
        assert one.forecast.scale[0] == pytest.approx(every.forecast.scale[row], rel=1e-11)
        bounds = [float(bound[0]) for bound in one.forecast.interval(0.8)]
        assert bounds == pytest.approx([lower[row], upper[row]], rel=1e-12)
        assert one.regimes == (every.regimes[row],)
        assert one.support == [every.support[row]]
        assert found.basis == (fits.basis[row],)
        assert found.probability[0] == pytest.approx(fits.probability[row], rel=1e-12, nan_ok=True)
        assert list(one.explanation[0]) == list(every.explanation[row])
        assert one.explanation[0] == pytest.approx(every.explanation[row], rel=1e-10)


@pytest.mark.parametrize("is_odd", [False, True])
def test_a_question_alone_is_answered_as_among_many(rich: FittedPortfolio, *, is_odd: bool) -> None:
    _assert_alike(rich, _features(300, 3, is_odd=is_odd))


def test_a_measured_configuration_alone_is_answered_as_among_many(rich: FittedPortfolio) -> None:
    _assert_alike(rich, _features(70, 1, is_odd=False))


def test_a_small_fit_answers_one_as_many(plain: FittedPortfolio) -> None:
    questions = make_runs(grid((1, 3, 8, 64), (500, 1500, 9000))).features

    _assert_alike(plain, questions)
    _assert_alike(plain, replace(questions, categorical={}))


def test_questions_out_of_all_bounds_are_answered_alone_as_among_many(
    rich: FittedPortfolio,
) -> None:
    questions = _features(6, 5, is_odd=False)
    far = {"dataset_size": np.geomspace(1e-90, 1e90, 6), "param.layers": np.geomspace(1, 1e99, 6)}
    absurd = replace(questions, numeric={**questions.numeric, **far})

    _assert_alike(rich, absurd)
    forecast = rich.predict(absurd)
    assert np.abs(forecast.log_median - rich.center).max() == pytest.approx(MAX_LOG_DISTANCE)
    assert forecast.scale.max() == MAX_LOG_SCALE


@pytest.mark.parametrize("n", [2, 16, 32, 33])
def test_few_questions_are_answered_as_among_many(rich: FittedPortfolio, n: int) -> None:
    questions = _features(300, 3, is_odd=True)
    every = rich.ask(questions)

    few = rich.ask(questions.take(np.arange(n)))

    assert few.support == every.support[:n]
    assert few.forecast.log_median == pytest.approx(every.forecast.log_median[:n], abs=1e-12)
    assert few.forecast.scale == pytest.approx(every.forecast.scale[:n], rel=1e-11)
    X = every.encoded.X
    for member in rich.members.values():
        if isinstance(member, ResidualTrees | BoostedTrees):
            of_all, _ = member.predict_moments(X)
            of_few, _ = member.predict_moments(X[:n])
            assert of_few == pytest.approx(of_all[:n], abs=1e-12)
