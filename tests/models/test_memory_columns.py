"""Which columns the memory law sees where runs name many, and how it reads numbers near zero."""

import numpy as np
import pytest

from models import FeatureTable, FloatArray, MemoryRuns
from models.accelerator_memory.features import (
    MAX_ALL_LEVELS,
    MAX_PARAMETERS,
    MemoryFeatures,
)
from tests.models.memory_worlds import GIB, ask, law_of

pytestmark = pytest.mark.lengthy

N = 60


def _runs(
    numeric: dict[str, FloatArray], levels: dict[str, list[str]], use: FloatArray, *, measured: bool
) -> MemoryRuns:
    """Return runs that take 2 GiB and what `use` says of each sample of the batch."""
    rng = np.random.default_rng(1)
    batch = rng.choice([8.0, 16.0, 32.0], N)
    peak = GIB * (2 + 0.25 * batch * use) * np.exp(0.02 * rng.standard_normal(N))
    features = FeatureTable(
        {"batch_size": batch, **numeric}, {"gpu_type": ["small"] * N, **levels}, N
    )
    is_out = peak > 0.94 * 16 * GIB
    return MemoryRuns(features, is_out, np.where(is_out | (not measured), np.nan, peak))


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("name", ["param.hidden", "param.a", "param.z"])
def test_of_many_parameters_the_one_that_takes_memory_is_seen(*, name: str, measured: bool) -> None:
    rng = np.random.default_rng(0)
    hidden = rng.choice([1.0, 2.0, 4.0], N)
    others = {f"param.b{index}": rng.normal(size=N) for index in range(9)}
    law = law_of(_runs({**others, name: hidden}, {}, hidden, measured=measured))
    questions = FeatureTable(
        {"batch_size": np.full(3, 32.0), name: np.array([1.0, 2.0, 4.0])},
        {"gpu_type": ["small"] * 3},
        3,
    )

    chances = law.feasibility(questions).probability

    assert len(law.features.parameters) == MAX_PARAMETERS
    assert chances[0] > 0.9
    assert chances[2] < 0.05


def test_of_many_categories_those_that_take_memory_or_name_bits_are_seen() -> None:
    rng = np.random.default_rng(0)
    model = rng.choice([1.0, 2.0, 4.0], N)
    idle = {f"param.b{i}": [f"level {c}" for c in rng.integers(0, 8, N)] for i in range(20)}
    levels = {
        **idle,
        "param.z": [f"model {size:g}" for size in model],
        "param.precision": ["fp32"] * N,
    }

    law = law_of(_runs({}, levels, model, measured=True))

    assert len(law.features.levels) <= MAX_ALL_LEVELS
    assert {"param.z", "param.precision"} < {name for name, _ in law.features.categories}


def test_columns_that_are_seen_depend_on_no_order_of_runs() -> None:
    rng = np.random.default_rng(0)
    numeric = {f"param.b{index}": rng.normal(size=N) for index in range(20)}
    levels = {f"param.c{i}": [f"level {c}" for c in rng.integers(0, 8, N)] for i in range(20)}
    runs = _runs(numeric, levels, np.ones(N), measured=True)
    use, rows = np.nan_to_num(runs.peak_bytes, nan=np.inf), rng.permutation(N)

    one = MemoryFeatures.learn(runs.features, use)
    other = MemoryFeatures.learn(runs.features.take(rows), use[rows])

    assert one == other


def test_a_parameter_at_zero_takes_no_more_memory_than_a_small_one() -> None:
    rank = np.random.default_rng(0).choice([8.0, 16.0, 64.0], N)
    law = law_of(_runs({"param.rank": rank}, {}, rank / 16, measured=True))
    ranks = [-1.0, 0.0, 1e-90, 1e-9, 0.1, 8.0, 64.0]

    chances = ask(law, batch_size=[64.0] * 7, param_rank=ranks)
    alone = [ask(law, batch_size=[64.0], param_rank=[value]).item() for value in ranks]

    assert (np.diff(chances) <= 1e-12).all()
    assert chances[0] == chances[1]
    assert chances == pytest.approx(alone, rel=1e-12)


def test_a_column_with_zeros_means_the_same_alone_and_among_others() -> None:
    layers = np.random.default_rng(0).choice([0.0, 1.0, 2.0, 6.0], N)
    law = law_of(_runs({"param.layers": layers}, {}, layers / 2, measured=True))
    asked = [0.0, 1.0, 2.0, 6.0, 12.0]

    chances = ask(law, batch_size=[64.0] * 5, param_layers=asked)
    alone = [ask(law, batch_size=[64.0], param_layers=[value]).item() for value in asked]

    assert chances == pytest.approx(alone, rel=1e-12)
    assert chances[0] - chances[-1] > 0.5
