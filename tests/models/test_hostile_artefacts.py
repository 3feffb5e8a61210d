"""Artefacts that somebody made up, hashes and all: refused, or usable, never a crash."""

import hashlib
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor

from models import (
    ArtifactError,
    ConvergenceRuns,
    Evidence,
    FloatArray,
    HardwareDescription,
    MemoryRuns,
    PhaseRuns,
    dumps,
    fit_portfolio,
    loads,
)
from models.artefacts.parts import KEYS, RUNS
from models.artefacts.serialization import ARRAYS, HEADER
from models.candidates import CANDIDATES
from models.errors import DamagedForecastError
from models.estimators.scikit import ScikitRegressor
from models.state.packing import MAGIC, pack, unpack
from tests.models.forging import Artefact
from tests.models.workloads import grid, make_runs

_QUESTIONS = make_runs(grid((1, 3, 16), gpu_types=("V100", "K80", "T4"))).features
_HARDWARE = {
    "V100": HardwareDescription(15.7, 125.0, 16.0, 900.0),
    "K80": HardwareDescription(4.1, None, 12.0, 240.0),
    "T4": HardwareDescription(8.1, 65.0, 16.0, 320.0),
}
_HOSTILE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 7, 2**31, 2**63, 10**400, 1e308, -1e308, 1e-320]),
    st.sampled_from([float("nan"), float("inf"), -0.5, 1e18]),
    st.sampled_from(["", "x", "workers", "nan", "1e999", "interpolation", "y" * 20_000]),
    st.sampled_from([[], {}, [[]], [None], ["x"], {"x": 1}, [1] * 100, [[["x"]]]]),
)
_NUMBERS = st.sampled_from(
    [0.0, -1.0, 1e300, -1e300, 1e-300, 0.5, 1e18, -7.0, 3.0, 1e29, np.nan, np.inf, -np.inf]
)
_SHARE = st.floats(0, 0.999999)


@pytest.fixture(scope="module", autouse=True)
def _forest() -> Any:
    CANDIDATES["forest"] = lambda setting: ScikitRegressor(
        setting.layout, lambda: ExtraTreesRegressor(3, random_state=0)
    )
    yield
    del CANDIDATES["forest"]


def _evidence(memory: MemoryRuns) -> Evidence:
    """Return evidence of every kind that an artefact may hold."""
    seconds = np.linspace(1.0, 2.0, memory.n_runs)
    phases = PhaseRuns(memory.features, 2 * seconds, {"setup": seconds, "compute": seconds / 2})
    batches = np.array([64.0, 256.0, 1024.0])
    convergence = ConvergenceRuns(batches, 1e6 + 1e3 * batches)
    return Evidence(memory=memory, convergence=convergence, phases=phases)


@pytest.fixture(scope="module")
def artefact(_forest: Any) -> Artefact:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    peaks = np.linspace(2e9, 9e9, runs.n_runs)
    memory = MemoryRuns(runs.features, np.zeros(runs.n_runs, dtype=np.bool_), peaks)
    names = ["scaling_law", "gaussian_process", "held_process", "residual_trees", "forest"]
    portfolio = fit_portfolio(
        runs,
        seed=0,
        time_budget_s=600,
        regressors=names,
        hardware=_HARDWARE,
        evidence=_evidence(memory),
    )
    assert "forest" in portfolio.members
    return Artefact(dumps(portfolio))


def _sealed(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).digest() + body


def _places(value: object) -> list[tuple[Any, Any]]:
    """Return every container and key of a header."""
    if isinstance(value, dict):
        children: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        return []
    found = [(value, key) for key, _ in children]
    return found + [place for _, child in children for place in _places(child)]


def _is_refused_or_useful(hostile: bytes) -> None:
    try:
        portfolio = loads(hostile)
    except ArtifactError:
        return
    with np.errstate(all="ignore"):
        try:
            forecast = portfolio.predict(_QUESTIONS)
        except DamagedForecastError:
            # Numbers that are sane at the measured configurations but nowhere else.
            return
        lower, upper = forecast.interval(0.9)
    assert np.isfinite(upper).all()
    assert (lower > 0).all()
    portfolio.support(_QUESTIONS)
    portfolio.feasibility(_QUESTIONS)
    with np.errstate(all="ignore"):
        lessons = portfolio.taught_by(_QUESTIONS)
    assert all(np.isfinite(lesson.influence) for each in lessons for lesson in each)
    for shares in portfolio.explain(_QUESTIONS):
        assert sum(shares.values()) == pytest.approx(1.0 if shares else 0.0)
    if portfolio.convergence is not None:
        mean, variance = portfolio.convergence.moments(np.array([1.0, 1e9]))
        assert np.isfinite(mean).all()
        assert (variance > 0).all()
    loads(dumps(portfolio))


