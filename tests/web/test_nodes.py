"""The curve along nodes: from where each worker has a GPU to where each has a node of its own."""

import re

import pytest
from playwright.sync_api import expect

from tests.web.conftest import OpenPage, publish

pytestmark = pytest.mark.browser


def test_curve_along_nodes_ends_where_each_worker_has_its_own(
    empty_service: str, open_page: OpenPage
) -> None:
    runs = [
        {
            "workload": "spread",
            "configuration": {"workers": workers, "nodes": nodes},
            "duration_seconds": 60 + 800 / workers,
        }
        for workers, nodes in ((2, 1), (2, 2), (6, 1), (6, 4))
    ]
    unspread = [
        {**run, "workload": "untold", "configuration": {"nodes": nodes}}
        for run, nodes in zip(runs, (1, 2, 3, 4), strict=True)
    ]
    for each in (runs, unspread):
        publish(empty_service, each)
    page, plot = open_page(f"{empty_service}/workloads/spread?workers=6"), "#curve-plot"
    page.get_by_label("Along").select_option("nodes")
    expect(page.locator(plot)).to_have_attribute("aria-label", re.compile(" at 6;"))

    page.goto(f"{empty_service}/workloads/untold")
    page.get_by_label("Along").select_option("nodes")

    expect(page.locator(plot)).to_have_attribute("aria-label", re.compile(" at 16;"))


def test_curve_along_nodes_begins_where_each_worker_has_a_gpu(
    empty_service: str, open_page: OpenPage
) -> None:
    machine = {"gpu_type": "T4", "instance_type": "g4dn.12xlarge"}
    runs = [
        {
            "workload": "packed",
            "configuration": {**machine, "workers": 4 * nodes, "nodes": nodes},
            "duration_seconds": 60 + 800 / nodes,
        }
        for nodes in (1, 2, 3, 4)
    ]
    publish(empty_service, runs)
    page = open_page(f"{empty_service}/workloads/packed?workers=12&instance_type=g4dn.12xlarge")

    page.get_by_label("Along").select_option("nodes")

    label = re.compile("^Duration over nodes: .* at 3, ")
    expect(page.locator("#curve-plot")).to_have_attribute("aria-label", label)
