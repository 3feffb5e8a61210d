"""The dashboard and the alert rules ask for what the service really tells."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from app.services.wiring import Services
from app.settings import Settings
from tests.support.realised import realise_forecast

_DEPLOY = Path(__file__).parents[2] / "deploy"
_RULES = _DEPLOY / "prometheus" / "alerts.yml"
_RULES_TEST = _DEPLOY / "prometheus" / "alerts_test.yml"
_DASHBOARD = _DEPLOY / "grafana" / "trainfare.json"
_METRIC = re.compile(r"\b(?:trainfare|process)_[a-z_]+")
_SELECTOR = re.compile(r"\b(trainfare_[a-z_]+)\{(.*?)\}")
_COMPARISON = re.compile(r"[<>=]=?\s*[\d.]+")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"metrics_workloads": 5})


def _rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(_RULES.read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(_DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return panels


def _exposed_metrics(client: TestClient, services: Services) -> set[str]:
    realise_forecast(client, services)
    text = client.get("/metrics").text
    return {line.partition("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"}


def test_every_metric_that_an_alert_names_is_told(client: TestClient, services: Services) -> None:
    exposed = _exposed_metrics(client, services)

    for rule in _rules():
        named = set(_METRIC.findall(rule["expr"]))
        assert named, rule["alert"]
        assert named <= exposed, rule["alert"]


def test_every_metric_that_the_dashboard_names_is_told(
    client: TestClient, services: Services
) -> None:
    exposed = _exposed_metrics(client, services)

    for panel in _panels():
        named = {name for target in panel["targets"] for name in _METRIC.findall(target["expr"])}
        assert named, panel["title"]
        assert named <= exposed, panel["title"]


def test_every_label_that_is_asked_for_is_told(client: TestClient, services: Services) -> None:
    realise_forecast(client, services)
    exposition = client.get("/metrics").text
    queries = [rule["expr"] for rule in _rules()]
    queries += [target["expr"] for panel in _panels() for target in panel["targets"]]
    selectors = [selector for expr in queries for selector in _SELECTOR.findall(expr)]

    assert len(selectors) > 10
    for metric, matchers in selectors:
        equal = re.findall(r"\w+=\"[^\"]*\"", matchers)
        names = [f"{name}=" for name in re.findall(r"(\w+)(?:=~|!~|!=)", matchers)]
        series = [line for line in exposition.splitlines() if line.startswith(metric + "{")]
        assert any(all(text in line for text in [*equal, *names]) for line in series), matchers


def test_alerts_compare_wait_and_say_what_to_do() -> None:
    for rule in _rules():
        assert _COMPARISON.search(rule["expr"]), rule["alert"]
        assert rule["for"]
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_memory_is_drawn_of_this_service_alone() -> None:
    [memory] = [panel for panel in _panels() if panel["title"].startswith("Memory")]

    for target in memory["targets"]:
        assert "and on (job, instance) trainfare_build_info" in target["expr"]


def test_panels_of_workloads_name_the_setting_that_they_need() -> None:
    for panel in _panels():
        queries = " ".join(target["expr"] for target in panel["targets"])
        if "trainfare_realised" in queries:
            assert "TRAINFARE_METRICS_WORKLOADS" in panel["description"], panel["title"]


def test_alerts_name_only_what_the_service_answers(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    descriptions = " ".join(rule["annotations"]["description"] for rule in _rules())

    descriptions = re.sub(r"\{\{.*?\}\}|WORKLOAD", "{workload}", descriptions)
    routes = re.findall(r"(?:GET|POST) (/[\w/{}]+)", descriptions)
    assert "/v1/workloads/{workload}/accuracy" in routes
    assert set(routes) <= paths.keys()


def test_panels_stand_side_by_side_and_have_their_own_numbers() -> None:
    panels = _panels()
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(places)) == len(places)


def test_each_alert_is_tested_to_fire() -> None:
    tested = _RULES_TEST.read_text(encoding="utf-8")

    for rule in _rules():
        assert f'alertname="{rule["alert"]}"' in tested, rule["alert"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(("command", "path"), [("check", _RULES), ("test", _RULES_TEST)])
def test_promtool_takes_the_rules_and_their_tests(command: str, path: Path) -> None:
    process = subprocess.run(
        ["promtool", command, "rules", path], check=False, capture_output=True, text=True
    )

    assert process.returncode == 0, process.stdout + process.stderr
