"""Which configuration taught a forecast what: as a refit would show."""

from collections.abc import Collection

import numpy as np
import pytest

from models import FeatureTable, FittedPortfolio, FloatArray, RunTable, dumps, fit_portfolio, loads
from models.explanations.influence import Influences
from models.features.layout import Layout
from models.laws.scaling_laws import LogLinearLaw, ScalingLaw
from models.processes.gaussian import GaussianProcess
from models.regressor import PortfolioRegressor

QUESTION = FeatureTable({"workers": np.array([6.0]), "dataset_size": np.array([2000.0])}, {}, 1)


def _runs(*, levels: bool = False) -> RunTable:
    generator = np.random.default_rng(5)
    workers = np.tile([1.0, 2.0, 4.0, 8.0, 8.0], 3)
    size = np.repeat([500.0, 1000.0, 3000.0], 5)
    seconds = (30 + 0.5 * size / workers + 2 * np.log2(workers)) * generator.normal(1, 0.02, 15)
    categorical = {"gpu_type": [("T4", "V100", "T4")[n % 3] for n in range(15)]} if levels else {}
    features = FeatureTable({"workers": workers, "dataset_size": size}, categorical, 15)
    return RunTable(features, seconds, [f"run_{index}" for index in range(15)])


def _fit(runs: RunTable, regressors: Collection[str] | None = None) -> FittedPortfolio:
    return fit_portfolio(runs, seed=0, time_budget_s=20, regressors=regressors)


LAYOUT = Layout(("workers", "dataset_size"), (), ())


def _encoded(workers: FloatArray, size: FloatArray) -> FloatArray:
    return np.column_stack([np.log(workers), np.log(size / 1000), workers == 1]).astype(float)


@pytest.mark.parametrize(
    "member",
    [
        LogLinearLaw(LAYOUT),
        ScalingLaw(LAYOUT),
        GaussianProcess(LAYOUT, ScalingLaw(LAYOUT)),
        GaussianProcess(LAYOUT, ScalingLaw(LAYOUT), held=True),
    ],
    ids=["log-linear", "law", "process", "held process"],
)
def test_influence_is_what_a_refit_on_longer_runs_shows(member: PortfolioRegressor) -> None:
    generator = np.random.default_rng(5)
    workers, size = np.tile([1.0, 2.0, 4.0, 8.0], 3), np.repeat([500.0, 1000.0, 3000.0], 4)
    X, question = _encoded(workers, size), _encoded(np.array([6.0, 30.0]), np.array([2e3, 2e3]))
    y = np.log(30 + 0.5 * size / workers) + generator.normal(0, 0.05, len(X))
    member.fit(X, y)

    influences = Influences(LAYOUT, {"member": member}, X).of(question, np.ones(1)).sum(axis=1)

    step = 1e-3
    for row in range(len(X)):
        moved = member.refit_clone().fit(X, y + step * (np.arange(len(X)) == row))
        kept = member.refit_clone().fit(X, y)
        change = (moved.predict(question) - kept.predict(question)) / step
        assert influences[:, row] == pytest.approx(change, rel=0.2, abs=0.06)


def test_configurations_that_are_encoded_alike_teach_each_its_part() -> None:
    workers, size = np.array([1.0, 2.0, 4.0, 4.0, 8.0]), np.full(5, 1000.0)
    X, question = _encoded(workers, size), _encoded(np.array([4.0]), np.array([1e3]))
    process = GaussianProcess(LAYOUT).fit(X, np.log(30 + 500 / workers))

    (influences,) = Influences(LAYOUT, {"process": process}, X).of(question, np.ones(1)).sum(axis=1)

    assert influences[2] > 0.1
    assert influences[2] == pytest.approx(influences[3])


