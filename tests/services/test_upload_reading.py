"""Uploads are read in bounded pieces and judged row by row, whatever their form."""

import csv
import io
from math import isnan
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.domain.errors import (
    DomainError,
    InvalidRequestError,
    TooManyRowsError,
    UnknownFieldError,
)
from app.services.uploads.content import _number_texts, number_text
from app.services.uploads.csv_rows import read_csv
from app.services.uploads.faults import FaultCollector
from app.services.uploads.fields import NUMBER_RULES
from app.services.uploads.formulas import guard_formula
from app.services.uploads.json_rows import read_json
from app.services.uploads.json_values import read_document
from app.services.uploads.numbers import read_numbers
from app.services.uploads.reading import CheckedUpload, read_upload
from app.services.uploads.separators import is_filled
from app.services.uploads.terms import UploadFormat

pytestmark = pytest.mark.lengthy

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("rows", [5, 6])
def test_more_rows_than_the_limit_are_refused(rows: int) -> None:
    csv_file = io.BytesIO(b"workload,duration_seconds\n" + b"a,1\n" * rows)
    lines = io.BytesIO(b'{"workload": "a"}\n' * rows)

    for chunks in (
        read_csv(csv_file, FaultCollector(), max_rows=5),
        read_json(lines, FaultCollector(), lines=True, max_rows=5),
    ):
        if rows > 5:
            with pytest.raises(TooManyRowsError, match="more than 5 rows"):
                list(chunks)
        else:
            assert sum(chunk.sent for chunk in chunks) == 5


@pytest.mark.parametrize("empty", [10, 11])
def test_empty_rows_are_bounded_too(empty: int) -> None:
    csv_file = io.BytesIO(b"workload,duration_seconds\n" + b"\n" * empty)
    chunks = read_csv(csv_file, FaultCollector(), max_rows=5)

    if empty > 10:
        with pytest.raises(TooManyRowsError, match="more than 10 rows"):
            list(chunks)
    else:
        assert sum(chunk.sent for chunk in chunks) == 0


@given(st.lists(_JSON, max_size=8), st.sampled_from([None, 2]))
def test_arrays_are_read_element_by_element(values: list[object], indent: int | None) -> None:
    option = orjson.OPT_INDENT_2 if indent else None
    body = io.BytesIO(orjson.dumps(values, option=option))

    assert list(read_document(body)) == values


@given(_JSON.filter(lambda value: not isinstance(value, list)))
def test_any_other_value_is_the_only_element(value: object) -> None:
    assert list(read_document(io.BytesIO(orjson.dumps(value)))) == [value]


def _read_anyhow(upload_format: UploadFormat, body: bytes) -> CheckedUpload | DomainError:
    try:
        return read_upload(io.BytesIO(body), upload_format, str)
    except DomainError as error:
        return error


@given(st.sampled_from(UploadFormat), st.binary(max_size=200))
def test_any_bytes_are_judged_or_refused(upload_format: UploadFormat, body: bytes) -> None:
    outcome = _read_anyhow(upload_format, body)

    if isinstance(outcome, DomainError):
        assert isinstance(outcome, InvalidRequestError | UnknownFieldError)
        assert str(outcome)
    else:
        assert outcome.total_rows == len(outcome.faults.bad_rows) + sum(map(len, outcome.chunks))


_CELLS = st.sampled_from(
    ["", "a", "5", "-1", "nan", "2026-11-01T10:00:00Z", "fp16", "=x", '"', " ", "1e400", "é"]
)
_COLUMNS = st.lists(
    st.sampled_from(["workload", "duration_seconds", "workers", "started_at", "ended_at"])
    | st.sampled_from(["cost_usd", "cost_amount", "cost_currency", "param.x", "label.y"]),
    min_size=1,
    max_size=8,
    unique=True,
)


@given(_COLUMNS, st.lists(st.lists(_CELLS, min_size=8, max_size=8), min_size=1, max_size=6))
def test_each_row_of_a_file_is_good_or_named(columns: list[str], rows: list[list[str]]) -> None:
    table = [row[: len(columns)] for row in rows]
    # Empty rows do not count; a file of nothing else has no runs.
    counted = sum(map(is_filled, table))
    assume(counted)
    lines = io.StringIO()
    csv.writer(lines).writerows([columns, *table])

    outcome = read_upload(io.BytesIO(lines.getvalue().encode()), UploadFormat.CSV, str)

    good = {row for chunk in outcome.chunks for row in chunk.rows.tolist()}
    named = {fault.row for fault in outcome.faults.named}
    assert good | named == set(range(1, counted + 1))
    assert not good & named


