"""The recommended candidate is the true optimum among those that keep the constraints."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.decisions.recommendation import (
    Candidates,
    Constraints,
    Rejection,
    choose,
    objective_values,
)
from app.domain.recommendations import Objective

_NAN = float("nan")


def make_candidates(
    durations: list[float], costs: list[float], **changes: list[float] | list[bool]
) -> Candidates:
    arrays = {
        "duration_bound_s": [1.5 * value for value in durations],
        "cost_bound": [1.5 * value for value in costs],
        "energy_kwh": durations,
        "kg_co2e": durations,
        "within_range": [True] * len(durations),
        "fits_probability": [1.0] * len(durations),
        **changes,
    }
    return Candidates(
        duration_s=np.array(durations, dtype=float),
        cost=np.array(costs, dtype=float),
        duration_bound_s=np.array(arrays["duration_bound_s"], dtype=float),
        cost_bound=np.array(arrays["cost_bound"], dtype=float),
        energy_kwh=np.array(arrays["energy_kwh"], dtype=float),
        kg_co2e=np.array(arrays["kg_co2e"], dtype=float),
        within_range=np.array(arrays["within_range"], dtype=bool),
        fits_probability=np.array(arrays["fits_probability"], dtype=float),
    )


_VALUES = st.lists(
    st.tuples(
        st.floats(1, 1e6),
        st.one_of(st.floats(0.01, 1e4), st.just(_NAN)),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@given(
    _VALUES,
    st.sampled_from(Objective),
    st.none() | st.floats(1, 1e6),
    st.none() | st.floats(0.01, 1e4),
    st.booleans(),
)
def test_ranking_equals_exhaustive_search(
    values: list[tuple[float, float, bool]],
    objective: Objective,
    deadline: float | None,
    budget: float | None,
    require: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    candidates = make_candidates(
        [value[0] for value in values],
        [value[1] for value in values],
        within_range=[value[2] for value in values],
    )

    choice = choose(candidates, objective, Constraints(deadline, budget, require))

    score = objective_values(candidates, objective)
    allowed = [
        index
        for index in range(len(values))
        if not np.isnan(score[index])
        and (deadline is None or candidates.duration_bound_s[index] <= deadline)
        and (budget is None or candidates.cost_bound[index] <= budget)
        and (not require or candidates.within_range[index])
    ]
    assert sorted(choice.ranked.tolist()) == allowed
    assert all(np.diff(score[choice.ranked]) >= 0)
    assert {index for index, _ in choice.rejected} == set(range(len(values))) - set(allowed)
    assert set(choice.pareto.tolist()) <= set(allowed)
    assert (choice.nearest is None) == bool(allowed)


def test_each_rejection_names_its_reason() -> None:
    candidates = make_candidates(
        [10.0, 100.0, 10.0, 10.0, 20.0],
        [1.0, 1.0, 50.0, _NAN, 1.0],
        within_range=[True, True, True, True, False],
    )

    choice = choose(candidates, Objective.COST, Constraints(60.0, 30.0, require_within_range=True))

    assert choice.ranked.tolist() == [0]
    assert dict(choice.rejected) == {
        1: Rejection.DEADLINE,
        2: Rejection.BUDGET,
        3: Rejection.PRICE_UNKNOWN,
        4: Rejection.BEYOND_RANGE,
    }


def test_unknown_energy_is_rejected_only_for_the_energy_objective() -> None:
    candidates = make_candidates([10.0, 20.0], [1.0, 2.0], energy_kwh=[_NAN, 5.0])

    by_energy = choose(candidates, Objective.ENERGY, Constraints())
    by_duration = choose(candidates, Objective.DURATION, Constraints())

    assert by_energy.ranked.tolist() == [1]
    assert by_energy.rejected == ((0, Rejection.ENERGY_UNKNOWN),)
    assert by_duration.ranked.tolist() == [0, 1]


def test_when_nothing_qualifies_the_nearest_misses_its_worst_constraint_by_least() -> None:
    candidates = make_candidates([100.0, 40.0], [1.0, 8.0])

    choice = choose(candidates, Objective.COST, Constraints(deadline_s=50.0, budget=6.0))

    assert choice.ranked.size == 0
    assert choice.nearest == 1


def test_next_to_no_time_is_a_deadline_too() -> None:
    candidates = make_candidates([100.0, 40.0], [1.0, 8.0])

    choice = choose(candidates, Objective.DURATION, Constraints(deadline_s=5e-324))

    assert choice.ranked.size == 0
    assert choice.nearest == 1


def test_a_candidate_outside_the_range_is_nearest_only_after_all_inside() -> None:
    candidates = make_candidates([100.0, 10.0], [1.0, 1.0], within_range=[True, False])

    choice = choose(candidates, Objective.COST, Constraints(50.0, require_within_range=True))

    assert choice.nearest == 0


def test_no_candidates_have_no_nearest() -> None:
    choice = choose(make_candidates([], []), Objective.COST, Constraints(budget=1.0))

    assert choice.ranked.size == 0
    assert choice.nearest is None


def test_where_no_price_is_known_the_shortest_is_nearest() -> None:
    candidates = make_candidates([10.0, 5.0, 20.0], [_NAN, _NAN, _NAN])

    choice = choose(candidates, Objective.COST, Constraints(budget=1.0))

    assert choice.nearest == 1


def test_a_known_price_is_nearer_than_an_unknown_one() -> None:
    candidates = make_candidates([10.0, 500.0], [_NAN, 1000.0])

    choice = choose(candidates, Objective.DURATION, Constraints(deadline_s=1.0, budget=1.0))

    assert choice.nearest == 1


def test_what_does_not_fit_into_memory_is_rejected_and_nearest_only_after_all_others() -> None:
    candidates = make_candidates(
        [100.0, 50.0, 70.0], [1.0, 1.0, 2.0], fits_probability=[0.9, 0.8, 0.0]
    )

    choice = choose(candidates, Objective.DURATION, Constraints(deadline_s=10.0))

    assert choice.ranked.size == 0
    assert choice.rejected[1:] == ((1, Rejection.OUT_OF_MEMORY), (2, Rejection.OUT_OF_MEMORY))
    assert choice.nearest == 0


def test_where_nothing_fits_into_memory_the_likeliest_to_fit_is_nearest() -> None:
    candidates = make_candidates([9.0, 50.0], [1.0, 1.0], fits_probability=[0.1, 0.6])

    assert choose(candidates, Objective.COST, Constraints()).nearest == 1


def test_memory_is_asked_for_with_the_stated_confidence() -> None:
    candidates = make_candidates([9.0], [1.0], fits_probability=[0.6])

    assert choose(candidates, Objective.COST, Constraints(confidence=0.5)).ranked.size == 1
