"""Reports the outcome: log lines, annotations, a job summary, outputs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.ci.builds import GITHUB
from trainfare_client.ci.comments import MARKER
from trainfare_client.streams import report_unwritable
from trainfare_client.wording import say_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from trainfare_client.ci.builds import Build
    from trainfare_client.documents import CiReport

_ANNOTATION_KINDS: Final = {"fail": "error", "warn": "warning"}
_MAX_ANNOTATIONS: Final = 10
"""GitHub shows ten of each kind per step."""


def write_line(line: str) -> None:
    """Write a line to standard output; if that fails, the exit code does not change."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError as error:
        report_unwritable(error, "Warning")


def annotate(build: Build, kind: str, text: str) -> None:
    """Write a line to standard output, on GitHub as an annotation of a given kind.

    Parameters
    ----------
    build
        The build that runs.
    kind
        `error`, `warning` or `notice`.
    text
        One sentence.
    """
    if build.system == GITHUB:
        write_line(f"::{kind} title=Trainfare::{_escaped(text)}")
    else:
        write_line(f"{kind.capitalize()}: {text}")


def write_findings(
    report: CiReport, build: Build, *, on_insufficient_data: str | None = None
) -> None:
    """Write a report's findings: its sentence, and what is wrong with single runs.

    Parameters
    ----------
    report, build
        The report of a build.
    on_insufficient_data
        What the build makes of runs that could not be judged; None: as `pass`.
    """
    write_line(report["summary"])
    for kind, text in list(_findings(report))[:_MAX_ANNOTATIONS]:
        annotate(build, kind, text)
    if report["verdict"] == "insufficient_data":
        kind = _ANNOTATION_KINDS.get(on_insufficient_data or "", "notice")
        annotate(build, kind, report["summary"])


def _findings(report: CiReport) -> Iterator[tuple[str, str]]:
    """Yield the kind and sentence of each finding, the most severe first."""
    runs = sorted(report["runs"], key=lambda run: run["verdict"] != "fail")
    for run in runs:
        if run["verdict"] in _ANNOTATION_KINDS:
            yield _ANNOTATION_KINDS[run["verdict"]], _sentence(run)
    for drift in report["drift"]:
        change = f"{drift['change_ratio'] - 1:+.1%}"
        yield "warning", f"{drift['workload']}: durations creep up, {change} by now."


def _sentence(run: Mapping[str, Any]) -> str:
    expected = run["expected_seconds"]
    name = run["external_id"] or run["run_id"]
    band = f"{say_seconds(expected['lower'])} to {say_seconds(expected['upper'])}"
    return (
        f"{run['workload']} {name} took {say_seconds(run['observed_seconds'])} s; the forecast was"
        f" {say_seconds(expected['median'])} s ({band}): {run['ratio'] - 1:+.1%}."
    )


def append_summary(file: Path, markdown: str) -> None:
    """Append a comment to a job summary, without its hidden marker."""
    lines = [line for line in markdown.splitlines() if not line.startswith(MARKER)]
    _append(file, "\n".join(lines) + "\n")


def append_outputs(file: Path, outputs: Mapping[str, str]) -> None:
    """Append the outputs of a step in GitHub's format."""
    _append(file, "".join(f"{name}={value}\n" for name, value in outputs.items()))


def _append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text)


def _escaped(text: str) -> str:
    r"""Return a message escaped for a workflow command.

    Examples
    --------
    >>> _escaped("10% slower\nthan forecast")
    '10%25 slower%0Athan forecast'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
