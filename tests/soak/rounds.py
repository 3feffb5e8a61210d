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
from tests.soak.faults import ALL, FITTERS_ONLY, FaultInjector
from tests.soak.fleet import Fleet, running_fleet
from tests.soak.load import Clients, make_run

_IDLE_TIMEOUT_S: Final = 180.0
_RUNS_PER_WORKLOAD: Final = 12


@dataclass
class Verdict:
    """What a trial did, and all broken promises."""

    seconds: float
    injected: Counter[str]
    answers: Counter[int]
    counts: dict[str, int]
    left_out: list[str]
    faults: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Return the verdict as lines of text."""
        lines = [f"{self.seconds:.0f} s"]
        lines += [f"  {number} x {name}" for name, number in self.injected.items()]
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
        injector = FaultInjector(fleet, ALL, every_s)
        clients.start(upload=2, fit=2, forecast=2, publish=1)
        try:
            injector.run(seconds)
        finally:
            clients.stop()
        return _judge(fleet, clients, injector, started)


def many_fits(n_fits: int, *, n_workloads: int, every_s: float) -> Verdict:
    """Request a number of fits over workloads while fitters are killed at intervals."""
    started = time.monotonic()
    with running_fleet(services=2, fitters=3) as fleet:
        workloads = [f"workload-{index}" for index in range(n_workloads)]
        clients = Clients(fleet, workloads)
        _first_runs(clients, fleet, workloads)
        injector = FaultInjector(fleet, FITTERS_ONLY, every_s)
        injection = threading.Thread(target=injector.run, name="misfortune")
        injection.start()
        with httpx2.Client(timeout=60.0) as client:
            for index in range(n_fits):
                # One at a time per workload: the next round waits for the last fit to end.
                _request_new_fit(clients, client, workloads[index % n_workloads])
            _wait_for_fits(clients, client)
        injector.end()
        injection.join()
        clients.stop()
        verdict = _judge(fleet, clients, injector, started)
    if len(clients.promises.fits) != n_fits:
        verdict.faults.append(f"{len(clients.promises.fits)} of {n_fits} fits were accepted")
    return verdict


def _first_runs(clients: Clients, fleet: Fleet, workloads: list[str]) -> None:
    generator = random.Random(0)
    runs = [make_run(name, generator) for name in workloads for _ in range(_RUNS_PER_WORKLOAD)]
    with httpx2.Client(timeout=60.0) as client:
        answer = clients.send(client, "POST", "/v1/runs", json=runs)
        assert answer is not None
        assert answer.is_success, answer.text
        clients.promises.add_runs([run["external_id"] for run in runs])


def _request_new_fit(clients: Clients, client: httpx2.Client, workload: str) -> None:
    body = {"regressors": ["log_linear", "scaling_law"], "time_budget_s": 5}
    while True:
        requested_at = time.monotonic()
        answer = clients.send(client, "POST", f"/v1/workloads/{workload}/fits", json=body)
        assert answer is not None
        assert answer.is_success, answer.text
        fit_id = answer.json()["fit_id"]
        is_new = fit_id not in clients.promises.fits
        clients.promises.add_fit(fit_id, workload, requested_at)
        if is_new:
            return
        # The workload's previous fit is still active.
        clients.send(client, "GET", f"/v1/fits/{fit_id}", headers={"Prefer": "wait=10"})


def _wait_for_fits(clients: Clients, client: httpx2.Client) -> None:
    for fit_id in clients.promises.fits:
        state = "queued"
        while state in {"queued", "running"}:
            answer = clients.send(
                client, "GET", f"/v1/fits/{fit_id}", headers={"Prefer": "wait=10"}
            )
            assert answer is not None
            assert answer.is_success, answer.text
            state = answer.json()["state"]


def _judge(fleet: Fleet, clients: Clients, injector: FaultInjector, started: float) -> Verdict:
    promises = clients.promises
    with fleet.database() as database:
        _wait_until_idle(database)
        faults = find_faults(database, promises)
    return Verdict(
        seconds=time.monotonic() - started,
        injected=Counter(injector.injected),
        left_out=injector.left_out,
        answers=promises.answers,
        counts={
            "runs acknowledged": len(promises.runs),
            "fits accepted": len(promises.fits),
            "forecasts": promises.forecasts,
            "publications": promises.publications,
        },
        faults=faults + fleet.tracebacks(),
    )


def _wait_until_idle(database: Database) -> None:
    """Wait until all fits have ended."""
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    while time.monotonic() < deadline:
        with database.engine.connect() as connection:
            active = connection.exec_driver_sql(
                "SELECT count(*) FROM fit WHERE state IN ('queued', 'running')"
            ).scalar_one()
        if not active:
            return
        time.sleep(0.5)
