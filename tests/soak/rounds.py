"""The two trials: a mixed load under all faults, and many fits while fitters are killed."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import httpx2

from app.storage.database import Database
from tests.soak.checking import find_faults
from tests.soak.faults import ALL, FITTERS_ONLY, Misfortune
from tests.soak.fleet import Fleet, running_fleet
from tests.soak.load import Clients, make_run

_SETTLE_S: Final = 180.0
_PER_WORKLOAD: Final = 12


@dataclass
class Verdict:
    """What a trial did, and all broken promises."""

    seconds: float
    struck: Counter[str]
    answers: Counter[int]
    counts: dict[str, int]
    left_out: list[str]
    faults: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Return the verdict as lines of text."""
        lines = [f"{self.seconds:.0f} s"]
        lines += [f"  {number} x {name}" for name, number in self.struck.items()]
        lines += [f"  not possible here: {name}" for name in self.left_out]
        lines += [
            f"  answers {status}: {number}" for status, number in sorted(self.answers.items())
        ]
        lines += [f"  {name}: {number}" for name, number in self.counts.items()]
        lines += [f"  BROKEN: {fault}" for fault in self.faults[:20]]
        return "\n".join([*lines, f"  broken promises: {len(self.faults)}"])


def mixed_load(
    seconds: float, *, every_s: float, n_workloads: int = 10, with_ray: bool = False
) -> Verdict:
    """Upload, fit, forecast and publish while every fault occurs at least once."""
    started = time.monotonic()
    with running_fleet(services=2, fitters=2, with_ray=with_ray) as fleet:
        workloads = [f"workload-{index}" for index in range(n_workloads)]
        clients = Clients(fleet, workloads)
        _first_runs(clients, fleet, workloads)
        misfortune = Misfortune(fleet, ALL, every_s)
        clients.start(upload=2, fit=2, forecast=2, publish=1)
        try:
            misfortune.run(seconds)
        finally:
            clients.stop()
        return _judge(fleet, clients, misfortune, started)


def many_fits(n_fits: int, *, n_workloads: int, every_s: float) -> Verdict:
    """Request a number of fits over workloads while fitters are killed at intervals."""
    started = time.monotonic()
    with running_fleet(services=2, fitters=3) as fleet:
        workloads = [f"workload-{index}" for index in range(n_workloads)]
        clients = Clients(fleet, workloads)
        _first_runs(clients, fleet, workloads)
        misfortune = Misfortune(fleet, FITTERS_ONLY, every_s)
        striking = threading.Thread(target=misfortune.run, name="misfortune")
        striking.start()
        with httpx2.Client(timeout=60.0) as client:
            for index in range(n_fits):
                # One at a time per workload: the next round waits for the last fit to end.
                _fit_anew(clients, client, workloads[index % n_workloads])
            _wait_for_fits(clients, client)
        misfortune.end()
        striking.join()
        clients.stop()
        verdict = _judge(fleet, clients, misfortune, started)
    if len(clients.promises.fits) != n_fits:
        verdict.faults.append(f"{len(clients.promises.fits)} of {n_fits} fits were accepted")
    return verdict


def _first_runs(clients: Clients, fleet: Fleet, workloads: list[str]) -> None:
    chance = random.Random(0)
    runs = [make_run(name, chance) for name in workloads for _ in range(_PER_WORKLOAD)]
    with httpx2.Client(timeout=60.0) as client:
        answer = clients.ask(client, "POST", "/v1/runs", json=runs)
        assert answer is not None
        assert answer.is_success, answer.text
        clients.promises.keep_runs([run["external_id"] for run in runs])


def _fit_anew(clients: Clients, client: httpx2.Client, workload: str) -> None:
    body = {"regressors": ["log_linear", "scaling_law"], "time_budget_s": 5}
    while True:
        asked_at = time.monotonic()
        answer = clients.ask(client, "POST", f"/v1/workloads/{workload}/fits", json=body)
        assert answer is not None
        assert answer.is_success, answer.text
        fit_id = answer.json()["fit_id"]
        is_new = fit_id not in clients.promises.fits
        clients.promises.keep_fit(fit_id, workload, asked_at)
        if is_new:
            return
        # The workload's previous fit is still active.
        clients.ask(client, "GET", f"/v1/fits/{fit_id}", headers={"Prefer": "wait=10"})


def _wait_for_fits(clients: Clients, client: httpx2.Client) -> None:
    for fit_id in clients.promises.fits:
        state = "queued"
        while state in {"queued", "running"}:
            answer = clients.ask(client, "GET", f"/v1/fits/{fit_id}", headers={"Prefer": "wait=10"})
            assert answer is not None
            assert answer.is_success, answer.text
            state = answer.json()["state"]


def _judge(fleet: Fleet, clients: Clients, misfortune: Misfortune, started: float) -> Verdict:
    promises = clients.promises
    with fleet.database() as database:
        _settle(database)
        faults = find_faults(database, promises)
    return Verdict(
        seconds=time.monotonic() - started,
        struck=Counter(misfortune.struck),
        left_out=misfortune.left_out,
        answers=promises.answers,
        counts={
            "runs acknowledged": len(promises.runs),
            "fits accepted": len(promises.fits),
            "forecasts": promises.forecasts,
            "publications": promises.publications,
        },
        faults=faults + fleet.tracebacks(),
    )


def _settle(database: Database) -> None:
    """Wait until all fits have ended."""
    deadline = time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline:
        with database.engine.connect() as connection:
            active = connection.exec_driver_sql(
                "SELECT count(*) FROM fit WHERE state IN ('queued', 'running')"
            ).scalar_one()
        if not active:
            return
        time.sleep(0.5)
