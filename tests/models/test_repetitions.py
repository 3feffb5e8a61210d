"""What repetitions of a configuration say of its next run."""

import numpy as np
import pytest

from models import FeatureTable, FittedPortfolio, FloatArray, RunTable, dumps, fit_portfolio, loads


def _fit(workers: list[float], seconds: list[float]) -> FittedPortfolio:
    features = FeatureTable({"workers": np.array(workers)}, {}, len(workers))
    runs = RunTable(features, np.array(seconds), [str(row) for row in range(len(workers))])
    return loads(dumps(fit_portfolio(runs, seed=0, time_budget_s=60)))


def _interval(portfolio: FittedPortfolio, workers: float) -> tuple[float, float]:
    questions = FeatureTable({"workers": np.array([workers])}, {}, 1)
    lower, upper = portfolio.predict(questions).interval(0.9)
    return lower.item(), upper.item()


@pytest.mark.parametrize(
    ("workers", "seconds"),
    [
        ([4.0, 4.0], [60.0, 170.0]),
        ([1.0, 1.0, 8.0, 8.0], [60.0, 170.0, 9.0, 26.0]),
        ([4.0, 4.0, 4.0], [50.0, 100.0, 200.0]),
    ],
)
def test_few_repetitions_that_differ_widen_the_interval(
    workers: list[float], seconds: list[float]
) -> None:
    lower, upper = _interval(_fit(workers, seconds), workers[0])

    assert lower < min(seconds[:2])
    assert upper > max(seconds[:2])


def test_many_repetitions_tell_their_next_run_and_not_other_configurations() -> None:
    generator = np.random.default_rng(0)
    seconds: FloatArray = 100 * np.exp(0.1 * generator.standard_normal(10))
    portfolio = _fit([4.0] * 10, seconds.tolist())

    lower, upper = _interval(portfolio, 4.0)
    assert 75 < lower < seconds.min() * 1.1
    assert seconds.max() / 1.1 < upper < 135
    far_lower, far_upper = _interval(portfolio, 16.0)
    assert far_upper / far_lower > 3 * upper / lower


def test_rows_of_a_table_are_told_as_questions_of_their_own() -> None:
    portfolio = _fit([1.0, 1.0, 1.0, 2.0, 4.0], [80.0, 100.0, 120.0, 55.0, 30.0])
    workers = np.array([1.0, 2.0, 3.0, 1.0])
    lower, upper = portfolio.predict(FeatureTable({"workers": workers}, {}, 4)).interval(0.9)

    alone = [_interval(portfolio, value) for value in workers.tolist()]
    np.testing.assert_allclose(np.stack([lower, upper], axis=1), alone, rtol=1e-12)


@pytest.mark.parametrize("column", ["epochs", "param.layers"])
def test_a_constant_that_a_question_leaves_out_is_taken_as_in_the_repetitions(column: str) -> None:
    workers, n = np.repeat([1.0, 2.0, 4.0, 8.0], 3), 12
    seconds = 100 / workers * np.resize([0.95, 1.0, 1.05], n) + 30 * (workers == 1)
    columns = {"workers": workers, column: np.full(n, 3.0)}
    runs = RunTable(FeatureTable(columns, {}, n), seconds, [str(row) for row in range(n)])
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=60)
    given = FeatureTable({name: values[:1] for name, values in columns.items()}, {}, 1)
    left_out = FeatureTable({"workers": workers[:1]}, {}, 1)
    left_out_twice = FeatureTable({"workers": workers[:2]}, {}, 2)

    answers = [portfolio.predict(table) for table in (given, left_out, left_out_twice)]

    bounds = [[bound[0] for bound in answer.interval(0.9)] for answer in answers]
    np.testing.assert_allclose(bounds[1:], [bounds[0]] * 2, rtol=1e-12)
    assert portfolio.support(left_out) == portfolio.support(given)
