"""Measures one database through the service and the fitter's use cases."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import FitRequest
from app.domain.identifiers import Slug
from app.services.computing.task import FitOutcome, InProcessComputer
from app.services.context import ServiceContext
from app.services.fits import FitService
from app.services.fitting import FittingService
from app.settings import Settings
from app.storage.database import Database
from benchmarks.ingest.service import running_service
from benchmarks.scale.filling import LARGEST, ORDINARY, share

_TIMEOUT_S: Final = 60.0
_PAGE: Final = "page_size=100"
_QUICK: Final = FitRequest(regressors=("log_linear",))


@dataclass(frozen=True, slots=True)
class Subject:
    """A filled database with a service that runs on it, and the use cases of its fitter."""

    database: Database
    client: httpx2.Client
    process_id: int
    fits: FitService
    fitting: FittingService
    outcome: FitOutcome
    deep: dict[str, str]

    def cpu_s(self) -> float:
        """Return the CPU seconds of the service so far."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def fit_cpu_s(self) -> float:
        """Return the CPU seconds of a fit of a workload with all regressors."""
        fit, _ = self.fits.request_fit(DEFAULT_PROJECT, Slug(ORDINARY), FitRequest())
        claim = self.fitting.claim("benchmark")
        assert claim is not None
        task = self.fitting.prepare(claim)
        before = time.process_time()
        InProcessComputer().compute(task, lambda _share, _step: None)
        self.fits.cancel(DEFAULT_PROJECT, fit.fit_id)
        self.fitting.leave(claim)
        return time.process_time() - before

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Return the answer, which must be a success."""
        answer = self.client.request(method, path, **options)
        if not answer.is_success:
            raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer


Operation = Callable[[Subject, int], float]
"""Does something once, given the number of the repetition, and returns the seconds it took."""


@contextmanager
def opened(url: str) -> Iterator[Subject]:
    """Yield the subject for the database at `url`, whose workloads have runs."""
    database = Database(url)
    context = ServiceContext(database, Settings(database_url=url))
    fits, fitting = FitService(context), FittingService(context)
    outcome = _fitted(fits, fitting, ORDINARY)
    share(database.engine)
    with (
        running_service(url) as service,
        httpx2.Client(base_url=service.url, timeout=_TIMEOUT_S) as client,
    ):
        deep = {slug: _median_run_id(database, slug) for slug in (ORDINARY, LARGEST)}
        yield Subject(database, client, service.process_id, fits, fitting, outcome, deep)
    database.close()


def _fitted(fits: FitService, fitting: FittingService, slug: str) -> FitOutcome:
    """Fit a workload's last runs and publish the regressor."""
    fits.request_fit(DEFAULT_PROJECT, Slug(slug), _QUICK)
    claim = fitting.claim("benchmark")
    assert claim is not None
    task = fitting.prepare(claim)
    outcome = InProcessComputer().compute(task, lambda _share, _step: None)
    assert fitting.publish(claim, outcome)
    return outcome


def _median_run_id(database: Database, slug: str) -> str:
    """Return the middle identifier of a workload's runs, as the token of a deep page."""
    query = sa.text(
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY r.id) FROM run r"
        " JOIN workload w ON w.id = r.workload_id WHERE w.slug = :slug AND project_id = :project"
    )
    with database.engine.connect() as connection:
        result = connection.execute(query, {"slug": slug, "project": DEFAULT_PROJECT})
        return str(result.scalar_one())


def _timed(action: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    action()
    return time.perf_counter() - started_at


def _upload(slug: str) -> Operation:
    def operate(subject: Subject, number: int) -> float:
        run = {
            "workload": slug,
            "external_id": uuid.uuid4().hex,
            "duration_seconds": 100 + number,
            "gpu_type": "T4",
            "workers": 2 ** (number % 4),
            "dataset_size": 1000 * (1 + number % 8),
            "parameters": {"precision": "fp16", "seq_len": 128},
        }
        return _timed(lambda: subject.request("POST", "/v1/runs", json=run))

    return operate


def _list(slug: str) -> Operation:
    path = f"/v1/workloads/{slug}/runs?{_PAGE}"
    return lambda subject, _: _timed(lambda: subject.request("GET", path))


def _list_workloads(subject: Subject, _number: int) -> float:
    return _timed(lambda: subject.request("GET", f"/v1/workloads?{_PAGE}"))


def _list_deep(slug: str) -> Operation:
    path = f"/v1/workloads/{slug}/runs?{_PAGE}&page_token="
    return lambda subject, _: _timed(lambda: subject.request("GET", path + subject.deep[slug]))


def _forecast(slug: str) -> Operation:
    def operate(subject: Subject, number: int) -> float:
        question = {
            "workload": slug,
            "configuration": {"gpu_type": "T4", "workers": 1 + number % 32},
            "work": {"dataset_size": 1000 + number, "batch_size": 32, "epochs": 1},
            "parameters": {"precision": "fp16", "seq_len": 128},
        }
        return _timed(lambda: subject.request("POST", "/v1/forecasts", json=question))

    return operate


def _request_fit(slug: str) -> Operation:
    def operate(subject: Subject, _number: int) -> float:
        started_at = time.perf_counter()
        answer = subject.request("POST", f"/v1/workloads/{slug}/fits", json={})
        seconds = time.perf_counter() - started_at
        subject.request("POST", f"/v1/fits/{answer.json()['fit_id']}:cancel")
        return seconds

    return operate


def _fit_around_computing(subject: Subject, _number: int) -> float:
    """Claim a fit, read its inputs, publish; the computation does not depend on the database."""
    subject.fits.request_fit(DEFAULT_PROJECT, Slug(ORDINARY), _QUICK)
    started_at = time.perf_counter()
    claim = subject.fitting.claim("benchmark")
    assert claim is not None
    subject.fitting.prepare(claim)
    assert subject.fitting.publish(claim, subject.outcome)
    return time.perf_counter() - started_at


OPERATIONS: Final[dict[str, Operation]] = {
    "upload one more run": _upload(ORDINARY),
    "upload one more run, largest workload": _upload(LARGEST),
    "list of workloads, the largest among them": _list_workloads,
    "first page of runs": _list(ORDINARY),
    "first page of runs, largest workload": _list(LARGEST),
    "deep page of runs": _list_deep(ORDINARY),
    "deep page of runs, largest workload": _list_deep(LARGEST),
    "forecast": _forecast(ORDINARY),
    "forecast, largest workload": _forecast(LARGEST),
    "ask for a fit": _request_fit(ORDINARY),
    "ask for a fit, largest workload": _request_fit(LARGEST),
    "claim, read and publish a fit": _fit_around_computing,
}
"""Operations that should cost the same with many stored runs as with few."""
