"""What workloads leave to the priors of others, and the priors that are shipped."""

import json

import pytest

from models import (
    PooledPrior,
    WorkloadSummary,
    factory_summaries,
    summarise,
)
from tests.models.test_pooling import TYPES, others
from tests.models.workloads import grid, make_runs

pytestmark = pytest.mark.lengthy


def test_summary_survives_its_document() -> None:
    summary = others(1)[0]

    document = json.loads(json.dumps(summary.to_document()))
    back = WorkloadSummary.from_document(document)

    assert back.to_document() == summary.to_document()
    assert PooledPrior.from_summaries([back], {}).report == (
        PooledPrior.from_summaries([summary], {}).report
    )


@pytest.mark.parametrize("damage", ["format", "shape", "level", "weight", "law"])
def test_damaged_summary_is_refused(damage: str) -> None:
    document = others(1)[0].to_document()
    level = next(item for item in document["levels"] if item["category"] == "gpu_type")
    if damage == "format":
        document["format"] = 99
    elif damage == "shape":
        level["effects"] = level["effects"][:-1]
    elif damage == "level":
        level["covariance"][0][0] = float("nan")
    elif damage == "weight":
        document["laws"][0]["weight"] = float("nan")
    else:
        document["laws"][0]["estimates"]["compute|beta"] = [float("inf"), 1.0]

    with pytest.raises(ValueError, match=r"format|fit its levels|not finite"):
        WorkloadSummary.from_document(document)


def test_anonymous_summary_keeps_standard_columns_alone() -> None:
    rows = [
        {**row, "param.width": 8.0 * (1 + index // 3 % 5), "param.secret": "ab"[index % 2]}
        for index, row in enumerate(grid(gpu_types=TYPES))
    ]
    summary = summarise(make_runs(rows), "project-x")

    public = summary.anonymous("public-001")

    assert any("param.width" in name for law in summary.laws for name in law.estimates)
    text = json.dumps(public.to_document())
    assert all(word not in text for word in ("project-x", "width", "secret"))
    assert [item.category for item in public.levels] == ["gpu_type"]


def test_factory_prior_holds_numbers_of_standard_columns_alone() -> None:
    summaries = factory_summaries()

    names = {name for item in summaries for law in item.laws for name in law.estimates}
    assert {item.category for summary in summaries for item in summary.levels} == {
        "gpu_type",
        "param.precision",
    }
    assert {name.split("|")[1] for name in names} <= {
        "beta",
        "workers",
        "dataset_size",
        "epochs",
        "local_batch",
        "workers_per_node",
        "multi_node",
    }
    assert all(summary.workload.startswith("public-") for summary in summaries)
