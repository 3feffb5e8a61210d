"""What an artefact remembers of its runs, made up by somebody: refused before it is used."""

from collections.abc import Callable

import pytest

from models import ArtifactError, dumps, fit_portfolio, loads
from models.artefacts.parts import KEYS, RUNS
from tests.models.forging import Artefact
from tests.models.workloads import fit, grid, make_runs


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    return Artefact(dumps(fit(make_runs(grid((1, 2, 4, 8), (1000, 2000), repetitions=2)))))


@pytest.fixture(scope="module")
def trees() -> Artefact:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    names = ["scaling_law", "residual_trees"]
    return Artefact(dumps(fit_portfolio(runs, seed=0, time_budget_s=60, regressors=names)))


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        (KEYS, lambda part: part[:-16], "do not fit together"),
        (KEYS, lambda part: part[:-1], "do not fit together"),
        (KEYS, lambda part: part[16:] + part[-16:], "there twice"),
        (RUNS, lambda part: part + b"x", "do not fit their lengths"),
        (RUNS, lambda part: part[:-1], "do not fit their lengths"),
        (RUNS, lambda part: part[:-1] + b"\xff", "UnicodeDecodeError"),
    ],
)
def test_forged_names_of_runs_are_refused(
    artefact: Artefact, part: str, change: Callable[[bytes], bytes], reason: str
) -> None:
    hostile = artefact.with_part(part, change(artefact.part(part)))

    with pytest.raises(ArtifactError, match=reason):
        loads(hostile)


@pytest.mark.parametrize("name", ["name_lengths", "name_counts", "repeated", "held_out"])
@pytest.mark.parametrize("value", [-1.0, 0.5, 1e20])
def test_forged_numbers_of_what_is_remembered_are_refused(
    artefact: Artefact, name: str, value: float
) -> None:
    numbers = artefact.array(f"memory.{name}")
    numbers[0] = value
    changed = artefact.with_array(f"memory.{name}", numbers)

    if name == "held_out" and value < 1:
        assert loads(changed).memory.held_out[0] == value
        return
    with pytest.raises(ArtifactError):
        loads(changed)


@pytest.mark.parametrize(
    ("name", "reason"), [("residual_trees/trees.values", "a leaf adds more than any log duration")]
)
def test_numbers_that_no_fit_gives_are_refused_though_no_control_meets_them(
    trees: Artefact, name: str, reason: str
) -> None:
    values = trees.array(f"member/{name}")
    values[:] = 1e18

    with pytest.raises(ArtifactError, match=reason):
        loads(trees.with_array(f"member/{name}", values))


@pytest.mark.parametrize("center", [251.0, -900.0])
def test_center_that_is_no_log_duration_is_refused(artefact: Artefact, center: float) -> None:
    header = artefact.header()
    header["center"] = center

    with pytest.raises(ArtifactError, match="no log duration"):
        loads(artefact.with_header(header))


@pytest.mark.parametrize("sds", [[0.15, 0.12, 900.0], [0.15, 1e18, 0.1], [-0.1, 0.1, 0.1]])
def test_deviations_of_levels_that_no_fit_gives_are_refused(
    artefact: Artefact, sds: list[float]
) -> None:
    header = artefact.header()
    header["effects"]["gpu_type"]["sds"] = sds

    with pytest.raises(ArtifactError, match="deviation is out of range"):
        loads(artefact.with_header(header))
