"""Steps of builds that report runs, and the runs that they report."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from trainfare_client import Client
from trainfare_client.console import main

from client.tests.runs import make_profile, make_run


@dataclass
class StepResult:
    """What a command ended with and wrote."""

    code: int
    out: str
    err: str


class Step:
    """A step of a build in a folder of its own, with nothing of the machine's own CI around it."""

    def __init__(
        self, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._url, self._capsys, self._environment = url, capsys, monkeypatch

    def set_environment(self, **environment: str) -> None:
        """Set variables of the environment."""
        for name, value in environment.items():
            self._environment.setenv(name, value)

    def report(self, *arguments: object, url: str = "") -> StepResult:
        """Run the command."""
        code = main(["ci", "report", "--url", url or self._url, *map(str, arguments)])
        captured = self._capsys.readouterr()
        return StepResult(code, captured.out, captured.err)


def fit(client: Client, workload: str) -> None:
    client.runs.upload(make_profile(workload))
    client.fits.wait(client.fits.request(workload, time_budget_s=5, seed=1)["fit_id"])


def write_runs(workload: str, *, factor: float = 1.0, build: str = "1") -> str:
    usual = make_run(workload, workers=2, size=4000, external_id=f"build-{build}")
    run = {**usual, "duration_seconds": factor * usual["duration_seconds"]}
    name = f"runs-{build}.json"
    Path(name).write_text(json.dumps([run]))
    return name


def stored(client: Client, workload: str) -> Sequence[Any]:
    return list(client.runs.all(workload))
