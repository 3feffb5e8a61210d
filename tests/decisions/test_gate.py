"""The gate of CI reports: error budget, practical size, verdicts and exit codes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.decisions.gate import GatedRun, combine, exit_code, holm, judge
from app.domain.ci import Gate, GateVerdict

PASS, WARN, FAIL = GateVerdict.PASS, GateVerdict.WARN, GateVerdict.FAIL
UNKNOWN = GateVerdict.INSUFFICIENT_DATA


@given(st.lists(st.floats(0, 1), max_size=20))
def test_adjusted_values_keep_the_order_and_never_shrink(p_values: list[float]) -> None:
    adjusted = holm(p_values)

    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))


@pytest.mark.parametrize("runs", [1, 5, 50])
def test_reports_without_a_change_fail_as_often_as_stated(runs: int) -> None:
    rng = np.random.default_rng(1)
    gate = Gate(fail_probability=0.05, min_effect=0.0)

    failed = [
        FAIL in judge([GatedRun(float(p), 1.5) for p in rng.uniform(size=runs)], gate)
        for _ in range(2000)
    ]

    assert 0.03 < np.mean(failed) < 0.07


@pytest.mark.parametrize(
    ("p_value", "ratio", "expected"),
    [
        (1e-9, 1.2, FAIL),
        (1e-9, 1.049, PASS),
        (1e-9, 0.5, PASS),
        (0.02, 1.2, WARN),
        (0.2, 1.2, PASS),
    ],
)
def test_a_failure_needs_both_kinds_of_size(
    p_value: float, ratio: float, expected: GateVerdict
) -> None:
    assert judge([GatedRun(p_value, ratio)], Gate()) == [expected]


@pytest.mark.parametrize(
    ("verdicts", "has_drift", "expected"),
    [
        ([PASS, WARN, FAIL], False, FAIL),
        ([PASS, WARN], False, WARN),
        ([PASS, UNKNOWN], False, PASS),
        ([UNKNOWN], False, UNKNOWN),
        ([PASS], True, WARN),
        ([UNKNOWN], True, WARN),
    ],
)
def test_the_worst_known_run_decides(
    verdicts: list[GateVerdict],
    has_drift: bool,  # noqa: FBT001 - a parameter of the test
    expected: GateVerdict,
) -> None:
    assert combine(verdicts, has_drift=has_drift) is expected


@pytest.mark.parametrize(
    ("verdict", "on_insufficient_data", "expected"),
    [(PASS, PASS, 0), (WARN, PASS, 0), (FAIL, PASS, 1), (UNKNOWN, PASS, 0), (UNKNOWN, FAIL, 1)],
)
def test_only_a_failure_ends_a_step_with_one(
    verdict: GateVerdict, on_insufficient_data: GateVerdict, expected: int
) -> None:
    assert exit_code(verdict, Gate(on_insufficient_data=on_insufficient_data)) == expected