@settings(max_examples=200, deadline=None)
@given(share=_SHARE, is_kept=st.booleans(), value=_HOSTILE)
def test_forged_header_is_refused_or_useful(
    artefact: Artefact, *, share: float, is_kept: bool, value: object
) -> None:
    header = artefact.header()
    places = _places(header)
    container, key = places[int(share * len(places))]
    if is_kept:
        container[key] = value
    else:
        del container[key]

    _is_refused_or_useful(artefact.with_header(header))


@settings(max_examples=60, deadline=None)
@given(share=_SHARE, other=_SHARE)
def test_header_with_two_places_exchanged_is_refused_or_useful(
    artefact: Artefact, share: float, other: float
) -> None:
    header = artefact.header()
    places = _places(header)
    one, two = places[int(share * len(places))], places[int(other * len(places))]
    one[0][one[1]], two[0][two[1]] = two[0][two[1]], one[0][one[1]]

    try:
        text = json.dumps(header)
    except ValueError:  # a container that holds itself is no JSON
        return
    _is_refused_or_useful(artefact.with_header(json.loads(text)))


@settings(max_examples=120, deadline=None)
@given(share=_SHARE, length=st.integers(1, 40), value=_NUMBERS)
def test_forged_numbers_are_refused_or_useful(
    artefact: Artefact, share: float, length: int, value: float
) -> None:
    block = artefact.block()
    start = int(share * len(block))
    block[start : start + length] = value

    _is_refused_or_useful(artefact.with_block(block))


@settings(max_examples=100, deadline=None)
@given(share=_SHARE, value=_NUMBERS)
def test_forged_arrays_are_refused_or_useful(
    artefact: Artefact, share: float, value: float
) -> None:
    names = [name for name, _ in artefact.header()["arrays"]]
    name = names[int(share * len(names))]

    _is_refused_or_useful(artefact.with_array(name, np.full_like(artefact.array(name), value)))


@settings(max_examples=60, deadline=None)
@given(share=_SHARE, flip=st.integers(1, 255))
def test_damaged_archive_under_a_right_hash_is_refused_or_useful(
    artefact: Artefact, share: float, flip: int
) -> None:
    body = bytearray(artefact.data[len(MAGIC) + 32 :])
    # Half of the damage goes to the table at the start, which is as telling as the data.
    place = int(2 * share * len(body)) if share < 0.5 else int(240 * (share - 0.5))
    body[place] ^= flip

    _is_refused_or_useful(_sealed(bytes(body)))


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i8", "<c16"])
def test_numbers_of_another_type_are_refused(artefact: Artefact, dtype: str) -> None:
    with pytest.raises(ArtifactError):
        loads(artefact.with_part(ARRAYS, artefact.block().astype(dtype).tobytes()))


@pytest.mark.parametrize("part", [HEADER, ARRAYS, KEYS, RUNS])
def test_artefact_without_a_part_is_refused(artefact: Artefact, part: str) -> None:
    parts = unpack(artefact.data)
    del parts[part]

    with pytest.raises(ArtifactError):
        loads(pack(parts))


def _node(row: int, column: int, value: float) -> Callable[[FloatArray], None]:
    def change(nodes: FloatArray) -> None:
        split = np.flatnonzero(nodes[:, 2] >= 0)[row]
        nodes[split, column] = value

    return change


def _circle(nodes: FloatArray) -> None:
    split = np.flatnonzero(nodes[:, 2] >= 0)
    nodes[split[-1], 2] = split[0]


def _ladder(nodes: FloatArray) -> None:
    nodes[:, 0], nodes[:, 2:4] = 0.0, -1.0
    nodes[:-1, 2] = nodes[:-1, 3] = np.arange(1, len(nodes))


