"""Feasibility: monotone, calibrated, from peaks and from outcomes, and silent without evidence."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from models import (
    BoolArray,
    Evidence,
    FeatureTable,
    FloatArray,
    HardwareDescription,
    MemoryRuns,
    UnfinishedRuns,
    dumps,
    fit_portfolio,
    loads,
)
from models.accelerator_memory.fit import MAX_ROWS, fit_memory_law
from models.accelerator_memory.law import MemoryLaw
from models.accelerator_memory.parameters import Parameters, error_probability
from models.accelerator_memory.state import build_law, law_header
from tests.models.workloads import grid, make_runs

pytestmark = pytest.mark.lengthy

GIB = 2.0**30
HARDWARE = {
    "small": HardwareDescription(10.0, 100.0, 16.0, 900.0),
    "large": HardwareDescription(10.0, 100.0, 40.0, 900.0),
}


@dataclass(frozen=True)
class World:
    """Random configurations with their true peaks."""

    features: FeatureTable
    is_out: BoolArray
    peak_bytes: FloatArray

    def runs(self, *, measured: bool) -> MemoryRuns:
        peaks = np.where(self.is_out | (not measured), np.nan, self.peak_bytes)
        return MemoryRuns(self.features, self.is_out, peaks)


def make_world(n: int, seed: int, gpus: tuple[str, ...] = ("small", "large")) -> World:
    rng = np.random.default_rng(seed)
    batch = np.exp2(rng.integers(4, 11, n).astype(np.float64))
    workers = np.exp2(rng.integers(0, 4, n).astype(np.float64))
    depth, precision = rng.choice([18.0, 50.0, 101.0], n), rng.choice(["fp16", "fp32"], n)
    gpu = rng.choice(gpus, n)
    peak = 0.8 * GIB * depth / 50 + 60 * 2**20 * (depth / 50) ** 0.8 * batch / workers
    peak = peak * np.where(precision == "fp16", 0.6, 1) * np.exp(rng.normal(0, 0.04, n))
    limit = 0.94 * GIB * np.where(gpu == "large", 40, 16)
    features = FeatureTable(
        {"batch_size": batch, "workers": workers, "param.depth": depth},
        {"gpu_type": gpu.tolist(), "param.precision": precision.tolist()},
        n,
    )
    return World(features, peak > limit, peak)


def law_of(runs: MemoryRuns, seed: int = 0) -> MemoryLaw:
    law = fit_memory_law(runs, HARDWARE, seed=seed)
    assert law is not None
    return law


def ask(law: MemoryLaw, gpu: str | None = "small", **numeric: list[float]) -> FloatArray:
    n = len(next(iter(numeric.values())))
    columns = {"workers": np.ones(n)} | {
        name.replace("param_", "param."): np.array(v) for name, v in numeric.items()
    }
    features = FeatureTable(columns, {"gpu_type": [gpu] * n, "param.precision": ["fp32"] * n}, n)
    return law.feasibility(features).probability


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
