"""`trainfare demo`: all steps from measured runs to a recommendation, on this machine."""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import stamina
from rich.markup import escape

from app.cli.asking import show_forecasts, show_recommendation
from app.cli.connection import Connection, connected, path_of
from app.cli.failures import FitFailedError, RefusedError, UsageError
from app.cli.following import fit_all_runs
from app.cli.output import out, print_note, print_table
from app.cli.processes.background import BackgroundService, background_service
from app.cli.questions import Question, question_about
from app.cli.schema import migrate_schema
from app.cli.surroundings import make_data_folder
from app.cli.uploading import upload
from app.cli.wording import percent
from app.domain.identifiers import parse_slug
from app.domain.wording import say_seconds
from app.services.access import keys_required
from app.services.uploads.csv_rows import read_csv
from app.services.uploads.faults import FaultCollector
from app.settings import Settings

_READY_TIMEOUT_S: Final = 60.0
_RANKED: Final = 3
_WHERE_PROFILES_ARE: Final = (
    "Go to the folder of Trainfare's source, which has examples, or name one of your CSV files with"
    " --profiles."
)
_WITHOUT_KEYS: Final = (
    "Set TRAINFARE_REQUIRE_KEYS=false for the demo, and TRAINFARE_DATA_DIR to a new folder if its"
    " runs are not to join yours."
)


def run_demo(settings: Settings, *, port: int, profiles: Path, exit_after: bool) -> None:
    """Set up, upload, fit, forecast and recommend; then keep the service running.

    Raises
    ------
    CommandError
        If a step fails.
    """
    files = sorted(profiles.glob("*.csv"))
    if not files:
        raise UsageError(f"There is no profile in {profiles}.", _WHERE_PROFILES_ARE)
    local = settings.model_copy(update={"host": "127.0.0.1", "port": port, "web_workers": 1})
    if keys_required(local):
        raise UsageError("The settings demand keys, and the demo has none.", _WITHOUT_KEYS)
    signal.signal(signal.SIGTERM, _end)
    _headline("Setting up", f"database {local.shown_database}")
    print_note(migrate_schema(local))
    make_data_folder(local)
    with background_service(local, local.data_dir / "demo.log") as service:
        url = service.wait_for_url()
        with connected(url, None) as connection:
            _wait_until_ready(connection, service)
            example = _tour(connection, files)
        if exit_after:
            _headline("Done", "service and fitter have stopped")
            return
        _keep_running(service, url, example)


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def _headline(title: str, detail: str) -> None:
    out.print(f"\n[bold]{escape(title)}[/bold] [dim]{escape(detail)}[/dim]")


def _wait_until_ready(connection: Connection, service: BackgroundService) -> None:
    @stamina.retry(on=RefusedError, timeout=_READY_TIMEOUT_S, attempts=None, wait_max=1.0)
    def probe() -> None:
        connection.probe("/readyz")

    try:
        probe()
    except RefusedError:
        raise service.failure() from None
    print_note("Service and fitter are up.")


def _tour(connection: Connection, files: list[Path]) -> str:
    """Show all steps and return the path of a forecast to try next."""
    _headline("Uploading measured runs", "trainfare upload examples/profiles/*.csv")
    # The database may hold other workloads; the tour shows those of its profiles.
    workloads = sorted(set().union(*(_upload(connection, file) for file in files)))
    _headline("Fitting a regressor for each workload", "trainfare fit WORKLOAD")
    print_table([_fit(connection, workload) for workload in workloads])
    questions = [question_about(connection, workload) for workload in workloads]
    for question in questions:
        _recommend(connection, question, _forecast(connection, question))
    return questions[0].path_of_one


def _upload(connection: Connection, file: Path) -> set[str]:
    """Upload a profile and return its workloads."""
    answer = upload(connection, file, {}, again=True)
    out.print(f"{file.name}: {answer['created']} new, {answer['duplicates']} known already")
    if answer["runs"] is not None:
        return {run["workload"] for run in answer["runs"]}
    # The answer lists runs only for small files.
    with file.open("rb") as body:
        chunks = read_csv(body, FaultCollector())
        names = {name for chunk in chunks for name in chunk.columns["workload"]}
    return {slug for name in names if (slug := parse_slug(str(name)))}


def _fit(connection: Connection, workload: str) -> dict[str, object]:
    fit = fit_all_runs(connection, workload, {})
    if fit["state"] != "succeeded":
        problem = fit.get("problem") or {}
        raise FitFailedError(f"The fit of {workload} {fit['state']}: {problem.get('detail')}")
    candidates = sorted(fit["candidates"], key=lambda candidate: -candidate["weight"])
    best = candidates[0]
    return {
        "workload": workload,
        "version": fit["regressor_version"],
        "candidates": len(candidates),
        "largest weight": best["regressor"],
        "its error on runs left out (MAPE)": percent(best["mape"]),
    }


def _forecast(connection: Connection, question: Question) -> list[dict[str, Any]]:
    _headline(f"What would {question.workload} take?", question.sentence)
    path = path_of(question.workload, "forecast")
    document = connection.get(path, params=question.what_if, required="forecasts")
    forecasts: list[dict[str, Any]] = document["forecasts"]
    show_forecasts(forecasts)
    return forecasts


def _recommend(connection: Connection, question: Question, forecasts: list[dict[str, Any]]) -> None:
    bounds = sorted(forecast["duration_seconds"]["upper"] for forecast in forecasts)
    deadline_s = bounds[len(bounds) // 2]
    goal = f"the cheapest that is done within {say_seconds(deadline_s)}"
    _headline(f"Which configuration for {question.workload}?", goal)
    request = {**question.recommendation, "deadline_s": deadline_s, "limit": _RANKED}
    show_recommendation(connection.post("/v1/recommendations", request, required="recommended"))


def _keep_running(service: BackgroundService, url: str, example: str) -> None:
    _headline(f"The service runs at {url}", "its reference: /docs")
    # On one line, so that it can be copied.
    line = f"  curl -H 'Accept: text/plain' '{url}{example}'"
    out.print(line, markup=False, soft_wrap=True)
    try:
        print_note("Ctrl-C ends service and fitter.")
        service.wait()
    except KeyboardInterrupt:
        print_note("Ending service and fitter ...")
