"""What the memory law says to questions, keeps and refuses; silent without evidence."""

from dataclasses import replace

import numpy as np
import pytest

from models import (
    Evidence,
    FeatureTable,
    MemoryRuns,
    UnfinishedRuns,
    dumps,
    fit_portfolio,
    loads,
)
from models.accelerator_memory.fit import MAX_ROWS, fit_memory_law
from models.accelerator_memory.parameters import Parameters, error_probability
from models.accelerator_memory.state import build_law, law_header
from tests.models.memory_worlds import HARDWARE, law_of, make_world
from tests.models.workloads import grid, make_runs

pytestmark = pytest.mark.lengthy


def test_no_evidence_is_no_probability_but_words() -> None:
    law = law_of(make_world(20, seed=7).runs(measured=True))
    features = FeatureTable({}, {"gpu_type": ["small", "unheard", None]}, 3)

    feasibility = law.feasibility(features)
    alone = [law.feasibility(features.take(np.array([row]))) for row in range(3)]

    assert np.isnan(feasibility.probability).all()
    assert feasibility.basis == (
        "the question gives no batch_size",
        "the memory of unheard is unknown",
        "the question names no GPU type",
    )
    assert np.isnan([row.probability[0] for row in alone]).all()
    assert tuple(row.basis[0] for row in alone) == feasibility.basis


def test_no_question_has_no_probability_and_no_basis() -> None:
    law = law_of(make_world(20, seed=7).runs(measured=True))
    questions = FeatureTable({"batch_size": np.empty(0)}, {"gpu_type": []}, 0)

    feasibility = law.feasibility(questions)

    assert feasibility.probability.shape == (0,)
    assert feasibility.basis == ()


def test_question_without_workers_is_asked_of_one() -> None:
    law = law_of(make_world(20, seed=7).runs(measured=True))
    workers, batch = np.array([0.0, np.nan, 1.0]), np.full(3, 64.0)
    questions = FeatureTable(
        {"workers": workers, "batch_size": batch}, {"gpu_type": ["small"] * 3}, 3
    )

    together = law.feasibility(questions).probability
    alone = [law.feasibility(questions.take(np.array([row]))).probability[0] for row in range(3)]

    assert together[:2].tolist() == [together[2]] * 2
    assert alone == pytest.approx(together.tolist())


def test_runs_that_ended_well_on_unknown_hardware_tell_nothing() -> None:
    features = FeatureTable({"workers": np.ones(2)}, {}, 2)

    assert fit_memory_law(MemoryRuns(features, np.zeros(2, bool), np.full(2, np.nan))) is None


def test_fit_without_runs_about_memory_refuses_nothing() -> None:
    runs = make_runs(grid((1, 2), (1000,)))
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=20, regressors=["scaling_law"])

    feasibility = portfolio.feasibility(runs.features)

    assert np.isnan(feasibility.probability).all()
    assert set(feasibility.basis) == {"no memory measurements"}
    assert not feasibility.is_tested


def test_rows_that_memory_does_not_tell_apart_have_the_chance_of_one() -> None:
    world = make_world(60, 3)
    law = fit_memory_law(world.runs(measured=True), HARDWARE)
    assert law is not None
    one = world.features.take(np.array([5]))
    sizes = {"dataset_size": np.array([1e3, 1e6, 1e9])}
    three = one.take(np.zeros(3, dtype=np.int64))
    alike = replace(three, numeric={**three.numeric, **sizes})

    several = law.feasibility(world.features)
    apart, together = law.feasibility(one), law.feasibility(alike)

    assert together.probability.tolist() == apart.probability.tolist() * 3
    assert together.basis == apart.basis * 3
    assert together.is_tested == apart.is_tested
    assert apart.probability[0] == pytest.approx(several.probability[5], abs=1e-12)


def test_question_far_beyond_tiny_parameters_has_one_chance_alone_and_among_others() -> None:
    tiny = np.array([0.0, 1e-300, 0.0, 1e-300])
    columns = {"batch_size": np.array([8.0, 16.0, 32.0, 8.0]), "param.rate": tiny}
    runs = FeatureTable(columns, {"gpu_type": ["mine"] * 4}, 4)
    is_out = np.array([False, False, True, False])
    law = fit_memory_law(MemoryRuns(runs, is_out, np.full(4, np.nan)))
    assert law is not None
    batch, rate = np.array([8.0, 16.0]), np.full(2, 1e50)
    questions = FeatureTable(
        {"batch_size": batch, "param.rate": rate}, {"gpu_type": ["mine"] * 2}, 2
    )

    together = law.feasibility(questions).probability
    alone = [law.feasibility(questions.take(np.array([row]))).probability[0] for row in range(2)]

    assert together.tolist() == alone
    assert (together < 0.1).all()


