"""Phases that runs tell explain the durations of others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import (
    Evidence,
    FeatureTable,
    FloatArray,
    PhaseRuns,
    RunTable,
    dumps,
    fit_portfolio,
    loads,
)
from models.explanations.explanation import TERM_NAMES
from models.explanations.phases import MAX_PHASES, check_phases, fit_phases
from models.features.encoder import Encoder

WORKERS = np.array([1.0, 2.0, 4.0, 8.0] * 2)
SIZE = np.repeat([1000.0, 8000.0], 4)
FEATURES = FeatureTable({"workers": WORKERS, "dataset_size": SIZE}, {}, 8)
COMPUTE = SIZE / WORKERS
COMMUNICATION = np.where(WORKERS > 1, 0.05 * SIZE, 0.0)
seconds = st.floats(0, 1e9)
DURATIONS = COMPUTE + COMMUNICATION


def _shares(
    runs: PhaseRuns, questions: FeatureTable = FEATURES
) -> tuple[tuple[str, ...], FloatArray]:
    encoder = Encoder.learn(runs.features)
    law = fit_phases(runs, encoder)
    assert law is not None
    return law.names, law.shares(encoder.layout, encoder.encode(questions).X)


def test_shares_follow_the_phases_as_workers_grow() -> None:
    runs = PhaseRuns(FEATURES, DURATIONS, {"compute": COMPUTE, "communication": COMMUNICATION})

    names, shares = _shares(runs)

    assert set(names) == {"compute", "communication"}
    assert shares.sum(axis=1) == pytest.approx(np.ones(8))
    assert shares[:, names.index("compute")] == pytest.approx(COMPUTE / DURATIONS, abs=0.06)


def test_more_workers_than_measured_go_on_by_the_trend() -> None:
    runs = PhaseRuns(FEATURES, DURATIONS, {"compute": COMPUTE, "communication": COMMUNICATION})
    questions = FeatureTable(
        {"workers": np.array([32.0]), "dataset_size": np.array([8000.0])}, {}, 1
    )

    names, shares = _shares(runs, questions)

    assert shares[0, names.index("communication")] == pytest.approx(0.05 * 32 / (1 + 1.6), abs=0.1)


def test_what_phases_leave_is_other() -> None:
    names, shares = _shares(PhaseRuns(FEATURES, np.full(8, 100.0), {"sync": np.full(8, 10.0)}))

    assert names == ("sync", "other")
    assert shares[:, 0] == pytest.approx(np.full(8, 0.1), abs=0.01)


def test_rest_of_a_duration_has_a_name_that_no_phase_has() -> None:
    seconds = {"other": np.full(8, 30.0), "other_": np.full(8, 20.0)}
    runs, encoder = PhaseRuns(FEATURES, np.full(8, 100.0), seconds), Encoder.learn(FEATURES)

    law = fit_phases(runs, encoder)

    assert law is not None
    assert law.names == ("other", "other_", "other__")
    checked = check_phases(law.names, law.coefficients, encoder.layout)
    assert checked is not None
    assert (checked.names, checked.coefficients.tolist()) == (law.names, law.coefficients.tolist())


def test_phases_that_overlap_share_their_sum() -> None:
    seconds = {"read": np.full(8, 80.0), "compute": np.full(8, 80.0)}

    names, shares = _shares(PhaseRuns(FEATURES, np.full(8, 100.0), seconds))

    assert set(names) == {"read", "compute"}
    assert shares == pytest.approx(np.full((8, 2), 0.5))


def test_runs_without_phases_change_nothing() -> None:
    all_tell = PhaseRuns(FEATURES, DURATIONS, {"compute": COMPUTE, "sync": COMMUNICATION})
    silent = np.full(8, np.nan)
    half_tells = PhaseRuns(
        FeatureTable({name: np.tile(v, 2) for name, v in FEATURES.numeric.items()}, {}, 16),
        np.tile(DURATIONS, 2),
        {
            "compute": np.concatenate([COMPUTE, silent]),
            "sync": np.concatenate([COMMUNICATION, silent]),
        },
    )

    (names, shares), (same_names, same_shares) = _shares(all_tell), _shares(half_tells)

    assert same_names == names
    assert same_shares == pytest.approx(shares)


def test_many_phases_are_cut_to_the_largest_and_other() -> None:
    seconds = {f"p{index:02d}": np.full(8, 1.0 + index) for index in range(20)}

    names, shares = _shares(PhaseRuns(FEATURES, np.full(8, 210.0), seconds))

    assert len(names) == MAX_PHASES
    assert names[0] == "p19"
    assert names[-1] == "other"
    assert shares.sum(axis=1) == pytest.approx(np.ones(8))


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e9), st.floats(0, 1e9) | st.just(float("nan")), st.floats(1e-3, 1e9)
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_phases_give_shares(rows: list[tuple[float, float, float]]) -> None:
    one, two, durations = np.array(rows).T
    features = FEATURES.take(np.arange(len(rows)))

    law = fit_phases(PhaseRuns(features, durations, {"a": one, "b": two}), Encoder.learn(features))

    if law is not None:
        encoder = Encoder.learn(features)
        shares = law.shares(encoder.layout, encoder.encode(FEATURES).X)
        assert np.isfinite(shares).all()
        assert (shares >= 0).all()
        assert shares.sum(axis=1) == pytest.approx(np.ones(8))


def test_explanation_by_phases_survives_the_artefact_and_unseen_levels() -> None:
    features = FeatureTable(FEATURES.numeric, {"gpu_type": ["T4", "V100"] * 4}, 8)
    phases = PhaseRuns(features, DURATIONS, {"compute": COMPUTE, "communication": COMMUNICATION})
    runs = RunTable(features, DURATIONS, [f"run_{index}" for index in range(8)])
    questions = FeatureTable(FEATURES.numeric, {"gpu_type": ["A100"] * 8}, 8)

    portfolio = fit_portfolio(runs, seed=0, time_budget_s=20, evidence=Evidence(phases=phases))
    restored = loads(dumps(portfolio))

    explained = portfolio.explain(questions)
    assert restored.explain(questions) == explained
    assert dumps(restored) == dumps(portfolio)
    assert [sum(shares.values()) for shares in explained] == pytest.approx([1.0] * 8)
    assert next(iter(explained[4])) == "compute"


def test_order_of_runs_is_no_matter_to_their_phases() -> None:
    phases = {"compute": COMPUTE * np.linspace(0.8, 1.0, 8), "communication": COMMUNICATION}
    order = np.random.default_rng(0).permutation(8)

    one, other = (
        fit_phases(
            PhaseRuns(
                FEATURES.take(rows), DURATIONS[rows], {name: s[rows] for name, s in phases.items()}
            ),
            Encoder.learn(FEATURES),
        )
        for rows in (np.arange(8), order)
    )

    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.coefficients, other.coefficients)


def test_order_of_runs_does_not_rank_phases_of_equal_size() -> None:
    features = FeatureTable({"workers": WORKERS[:3]}, {}, 3)
    load, compute = np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])
    orders = ([0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])

    names = {
        _shares(
            PhaseRuns(
                features.take(np.array(order)),
                np.full(3, 10.0),
                {"load": load[order], "compute": compute[order]},
            )
        )[0]
        for order in orders
    }

    assert names == {("compute", "load", "other")}


def test_runs_without_phases_explain_nothing_by_them() -> None:
    runs = RunTable(FEATURES, DURATIONS, [f"run_{index}" for index in range(8)])

    portfolio = fit_portfolio(runs, seed=0, time_budget_s=20, regressors=["log_linear"])

    assert portfolio.phases is None
    assert all(set(shares) <= set(TERM_NAMES.values()) for shares in portfolio.explain(FEATURES))
    assert fit_phases(PhaseRuns(FEATURES, DURATIONS, {}), portfolio.encoder) is None
    nothing = PhaseRuns(FEATURES, DURATIONS, {"idle": np.zeros(8)})
    assert fit_phases(nothing, portfolio.encoder) is None


def test_numbers_that_are_no_phases_are_refused() -> None:
    layout = Encoder.learn(FEATURES).layout
    good = np.zeros((2 + layout.n_numeric, 2))

    assert check_phases([], np.empty((0, 0)), layout) is None
    assert check_phases(["a", "b"], good, layout) is not None
    for names, numbers in ((["a", "a"], good), (["a", "b"], good[1:]), (["a", "b"], good + 1e9)):
        with pytest.raises(ValueError, match="phases"):
            check_phases(names, numbers, layout)


@pytest.mark.parametrize(
    ("durations", "seconds"), [([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])]
)
def test_impossible_phases_are_refused(durations: list[float], seconds: list[float]) -> None:
    features = FEATURES.take(np.arange(1))

    with pytest.raises(ValueError, match=r"uration|hase"):
        PhaseRuns(features, np.array(durations), {"a": np.array(seconds)})
