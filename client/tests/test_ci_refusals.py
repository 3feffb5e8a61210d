"""Refused runs of a CI report, said in the terms of the files that they came from."""

import pytest
from trainfare_client import ProblemError
from trainfare_client.ci.refusals import RefusedRunsError
from trainfare_client.ci.sources import TableRun


@pytest.mark.parametrize(
    ("field", "cell", "refused", "explanation"),
    [
        ("workers", "eight", "eight", "workers is not a number. Write a number, such as 4 or 0.5."),
        ("workers", "-1", -1, "It is refused. Correct it."),
        ("gpu_type", "T99", "T99", "It is refused. Correct it."),
        ("param.width", "24x", "24x", "It is refused. Correct it."),
    ],
)
def test_a_cell_that_lacks_a_number_is_recognised_by_the_refused_value(
    field: str, cell: str, refused: str | int, explanation: str
) -> None:
    fault = {"message": "It is refused.", "remedy": "Correct it."}
    problem = {
        "code": "invalid_rows",
        "errors": [{"row": 1, "field": field, "value": refused} | fault],
    }

    error = RefusedRunsError([TableRun({field: cell}, "a.csv, row 1")], ProblemError(422, problem))

    assert error.lines == [f"a.csv, row 1, {field} {cell!r}: {explanation}"]
