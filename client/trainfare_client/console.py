"""The command `trainfare-client`, for machines without the service installed."""

from __future__ import annotations

import argparse
import errno
import importlib
import json
import sys
from typing import TYPE_CHECKING, Final

from trainfare_client.categories import numbers_sent_as_text
from trainfare_client.errors import (
    ServiceFailedError,
    SettingsError,
    TrainfareError,
    UnreachableError,
)
from trainfare_client.options import add_service
from trainfare_client.settings import read_settings
from trainfare_client.spool import Spool
from trainfare_client.streams import open_streams, report_unwritable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainfare_client.spool import FlushReport

_REFUSED = 1
_USAGE_ERROR = 2
_UNREACHABLE = 3
_INTERRUPTED = 130
_WRITE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE})
_EPILOG: Final = (
    "Exit codes: 0 done; 1 refused; 2 wrong usage; 3 the service does not answer; 130 interrupted."
)
# Commands with many options of their own, each loaded only when used.
_DELEGATED: Final = {
    "import": (
        "trainfare_client.importers.command",
        "import runs from Spark, Slurm, Kubernetes, MLflow, W&B, benchmarks, tables",
    ),
    "ci": ("trainfare_client.ci.command", "report runs of a CI build: trainfare-client ci report"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `trainfare-client`; return the exit code."""
    open_streams()
    try:
        exit_code = _main(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _WRITE_ERRORS:
            raise
        report_unwritable(error)
        return _REFUSED
    return exit_code


def _main(arguments: list[str]) -> int:
    if arguments and arguments[0] in _DELEGATED:
        module, _ = _DELEGATED[arguments[0]]
        return int(importlib.import_module(module).main(arguments[1:], program="trainfare-client"))
    # Slow to load: the delegated commands do without it.
    from importlib.metadata import version  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        prog="trainfare-client",
        description="Brings measured runs to the service.",
        epilog=_EPILOG,
    )
    shown = f"trainfare-client {version('trainfare-client')}"
    parser.add_argument("--version", action="version", version=shown)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_options(commands.add_parser("flush", help="upload the spooled runs"))
    _add_options(commands.add_parser("waiting", help="count the spooled runs"))
    for name, (_, help_text) in _DELEGATED.items():
        commands.add_parser(name, help=help_text)
    return _run(parser.parse_args(arguments))


def flush(arguments: Sequence[str]) -> int:
    """Run `trainfare flush`, its name on the service's command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="trainfare flush", description="Upload spooled runs.", epilog=_EPILOG
    )
    _add_options(parser)
    parser.set_defaults(command="flush")
    return _run(parser.parse_args(arguments))


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_service(parser)
    parser.add_argument("--spool", help="the spool file (TRAINFARE_SPOOL)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> int:
    try:
        settings = read_settings(url=options.url, api_key=options.api_key, spool=options.spool)
        if options.command == "waiting":
            _print_counts(options, {"waiting": Spool(settings.spool).waiting()})
            return 0
        # Only a flush needs the client.
        from trainfare_client._sync.client import Client  # noqa: PLC0415

        with Client(settings=settings) as client:
            report = client.flush()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Flush again: no run is stored twice.\n")
        return _INTERRUPTED
    except TrainfareError as error:
        sys.stderr.write(f"Error: {error.message}\n")
        sys.stderr.write(f"Remedy: {error.remedy}\n" if error.remedy else "")
        if isinstance(error, SettingsError):
            return _USAGE_ERROR
        is_unavailable = isinstance(error, (UnreachableError, ServiceFailedError))
        return _UNREACHABLE if is_unavailable else _REFUSED
    return _print_report(options, report, Spool(settings.spool).rejected)


def _print_report(options: argparse.Namespace, report: FlushReport, rejected: Path) -> int:
    counts = {
        "created": report.created,
        "duplicates": report.duplicates,
        "refused": len(report.refused),
        "unreadable": report.unreadable,
    }
    _print_counts(options, counts)
    sentences = [text for answer in report.answers for text in numbers_sent_as_text(answer)]
    for text in dict.fromkeys(sentences):
        sys.stderr.write(f"{text}\n")
    for reason in report.refused:
        sys.stderr.write(f"Refused: {reason}\n")
    if report.refused or report.unreadable:
        sys.stderr.write(f"What was refused or unreadable is in {rejected}.\n")
        return _REFUSED
    return 0


def _print_counts(options: argparse.Namespace, counts: dict[str, int]) -> None:
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    sys.stdout.write((json.dumps(counts) if options.json else text) + "\n")
