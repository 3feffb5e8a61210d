"""The command `trainfare ci report`: new runs in, the build's exit code out."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.ci.builds import Build, read_build
from trainfare_client.ci.comments import CommentError, post_comment, thread_of
from trainfare_client.ci.refusals import RefusedRunsError
from trainfare_client.ci.sources import CollectedRun, read_files, with_categories
from trainfare_client.ci.telling import (
    annotate,
    append_outputs,
    append_summary,
    write_findings,
    write_line,
)
from trainfare_client.errors import (
    ProblemError,
    QuotaExceededError,
    ServiceFailedError,
    SettingsError,
    SpoolError,
    TrainfareError,
    UnreachableError,
    UploadFileError,
)
from trainfare_client.options import add_service, number
from trainfare_client.requests import encoded, without_none
from trainfare_client.settings import read_settings
from trainfare_client.spool import FlushReport, Spool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainfare_client.documents import CiReport, MeasuredRun
    from trainfare_client.settings import ClientSettings

_USAGE_ERROR: Final = 2
_UNAVAILABLE: Final = 3
_REFUSED: Final = 4
_INTERRUPTED: Final = 130
_EXIT_CODES: Final = (
    "Exit codes: 0 as forecast, worth a look, nothing to compare with yet, or the service is away;"
    " 1 slower than forecast; 2 wrong usage or unreadable runs; 3 the service is away, with"
    " --strict; 4 refused by the service; 130 interrupted."
)


def main(arguments: Sequence[str], *, program: str = "trainfare") -> int:
    """Run `trainfare ci ...`, or the same of another `program`; return the exit code."""
    options = _parser(program).parse_args(arguments)
    _check_gate(options)
    build = _build(options)
    try:
        settings = read_settings(url=options.url, api_key=options.api_key, spool=options.spool)
        with _runs(options, build, settings) as runs:
            report = _send(options, build, settings, runs)
            _publish(options, build, report)
    except (UnreachableError, ServiceFailedError, QuotaExceededError) as error:
        return _report_unavailable(options, build, error)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Report again: no run is stored twice.\n")
        return _INTERRUPTED
    except (SettingsError, SpoolError, UploadFileError, OSError) as error:
        annotate(build, "error", str(error))
        return _USAGE_ERROR
    except TrainfareError as error:
        for line in getattr(error, "lines", ()):
            annotate(build, "error", line)
        annotate(build, "error", str(error))
        return _REFUSED
    return report["exit_code"]


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} ci", description="The CI hook.")
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser(
        "report",
        help="report fresh runs and learn whether they became slower",
        description="Stores fresh runs, and says whether they took longer than forecast.",
        epilog=_EXIT_CODES,
    )
    _add_sources(report)
    _add_build(report)
    _add_gate(report)
    _add_outputs(report)
    return parser


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="runs: .csv, .json, .ndjson")
    parser.add_argument(
        "--from-spool", action="store_true", help="report the runs that collectors kept"
    )
    parser.add_argument("--spool", help="the spool file (TRAINFARE_SPOOL)")
    parser.add_argument("--workload", help="for runs that name none")
    add_service(parser)


def _add_build(parser: argparse.ArgumentParser) -> None:
    origin = "found in the CI system's environment or by git"
    parser.add_argument("--commit", help=origin)
    parser.add_argument("--branch", help=origin)
    parser.add_argument(
        "--base-branch", help="branch whose durations are the normal ones; " + origin
    )
    parser.add_argument("--pull-request", type=int, help=origin)


def _add_gate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-probability", type=number, help="how often an unchanged report may fail (0.01)"
    )
    parser.add_argument(
        "--min-effect", type=number, help="least slow-down that matters, as a fraction (0.05)"
    )
    parser.add_argument("--on-insufficient-data", choices=["pass", "warn", "fail"])
    parser.add_argument("--runs-per-month", type=int, help="for the cost per month")


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", help="write the comment's Markdown to a file")
    parser.add_argument("--summary", help="append it to a file (GITHUB_STEP_SUMMARY)")
    parser.add_argument("--no-comment", action="store_true", help="leave the pull request alone")
    parser.add_argument("--strict", action="store_true", help="fail while the service is away")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _check_gate(options: argparse.Namespace) -> None:
    effect = options.min_effect
    if effect is not None and effect > 1.0:
        sys.stderr.write(
            f"Only runs slower by {100 * effect:g} % fail the build; {effect:g} % would be"
            f" --min-effect {effect / 100:g}.\n"
        )


def _build(options: argparse.Namespace) -> Build:
    detected = read_build()
    build = Build(
        system=detected.system,
        commit=options.commit or detected.commit,
        branch=options.branch or detected.branch,
        base_branch=options.base_branch or detected.base_branch,
        pull_request=options.pull_request or detected.pull_request,
        key=detected.key,
    )
    if build.branch and not build.base_branch:
        sys.stderr.write(
            f"No base branch is known, so runs of {build.branch} count as normal: name it with"
            " --base-branch.\n"
        )
    return build


@contextlib.contextmanager
def _runs(
    options: argparse.Namespace, build: Build, settings: ClientSettings
) -> Iterator[list[dict[str, Any]]]:
    """Yield the runs to report; those from the spool leave it once the report is accepted.

    Runs of other commits, which earlier builds could not deliver, are stored separately: they count
    like any other run, but this build is not judged by them.
    """
    runs = read_files(options.files)
    if not options.from_spool:
        _require_runs(runs)
        yield runs
        return
    spool, report = Spool(settings.spool), FlushReport()
    with spool.flushing():
        own, earlier = build.split(spool.take_all(report))
        runs += [CollectedRun(run) for run in own]
        if earlier:
            _store(build, settings, earlier, spool, report)
        if runs:
            yield runs
        _drop_delivered(build, spool)
    _require_runs(runs)


def _store(
    build: Build,
    settings: ClientSettings,
    runs: list[MeasuredRun],
    spool: Spool,
    report: FlushReport,
) -> None:
    from trainfare_client._sync.flushing import store  # noqa: PLC0415 - loaded when it is used
    from trainfare_client._sync.transport import Transport  # noqa: PLC0415 - as above

    with contextlib.closing(Transport(settings)) as transport:
        store(transport, runs, spool, report)
    for reason in report.refused:
        annotate(build, "warning", f"A run of another commit was refused: {reason}")
    count = f"{report.created + report.duplicates} of {len(runs)}"
    sys.stderr.write(f"Runs of other commits are stored, not judged: {count}.\n")


def _drop_delivered(build: Build, spool: Spool) -> None:
    try:
        spool.drop_taken()
    except SpoolError as error:
        annotate(build, "warning", f"{error} The next report sends its runs again.")


def _require_runs(runs: list[dict[str, Any]]) -> None:
    if not runs:
        raise UploadFileError(
            "There are no runs to report.",
            "Name files of runs, or pass --from-spool where collectors kept them.",
        )


def _send(
    options: argparse.Namespace,
    build: Build,
    settings: ClientSettings,
    runs: list[dict[str, Any]],
) -> CiReport:
    from trainfare_client._sync.client import Client  # noqa: PLC0415 - loaded when it is used

    gate = without_none(
        fail_probability=options.fail_probability,
        min_effect=options.min_effect,
        on_insufficient_data=options.on_insufficient_data,
    )
    context = without_none(
        workload=options.workload,
        commit=build.commit,
        branch=build.branch,
        base_branch=build.base_branch,
        pull_request=build.pull_request,
        runs_per_month=options.runs_per_month,
        gate=gate or None,
    )
    with Client(settings=settings) as client:

        def submit(submitted: list[dict[str, Any]]) -> CiReport:
            key = build.idempotency_key(encoded([submitted, context]))
            return client.ci.report(build.identified(submitted), idempotency_key=key, **context)

        try:
            return submit(runs)
        except ProblemError as error:
            corrected = with_categories(runs, error)
            if corrected is None:
                raise _with_places(runs, error) from error
        try:
            return submit(corrected)
        except ProblemError as error:
            raise _with_places(corrected, error) from error


def _with_places(runs: list[dict[str, Any]], error: ProblemError) -> TrainfareError:
    """Return the error for refused runs with their places, any other error unchanged."""
    has_row_faults = any(fault.get("row") is not None for fault in error.errors)
    return RefusedRunsError(runs, error) if has_row_faults else error


def _publish(options: argparse.Namespace, build: Build, report: CiReport) -> None:
    markdown = report["comment_markdown"]
    if options.json:
        write_line(json.dumps(report))
    else:
        write_findings(report, build, on_insufficient_data=options.on_insufficient_data)
    if options.output:
        file = Path(options.output)
        with _warning_if_unwritable(build, file):
            file.write_text(markdown, encoding="utf-8")
    _write_summary(options, build, markdown)
    outputs = {
        "verdict": report["verdict"],
        "exit-code": str(report["exit_code"]),
        "report-id": report["report_id"],
        "comment-file": options.output or "",
    }
    _write_outputs(build, outputs)
    _comment(options, build, markdown)


@contextlib.contextmanager
def _warning_if_unwritable(build: Build, file: Path) -> Iterator[None]:
    """Warn of a file that cannot be written: the verdict stands."""
    try:
        yield
    except OSError as error:
        annotate(build, "warning", f"{file} cannot be written: {error.strerror}.")


def _write_summary(options: argparse.Namespace, build: Build, markdown: str) -> None:
    summary = options.summary or os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        file = Path(summary)
        with _warning_if_unwritable(build, file):
            append_summary(file, markdown)


def _write_outputs(build: Build, outputs: dict[str, str]) -> None:
    output = os.environ.get("GITHUB_OUTPUT")
    if output:
        file = Path(output)
        with _warning_if_unwritable(build, file):
            append_outputs(file, outputs)


def _comment(options: argparse.Namespace, build: Build, markdown: str) -> None:
    thread = None if options.no_comment else thread_of(build)
    if thread is None:
        return
    try:
        action = post_comment(thread, markdown)
    except CommentError as error:
        # A fork's token may not comment; the verdict stands.
        annotate(build, "warning", str(error))
        return
    sys.stderr.write(f"The comment was {action}.\n")


def _report_unavailable(options: argparse.Namespace, build: Build, error: TrainfareError) -> int:
    """Report that nothing was judged; the build continues unless it is strict."""
    annotate(build, "error" if options.strict else "warning", f"Nothing was judged: {error}")
    _write_summary(options, build, f"### Training cost: not judged\n\n{error.message}\n")
    exit_code = str(_UNAVAILABLE if options.strict else 0)
    _write_outputs(build, {"verdict": "unavailable", "exit-code": exit_code})
    return _UNAVAILABLE if options.strict else 0
