"""Stored regressors as left by another release with another artefact format."""

from hashlib import sha256

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.storage.database import Database
from app.storage.tables import RegressorRow, WorkloadRow
from models import FORMAT_VERSION
from tests.models.forging import Artefact

EARLIER, LATER = FORMAT_VERSION - 1, FORMAT_VERSION + 1


def put_format(database: Database, workload: str, format_version: int, *versions: int) -> None:
    """Give the named versions of a workload's regressor (default: all) another format."""
    query = (
        sa.select(RegressorRow)
        .join(WorkloadRow, WorkloadRow.id == RegressorRow.workload_id)
        .where(WorkloadRow.slug == workload)
    )
    if versions:
        query = query.where(RegressorRow.version.in_(versions))
    with Session(database.engine) as session, session.begin():
        for row in session.execute(query).scalars():
            artefact = Artefact(row.artifact)
            header = {**artefact.header(), "format_version": format_version}
            row.artifact = artefact.with_header(header)
            row.artifact_sha256 = sha256(row.artifact).hexdigest()
            row.format_version = format_version
