"""Uploads to many workloads ask the database as often as those to a few."""

import io

import orjson
import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug
from app.domain.runs import RunStatus
from app.domain.workloads import ParameterType
from app.services.uploads.terms import UploadFormat, UploadResult
from app.services.wiring import Services
from tests.support.queries import recorded_queries
from tests.support.uploads import make_json_run


def _upload(services: Services, prefix: str, count: int, *, first: int = 0) -> int:
    """Upload a run of each of some workloads; return the number of statements."""
    runs = [
        make_json_run(workload=f"{prefix}{number}", parameters={"depth": number, "kind": "a"})
        for number in range(first, first + count)
    ]
    body = io.BytesIO(orjson.dumps(runs))
    with recorded_queries(services.context.database) as statements:
        result = services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON)
    assert result.created == count
    return len(statements)


@pytest.mark.parametrize("is_new", [True, False])
def test_statements_do_not_grow_with_the_workloads(services: Services, *, is_new: bool) -> None:
    if not is_new:
        for prefix, count in (("few", 3), ("many", 300)):
            _upload(services, prefix, count)

    numbers = {_upload(services, "few", 3), _upload(services, "many", 300)}

    assert len(numbers) == 1


def test_names_of_runs_are_looked_up_together_in_all_workloads(services: Services) -> None:
    def upload(*numbers: int) -> tuple[UploadResult, int]:
        runs = [make_json_run(workload=f"w{number}", external_id="same") for number in numbers]
        body = io.BytesIO(orjson.dumps(runs))
        with recorded_queries(services.context.database) as statements:
            result = services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON)
        return result, len(statements)

    upload(*range(300))
    few, n_few = upload(0, 1, 2)
    many, n_many = upload(*range(300))

    assert n_few == n_many
    assert (few.created, few.duplicates) == (0, 3)
    assert (many.created, many.duplicates) == (0, 300)


def test_workloads_are_created_counted_and_typed_beside_existing_ones(services: Services) -> None:
    _upload(services, "w", 5)
    _upload(services, "w", 10, first=2)

    page = services.workloads.list_page(DEFAULT_PROJECT, page_size=100)
    counts = {item.workload.slug: item.runs[RunStatus.SUCCEEDED] for item in page.items}
    assert counts == {Slug(f"w{number}"): 1 + (2 <= number < 5) for number in range(12)}
    for item in page.items:
        types = {name: each.type for name, each in item.workload.declaration.parameters.items()}
        assert types == {"depth": ParameterType.NUMBER, "kind": ParameterType.CATEGORY}
    assert services.diagnosis.recount() == ([], [])