@pytest.mark.parametrize(
    "change",
    [
        _node(0, 0, 99.0),
        _node(0, 0, -1.0),
        _node(0, 0, 0.5),
        _node(0, 2, 1e9),
        _node(0, 2, 1.5),
        _node(0, 3, -5.0),
        _node(0, 3, 0.0),
        _circle,
        _ladder,
    ],
)
def test_nodes_that_form_no_tree_are_refused(
    artefact: Artefact, change: Callable[[FloatArray], None]
) -> None:
    nodes = artefact.array("member/forest/form.nodes")
    change(nodes)

    with pytest.raises(ArtifactError, match=r"child|feature|deep"):
        loads(artefact.with_array("member/forest/form.nodes", nodes))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"form": "oracle"}, "'oracle' is not known"),
        ({"form": None}, "not known"),
        ({"form": ["trees"]}, "not known"),
        ({"form": "chain", "form.parts": 10**9}, "too many"),
        ({"form": "chain", "form.parts": 0}, "no parts"),
        ({"form": "chain", "form.parts": 1}, "not known"),
        ({"form.divisor": 0.0}, "divided by nothing"),
        ({"form.divisor": 5}, "another type"),
        ({"form.divisor": float("inf")}, "JSONDecodeError"),
        ({"form.is_single": 1}, "another type"),
        (
            {
                "form" + ".0" * depth + end: value
                for depth in range(8)
                for end, value in (("", "chain"), (".parts", 1))
            },
            "nested too deep",
        ),
        ({f"x{index}": "trees" for index in range(3000)}, "too many forms"),
    ],
)
def test_forged_form_is_refused(artefact: Artefact, values: dict[str, object], reason: str) -> None:
    header = artefact.header()
    header["members"]["forest"] |= values

    with pytest.raises(ArtifactError, match=reason):
        loads(artefact.with_header(header))


def test_member_of_a_kind_that_is_not_known_is_refused_by_name(artefact: Artefact) -> None:
    header = artefact.header()
    header["member_order"][0] = "oracle"
    header["members"]["oracle"] = {}
    del header["members"][artefact.header()["member_order"][0]]

    with pytest.raises(ArtifactError, match="a regressor 'oracle' that is not known here"):
        loads(artefact.with_header(header))


@pytest.mark.parametrize("library", ["numpy", "scikit-learn", "lightgbm", "python"])
@pytest.mark.parametrize("version", ["0.0.1", "99.0", "made up"])
def test_artefact_of_another_library_version_forecasts_the_same(
    artefact: Artefact, library: str, version: str
) -> None:
    header = artefact.header()
    header["report"]["library_versions"][library] = version

    other = loads(artefact.with_header(header))

    assert other.report.library_versions[library] == version
    np.testing.assert_array_equal(
        other.predict(_QUESTIONS).interval(0.9),
        loads(artefact.data).predict(_QUESTIONS).interval(0.9),
    )


def test_artefact_that_forecasts_otherwise_here_is_refused_with_its_versions(
    artefact: Artefact,
) -> None:
    header = artefact.header()
    header["report"]["library_versions"] = {"numpy": "99.1"}
    controls = artefact.array("controls")
    controls[0, 0, 0] += 0.001
    changed = Artefact(artefact.with_header(header)).with_array("controls", controls)

    with pytest.raises(ArtifactError, match=r"otherwise here .*numpy 99\.1.*fit the workload"):
        loads(changed)


def test_number_that_is_read_otherwise_is_refused(artefact: Artefact) -> None:
    name = "member/forest/form.nodes"
    nodes = artefact.array(name)
    nodes[:, 4] += 0.01

    with pytest.raises(ArtifactError, match="forecasts otherwise here"):
        loads(artefact.with_array(name, nodes))


@pytest.mark.parametrize(
    "text", [b"[" * 200_000, b'{"a":' * 200_000, b"9" * 5_000, b"NaN", b"", b"\xff\xfe", b"[1]"]
)
def test_header_that_is_no_table_is_refused(artefact: Artefact, text: bytes) -> None:
    with pytest.raises(ArtifactError):
        loads(artefact.with_part(HEADER, text))


def test_header_longer_than_any_is_refused(artefact: Artefact) -> None:
    with pytest.raises(ArtifactError, match="longer than any"):
        loads(artefact.with_part(HEADER, b" " * (48 * 2**20 + 1)))


def _peak_bytes(hostile: bytes) -> int:
    tracemalloc.start()
    with pytest.raises(ArtifactError):
        loads(hostile)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("shape", [[2**31], [2**40, 2**40], [10**9, 0, 7], [2**62, 2**62, 2**62]])
def test_absurd_shape_takes_no_memory(artefact: Artefact, shape: list[int]) -> None:
    header = artefact.header()
    header["arrays"][0][1] = shape

    assert _peak_bytes(artefact.with_header(header)) < 32 * 2**20
