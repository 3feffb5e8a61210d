"""Questions that a workload is likely to be asked, and what members say of them."""

import numpy as np

from models.candidates import CANDIDATES, Setting
from models.features.layout import Layout
from models.questions.likely_questions import UNTESTED_VARIANCE, ask, likely_questions
from models.regressor import PortfolioRegressor
from models.selection.arms import Arms
from models.tables import FloatArray

LAYOUT = Layout(("workers", "dataset_size"), (2,), ((0.0, 0.0),))
X: FloatArray = np.array([[0.0, 0.5, 1.0, 0.0], [0.7, 0.5, 0.0, 1.0], [1.4, 0.5, 0.0, 0.0]])


def member(name: str, rows: FloatArray = X) -> PortfolioRegressor:
    return CANDIDATES[name](Setting(LAYOUT, 0.05, 0, seed=0)).fit(rows, -rows[:, 0])


def test_questions_beside_the_runs_stay_within_what_was_measured() -> None:
    beside = likely_questions(LAYOUT, ["workers", "dataset_size"], X)["interpolation"]

    assert len(beside) > len(X)
    for column in range(X.shape[1]):
        assert set(beside[:, column]) <= set(X[:, column])
    assert all((np.abs(row - X) > 0).sum(axis=1).min() <= 1 for row in beside)


def test_questions_beyond_an_axis_move_it_alone() -> None:
    likely = likely_questions(LAYOUT, ["workers", "dataset_size"], X)

    assert likely["workers"].tolist() == [[2.8, 0.5, 0.0, code] for code in (0.0, 1.0, 0.0)]
    assert likely["dataset_size"][:, 1].tolist() == [0.5 + np.log(2)] * 3
    assert np.array_equal(likely["dataset_size"][:, [0, 2, 3]], X[:, [0, 2, 3]])


def test_one_configuration_is_its_own_neighbour() -> None:
    assert np.array_equal(likely_questions(LAYOUT, [], X[:1])["interpolation"], X[:1])


def test_members_answer_each_kind_of_question() -> None:
    questions = likely_questions(LAYOUT, ["workers", "dataset_size"], X)
    members = [member("scaling_law"), member("boosted_trees", np.tile(X, (8, 1)))]

    answers = ask(members, questions)

    assert list(answers) == list(questions)
    mean, variance = members[0].predict_moments(questions["workers"])
    assert np.allclose(answers["workers"].means[0], mean)
    assert variance is not None
    assert np.allclose(answers["workers"].variances[0], variance)
    assert set(answers["workers"].variances[1]) == {UNTESTED_VARIANCE}


def test_arms_ask_nothing_where_held_out_sets_tell_them_apart() -> None:
    many = np.tile(X, (4, 1))
    both = {"scaling_law": member("scaling_law"), "pooled.scaling_law": member("scaling_law")}

    assert Arms.of(both, LAYOUT, ["workers", "dataset_size"], X).answers
    assert not Arms.of(both, LAYOUT, ["workers", "dataset_size"], many).answers
    assert not Arms.of({"scaling_law": both["scaling_law"]}, LAYOUT, [], X).answers