def test_basis_counts_what_the_law_rests_on_and_successes_alone_refuse_nothing() -> None:
    world = make_world(40, seed=8)
    law = law_of(world.runs(measured=True))
    kept = np.flatnonzero(~world.is_out)
    successes = MemoryRuns(
        world.features.take(kept), np.zeros(len(kept), bool), np.full(len(kept), np.nan)
    )

    feasibility = law.feasibility(world.features)
    gentle = law_of(successes).feasibility(world.features.take(kept))

    assert feasibility.is_tested
    assert feasibility.basis[0] == (
        f"{len(kept)} measured peaks of memory, {40 - len(kept)} runs out of memory"
    )
    assert not gentle.is_tested
    assert (gentle.probability > 0.8).all()


def test_row_order_and_repetitions_change_nothing() -> None:
    world = make_world(30, seed=9)
    runs = world.runs(measured=True)
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(30), 2))
    doubled = MemoryRuns(
        runs.features.take(order), runs.is_out_of_memory[order], runs.peak_bytes[order]
    )

    first, second = law_of(runs), law_of(doubled)

    np.testing.assert_array_equal(first.draws, second.draws)


def test_thousands_of_outcomes_are_thinned_and_still_answered() -> None:
    world = make_world(3000, seed=10)
    law = law_of(world.runs(measured=False))
    other = make_world(500, seed=11)

    chances = law.feasibility(other.features).probability

    assert world.features.n_rows > MAX_ROWS
    assert ((chances < 0.5) == other.is_out).mean() > 0.95


def test_artefact_keeps_the_memory_law_and_its_counts() -> None:
    world = make_world(20, seed=12)
    runs = make_runs(grid((1, 2, 4), (1000,)))

    portfolio = fit_portfolio(
        runs,
        seed=0,
        time_budget_s=20,
        regressors=["log_linear"],
        hardware=HARDWARE,
        evidence=Evidence(memory=world.runs(measured=True)),
    )
    loaded = loads(dumps(portfolio))

    np.testing.assert_array_equal(
        loaded.feasibility(world.features).probability,
        portfolio.feasibility(world.features).probability,
    )
    assert loaded.report.evidence == portfolio.report.evidence
    assert portfolio.report.evidence.memory is not None
    assert portfolio.report.evidence.memory.out_of_memory == int(world.is_out.sum())


def test_draws_that_do_not_fit_the_features_are_refused() -> None:
    law = law_of(make_world(20, seed=13).runs(measured=True))
    header = law_header(law)

    for draws in (law.draws[:, :-1], law.draws[:0], law.draws[0]):
        with pytest.raises(ValueError, match="memory law"):
            build_law(header, {"memory_law.draws": draws})


def test_bad_tables_are_refused_by_name() -> None:
    one = FeatureTable({"workers": np.ones(1)}, {}, 1)

    with pytest.raises(ValueError, match="differ in length"):
        MemoryRuns(one, np.zeros(2, bool), np.ones(2))
    with pytest.raises(ValueError, match="positive finite bytes"):
        MemoryRuns(one, np.zeros(1, bool), np.zeros(1))
    with pytest.raises(ValueError, match="differ in length"):
        UnfinishedRuns(one, np.ones(2), np.ones(2), ["a", "b"])
    with pytest.raises(ValueError, match="positive finite seconds"):
        UnfinishedRuns(one, np.zeros(1), np.ones(1), ["a"])


def test_stacked_parameters_say_what_each_draw_says_of_peaks_and_limits() -> None:
    world = make_world(60, 3, ("small", "large", "mine"))
    law = fit_memory_law(world.runs(measured=True), HARDWARE)
    assert law is not None
    features = world.features
    levels: list[str | None] = [*features.categorical["param.precision"][:-2], "fp8", None]
    question = replace(features, categorical={**features.categorical, "param.precision": levels})
    rows, names = law.features.rows(question), list(question.categorical["gpu_type"])
    parameters = Parameters.of(law.draws, law.features, len(law.latent))
    known = np.array([law.capacities.get(str(name), 0.0) for name in names])
    codes = np.array([law.latent.index(name) if name in law.latent else -1 for name in names])

    scale = parameters.outcome_scale()
    margins = (parameters.limits(known, codes) - parameters.peaks(rows)) / scale

    expected = error_probability(margins).mean(axis=0)
    assert law.latent == ("mine",)
    np.testing.assert_allclose(law.feasibility(question).probability, expected, rtol=1e-12)
