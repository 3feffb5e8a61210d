"""Numbers of an artefact that do not fit what its header says of them: refused."""

from collections.abc import Callable

import pytest

from models import ArtifactError, FloatArray, HardwareDescription, dumps, fit_portfolio, loads
from models.artefacts.parts import HARDWARE
from models.artefacts.serialization import ARRAYS
from tests.models.forging import Artefact
from tests.models.workloads import grid, make_runs

_HARDWARE = {
    "V100": HardwareDescription(15.7, 125.0, 16.0, 900.0),
    "K80": HardwareDescription(4.1, None, 12.0, 240.0),
    "T4": HardwareDescription(8.1, 65.0, 16.0, 320.0),
}


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000), repetitions=2))
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=60, hardware=_HARDWARE)
    return Artefact(dumps(portfolio))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda part: part[:-8], "more numbers than it has"),
        (lambda part: part + bytes(8), "more numbers than it declares"),
        (lambda part: part[:-1], "do not fit together"),
        (lambda _: b"", "more numbers than it has"),
    ],
)
def test_other_count_of_numbers_is_refused(
    artefact: Artefact, change: Callable[[bytes], bytes], reason: str
) -> None:
    hostile = artefact.with_part(ARRAYS, change(artefact.part(ARRAYS)))

    with pytest.raises(ArtifactError, match=reason):
        loads(hostile)


@pytest.mark.parametrize(
    ("place", "figure"), [(0, 0.0), (0, -1.0), (1, -5.0), (2, -16.0), (3, 0.0)]
)
def test_data_sheet_that_describes_nothing_is_refused(
    artefact: Artefact, place: int, figure: float
) -> None:
    sheets = artefact.array(HARDWARE)
    sheets[1, place] = figure

    with pytest.raises(ArtifactError, match="a figure of a data sheet is not positive"):
        loads(artefact.with_array(HARDWARE, sheets))


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("regime.interpolation", lambda array: 2 * array, "weights are no shares"),
        ("regime.interpolation", lambda array: -array, "weights are no shares"),
        ("memory.repeated", lambda array: array[::-1], "rows are none"),
        ("memory.repeated", lambda array: array + 0.5, "rows are none"),
        ("memory.ranges", lambda array: array[:, ::-1], "repetitions are turned round"),
        ("memory.half_widths", lambda array: 0 * array, "a half width is not positive"),
        ("memory.name_lengths", lambda array: array + 0.5, "a name's length is none"),
        ("transfer.counts", lambda array: 0 * array, "a combination has no run"),
    ],
)
def test_numbers_that_no_fit_gives_are_refused(
    artefact: Artefact, name: str, change: Callable[[FloatArray], FloatArray], reason: str
) -> None:
    hostile = artefact.with_array(name, change(artefact.array(name)))

    with pytest.raises(ArtifactError, match=reason):
        loads(hostile)


def test_range_that_is_turned_round_is_refused(artefact: Artefact) -> None:
    header = artefact.header()
    feature = header["encoder"]["numeric"][0]
    feature["low"], feature["high"] = feature["high"], feature["low"]

    with pytest.raises(ArtifactError, match="a range is turned round"):
        loads(artefact.with_header(header))


@pytest.mark.parametrize("end", ["low", "high"])
def test_missing_value_that_stands_for_one_beyond_the_range_is_refused(
    artefact: Artefact, end: str
) -> None:
    header = artefact.header()
    feature = header["encoder"]["numeric"][0]
    feature["fill"] = feature[end] + (0.5 if end == "high" else -0.5)

    with pytest.raises(ArtifactError, match="a missing value is out of range"):
        loads(artefact.with_header(header))


def test_report_with_a_word_that_is_not_known_is_refused(artefact: Artefact) -> None:
    header = artefact.header()
    header["report"]["spare"] = 1

    with pytest.raises(ArtifactError, match="FitReport has not the keys"):
        loads(artefact.with_header(header))


@pytest.mark.parametrize("names", [["V100"], ["V100", "V100", "T4"], [1, 2, 3], "V100", None])
def test_data_sheets_without_names_of_their_own_are_refused(
    artefact: Artefact, names: object
) -> None:
    header = artefact.header()
    header["encoder"]["hardware"] = names

    with pytest.raises(ArtifactError, match="do not fit together"):
        loads(artefact.with_header(header))


@pytest.mark.parametrize("same", [None, [], {"memory.X": "nowhere"}, {"controls": "memory.X"}])
def test_array_that_equals_none_is_refused(artefact: Artefact, same: object) -> None:
    header = artefact.header()
    header["same_arrays"] = same

    with pytest.raises(ArtifactError):
        loads(artefact.with_header(header))