@given(st.text())
def test_guarded_texts_start_with_no_formula(text: str) -> None:
    assert not guard_formula(text).startswith(("=", "+", "-", "@"))


@given(st.lists(st.floats(0.001, 1e6) | st.none(), min_size=1))
def test_numbers_are_the_same_from_text_and_json(values: list[float | None]) -> None:
    rule = NUMBER_RULES["dataset_size"]
    cells = ["" if value is None else repr(value) for value in values]

    from_text = read_numbers(cells, rule, is_typed=False)
    from_json = read_numbers(values, rule, is_typed=True)

    assert not from_text.is_bad.any()
    assert from_text.values.tolist() == pytest.approx(from_json.values.tolist(), nan_ok=True)


@pytest.mark.parametrize(
    "odd", ["null", "true", "1,2", "[1]", '"1"', "1]", "[1", "nan", "1_0", "1e400", "{}", "1 2"]
)
@pytest.mark.parametrize("others", [["5", "6.5"], ["", "6.5"]])
def test_a_cell_that_is_no_number_is_the_only_bad_one(odd: str, others: list[str]) -> None:
    column = read_numbers([*others, odd, "7"], NUMBER_RULES["dataset_size"], is_typed=False)

    assert column.is_bad.tolist() == [False, False, True, False]
    np.testing.assert_array_equal(
        column.values, [float(others[0] or "nan"), 6.5, float("nan"), 7.0]
    )


@pytest.mark.parametrize("text", ["+5", "5.", ".5e1", "05", " 5 ", "5e0", "50E-1"])
def test_numbers_that_json_would_not_take_are_read_all_the_same(text: str) -> None:
    column = read_numbers(["1", text, ""], NUMBER_RULES["dataset_size"], is_typed=False)

    assert not column.is_bad.any()
    np.testing.assert_array_equal(column.values, [1.0, 5.0, float("nan")])


_CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 9),
    st.floats(0, 9),
    st.text("ab", max_size=2),
    st.lists(st.none(), max_size=1),
)
_JSON_RUNS = st.fixed_dictionaries(
    {"workload": st.just("a")},
    optional={
        "duration_seconds": _CELLS,
        "workers": _CELLS,
        "param.depth": _CELLS,
        "nonsense": _CELLS,
        "configuration": st.one_of(
            _CELLS, st.dictionaries(st.sampled_from(["workers", "nodes", "x"]), _CELLS)
        ),
        "parameters": st.one_of(_CELLS, st.dictionaries(st.sampled_from(["depth", "lr"]), _CELLS)),
    },
)
_KNOWN_NAMES = {
    "workload": "a",
    "duration_seconds": 1,
    "param.other": 2,
    "configuration": {"workers": 1, "nodes": 1},
    "parameters": {"depth": 1, "lr": 1},
}


def _read_row(runs: list[object], row: int) -> tuple[dict[str, object], list[object]]:
    """Return the cells and the faults of one row."""
    faults, body = FaultCollector(), io.BytesIO(b"\n".join(map(orjson.dumps, runs)))
    [chunk] = read_json(body, faults, lines=True)
    place = chunk.rows.tolist().index(row) if row in chunk.rows else None
    cells = {} if place is None else {name: cells[place] for name, cells in chunk.columns.items()}
    named = [(fault.field, fault.message) for fault in faults.named if fault.row == row]
    unknown = [(fault.field, fault.message) for fault in faults.unknown_fields]
    return {name: cell for name, cell in cells.items() if cell is not None}, [*named, *unknown]


@given(_JSON_RUNS)
def test_runs_are_read_alike_whether_their_names_were_seen_before_or_not(run: object) -> None:
    alone = _read_row([run], 1)
    after_others = _read_row([_KNOWN_NAMES, run], 2)

    assert after_others == alone


_FORM: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"workload": st.just("a")},
    optional={
        **dict.fromkeys(("duration_seconds", "workers", "param.depth", "nonsense"), _CELLS),
        **dict.fromkeys(
            ("configuration", "parameters", "labels", "work"),
            st.fixed_dictionaries(
                {}, optional=dict.fromkeys(("workers", "depth", "epochs"), _CELLS)
            ),
        ),
    },
)


