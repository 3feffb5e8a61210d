"""A declaration looks through a workload's runs only where it must, and blocks no upload for it."""

import io

import orjson
import pytest
import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT
from app.domain.errors import SchemaDriftError
from app.domain.identifiers import Slug
from app.domain.workloads import ParameterDeclaration, ParameterType, WorkloadDeclaration
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from tests.support.queries import recorded_queries
from tests.support.uploads import make_json_run

_SLUG = Slug("resnet50")
_MANY = 150
_NUMBER = ParameterDeclaration(ParameterType.NUMBER)
_CATEGORY = ParameterDeclaration(ParameterType.CATEGORY)


@pytest.fixture
def declared(services: Services) -> Services:
    """Return the services with a workload whose parameter `first` only its oldest run has."""
    parameters = [{"first": 1, "depth": 50}, *({"depth": 50} for _ in range(_MANY))]
    for each in (parameters[:1], parameters[1:]):
        body = orjson.dumps([make_json_run(parameters=values) for values in each])
        services.uploads.upload(DEFAULT_PROJECT, io.BytesIO(body), UploadFormat.JSON)
    _declare(services, first=_NUMBER, depth=_NUMBER, unused=_NUMBER)
    return services


def _declare(services: Services, **parameters: ParameterDeclaration) -> set[str]:
    """Declare the workload; return the parameters that it then has."""
    declaration = WorkloadDeclaration(parameters=parameters)
    services.workloads.declare(DEFAULT_PROJECT, _SLUG, declaration)
    detail = services.workloads.get(DEFAULT_PROJECT, _SLUG)
    return set(detail.summary.workload.declaration.parameters)


def test_names_in_runs_are_read_for_parameters_that_would_change(declared: Services) -> None:
    def reads(**parameters: ParameterDeclaration) -> list[bool]:
        """Return whether each reading of names reads all runs."""
        with recorded_queries(declared.context.database) as statements:
            _declare(declared, **parameters)
        named = [each for each in statements if each.startswith("SELECT DISTINCT")]
        return ["LIMIT" not in statement for statement in named]

    assert reads(first=_NUMBER, depth=_NUMBER, unused=_NUMBER) == []
    assert reads(first=_NUMBER, unused=_NUMBER) == [False]
    assert reads(depth=_NUMBER, unused=_NUMBER) == [False, True]


def test_parameter_of_an_old_run_stays_and_keeps_its_type(declared: Services) -> None:
    assert _declare(declared, depth=_NUMBER) == {"first", "depth"}
    with pytest.raises(SchemaDriftError):
        _declare(declared, first=_CATEGORY)


def test_parameter_that_no_run_uses_may_change(declared: Services) -> None:
    assert _declare(declared, unused=_CATEGORY) == {"first", "depth", "unused"}


def test_what_was_measured_is_read_while_others_may_write(declared: Services) -> None:
    engine = declared.context.database.engine
    with recorded_queries(declared.context.database) as steps:
        sa.event.listen(engine, "commit", commit := lambda _: steps.append("COMMIT"))
        declared.workloads.declare(DEFAULT_PROJECT, _SLUG, WorkloadDeclaration(description="new"))
        sa.event.remove(engine, "commit", commit)

    summaries = [index for index, step in enumerate(steps) if "min(run.workers)" in step]
    assert len(summaries) == 1
    assert steps.index("COMMIT") < summaries[0]
