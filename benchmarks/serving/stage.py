"""The setting of the measurements: a database with one fitted workload of generated runs."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import FitRequest
from app.domain.identifiers import Slug
from app.fitter import Fitter
from app.services.computing.task import InProcessComputer
from app.services.context import ServiceContext
from app.services.fitting import FittingService
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import migrate
from benchmarks.evaluation.workloads import generate_runs
from benchmarks.serving.load import MARK
from models import FORMAT_VERSION, FittedPortfolio, loads

WORKLOAD: Final = Slug("generated")


@dataclass(frozen=True, slots=True)
class Stage:
    """The database's URL, the services on it and the published regressor."""

    database_url: str
    services: Services
    portfolio: FittedPortfolio
    artifact: bytes


@contextlib.contextmanager
def prepared_stage(n_runs: int) -> Iterator[Stage]:
    """Create a database in a temporary folder, upload runs and fit them."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), database_url=f"sqlite:///{folder}/stage.db")
        database = Database(settings.url)
        migrate(database)
        services = Services(ServiceContext(database, settings))
        services.uploads.upload(DEFAULT_PROJECT, BytesIO(to_csv(n_runs)), UploadFormat.CSV)
        artifact = _fit(services)
        yield Stage(settings.url, services, loads(artifact), artifact)
        services.close()


def _fit(services: Services) -> bytes:
    context = services.context
    services.fits.request_fit(DEFAULT_PROJECT, WORKLOAD, FitRequest())
    while Fitter(FittingService(context), InProcessComputer(), context.settings).step():
        pass
    with context.database.reading() as stores:
        answering = stores.regressors.answering(DEFAULT_PROJECT, [WORKLOAD], FORMAT_VERSION)
        if WORKLOAD not in answering:
            raise SystemExit("The generated workload could not be fitted.")
        workload_id, version, _ = answering[WORKLOAD]
        return stores.regressors.load_artifact(workload_id, version).data


def to_csv(n_runs: int, seed: int = 0) -> bytes:
    """Return generated runs as the file that a user uploads."""
    runs = generate_runs(n_runs, seed)
    numeric = runs.features.numeric
    names = ["dataset_size", "batch_size", "param.layers"]
    lines = ["workload,gpu_type,workers,duration_seconds," + ",".join(names)]
    for row in range(n_runs):
        gpu = runs.features.categorical["gpu_type"][row]
        sizes = ",".join(f"{numeric[name][row]:.12g}" for name in names)
        workers, seconds = int(numeric["workers"][row]), runs.duration_seconds[row]
        lines.append(f"{WORKLOAD},{gpu},{workers},{seconds:.6f},{sizes}")
    return "\n".join(lines).encode()


def forecast_body(*, record: bool, is_new: bool) -> str:
    """Return the body of a forecast; a new one asks for a different dataset size each time.

    For nine-digit numbers the size is between 210,000 and 300,000, where sizes were measured.
    """
    document: dict[str, Any] = {
        "workload": WORKLOAD,
        "configuration": {"gpu_type": "T4", "workers": 8},
        "work": {"dataset_size": 200_000, "batch_size": 256},
        "parameters": {"layers": 24},
    }
    if not record:
        document["record"] = False
    body = json.dumps(document)
    return body.replace("200000", f"2{MARK}e-4") if is_new else body
