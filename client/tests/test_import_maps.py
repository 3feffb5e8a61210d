"""The small grammar of `--map`, and what it refuses."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainfare_client.importers.expressions import Cell, ExpressionError, evaluate, parse
from trainfare_client.importers.faults import RowError
from trainfare_client.importers.fields import NUMBERS, PLAIN_FIELDS, RESOURCES, STATUSES

from app.domain.runs import RunStatus
from app.services.uploads import fields as of_service
from client.tests.importing import Importing, written


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a*0.001", 0.002),
        ("a + b * 3", 14.0),
        ("(a + b) * 3", 18.0),
        ("-a", -2.0),
        ("1e3 / a", 500.0),
        ("2 - 1 - 1", 0.0),
        ("[Wall time (s)] / b", 2.5),
        ("x.y_z", "word"),
        ("gone", None),
        ("gone * 2", None),
    ],
)
def test_expressions_are_arithmetic_over_columns(text: str, value: object) -> None:
    cells: dict[str, Cell] = {"a": "2", "b": 4, "Wall time (s)": " 10 ", "x.y_z": "word"}

    assert evaluate(parse(text), cells) == value


@pytest.mark.parametrize(
    "text",
    [
        *["", "a +", "(a", "a)", "a b", "__import__('os')", "a ** 2", "a; b", "1..2", "$a"],
        *["a" * 501, "(" * 60 + "a" + ")" * 60],
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text)


@given(st.text(max_size=60))
def test_no_text_does_more_than_being_refused(text: str) -> None:
    try:
        node = parse(text)
    except ExpressionError:
        return

    try:
        value = evaluate(node, {})
    except RowError:
        return
    assert value is None or math.isfinite(float(value))


@pytest.mark.parametrize("text", ["a / 0", "w * 2", "n + 1", "1e300 * 1e300"])
def test_cells_that_give_no_number_are_faults_of_their_row(text: str) -> None:
    with pytest.raises(RowError):
        evaluate(parse(text), {"a": 1, "w": "1,5", "n": "nan"})


def test_fields_are_those_of_the_service() -> None:
    assert set(PLAIN_FIELDS) == set(of_service.PLAIN_FIELDS)
    assert set(RESOURCES) == set(of_service.RESOURCES)
    assert set(STATUSES) == set(RunStatus)
    assert set(of_service.NUMBER_RULES) == NUMBERS


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--map", "batchsize=a"], "Did you mean 'batch_size'?"),
        (["--map", "duration_s=a+"], "ends too early"),
        (["--map", "duration_s"], "gives no value"),
        (["--map", "duration_s=elapsd"], "Did you mean 'elapsed'?"),
        (["--map", "epochs=elapsed", "--set", "epochs=3"], "given twice"),
        (["--set", "param.workers=3"], "no field 'param.workers'"),
    ],
)
def test_wrong_map_is_refused_with_the_remedy(
    option: list[str], said: str, importing: Importing, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.csv", "workload,elapsed\nw,1\n")

    answer = importing("csv", file, "--dry-run", *option)

    assert answer.exit_code == 2
    assert said in answer.err
    assert answer.out == ""
