"""The requests of the documentation's page on profiling plans are answered as it says."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.cli.commands import application
from app.services.wiring import Services
from tests.support.regressors import fit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "profiling.md").read_text()
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")


def bodies() -> list[tuple[str, Any]]:
    """Return workload and body of every plan that the page asks for."""
    matches = re.findall(r"/workloads/([a-z-]+)/profiling-plans\s.*?-d '(.*?)'", SHELL, re.DOTALL)
    return [(workload, json.loads(body)) for workload, body in matches]


def test_plan_of_the_measured_example_is_answered(client: TestClient, services: Services) -> None:
    profile = (ROOT / "examples" / "profiles" / "ddp-cpu-2core.csv").read_bytes()
    client.post("/v1/runs", content=profile, headers={"Content-Type": "text/csv"})
    fit(services, "ddp-cnn-cpu")
    workload, body = bodies()[0]

    path = f"/v1/workloads/{workload}/profiling-plans"
    plan = client.post(path, json=body).json()
    answer = client.post(path, json=body, headers={"Accept": "text/plain"}).text.splitlines()

    shown = re.findall(r"```console\n(ddp-cnn-cpu: measure.*?)```", PAGE, re.DOTALL)[0]
    # The engine may come to choose other runs; what is told of each stays.
    assert answer[2].split() == shown.splitlines()[2].split()
    assert workload == "ddp-cnn-cpu"
    assert plan["considered"] == 18
    assert plan["runs"]
    assert float(plan["total_price"]) <= 0.002


def test_plan_before_the_first_run_reads_as_the_one_shown(client: TestClient) -> None:
    workload, body = bodies()[1]
    client.put(f"/v1/workloads/{workload}", json={"dataset_unit": "samples"})

    answer = client.post(
        f"/v1/workloads/{workload}/profiling-plans", json=body, headers={"Accept": "text/plain"}
    )

    shown = re.findall(r"```console\n(brand-new.*?)```", PAGE, re.DOTALL)[0].splitlines()
    lines = answer.text.splitlines()
    # The engine may come to choose other runs; what surrounds them stays.
    assert lines[0].split(",")[1] == shown[0].split(",")[1]
    assert lines[2].split() == shown[2].split()
    assert lines[-4:] == shown[-4:]


@pytest.mark.parametrize("line", re.findall(r"^trainfare (.*?) -- ", SHELL, re.MULTILINE))
def test_command_lines_name_options_that_exist(line: str) -> None:
    import typer  # noqa: PLC0415 - only this test looks into the command line

    name, *words = shlex.split(line)
    command = typer.main.get_command(application).commands[name]  # type: ignore[attr-defined] # a group
    known = {option for parameter in command.params for option in parameter.opts}

    assert {word for word in words if word.startswith("-")} <= known
