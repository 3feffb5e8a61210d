"""Feasibility: monotone, calibrated, from peaks and from outcomes."""

from dataclasses import replace

import numpy as np
import pytest

from models import BoolArray, FeatureTable, FloatArray, MemoryRuns
from models.accelerator_memory.fit import fit_memory_law
from tests.models.memory_worlds import GIB, HARDWARE, ask, law_of, make_world

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize("measured", [True, False])
def test_probabilities_are_right_on_configurations_never_run(*, measured: bool) -> None:
    law = law_of(make_world(60, seed=1).runs(measured=measured))
    world = make_world(1500, seed=2)

    chances = law.feasibility(world.features).probability

    assert ((chances < 0.5) == world.is_out).mean() > 0.95
    assert world.is_out[chances < 0.1].mean() > 0.9
    assert world.is_out[chances > 0.9].mean() < 0.05


@pytest.mark.parametrize("measured", [True, False])
def test_more_batch_model_or_bits_never_fit_better_and_more_memory_never_worse(
    *,
    measured: bool,
) -> None:
    law = law_of(make_world(25, seed=3).runs(measured=measured))
    sizes = (2.0 ** np.arange(0, 16)).tolist()

    by_batch = ask(law, batch_size=sizes)
    by_depth = ask(law, batch_size=[64.0] * 16, param_depth=sizes)
    on_large = ask(law, "large", batch_size=sizes)

    assert (np.diff(by_batch) <= 1e-12).all()
    assert (np.diff(by_depth) <= 1e-12).all()
    assert (on_large >= by_batch).all()
    assert by_batch[0] > 0.9
    assert by_batch[-1] < 0.05


def test_few_outcomes_leave_doubt_between_what_fitted_and_what_did_not() -> None:
    features = FeatureTable(
        {"batch_size": np.array([64.0, 1024.0])}, {"gpu_type": ["small"] * 2}, 2
    )
    runs = MemoryRuns(features, np.array([False, True]), np.full(2, np.nan))

    chances = ask(law_of(runs), batch_size=[32.0, 64.0, 256.0, 1024.0, 4096.0])

    assert chances[1] > 0.9
    assert 0.15 < chances[2] < 0.85
    assert chances[3] < 0.1
    assert (np.diff(chances) <= 0).all()


@pytest.mark.parametrize("n_runs", [2, 6, 25])
@pytest.mark.parametrize("measured", [True, False])
def test_laws_of_several_seeds_agree_where_runs_tell_little(*, measured: bool, n_runs: int) -> None:
    runs, questions = make_world(n_runs, seed=4).runs(measured=measured), make_world(100, seed=77)

    laws = [law_of(runs, seed).feasibility(questions.features).probability for seed in range(12)]

    scatter = np.std(laws, axis=0)
    # Of 64 draws at random the share scatters by up to .0625.
    assert scatter.max() < 0.1
    assert scatter.mean() < 0.03


def sharded_runs(n: int, seed: int) -> tuple[FeatureTable, BoolArray, FloatArray]:
    """Runs whose weights are spread over the workers, 48 GiB of them, on GPUs with 16 GiB."""
    rng = np.random.default_rng(seed)
    workers = np.exp2(rng.integers(0, 5, n).astype(np.float64))
    local = np.exp2(rng.integers(0, 6, n).astype(np.float64))
    peak = GIB * (48 / workers + 0.05 * local) * np.exp(rng.normal(0, 0.02, n))
    features = FeatureTable(
        {"batch_size": local * workers, "workers": workers}, {"gpu_type": ["small"] * n}, n
    )
    return features, peak > 15 * GIB, peak


def test_peaks_go_on_as_powers_of_a_parameter() -> None:
    depth = np.array([1.0, 2.0, 4.0, 8.0] * 2)
    features = FeatureTable(
        {"batch_size": np.full(8, 32.0), "param.depth": depth}, {"gpu_type": ["small"] * 8}, 8
    )
    law = law_of(MemoryRuns(features, np.zeros(8, dtype=np.bool_), 0.2 * GIB * depth))

    fitting, beyond = ask(law, batch_size=[32.0, 32.0], param_depth=[32.0, 320.0])

    assert fitting > 0.8
    assert beyond < 0.2


def test_peaks_that_follow_the_law_exactly_are_fitted_without_an_overflow() -> None:
    rng, n = np.random.default_rng(1), 20
    batch = np.exp2(rng.integers(0, 10, n).astype(np.float64))
    numeric = {
        "batch_size": batch,
        "param.depth": np.exp(rng.normal(0, 0.1, n)),
        "param.width": np.exp(rng.normal(0, 20, n)),
    }
    gpus = rng.choice(["small", "large", "mine"], n).tolist()
    precisions = rng.choice(["fp32", "fp16", "bf16"], n).tolist()
    features = FeatureTable(numeric, {"gpu_type": gpus, "param.precision": precisions}, n)
    peaks = np.where(rng.random(n) < 0.4, np.nan, GIB * (1 + 0.05 * batch))

    law = law_of(MemoryRuns(features, np.zeros(n, dtype=np.bool_), peaks), seed=1)

    fitting, beyond = ask(law, batch_size=[256.0, 512.0])
    assert fitting > 0.8
    assert beyond < 0.2


