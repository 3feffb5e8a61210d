"""Tables in CI reports: their cells have no types."""

from pathlib import Path

import pytest
from trainfare_client import Client

from client.tests.ci_steps import Step, stored
from client.tests.runs import make_run

pytestmark = pytest.mark.lengthy


def test_cells_of_a_category_may_look_like_numbers(
    step: Step, service_url: str, workload: str
) -> None:
    with Client(service_url) as client:
        for precision in ("16", "bf16"):
            client.runs.upload(make_run(workload, parameters={"precision": precision, "depth": 50}))
    table = "workload,duration_seconds,workers,param.precision,param.depth"
    Path("runs.csv").write_text(f"{table}\n{workload},5,1,16,50\n{workload},5,2,bf16,101\n")

    result = step.report("runs.csv")

    assert result.code == 0, result.out
    with Client(service_url) as client:
        stored_parameters = [run["parameters"] for run in client.runs.all(workload, excluded=None)]
    assert {"precision": "16", "depth": 50} in stored_parameters[:2]


def test_column_of_a_new_parameter_has_one_type(step: Step, client: Client, workload: str) -> None:
    table = "workload,duration_seconds,param.precision,param.depth"
    Path("first.csv").write_text(f"{table}\n{workload},5,16,50\n{workload},5,bf16,101\n")
    Path("next.csv").write_text(f"{table}\n{workload},5,fp8,50\n{workload},5,32,deep\n")

    first = step.report("first.csv")
    later = step.report("next.csv")

    assert first.code == 0, first.out
    parameters = [run["parameters"] for run in stored(client, workload)]
    assert {"precision": "16", "depth": 50} in parameters
    assert later.code == 4
    assert "next.csv, row 2, param.depth 'deep'" in later.out
    assert "row 1" not in later.out


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{workload},5", "row 2: it has more or fewer cells than the header"),
        ("{workload},5,1,2", "row 2: it has more or fewer cells than the header"),
        ('{workload},"5,1', "row 2: unexpected end of data"),
    ],
)
def test_row_that_cannot_be_understood_is_named(
    step: Step, workload: str, row: str, said: str
) -> None:
    rows = [f"{workload},5,1", row.format(workload=workload), f"{workload},5,1"]
    Path("runs.csv").write_text("\n".join(["workload,duration_seconds,workers", *rows, ""]))

    result = step.report("runs.csv")

    assert result.code == 2
    assert f"runs.csv cannot be understood: {said}." in result.out
