"""Samples to a target against the batch: a known law is found, little is not made much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import (
    ArtifactError,
    ConvergenceLaw,
    ConvergenceRuns,
    Evidence,
    FeatureTable,
    FloatArray,
    RunTable,
    dumps,
    fit_portfolio,
    loads,
)
from models.convergence import build_convergence, convergence_arrays, fit_convergence

BATCHES = np.array([64.0, 128, 256, 512, 1024, 2048, 4096, 8192])
QUESTIONS = np.geomspace(1.0, 1e7, 40)
positive = st.floats(1e-3, 1e12)


def needed(batch: FloatArray, noise_scale: float, least: float = 1e6) -> FloatArray:
    """Return the samples of the known law."""
    return least * (1 + batch / noise_scale)


def fitted(batch: FloatArray, samples: FloatArray) -> ConvergenceLaw:
    law = fit_convergence(ConvergenceRuns(batch, samples))
    assert law is not None
    return law


@given(noise_scale=st.floats(200.0, 4000.0), least=st.floats(1e2, 1e12), seed=st.integers(0, 10**6))
def test_known_law_is_found_in_noisy_samples(noise_scale: float, least: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.03, len(BATCHES))

    law = fitted(BATCHES, needed(BATCHES, noise_scale, least) * np.exp(noise))

    scale = law.noise_scale()
    assert scale.lower < scale.median < scale.upper
    assert scale.median == pytest.approx(noise_scale, rel=0.35)
    mean, variance = law.moments(np.array([300.0, 20_000.0]))
    true = np.log(needed(np.array([300.0, 20_000.0]), noise_scale, least))
    assert np.abs(mean - true).max() < 0.25
    assert (variance > 0).all()


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=12))
def test_any_runs_give_finite_rising_samples_and_falling_steps(
    runs: list[tuple[float, float]],
) -> None:
    batch, samples = np.array(runs).T

    law = fitted(batch, samples)

    mean, variance = law.moments(QUESTIONS)
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()
    assert (variance > 0).all()
    assert (np.diff(mean) >= -1e-9).all()
    assert (np.diff(mean - np.log(QUESTIONS)) <= 1e-9).all()
    scale = law.noise_scale()
    assert 0 < scale.lower <= scale.median <= scale.upper < np.inf


@given(scale=st.floats(1e-3, 1e3), unit=st.floats(1e-3, 1e3))
def test_other_units_scale_the_answers(scale: float, unit: float) -> None:
    samples = needed(BATCHES, 700.0)

    plain = fitted(BATCHES, samples)
    scaled = fitted(unit * BATCHES, scale * samples)

    mean, variance = plain.moments(QUESTIONS)
    other, other_variance = scaled.moments(unit * QUESTIONS)
    assert other == pytest.approx(mean + np.log(scale), abs=1e-6)
    assert other_variance == pytest.approx(variance, rel=1e-6)
    assert scaled.noise_scale().median == pytest.approx(unit * plain.noise_scale().median)


@given(st.permutations(range(len(BATCHES))))
def test_order_of_the_runs_is_no_matter(order: list[int]) -> None:
    samples = needed(BATCHES, 700.0)

    law, other = fitted(BATCHES, samples), fitted(BATCHES[order], samples[order])

    assert (law.location == other.location).all()
    assert (law.probability == other.probability).all()


def test_single_run_is_sure_of_its_own_batch_alone() -> None:
    law = fitted(np.array([256.0]), np.array([1e6]))

    mean, variance = law.moments(np.array([256.0, 25_600.0, 2.56]))

    assert mean[0] == pytest.approx(np.log(1e6))
    assert variance[0] < 0.2
    assert variance[1] > 4 * variance[0]
    scale = law.noise_scale()
    assert scale.upper / scale.lower > 100


def test_more_runs_narrow_the_noise_scale() -> None:
    noise = np.random.default_rng(3).normal(0, 0.05, len(BATCHES))
    samples = needed(BATCHES, 900.0) * np.exp(noise)

    widths = []
    for count in (1, 2, 4, 8):
        scale = fitted(BATCHES[:count], samples[:count]).noise_scale()
        widths.append(scale.upper / scale.lower)

    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 2


@pytest.mark.parametrize("place", [0, 3, 7])
def test_one_run_that_went_wrong_does_not_move_the_law_far(place: int) -> None:
    samples = needed(BATCHES, 1000.0)
    samples[place] *= 6

    law = fitted(BATCHES, samples)

    assert law.noise_scale().median == pytest.approx(1000.0, rel=0.3)


@pytest.mark.slow
def test_interval_covers_new_runs_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    for count in (1, 2, 3, 5, 8, 20):
        inside = []
        for _ in range(400):
            noise_scale = np.exp(generator.normal(np.log(2000), 1.5))
            batch = np.exp2(generator.integers(5, 14, count)).astype(np.float64)
            samples = needed(batch, noise_scale) * np.exp(generator.normal(0, 0.1, count))
            questions = np.exp2(generator.integers(5, 17, 1)).astype(np.float64)
            mean, variance = fitted(batch, samples).moments(questions)
            new = np.log(needed(questions, noise_scale)) + generator.normal(0, 0.1)
            inside.append(float(abs(new - mean)[0]) < 1.645 * float(variance[0]) ** 0.5)
        assert 0.82 < np.mean(inside) < 0.99


def test_law_survives_the_artefact_of_its_regressor() -> None:
    workers = np.array([1.0, 2.0, 4.0])
    runs = RunTable(FeatureTable({"workers": workers}, {}, 3), 100 / workers, ["a", "b", "c"])
    evidence = Evidence(convergence=ConvergenceRuns(BATCHES, needed(BATCHES, 500.0)))

    portfolio = fit_portfolio(runs, seed=0, time_budget_s=10, evidence=evidence)
    restored = loads(dumps(portfolio))

    assert portfolio.convergence is not None
    assert restored.convergence is not None
    assert (
        restored.convergence.moments(QUESTIONS)[0] == portfolio.convergence.moments(QUESTIONS)[0]
    ).all()
    assert restored.convergence.batch_sizes == (64.0, 8192.0)
    assert dumps(restored) == dumps(portfolio)


def test_law_of_runs_that_fit_no_law_survives_its_artefact() -> None:
    law = fitted(np.array([1e18, 1e18, 1.0]), np.array([1e36, 1e36, 1e-3]))

    restored = build_convergence(convergence_arrays(law))

    assert restored is not None
    assert (restored.variance == law.variance).all()


def test_one_run_leaves_the_noise_scale_at_four_of_its_batches() -> None:
    law = fitted(np.array([256.0]), np.array([1e6]))

    assert law.noise_scale().median == pytest.approx(1024, rel=0.01)


@pytest.mark.parametrize(
    ("deviations", "variance"), [([0.0], 0.04), ([-0.1, 0.1], 0.03), ([-0.1, 0.0, 0.1], 0.02)]
)
def test_repetitions_tell_mean_and_noise_of_the_next_run(
    deviations: list[float], variance: float
) -> None:
    # (.02 + S / 2) / (1 + (n - 1) / 2) (1 + 1 / n), with S the sum of n squared deviations.
    samples = 1e6 * np.exp(deviations)

    law = fitted(np.full(len(samples), 256.0), samples)

    mean, found = law.moments(np.array([256.0]))
    assert mean == pytest.approx(np.log(1e6))
    assert found == pytest.approx(variance)


def test_no_run_that_reached_its_target_gives_no_law() -> None:
    assert fit_convergence(None) is None
    assert fit_convergence(ConvergenceRuns(np.empty(0), np.empty(0))) is None
    assert convergence_arrays(None) == {}
    assert build_convergence({}) is None


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("convergence.curves", (0, 0), 200.0),
        ("convergence.curves", (1, 5), -0.1),
        ("convergence.curves", (1, 80), 1.0),
        ("convergence.curves", (2, 0), 1e6),
        ("convergence.curves", (3, 0), 0.0),
        ("convergence.curves", (3, 0), 1e6),
        ("convergence.curves", (3, 0), np.nan),
        ("convergence.scope", (0,), 0.0),
        ("convergence.scope", (0,), 2.5),
    ],
)
def test_numbers_that_are_no_law_are_refused(
    name: str, index: tuple[int, ...], value: float
) -> None:
    arrays = convergence_arrays(fitted(BATCHES, needed(BATCHES, 500.0)))
    arrays[name][index] = value

    with pytest.raises(ArtifactError):
        build_convergence(arrays)


def test_arrays_of_another_shape_are_refused() -> None:
    arrays = convergence_arrays(fitted(BATCHES, needed(BATCHES, 500.0)))

    with pytest.raises(ArtifactError):
        build_convergence({**arrays, "convergence.curves": arrays["convergence.curves"][:, 1:]})


@pytest.mark.parametrize(
    ("batch", "samples"), [([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [np.inf])]
)
def test_runs_that_say_nothing_are_refused(batch: list[float], samples: list[float]) -> None:
    with pytest.raises(ValueError, match="Batch sizes and samples"):
        ConvergenceRuns(np.array(batch), np.array(samples))
