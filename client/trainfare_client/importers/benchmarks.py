"""Benchmark files of CI: github-action-benchmark's, and Bencher's metric format."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.asked import Asked
from trainfare_client.importers.expressions import as_float, number_in
from trainfare_client.importers.faults import Report, RowError, SourceError
from trainfare_client.importers.lines import parsed, read_document
from trainfare_client.importers.naming import run_key, slug
from trainfare_client.importers.rows import ImportedRow
from trainfare_client.importers.units import duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.options import Options

_DATA_JS: Final = re.compile(rb"\s*window\.BENCHMARK_DATA\s*=\s*")
_NO_ACTION_FILE: Final = (
    "Name data.js of the action's branch (gh-pages), its JSON, or the JSON list that the action"
    " reads (name, value, unit)."
)
_NO_BMF: Final = (
    'Name JSON as {"benchmark": {"latency": {"value": 88.0}}}, what bencher run --dry-run and'
    " adapters print."
)
_OTHER_UNIT: Final = "benchmarks whose unit is not a time"


def read_action(paths: Sequence[str], report: Report, options: Options) -> Iterator[ImportedRow]:
    """Yield the benchmarks of github-action-benchmark: its history, or the results of one build.

    Raises
    ------
    SourceError
        If a file is neither.
    """
    names = _Names(options)
    for path in paths:
        content = read_document(path)
        data = parsed(path, _DATA_JS.sub(b"", content, count=1).rstrip().rstrip(b";"))
        for place, bench, known in _benches(path, data):
            row = _guarded(_action_row, place, bench, known, report, names)
            if row is not None:
                yield row


def read_bencher(paths: Sequence[str], report: Report, options: Options) -> Iterator[ImportedRow]:
    """Yield the benchmarks in Bencher Metric Format; a list of such objects holds iterations.

    Raises
    ------
    SourceError
        If a file is not such an object.
    UnknownNameError
        If a requested measure is in no benchmark.
    """
    names, asked = _Names(options), Asked("--measure", "measure", dict(options.measures))
    wanted = dict(options.measures) or {"latency": "ns"}
    for path in paths:
        data = parsed(path, read_document(path))
        for iteration, results in enumerate(data if isinstance(data, list) else [data]):
            if not isinstance(results, dict) or not results:
                raise SourceError(path, "It is not in Bencher Metric Format.", _NO_BMF)
            for name, measures in results.items():
                asked.meet(measures if isinstance(measures, dict) else ())
                place = f"{path}: {name}"
                known = {"iteration": iteration, "measures": wanted}
                row = _guarded(_bencher_row, place, {name: measures}, known, report, names)
                if row is not None:
                    yield row
    asked.check()


class _Names:
    """Names the workloads of benchmarks, and ensures that no two become the same."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._taken: dict[str, str] = {}

    def fields(self, name: str) -> dict[str, Cell]:
        """Return the fields derived from a benchmark's name.

        Raises
        ------
        RowError
            If another benchmark has become the same workload.
        """
        if self.options.has_workload:
            return {"param.benchmark": name[:500], "label.benchmark": name[:500]}
        workload = slug(name)
        taken = self._taken.setdefault(workload, name)
        if taken != name:
            raise RowError(
                f"{name[:60]!r} and {taken[:60]!r} would both be the workload {workload!r}.",
                "Import them under one --workload, with the parameter benchmark.",
            )
        return {"workload": workload, "label.benchmark": name[:500]}

    def key(self, source: str, *parts: object) -> str | None:
        """Return the key of a benchmark's run; None if nothing in the file identifies it."""
        given = [] if self.options.key is None else [self.options.key]
        known = [*given, *(str(part) for part in parts if part not in {None, ""})]
        return run_key(source, *known) if len(known) > 1 else None


