"""Compares what clients were promised with the content of the database."""

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
    """Return a description of every broken promise."""
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
        *_order(promises, fits),
        *_artifacts(regressors, published),
    ]


def _runs(promises: Promises, stored: Any) -> list[str]:
    counts = Counter(stored)
    lost = [name for name in promises.runs if counts[name] == 0]
    duplicated = [name for name, count in counts.items() if count > 1]
    return [f"acknowledged run {name} is lost" for name in lost] + [
        f"run {name} is stored {counts[name]} times" for name in duplicated
    ]


def _fits(promises: Promises, fits: Any, slugs: dict[int, str]) -> list[str]:
    by_id = {row["id"]: row for row in fits}
    faults = []
    for fit_id, acceptances in promises.fits.items():
        row = by_id.get(fit_id)
        if row is None:
            faults.append(f"accepted fit {fit_id} is lost")
        elif {slugs[row["workload_id"]]} != {acceptance.workload for acceptance in acceptances}:
            faults.append(f"fit {fit_id} belongs to another workload")
    for row in fits:
        if row["state"] not in _FINAL:
            faults.append(f"fit {row['id']} has not ended: {row['state']}")
        if row["state"] == FitState.FAILED.value:
            faults.append(f"fit {row['id']} failed: {row['problem']}")
    return faults


def _versions(fits: Any, regressors: Any) -> list[str]:
    """Check that each successful fit left one version, and that versions have no gaps."""
    version_counts = Counter(row["fit_id"] for row in regressors)
    faults = [
        f"fit {fit_id} left {count} versions"
        for fit_id, count in version_counts.items()
        if count > 1
    ]
    by_workload: dict[int, list[int]] = defaultdict(list)
    for row in fits:
        if row["state"] != FitState.SUCCEEDED.value:
            continue
        by_workload[row["workload_id"]].append(row["regressor_version"])
        if not version_counts[row["id"]]:
            faults.append(f"fit {row['id']} succeeded and left no version")
    for workload, versions in by_workload.items():
        if sorted(versions) != list(range(1, len(versions) + 1)):
            faults.append(f"workload {workload} has the versions {sorted(versions)}")
    return faults


def _order(promises: Promises, fits: Any) -> list[str]:
    """Check the order of versions by the clients' common clock; the fleet's clocks may be wrong.

    A workload has one active fit: if a fit was known to a client before a request, and the request
    returned another fit, that one is later.
    """
    versions = {row["id"]: row["regressor_version"] for row in fits}
    by_workload: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for fit_id, acceptances in promises.fits.items():
        for acceptance in acceptances:
            if versions.get(fit_id) is not None:
                by_workload[acceptance.workload] += [
                    # At the same instant, requests sort before acknowledgements.
                    (acceptance.requested_at, 0, versions[fit_id]),
                    (acceptance.acknowledged_at, 1, versions[fit_id]),
                ]
    faults = []
    for workload, events in by_workload.items():
        highest_acknowledged = 0
        for _, is_acknowledged, version in sorted(events):
            if is_acknowledged:
                highest_acknowledged = max(highest_acknowledged, version)
            elif version < highest_acknowledged:
                faults.append(
                    f"workload {workload}: version {version} after {highest_acknowledged}"
                )
    return faults


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
