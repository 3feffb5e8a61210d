"""Questions below the range of an axis: half answered as those inside it are."""

import numpy as np
import pytest

from models import FeatureTable, FittedPortfolio, FloatArray, dumps, joint_forecast, loads
from tests.models.workloads import fit, grid, make_features, make_runs

SIZES = (1000.0, 2000.0, 4000.0)


@pytest.fixture(scope="module")
def portfolio() -> FittedPortfolio:
    return fit(make_runs(grid((1, 2, 4, 8), SIZES)))


def questions(*sizes: float) -> FeatureTable:
    return make_features(
        [
            {"workers": 4.0, "dataset_size": size, "epochs": 2.0, "gpu_type": "V100"}
            for size in sizes
        ]
    )


def weights(portfolio: FittedPortfolio, size: float) -> FloatArray:
    return portfolio.answering[portfolio.ask(questions(size)).answering[0]].weights


def test_half_of_the_weights_below_an_axis_are_those_inside(portfolio: FittedPortfolio) -> None:
    inside, above, below = (weights(portfolio, size) for size in (2000.0, 9000.0, 200.0))

    assert not np.allclose(inside, above)
    np.testing.assert_allclose(below, (inside + above) / 2)
    assert portfolio.predict(questions(200.0)).regimes == ("dataset_size",)


def test_rows_of_both_sides_are_answered_as_they_are_alone(portfolio: FittedPortfolio) -> None:
    sizes = (200.0, 2000.0, 9000.0, 300.0)

    together = portfolio.predict(questions(*sizes))

    alone = [portfolio.predict(questions(size)) for size in sizes]
    np.testing.assert_allclose(together.median(), [each.median()[0] for each in alone])
    np.testing.assert_allclose(together.scale, [each.scale[0] for each in alone])


def test_few_configurations_answer_both_sides_alike() -> None:
    few = fit(make_runs(grid((1, 4), SIZES, ("V100",))))

    np.testing.assert_array_equal(weights(few, 200.0), weights(few, 9000.0))


def test_loaded_artefacts_lessons_and_joint_forecasts_know_the_lower_end(
    portfolio: FittedPortfolio,
) -> None:
    question = questions(200.0, 9000.0)

    loaded = loads(dumps(portfolio))

    np.testing.assert_array_equal(
        loaded.predict(question).median(), portfolio.predict(question).median()
    )
    assert all(portfolio.taught_by(question))
    joints = joint_forecast(portfolio, questions(2000.0), question)
    assert [joint.targets.tolist() for joint in joints] == [[0], [1]]
