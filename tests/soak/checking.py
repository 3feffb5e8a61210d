"""Compares what clients were promised with what the database holds."""

from collections import Counter, defaultdict
from typing import Any

import sqlalchemy as sa

import models
from app.domain.fits import FitState
from app.storage.database import Database
from app.storage.tables import FitRow, PublicationRow, RegressorRow, RunRow, WorkloadRow
from tests.soak.load import Promises

_FINAL = {FitState.SUCCEEDED.value, FitState.FAILED.value, FitState.CANCELLED.value}


def find_faults(database: Database, promises: Promises) -> list[str]:
    """Return every broken promise, in words; none is what is hoped for."""
    with database.engine.connect() as connection:
        runs = connection.execute(sa.select(RunRow.external_id)).scalars().all()
        fits = connection.execute(sa.select(FitRow.__table__)).mappings().all()
        regressors = (
            connection.execute(
                sa.select(
                    RegressorRow.workload_id,
                    RegressorRow.version,
                    RegressorRow.fit_id,
                    RegressorRow.artifact,
                )
            )
            .mappings()
            .all()
        )
        published = {
            row.workload_id: row.version
            for row in connection.execute(
                sa.select(PublicationRow.workload_id, PublicationRow.version)
            )
        }
        slugs = {
            row.id: row.slug
            for row in connection.execute(sa.select(WorkloadRow.id, WorkloadRow.slug))
        }
    return [
        *promises.faults,
        *_runs(promises, runs),
        *_fits(promises, fits, slugs),
        *_versions(fits, regressors),
        *_artifacts(regressors, published),
    ]


def _runs(promises: Promises, stored: Any) -> list[str]:
    counts = Counter(stored)
    lost = [name for name in promises.runs if counts[name] == 0]
    twice = [name for name, count in counts.items() if count > 1]
    return [f"acknowledged run {name} is lost" for name in lost] + [
        f"run {name} is stored {counts[name]} times" for name in twice
    ]


def _fits(promises: Promises, fits: Any, slugs: dict[int, str]) -> list[str]:
    by_id = {row["id"]: row for row in fits}
    faults = []
    for fit_id, workload in promises.fits.items():
        row = by_id.get(fit_id)
        if row is None:
            faults.append(f"accepted fit {fit_id} is lost")
        elif slugs[row["workload_id"]] != workload:
            faults.append(f"fit {fit_id} belongs to another workload")
    for row in fits:
        if row["state"] not in _FINAL:
            faults.append(f"fit {row['id']} has not ended: {row['state']}")
        if row["state"] == FitState.FAILED.value:
            faults.append(f"fit {row['id']} failed: {row['problem']}")
    return faults


def _versions(fits: Any, regressors: Any) -> list[str]:
    """Check that each fit that succeeded left one version, numbered in the order of the ends."""
    made = Counter(row["fit_id"] for row in regressors)
    faults = [f"fit {fit_id} left {count} versions" for fit_id, count in made.items() if count > 1]
    by_workload: dict[int, list[Any]] = defaultdict(list)
    for row in fits:
        if row["state"] != FitState.SUCCEEDED.value:
            continue
        by_workload[row["workload_id"]].append(row)
        if not made[row["id"]]:
            faults.append(f"fit {row['id']} succeeded and left no version")
    for workload, ended in by_workload.items():
        in_order = [row["regressor_version"] for row in sorted(ended, key=_asked)]
        if in_order != list(range(1, len(in_order) + 1)):
            faults.append(f"workload {workload} has its versions out of order: {in_order}")
    return faults


def _asked(row: Any) -> Any:
    return row["requested_at"], row["id"]


def _artifacts(regressors: Any, published: dict[int, int]) -> list[str]:
    stored = {(row["workload_id"], row["version"]): row["artifact"] for row in regressors}
    faults = [
        f"workload {workload} publishes version {version}, which is not there"
        for workload, version in published.items()
        if (workload, version) not in stored
    ]
    for (workload, version), artifact in stored.items():
        try:
            models.loads(artifact)
        except models.ArtifactError as error:
            faults.append(f"version {version} of workload {workload} is damaged: {error}")
    return faults
