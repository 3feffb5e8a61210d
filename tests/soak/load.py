"""Clients of the fleet: they retry unanswered requests and record all acknowledgements."""

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from tests.soak.fleet import Fleet

_PAUSE_S: Final = 0.05
_RETRIED_STATUSES: Final = {429, 503}
_TIMEOUT_S: Final = 30.0


@dataclass
class Acceptance:
    """When a client requested a fit and when it was acknowledged, by the monotonic clock."""

    workload: str
    requested_at: float
    acknowledged_at: float


@dataclass
class Promises:
    """What the service acknowledged, and all answers that it must never give."""

    runs: set[str] = field(default_factory=set)
    fits: dict[str, list[Acceptance]] = field(default_factory=dict)
    forecasts: int = 0
    publications: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, answer: httpx2.Response) -> None:
        """Record an answer: results and problems are correct, anything else is a fault."""
        with self._lock:
            self.answers[answer.status_code] += 1
            is_problem = "problem+json" in answer.headers.get("content-type", "")
            if not answer.is_success and not is_problem:
                self.faults.append(f"{answer.status_code} without a problem: {answer.text[:200]}")
            if answer.status_code >= 500 and answer.status_code != 503:
                self.faults.append(f"{answer.status_code}: {answer.text[:300]}")

    def add_fault(self, fault: str) -> None:
        with self._lock:
            self.faults.append(fault)

    def add_runs(self, names: list[str]) -> None:
        with self._lock:
            self.runs.update(names)

    def add_fit(self, fit_id: str, workload: str, requested_at: float) -> None:
        with self._lock:
            acceptance = Acceptance(workload, requested_at, time.monotonic())
            self.fits.setdefault(fit_id, []).append(acceptance)


class Clients:
    """Threads that upload, fit, forecast and publish until they are stopped."""

    def __init__(self, fleet: Fleet, workloads: list[str]) -> None:
        self.promises = Promises()
        self._fleet = fleet
        self._workloads = workloads
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, **numbers: int) -> None:
        """Start a number of threads per action: upload, fit, forecast, publish."""
        for action, number in numbers.items():
            act = getattr(self, f"_{action}")
            for _ in range(number):
                thread = threading.Thread(target=self._repeat, args=(act,), name=action)
                thread.start()
                self._threads.append(thread)

    def stop(self) -> None:
        """Stop all threads after their current action."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, act: Callable[[httpx2.Client, random.Random], None]) -> None:
        generator = random.Random(threading.get_ident())
        with httpx2.Client(timeout=_TIMEOUT_S) as client:
            while not self._stop.is_set():
                try:
                    act(client, generator)
                except Exception as error:  # noqa: BLE001 - a client must not die unnoticed
                    self.promises.add_fault(f"client: {type(error).__name__}: {error}")
                self._stop.wait(_PAUSE_S)

    def send(
        self, client: httpx2.Client, method: str, path: str, **options: Any
    ) -> httpx2.Response | None:
        """Retry until there is a final answer; return None once the clients are stopped."""
        while not self._stop.is_set():
            url = self._fleet.url()
            if url is None:
                self._stop.wait(_PAUSE_S)
                continue
            try:
                answer = client.request(method, url + path, **options)
            except httpx2.TransportError:
                self._stop.wait(_PAUSE_S)
                continue
            self.promises.note(answer)
            if answer.status_code not in _RETRIED_STATUSES:
                return answer
            if "retry-after" not in answer.headers:
                self.promises.add_fault(f"{answer.status_code} without Retry-After")
            self._stop.wait(_PAUSE_S)
        return None

    def _upload(self, client: httpx2.Client, generator: random.Random) -> None:
        workload = generator.choice(self._workloads)
        runs = [make_run(workload, generator) for _ in range(generator.randint(1, 20))]
        key = {"Idempotency-Key": uuid.uuid4().hex}
        answer = self.send(client, "POST", "/v1/runs", json=runs, headers=key)
        if answer is not None and answer.is_success:
            self.promises.add_runs([run["external_id"] for run in runs])

    def _fit(self, client: httpx2.Client, generator: random.Random) -> None:
        workload = generator.choice(self._workloads)
        body = {"regressors": ["log_linear"], "time_budget_s": 5}
        requested_at = time.monotonic()
        answer = self.send(client, "POST", f"/v1/workloads/{workload}/fits", json=body)
        if answer is not None and answer.is_success:
            self.promises.add_fit(answer.json()["fit_id"], workload, requested_at)

    def _forecast(self, client: httpx2.Client, generator: random.Random) -> None:
        workload = generator.choice(self._workloads)
        body = {
            "workload": workload,
            "configuration": {"workers": generator.randint(1, 32)},
            "work": {"dataset_size": generator.randint(100, 100_000)},
        }
        answer = self.send(client, "POST", "/v1/forecasts", json=body)
        if answer is None or not answer.is_success:
            return
        duration = answer.json()["duration_seconds"]
        low, high = duration["lower"], duration["upper"]
        if not 0 < low <= duration["median"] <= high:
            self.promises.add_fault(f"a forecast without sense: {duration}")
        self.promises.forecasts += 1

    def _publish(self, client: httpx2.Client, generator: random.Random) -> None:
        workload = generator.choice(self._workloads)
        listed = self.send(client, "GET", f"/v1/workloads/{workload}/regressors")
        if listed is None or not listed.is_success:
            return
        versions = [regressor["version"] for regressor in listed.json()["regressors"]]
        if versions:
            version = generator.choice(versions)
            path = f"/v1/workloads/{workload}/regressors/{version}:publish"
            answer = self.send(client, "POST", path)
            self.promises.publications += int(answer is not None and answer.is_success)
        self._stop.wait(1.0)


def make_run(workload: str, generator: random.Random) -> dict[str, Any]:
    """Return a run that follows a simple law, with a unique name."""
    workers, size = 2 ** generator.randint(0, 4), 1000 * generator.randint(1, 8)
    duration = (20 + 0.5 * size / workers) * generator.uniform(0.98, 1.02)
    return {
        "workload": workload,
        "external_id": uuid.uuid4().hex,
        "duration_seconds": round(duration, 3),
        "workers": workers,
        "dataset_size": size,
    }
