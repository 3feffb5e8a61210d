"""No document does more than being refused: whatever stands in it, the command says so."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.tests.importing import Importing
from client.tests.kubernetes_objects import job, node, pod
from client.tests.spark_logs import word_count

pytestmark = pytest.mark.lengthy

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.just(10**400),
    st.floats(),
    st.text(max_size=8),
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner)
)
_SPARK = word_count().end(60).events
_ACTION = [
    {"entries": {"a": [{"commit": {"id": "c"}, "date": 1, "benches": []}]}},
    [{"name": "a", "value": 1, "unit": "s", "range": "1", "extra": "x"}],
]
_BENCHER = {"a": {"latency": {"value": 1.0, "lower_value": 0.5}}}
_KUBERNETES = {"kind": "List", "items": [job(), pod(), node(), job("gone", 2)]}
_MLFLOW = {
    "runs": [
        {
            "info": {"run_id": "r", "status": "FINISHED", "start_time": 1, "end_time": 9},
            "data": {
                "params": [{"key": "a", "value": "1"}],
                "metrics": [{"key": "m", "value": 1.0}],
                "tags": [{"key": "mlflow.runName", "value": "n"}],
            },
        }
    ]
}


def _places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, ...]] = []
    if isinstance(document, dict):
        inner = [place for key, value in document.items() for place in _places(value, (*path, key))]
    elif isinstance(document, list):
        inner = [
            place
            for number, value in enumerate(document)
            for place in _places(value, (*path, number))
        ]
    return [path, *inner]


def _spoilt(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = json.loads(json.dumps(document))
    target = copy
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return copy


def _written(file: Path, document: Any, *, in_lines: bool) -> Path:
    if in_lines and isinstance(document, list):
        file.write_text("".join(json.dumps(line) + "\n" for line in document))
    else:
        file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize(
    ("source", "document"),
    [
        ("spark", _SPARK),
        ("github-action-benchmark", _ACTION[0]),
        ("github-action-benchmark", _ACTION[1]),
        ("bencher", _BENCHER),
        ("mlflow", _MLFLOW),
        ("kubernetes", _KUBERNETES),
    ],
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25
)
@given(data=st.data())
def test_any_value_anywhere_is_read_or_refused(
    source: str, document: Any, importing: Importing, tmp_path: Path, data: st.DataObject
) -> None:
    place = data.draw(st.sampled_from(_places(document)))
    spoilt = _spoilt(document, place, data.draw(_VALUES))
    file = _written(tmp_path / "document", spoilt, in_lines=source == "spark")

    answer = importing(source, file, "--dry-run", "--workload", "w")

    assert answer.exit_code == (0 if answer.out else 1)
    assert answer.out or "Error: " in answer.err


@pytest.mark.parametrize("source", ["sacct", "csv"])
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25
)
@given(cells=st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=12, max_size=12))
def test_any_cells_are_read_or_refused(
    source: str, cells: list[str], importing: Importing, tmp_path: Path
) -> None:
    columns = "JobID|JobIDRaw|JobName|State|ElapsedRaw|Start|NNodes|AllocCPUS|AllocTRES|Comment"
    columns += "|duration_seconds|status"
    file = tmp_path / "table"
    good = "1|1|a|COMPLETED|5|1|1|1||x|1|succeeded"
    file.write_text(f"{columns}\n{good}\n{'|'.join(cells)}\n", newline="")

    answer = importing(source, file, "--dry-run", "--workload", "w")

    assert answer.exit_code == (0 if answer.out else 1)
    assert answer.out or "Error: " in answer.err