@pytest.mark.parametrize("measured", [True, False])
def test_weights_that_are_spread_over_workers_fit_on_more_of_them(*, measured: bool) -> None:
    features, is_out, peak = sharded_runs(30, seed=0)
    questions, asked_out, _ = sharded_runs(300, seed=1)
    peaks = np.where(is_out | (not measured), np.nan, peak)
    workers = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    more = FeatureTable({"batch_size": workers, "workers": workers}, {"gpu_type": ["small"] * 6}, 6)

    law = law_of(MemoryRuns(features, is_out, peaks))

    chances = law.feasibility(questions).probability
    assert ((chances < 0.5) == asked_out).mean() > 0.95
    by_workers = law.feasibility(more).probability
    assert (np.diff(by_workers) >= -1e-12).all()
    assert by_workers[0] < 0.1
    assert by_workers[-1] > 0.9


def test_workers_that_hold_all_of_the_weights_are_no_reason_to_fit() -> None:
    rng = np.random.default_rng(0)
    workers, local = np.exp2(rng.integers(0, 5, 40)), np.exp2(rng.integers(0, 6, 40))
    weights = rng.choice([8.0, 12.0, 16.0, 20.0], 40)
    peak = GIB * (weights + 0.05 * local) * np.exp(rng.normal(0, 0.02, 40))
    features = FeatureTable(
        {"batch_size": local * workers, "workers": workers, "param.weights": weights},
        {"gpu_type": ["small"] * 40},
        40,
    )
    law = law_of(MemoryRuns(features, peak > 15 * GIB, np.full(40, np.nan)))

    # Too large for one worker, and no smaller on 16.
    assert (ask(law, batch_size=[4.0, 16.0], param_weights=[20.0] * 2) < 0.1).all()
    sixteen = FeatureTable(
        {"batch_size": np.array([64.0]), "workers": np.array([16.0])}
        | {"param.weights": np.array([20.0])},
        {"gpu_type": ["small"]},
        1,
    )
    assert law.feasibility(sixteen).probability[0] < 0.2


@pytest.mark.parametrize("measured", [True, False])
def test_a_parameter_that_memory_does_not_depend_on_says_little(*, measured: bool) -> None:
    world, questions = make_world(40, seed=6), make_world(1500, seed=16)
    rates = np.random.default_rng(0).choice([1e-4, 1e-3, 1e-2], 1540)
    tables = [
        replace(table.features, numeric={**table.features.numeric, "param.learning_rate": rate})
        for table, rate in ((world, rates[:40]), (questions, rates[40:]))
    ]
    law = law_of(replace(world, features=tables[0]).runs(measured=measured))

    chances = law.feasibility(tables[1]).probability

    assert ((chances < 0.5) == questions.is_out).mean() > 0.93
    assert questions.is_out[chances > 0.9].mean() < 0.06


def test_no_runs_are_no_law() -> None:
    nothing = FeatureTable({"batch_size": np.zeros(0), "workers": np.zeros(0)}, {}, 0)

    assert fit_memory_law(MemoryRuns(nothing, np.zeros(0, bool), np.zeros(0)), HARDWARE) is None


def test_an_unknown_gpu_is_learned_from_its_own_outcomes() -> None:
    world = make_world(60, seed=5, gpus=("small",))
    own = FeatureTable(
        world.features.numeric, {**world.features.categorical, "gpu_type": ["mine"] * 60}, 60
    )
    law = law_of(MemoryRuns(own, world.is_out, np.where(world.is_out, np.nan, world.peak_bytes)))

    chances = ask(law, "mine", batch_size=[16.0, 1024.0], param_depth=[50.0, 50.0])

    assert chances[0] > 0.9
    assert chances[1] < 0.1


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("n_runs", [6, 15, 60])
@pytest.mark.parametrize("run", [("fp32", "fp16"), ("fp16",), ("fp32",)])
def test_fewer_bits_never_fit_worse_whether_they_were_run_or_not(
    *, measured: bool, n_runs: int, run: tuple[str, ...]
) -> None:
    for seed in range(4):
        world = make_world(n_runs, seed=seed)
        levels = [run[row % len(run)] for row in range(n_runs)]
        features = replace(
            world.features, categorical={**world.features.categorical, "param.precision": levels}
        )
        law = law_of(replace(world.runs(measured=measured), features=features))
        ladder = ["int8", "fp8", "fp16", "bf16-mixed", "tf32", "fp32", "fp64"]
        for batch_size in (16.0, 64.0, 256.0, 1024.0):
            questions = FeatureTable(
                {"batch_size": np.full(7, batch_size)},
                {"gpu_type": ["small"] * 7, "param.precision": ladder},
                7,
            )

            chances = law.feasibility(questions).probability

            assert (np.diff(chances) <= 1e-12).all()
            if run == ("fp16",):
                assert chances[2] == chances[3]
