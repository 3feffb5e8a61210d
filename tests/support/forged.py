"""Forged regressors: they load, but forecast no finite duration."""

from hashlib import sha256

import numpy as np
import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.identifiers import WorkloadId
from app.services.tables.frames import run_table
from app.storage.database import Database
from app.storage.stores import Stores
from app.storage.tables import RegressorRow
from models import RunTable, dumps, fit_portfolio, loads
from tests.models.forging import Artefact

_VARIANCE = 150.0
_HALF_WIDTHS = np.linspace(95.0, 99.0, 5)


def forge_artefact(runs: RunTable) -> bytes:
    """Return an artefact whose parts are valid separately, but not in combination."""
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=60.0, regressors=["log_linear"])
    for name, array in portfolio.members["log_linear"].to_state().arrays.items():
        if name.startswith("covariance"):
            array[...] = _VARIANCE * np.eye(len(array))
    forged = Artefact(dumps(portfolio))
    for name, _ in forged.header()["arrays"]:
        if name.startswith("regime."):
            values = forged.array(name)
            values[-len(_HALF_WIDTHS) :] = _HALF_WIDTHS
            forged = Artefact(forged.with_array(name, values))
    loads(forged.data)
    return forged.data


def put_forged(database: Database) -> None:
    """Replace every stored artefact by a forged one with a matching hash."""
    with Session(database.engine) as session, session.begin():
        stores = Stores(session)
        for row in session.execute(sa.select(RegressorRow)).scalars():
            columns = stores.runs.evidence_for_fit(WorkloadId(row.workload_id), None).succeeded()
            row.artifact = forge_artefact(run_table(columns))
            row.artifact_sha256 = sha256(row.artifact).hexdigest()
