"""The command `trainfare import`: reads a source, shows its rows or uploads them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Final

from trainfare_client.errors import (
    ServiceFailedError,
    SettingsError,
    TrainfareError,
    UnreachableError,
)
from trainfare_client.importers.asked import OptionError
from trainfare_client.importers.faults import Fault, ImportRefusedError, Report
from trainfare_client.importers.rows import RowFile
from trainfare_client.importers.sources import SOURCES, Source
from trainfare_client.options import add_service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainfare_client.documents import UploadAnswer
    from trainfare_client.importers.mapping import ColumnMap

_REFUSED = 1
_USAGE_ERROR = 2
_UNREACHABLE = 3
_INTERRUPTED = 130
_SHOWN_COLUMNS = 20
_EPILOG: Final = (
    "Exit codes: 0 done; 1 refused, nothing was imported; 2 wrong usage; 3 the service does not"
    " answer; 130 interrupted."
)


def main(arguments: Sequence[str], *, program: str = "trainfare") -> int:
    """Run `trainfare import ...`, or the same of another `program`; return the exit code."""
    options = _parser(program).parse_args(arguments)
    try:
        return _run(options, SOURCES[options.source])
    except TrainfareError as error:
        return _print_error(error)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Import again: no run is stored twice.\n")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of a dry run closed the pipe; what is still buffered is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program} import",
        description="Imports measured runs from what other tools recorded.",
        epilog=_EPILOG,
    )
    sources = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")
    for name, source in SOURCES.items():
        subparser = sources.add_parser(
            name, help=source.help, description=source.description, epilog=_EPILOG
        )
        _add_common(subparser, source)
        source.add_options(subparser)
    return parser


def _add_common(parser: argparse.ArgumentParser, source: Source) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=source.paths)
    parser.add_argument("--workload", help=f"name of the workload (else {source.workload})")
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="FIELD=EXPRESSION",
        help="fill a field from columns: numbers, + - * / and parentheses"
        " (duration_seconds=elapsed_ms*0.001, gpu_type=[GPU type]); repeat for more",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=TEXT",
        help="the same value for all rows (gpu_type=T4); repeat for more",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the rows as CSV and upload nothing"
    )
    parser.add_argument(
        "--skip-invalid", action="store_true", help="import the good rows, name the bad ones"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_service(parser, taken={flag for flag, _ in source.arguments})


def _run(options: argparse.Namespace, source: Source) -> int:
    report = Report()
    with RowFile(options.source) as rows:
        settings = source.options(options)
        rows.fill(source.read(options.paths, report, settings), settings.mapping, report)
        _print_unread(report, settings.mapping)
        if report.fault_count and not options.skip_invalid:
            raise report.refuse()
        _print_left_out(report)
        if not rows.count:
            raise ImportRefusedError("There are no runs to import.", source.nothing)
        if options.dry_run:
            rows.write_csv(sys.stdout)
            return 0
        # Only an upload needs the client.
        from trainfare_client.importers.delivering import upload  # noqa: PLC0415

        answer = upload(rows, options, source.names)
    _print_answer(options, answer, sorted(rows.workloads))
    return 0


def _print_left_out(report: Report) -> None:
    for fault in report.faults:
        sys.stderr.write(f"Left out: {fault.sentence}\n")
    _print_hidden(report.fault_count - len(report.faults))
    for reason, count in sorted(report.notes.items()):
        sys.stderr.write(f"Left out: {count:,} {reason}\n")


def _print_hidden(count: int) -> None:
    """Tell of the bad rows that are counted, but too many to be listed."""
    sys.stderr.write(f"... and {count:,} more.\n" if count > 0 else "")


def _print_unread(report: Report, mapping: ColumnMap) -> None:
    unread = [name for name in report.unread if name not in mapping.columns]
    if unread:
        more = f" and {len(unread) - _SHOWN_COLUMNS} more" if len(unread) > _SHOWN_COLUMNS else ""
        shown = ", ".join(unread[:_SHOWN_COLUMNS])
        sys.stderr.write(f"Not read: the columns {shown}{more}. --map takes them.\n")
    states = [name for name in unread if name.casefold() in {"state", "status"}]
    if states and "status" not in mapping.fields:
        sys.stderr.write(
            f"Without --map status={states[0]} every run counts as succeeded, whatever it says.\n"
        )


def _print_answer(
    options: argparse.Namespace, answer: UploadAnswer, workloads: Sequence[str]
) -> None:
    if options.json:
        sys.stdout.write(json.dumps(answer) + "\n")
        return
    names = workloads[0] if len(workloads) == 1 else f"{len(workloads):,} workloads"
    created, duplicates = answer["created"], answer["duplicates"]
    runs = "run" if created == 1 else "runs"
    sys.stdout.write(f"{names}: {created:,} {runs} created, {duplicates:,} already there\n")
    for row in answer["invalid"]:
        fault = Fault.from_problem(str(row.get("place")), row)
        sys.stderr.write(f"Left out: {fault.sentence}\n")
    _print_hidden(answer["invalid_count"] - len({row.get("row") for row in answer["invalid"]}))
    for warning in answer["warnings"]:
        count = warning["count"]
        rows = "1 row" if count == 1 else f"{count:,} rows"
        text = f"{warning['message']} {warning['remedy']} ({rows})"
        sys.stderr.write(f"Warning: {text}\n")


def _print_error(error: TrainfareError) -> int:
    for fault in getattr(error, "faults", ()):
        sys.stderr.write(f"{fault.sentence}\n")
    _print_hidden(getattr(error, "fault_count", 0) - len(getattr(error, "faults", ())))
    sys.stderr.write(f"Error: {error.message}\n")
    sys.stderr.write(f"Remedy: {error.remedy}\n" if error.remedy else "")
    if isinstance(error, (SettingsError, OptionError)):
        return _USAGE_ERROR
    is_unavailable = isinstance(error, (UnreachableError, ServiceFailedError))
    return _UNREACHABLE if is_unavailable else _REFUSED
