"""Benchmark files of CI: github-action-benchmark's, and Bencher's metric format."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.asked import RequestedNames
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
_ACTION_REMEDY: Final = (
    "Name data.js of the action's branch (gh-pages), its JSON, or the JSON list that the action"
    " reads (name, value, unit)."
)
_BMF_REMEDY: Final = (
    'Name JSON as {"benchmark": {"latency": {"value": 88.0}}}, what bencher run --dry-run and'
    " adapters print."
)
_NOT_A_TIME: Final = "benchmarks whose unit is not a time"


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
        for place, bench, context in _benches(path, data):
            row = _checked_row(_action_row, place, bench, context, report, names)
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
    names, wanted = (
        _Names(options),
        RequestedNames("--measure", "measure", dict(options.measures)),
    )
    units = dict(options.measures) or {"latency": "ns"}
    for path in paths:
        data = parsed(path, read_document(path))
        for iteration, results in enumerate(data if isinstance(data, list) else [data]):
            if not isinstance(results, dict) or not results:
                raise SourceError(path, "It is not in Bencher Metric Format.", _BMF_REMEDY)
            for name, measures in results.items():
                wanted.observe(measures if isinstance(measures, dict) else ())
                place = f"{path}: {name}"
                context = {"iteration": iteration, "measures": units}
                row = _checked_row(_bencher_row, place, {name: measures}, context, report, names)
                if row is not None:
                    yield row
    wanted.check()


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
        first_name = self._taken.setdefault(workload, name)
        if first_name != name:
            raise RowError(
                f"{name[:60]!r} and {first_name[:60]!r} would both be the workload {workload!r}.",
                "Import them under one --workload, with the parameter benchmark.",
            )
        return {"workload": workload, "label.benchmark": name[:500]}

    def key(self, source: str, *parts: str | int | None) -> str | None:
        """Return the key of a benchmark's run; None if nothing in the file identifies it."""
        own = [] if self.options.key is None else [self.options.key]
        identifiers = [*own, *(str(part) for part in parts if part not in {None, ""})]
        return run_key(source, *identifiers) if len(identifiers) > 1 else None


def _checked_row(
    build_row: Any,
    place: str,
    bench: Any,
    context: Mapping[str, Any],
    report: Report,
    names: _Names,
) -> ImportedRow | None:
    try:
        row: ImportedRow | None = build_row(place, bench, context, names)
    except RowError as error:
        report.add(place, error.message, error.remedy)
        return None
    if row is None:
        report.leave_out(_NOT_A_TIME)
    return row


def _benches(path: str, data: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    if isinstance(data, list):
        for number, bench in enumerate(data):
            yield f"{path}: [{number}]", bench, {}
        return
    suites = data.get("entries") if isinstance(data, dict) else None
    if not isinstance(suites, dict):
        raise SourceError(path, "It is not a file of github-action-benchmark.", _ACTION_REMEDY)
    for suite, builds in suites.items():
        for number, build in enumerate(builds if isinstance(builds, list) else [builds]):
            place = f"{path}: entries[{json.dumps(suite)}][{number}]"
            if not isinstance(build, dict) or not isinstance(build.get("benches"), list):
                raise SourceError(place, "The build has no list of benches.", _ACTION_REMEDY)
            for position, bench in enumerate(build["benches"]):
                context = {"suite": suite, **build}
                yield f"{place}.benches[{position}]", bench, context


def _action_row(
    place: str, bench: Any, context: Mapping[str, Any], names: _Names
) -> ImportedRow | None:
    if not isinstance(bench, dict) or not isinstance(bench.get("name"), str):
        raise RowError("It is not a benchmark with a name.", _ACTION_REMEDY)
    name, unit = bench["name"], str(bench.get("unit") or "")
    seconds = duration_s(_number(bench.get("value")), unit)
    if seconds is None:
        return None
    commit = context.get("commit")
    commit_id = commit.get("id") if isinstance(commit, dict) else None
    commit_id = commit_id if isinstance(commit_id, str) else None
    suite, date_ms = context.get("suite"), context.get("date")
    date_ms = date_ms if isinstance(date_ms, int) else None
    fields: dict[str, Cell] = {
        **names.fields(name),
        "status": "succeeded",
        "duration_seconds": seconds,
        "started_at": _instant(date_ms),
        "external_id": names.key("github-action-benchmark", commit_id, date_ms, suite, name),
        "label.git_sha": commit_id,
        "label.suite": suite,
        "label.range": str(bench["range"])[:500] if bench.get("range") else None,
    }
    facts: dict[str, Cell] = {key: cell for key, cell in bench.items() if _is_cell(cell)}
    return ImportedRow(place, fields, {**facts, "suite": suite, "commit": commit_id or ""})


def _bencher_row(
    place: str, bench: Any, context: Mapping[str, Any], names: _Names
) -> ImportedRow | None:
    ((name, measures),) = bench.items()
    if not isinstance(measures, dict):
        raise RowError("It has no measures.", _BMF_REMEDY)
    facts: dict[str, Cell] = {"benchmark": name}
    for measure, metric in measures.items():
        if not isinstance(metric, dict):
            raise RowError(f"Its measure {measure!r} has no value.", _BMF_REMEDY)
        facts |= {f"{measure}.{part}": cell for part, cell in metric.items() if _is_cell(cell)}
    available = [measure for measure in context["measures"] if measure in measures]
    if not available:
        return None
    value = _number(measures[available[0]].get("value"))
    seconds = duration_s(value, context["measures"][available[0]])
    key = names.key("bencher", name, context["iteration"]) if names.options.key else None
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


def _instant(milliseconds: int | None) -> str | None:
    if milliseconds is None or not 0 < milliseconds < 1 << 47:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat()