def test_lessons_stand_in_order_and_name_the_runs_of_one_configuration() -> None:
    lessons = _fit(_runs()).taught_by(QUESTION)[0]

    influences = [abs(lesson.influence) for lesson in lessons]
    assert influences == sorted(influences, reverse=True)
    assert 1 <= len(lessons) <= 5
    repeated = [lesson.run_ids for lesson in lessons if len(lesson.run_ids) > 1]
    assert all(
        pair in {("run_3", "run_4"), ("run_8", "run_9"), ("run_13", "run_14")} for pair in repeated
    )


def test_repeated_configuration_is_taught_most_by_its_own_runs() -> None:
    runs = _runs()
    questions = runs.features.take(np.array([8]))

    first = _fit(runs).taught_by(questions)[0][0]

    assert first.run_ids == ("run_8", "run_9")
    assert first.influence > 0.3


def test_single_run_teaches_everything() -> None:
    runs = _runs()
    one = RunTable(runs.features.take(np.array([0])), runs.duration_seconds[:1], ["run_0"])

    lessons = _fit(one).taught_by(QUESTION)[0]

    assert [lesson.run_ids for lesson in lessons] == [("run_0",)]
    assert 0.5 < lessons[0].influence < 1.5


def test_lessons_survive_the_artefact() -> None:
    portfolio = _fit(_runs(levels=True))

    restored = loads(dumps(portfolio))

    questions = FeatureTable(QUESTION.numeric, {"gpu_type": ["T4"]}, 1)
    assert restored.taught_by(questions) == portfolio.taught_by(questions)


def test_unseen_level_is_taught_by_runs_of_the_known_ones() -> None:
    questions = FeatureTable(QUESTION.numeric, {"gpu_type": ["A100"]}, 1)

    lessons = _fit(_runs(levels=True)).taught_by(questions)[0]

    assert lessons
    assert sum(lesson.influence for lesson in lessons) > 0


def test_many_questions_are_taught_as_each_alone() -> None:
    portfolio = _fit(_runs(levels=True))
    n = 6000
    workers, size = np.tile([6.0, 64.0, 6.0, 6.0, 64.0], n // 5), np.full(n, 2000.0)
    # Inside and beyond the measured range, on a level without a run and on an unnamed one.
    levels = [("T4", "T4", "A100", None, "A100")[row % 5] for row in range(n)]
    questions = FeatureTable({"workers": workers, "dataset_size": size}, {"gpu_type": levels}, n)

    together = portfolio.taught_by(questions)

    assert together[0] != together[1]
    for row in (0, 1, 2, 3, 4, n - 3, n - 2, n - 1):
        (alone,) = portfolio.taught_by(questions.take(np.array([row])))
        assert [(one.run_ids, one.about) for one in together[row]] == [
            (one.run_ids, one.about) for one in alone
        ]
        assert [one.influence for one in together[row]] == pytest.approx(
            [one.influence for one in alone]
        )


def test_trees_alone_and_no_question_name_nobody() -> None:
    generator = np.random.default_rng(0)
    workers, other = generator.uniform(1, 9, 30), generator.uniform(1, 9, 30)
    features = FeatureTable({"workers": workers, "param.a": other}, {}, 30)
    runs = RunTable(features, 100 / workers + other, [f"run_{index}" for index in range(30)])

    portfolio = _fit(runs, ["boosted_trees"])

    assert portfolio.taught_by(features.take(np.arange(2))) == [(), ()]
    assert portfolio.taught_by(features.take(np.arange(0))) == []


def test_many_configurations_share_the_influence_of_their_law() -> None:
    generator = np.random.default_rng(1)
    workers, size = generator.uniform(1, 64, 400), generator.uniform(1e3, 1e5, 400)
    features = FeatureTable({"workers": workers, "dataset_size": size}, {}, 400)
    seconds = (5 + size / workers) * generator.lognormal(0, 0.03, 400)
    runs = RunTable(features, seconds, [f"run_{index}" for index in range(400)])

    lessons = _fit(runs, ["scaling_law", "residual_trees"]).taught_by(QUESTION)[0]

    assert all(abs(lesson.influence) < 0.5 for lesson in lessons)
