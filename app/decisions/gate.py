"""Whether measured runs are slower than forecast: one-sided tests that share an error budget.

A run is judged by the distribution of a new run, never by that of a mean. A failure must be both
statistically and practically significant; an improvement never fails.

Reference: Holm (1979), A simple sequentially rejective multiple test procedure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.ci import Gate, GateVerdict

WARN_PROBABILITY: Final = 0.05
"""A run less likely than this, and slower by at least the least effect, causes a warning."""


@dataclass(frozen=True, slots=True)
class GatedRun:
    """A run compared with its forecast.

    Parameters
    ----------
    p_value
        Probability that a new run takes as long or longer, in [0, 1].
    ratio
        Observed over median forecast duration, positive.
    """

    p_value: float
    ratio: float


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that all tests together have the error probability of one.

    Examples
    --------
    >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    >>> holm([])
    []
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min((len(p_values) - rank) * p_values[index], 1.0))
        adjusted[index] = largest
    return adjusted


def judge(runs: Sequence[GatedRun], gate: Gate) -> list[GateVerdict]:
    """Return a verdict for each run of a report; the runs share one error budget.

    Examples
    --------
    >>> judge([GatedRun(1e-4, 1.2), GatedRun(1e-4, 1.01), GatedRun(0.6, 0.9)], Gate())
    [<GateVerdict.FAIL: 'fail'>, <GateVerdict.PASS: 'pass'>, <GateVerdict.PASS: 'pass'>]
    """
    adjusted = holm([run.p_value for run in runs])
    return [_verdict(p_value, run, gate) for p_value, run in zip(adjusted, runs, strict=True)]


def _verdict(p_value: float, run: GatedRun, gate: Gate) -> GateVerdict:
    if run.ratio < 1.0 + gate.min_effect:
        return GateVerdict.PASS
    if p_value < gate.fail_probability:
        return GateVerdict.FAIL
    return GateVerdict.WARN if p_value < WARN_PROBABILITY else GateVerdict.PASS


def combine(verdicts: Sequence[GateVerdict], *, has_drift: bool) -> GateVerdict:
    """Return the verdict of a report: the worst of its runs; unknown only if all are unknown."""
    known = [verdict for verdict in verdicts if verdict is not GateVerdict.INSUFFICIENT_DATA]
    if GateVerdict.FAIL in known:
        return GateVerdict.FAIL
    if GateVerdict.WARN in known or has_drift:
        return GateVerdict.WARN
    return GateVerdict.PASS if known else GateVerdict.INSUFFICIENT_DATA


def exit_code(verdict: GateVerdict, gate: Gate) -> int:
    """Return the exit code of a CI step: 1 fails the build, 0 does not."""
    if verdict is GateVerdict.INSUFFICIENT_DATA:
        verdict = gate.on_insufficient_data
    return int(verdict is GateVerdict.FAIL)