@st.composite
def _twins(draw: st.DrawFn) -> list[dict[str, object]]:
    """Return runs that have the names of the first, and mostly cells of its kinds."""
    first = draw(_FORM)
    usual: dict[type, st.SearchStrategy[object]] = {int: st.integers(0, 9), str: st.text("ab")}

    def twin(value: object) -> object:
        if isinstance(value, dict):
            return {name: twin(inner) for name, inner in value.items()}
        return draw(usual.get(type(value), _CELLS))

    return [first, *({name: twin(value) for name, value in first.items()} for _ in range(2))]


def _read_whole(body: bytes, *, lines: bool) -> tuple[object, ...]:
    """Return the chunk of a body without its empty columns, and its faults."""
    faults = FaultCollector()
    [chunk] = read_json(io.BytesIO(body), faults, lines=lines)
    columns = {
        name: list(cells)
        for name, cells in chunk.columns.items()
        if any(cell is not None for cell in cells)
    }
    return columns, chunk.rows.tolist(), chunk.sent, faults.named, faults.unknown_fields


@given(_twins())
def test_lines_of_one_form_are_read_as_the_elements_of_an_array(
    runs: list[dict[str, object]],
) -> None:
    as_lines = _read_whole(b"\n".join(map(orjson.dumps, runs)), lines=True)

    assert as_lines == _read_whole(orjson.dumps(runs), lines=False)


def test_lines_are_read_across_blocks_with_every_row_in_its_place() -> None:
    runs = [{"workload": "a", "label.text": "x" * (index % 700)} for index in range(5000)]
    body = b"\xef\xbb\xbf" + b"\r\n".join([*map(orjson.dumps, runs), b"", b" ", b"{oops", b""])
    faults = FaultCollector()

    chunks = list(read_json(io.BytesIO(body), faults, lines=True))

    texts = [text for chunk in chunks for text in chunk.columns["label.text"]]
    assert texts == [run["label.text"] for run in runs]
    assert [row for chunk in chunks for row in chunk.rows.tolist()] == list(range(1, 5001))
    assert [fault.row for fault in faults.named] == [5001]


@pytest.mark.parametrize("length", [(1 << 20) - 1, 1 << 20])
def test_a_line_may_have_a_mebibyte_with_its_end(length: int) -> None:
    line = b'{"workload": "%b"}' % (b"a" * (length - 16))
    chunks = read_json(io.BytesIO(line + b"\n" + line), FaultCollector(), lines=True)

    if length < 1 << 20:
        assert sum(chunk.sent for chunk in chunks) == 2
    else:
        with pytest.raises(InvalidRequestError, match="longer than one MiB"):
            list(chunks)


@given(st.lists(st.floats(allow_infinity=False), min_size=1))
def test_numbers_of_a_column_are_written_as_each_alone(values: list[float]) -> None:
    expected = ["" if isnan(value) else number_text(value) for value in values]

    assert _number_texts(np.array(values)) == expected


@given(st.lists(st.floats(1e-4, 1e15, exclude_max=True), min_size=1))
def test_usual_numbers_of_a_column_are_written_as_each_alone(values: list[float]) -> None:
    assert _number_texts(np.array(values)) == [number_text(value) for value in values]


@pytest.mark.parametrize("rows_behind", [3, 20_000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_quote_that_nothing_closes_is_told_by_the_row_that_it_begins_in(
    rows_behind: int, end: str
) -> None:
    lines = ["workload,duration_seconds,label.note", 'w,1,"a', 'b"', 'w,2,"c']
    body = end.join([*lines, *["w,3,d"] * rows_behind])

    with pytest.raises(InvalidRequestError, match=r"\(the row that begins in line 4\)\. Check its"):
        read_upload(io.BytesIO(body.encode()), UploadFormat.CSV, str)


def test_a_quote_that_is_out_of_place_is_told_by_its_line() -> None:
    body = b'workload,duration_seconds\n"a\nb",5\n"w"x,5\n'

    with pytest.raises(InvalidRequestError, match=r"\(line 4\)\. Check its quotes\."):
        read_upload(io.BytesIO(body), UploadFormat.CSV, str)


def test_lines_of_nothing_but_blanks_are_no_rows() -> None:
    body = b"  \nworkload,duration_seconds\nw,1\n \t\nw,2\n   "

    upload = read_upload(io.BytesIO(body), UploadFormat.CSV, str)

    assert (upload.total_rows, len(upload.faults.bad_rows)) == (2, 0)
