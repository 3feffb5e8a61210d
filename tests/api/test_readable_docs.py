"""What the documentation shows as answers for people is what the service answers."""

import json
import re
import shlex
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.domain.fits import FitRequest
from app.services.wiring import Services
from tests.support.regressors import fit

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/pricing.md")
_UNITS = {"ms", "min", "days", "day"}


def shown_answers(page: str) -> list[tuple[list[str], list[str]]]:
    """Return the words of each command that asks for plain text, and the lines of its answer."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)]
    found = []
    for part in parts:
        if not part.startswith("curl ") or "text/plain" not in part:
            continue
        # The command ends with the line that closes its last quotation mark.
        lines, end = part.splitlines(), 1
        while "\n".join(lines[:end]).count("'") % 2:
            end += 1
        found.append((shlex.split("\n".join(lines[:end])), lines[end:]))
    return found


def words(line: str) -> list[str]:
    """Return the words of a line; its figures change with the engine and the day."""
    return [word for word in re.findall(r"[A-Za-z][A-Za-z_-]+", line) if word not in _UNITS]


def figures(line: str) -> list[float]:
    """Return the numbers of a line."""
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", line.replace(",", ""))]


@pytest.fixture
def measured(client: TestClient, services: Services) -> TestClient:
    profile = (ROOT / "examples" / "profiles" / "ddp-cpu-2core.csv").read_bytes()
    client.post("/v1/runs", content=profile, headers={"Content-Type": "text/csv"})
    fit(services, "ddp-cnn-cpu")
    return client


def test_pages_show_a_forecast_a_table_and_recommendations() -> None:
    asked = [" ".join(command) for page in PAGES for command, _ in shown_answers(page)]

    assert sum("/forecast?" in command for command in asked) >= 2
    assert sum("/v1/recommendations" in command for command in asked) >= 2


@pytest.mark.parametrize("page", PAGES)
def test_answers_read_as_those_shown(measured: TestClient, page: str) -> None:
    for command, shown in shown_answers(page):
        url = next(word for word in command if word.startswith("localhost:8000"))
        path, headers = url.removeprefix("localhost:8000"), {"Accept": "text/plain"}

        if "-d" in command:
            body = json.loads(command[command.index("-d") + 1])
            answer = measured.post(path, json=body, headers=headers)
        else:
            answer = measured.get(path, headers=headers)

        assert answer.status_code == 200, answer.text
        lines = answer.text.splitlines()
        assert len(lines) >= 4
        for line, expected in zip(lines[:3], shown[:3], strict=True):
            assert words(line)[:6] == words(expected)[:6]


def test_table_of_the_readme_has_the_figures_of_this_engine(
    measured: TestClient, services: Services
) -> None:
    fit(services, "ddp-cnn-cpu", FitRequest())
    [(command, shown)] = [
        (command, shown)
        for command, shown in shown_answers("README.md")
        if "workers=1,2,4,8" in " ".join(command)
    ]

    answer = measured.get(
        command[-1].removeprefix("localhost:8000"), headers={"Accept": "text/plain"}
    )

    for line, expected in zip(answer.text.splitlines()[3:7], shown[3:7], strict=True):
        assert figures(line) == pytest.approx(figures(expected), rel=0.05)