def _guarded(
    make: Any, place: str, bench: Any, known: Mapping[str, Any], report: Report, names: _Names
) -> ImportedRow | None:
    try:
        row: ImportedRow | None = make(place, bench, known, names)
    except RowError as error:
        report.add(place, error.message, error.remedy)
        return None
    if row is None:
        report.leave_out(_OTHER_UNIT)
    return row


def _benches(path: str, data: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    if isinstance(data, list):
        for number, bench in enumerate(data):
            yield f"{path}: [{number}]", bench, {}
        return
    suites = data.get("entries") if isinstance(data, dict) else None
    if not isinstance(suites, dict):
        raise SourceError(path, "It is not a file of github-action-benchmark.", _NO_ACTION_FILE)
    for suite, builds in suites.items():
        for number, build in enumerate(builds if isinstance(builds, list) else [builds]):
            place = f"{path}: entries[{json.dumps(suite)}][{number}]"
            if not isinstance(build, dict) or not isinstance(build.get("benches"), list):
                raise SourceError(place, "The build has no list of benches.", _NO_ACTION_FILE)
            for position, bench in enumerate(build["benches"]):
                known = {"suite": suite, **build}
                yield f"{place}.benches[{position}]", bench, known


def _action_row(
    place: str, bench: Any, known: Mapping[str, Any], names: _Names
) -> ImportedRow | None:
    if not isinstance(bench, dict) or not isinstance(bench.get("name"), str):
        raise RowError("It is not a benchmark with a name.", _NO_ACTION_FILE)
    name, unit = bench["name"], str(bench.get("unit") or "")
    seconds = duration_s(_number(bench.get("value")), unit)
    if seconds is None:
        return None
    commit = known.get("commit")
    commit_id = commit.get("id") if isinstance(commit, dict) else None
    suite, made_ms = known.get("suite"), known.get("date")
    fields: dict[str, Cell] = {
        **names.fields(name),
        "status": "succeeded",
        "duration_seconds": seconds,
        "started_at": _instant(made_ms),
        "external_id": names.key("github-action-benchmark", commit_id, made_ms, suite, name),
        "label.git_sha": commit_id if isinstance(commit_id, str) else None,
        "label.suite": suite,
        "label.range": str(bench["range"])[:500] if bench.get("range") else None,
    }
    told: dict[str, Cell] = {key: cell for key, cell in bench.items() if _is_cell(cell)}
    return ImportedRow(place, fields, {**told, "suite": suite, "commit": str(commit_id or "")})


def _bencher_row(
    place: str, bench: Any, known: Mapping[str, Any], names: _Names
) -> ImportedRow | None:
    ((name, measures),) = bench.items()
    if not isinstance(measures, dict):
        raise RowError("It has no measures.", _NO_BMF)
    facts: dict[str, Cell] = {"benchmark": name}
    for measure, metric in measures.items():
        if not isinstance(metric, dict):
            raise RowError(f"Its measure {measure!r} has no value.", _NO_BMF)
        facts |= {f"{measure}.{part}": cell for part, cell in metric.items() if _is_cell(cell)}
    found = [measure for measure in known["measures"] if measure in measures]
    if not found:
        return None
    value = _number(measures[found[0]].get("value"))
    seconds = duration_s(value, known["measures"][found[0]])
    key = names.key("bencher", name, known["iteration"]) if names.options.key else None
    fields: dict[str, Cell] = {
        **names.fields(name),
        "status": "succeeded",
        "duration_seconds": seconds,
        "external_id": key,
    }
    return ImportedRow(place, fields, facts)


def _number(value: object) -> float:
    if isinstance(value, str):
        value = number_in(value, "value")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = as_float(value)
        if math.isfinite(number):
            return number
    raise RowError("Its value is not a number.", "Correct the file.")


def _is_cell(cell: object) -> bool:
    return isinstance(cell, (str, int, float)) and not isinstance(cell, bool)


def _instant(milliseconds: object) -> str | None:
    if not isinstance(milliseconds, int) or not 0 < milliseconds < 1 << 47:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat()
