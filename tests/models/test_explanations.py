"""What a forecast is made of."""

import numpy as np
import pytest

from models import FeatureTable, RunTable, dumps, fit_portfolio, loads


def _amdahl(fixed: float) -> RunTable:
    workers = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0] * 2)
    size = np.repeat([1000.0, 4000.0], 6)
    seconds = 0.5 * size / workers + fixed
    features = FeatureTable({"workers": workers, "dataset_size": size}, {}, 12)
    return RunTable(features, seconds, [f"run_{index}" for index in range(12)])


def _questions(*workers: float) -> FeatureTable:
    n = len(workers)
    numeric = {"workers": np.array(workers), "dataset_size": np.full(n, 2000.0)}
    return FeatureTable(numeric, {}, n)


def test_shares_of_a_forecast_sum_to_one_and_stand_in_order() -> None:
    portfolio = fit_portfolio(_amdahl(20.0), seed=0, time_budget_s=10)

    for explanation in portfolio.explain(_questions(1, 8, 32, 64)):
        shares = list(explanation.values())
        assert sum(shares) == pytest.approx(1.0)
        assert shares == sorted(shares, reverse=True)
        assert all(share > 0 for share in shares)


def test_computation_leads_where_work_is_divided_and_loses_where_it_is_not() -> None:
    portfolio = fit_portfolio(_amdahl(20.0), seed=0, time_budget_s=10)

    one, many = portfolio.explain(_questions(1, 32))

    assert one["computation"] > 0.7
    assert many["computation"] < one["computation"]


def test_explanations_survive_the_artefact() -> None:
    portfolio = fit_portfolio(_amdahl(5.0), seed=0, time_budget_s=10)

    restored = loads(dumps(portfolio))

    assert restored.explain(_questions(3, 64)) == portfolio.explain(_questions(3, 64))


def test_an_unseen_level_is_explained_by_those_that_stand_in_for_it() -> None:
    runs = _amdahl(20.0)
    types = ["V100", "T4"] * 6
    numeric = runs.features.numeric
    table = RunTable(
        FeatureTable(numeric, {"gpu_type": types}, 12), runs.duration_seconds, runs.run_ids
    )
    portfolio = fit_portfolio(table, seed=0, time_budget_s=10)
    questions = FeatureTable(_questions(4, 8).numeric, {"gpu_type": ["A100", "T4"]}, 2)

    explanations = portfolio.explain(questions)

    assert [sum(shares.values()) for shares in explanations] == pytest.approx([1, 1])


def test_no_question_has_no_explanation() -> None:
    portfolio = fit_portfolio(_amdahl(5.0), seed=0, time_budget_s=10)

    assert portfolio.explain(_questions()) == []


def test_a_portfolio_without_a_law_explains_nothing() -> None:
    rng = np.random.default_rng(0)
    workers, other = rng.uniform(1, 9, 30), rng.uniform(1, 9, 30)
    features = FeatureTable({"workers": workers, "param.a": other}, {}, 30)
    runs = RunTable(features, 100 / workers + other, [f"run_{index}" for index in range(30)])
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=10, regressors=["boosted_trees"])

    assert portfolio.explain(features.take(np.arange(2))) == [{}, {}]
