"""Exceptions travel between processes whole: pools of processes send them to their parents."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any, Final

import pytest
from trainfare_client import errors
from trainfare_client.ci import comments, refusals
from trainfare_client.errors import ProblemError, TrainfareError
from trainfare_client.importers import asked, faults, mapping, opening
from trainfare_client.launchers import estimates

_DEFINED_IN: Final = (errors, comments, refusals, asked, faults, mapping, opening, estimates)
_FIT: Final = {"fit_id": "fit_1", "state": "failed", "problem": {"detail": "no idea"}}
_PROBLEM: Final = {
    "code": "invalid_rows",
    "title": "Bad rows",
    "detail": "One row is bad.",
    "remedy": "Mend it.",
    "errors": [{"row": 1, "field": "epochs", "message": "It is negative.", "remedy": "Mend it."}],
}
_REFUSED: Final = ProblemError(422, _PROBLEM, retry_after_s=7.0)
_FAULT: Final = faults.Fault("runs.csv, line 2", "It is negative.", "Mend it.")
_OTHERS: Final[dict[type[TrainfareError], TrainfareError]] = {
    errors.UndeliveredError: errors.UndeliveredError(OSError("gone"), "spool.jsonl"),
    errors.LostRunError: errors.LostRunError("w", TypeError("no mapping")),
    errors.FitFailedError: errors.FitFailedError(_FIT),
    errors.FitTimeoutError: errors.FitTimeoutError(_FIT, 2.0),
    refusals.RefusedRunsError: refusals.RefusedRunsError([{"external_id": "r1"}], _REFUSED),
    faults.ImportRefusedError: faults.ImportRefusedError("1 row is bad.", faults=(_FAULT,)),
    faults.SourceError: faults.SourceError("runs.csv", "It is empty.", "Name another."),
    opening.TruncatedError: opening.TruncatedError("runs.csv", "It is cut.", "Copy it again."),
}


def _kinds(kind: type[TrainfareError]) -> Iterator[type[TrainfareError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _made(kind: type[TrainfareError]) -> TrainfareError:
    if issubclass(kind, ProblemError):
        return kind(422, _PROBLEM, retry_after_s=7.0)
    return _OTHERS.get(kind) or kind("It is so.", "Do this.")


def _told(error: TrainfareError) -> tuple[type[TrainfareError], str, dict[str, Any]]:
    return type(error), str(error), vars(error)


@pytest.mark.parametrize("kind", sorted(set(_kinds(TrainfareError)), key=str))
def test_every_exception_is_pickled_and_copied_with_all_that_it_tells(
    kind: type[TrainfareError],
) -> None:
    error = _made(kind)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert _told(pickle.loads(pickle.dumps(error, protocol))) == _told(error)
    assert _told(copy.copy(error)) == _told(error)
    assert _told(copy.deepcopy(error)) == _told(error)


def test_every_module_with_exceptions_is_looked_at() -> None:
    named = {module.__name__ for module in _DEFINED_IN}

    assert {kind.__module__ for kind in _kinds(TrainfareError)} == named


def test_faults_are_told_in_sentences() -> None:
    fault = {"field": "workers", "message": "Input should be 1 or more", "remedy": "See /docs."}

    message = str(ProblemError(422, {**_PROBLEM, "errors": [fault, {"message": "It is so"}]}))

    assert message.endswith("Mend it. workers: Input should be 1 or more. See /docs. It is so.")
