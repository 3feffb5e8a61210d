"""Runs are judged against what the published regressor forecast for them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.configurations import Configuration, Scenario, Work
from app.domain.identifiers import RunId, Slug
from app.domain.runs import Run, RunStatus, Verdict
from app.services.assessments import AssessmentService
from app.services.serving import RegressorCache
from app.services.wiring import Services
from tests.support.regressors import law_seconds, publish_regressor

EXPECTED = law_seconds(4, 1000.0)
RUN = Run(
    run_id=RunId("run_1"),
    workload=Slug("fitted"),
    status=RunStatus.SUCCEEDED,
    duration_seconds=EXPECTED,
    scenario=Scenario(
        Configuration(gpu_type="T4", workers=4), Work(dataset_size=1000.0), {"precision": "fp16"}
    ),
    created_at=datetime(2026, 11, 1, tzinfo=UTC),
)


@pytest.fixture
def assessor(services: Services) -> AssessmentService:
    publish_regressor(services)
    return AssessmentService(RegressorCache(services.context), services.prices)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, Verdict.AS_EXPECTED), (3.0, Verdict.SLOWER), (0.3, Verdict.FASTER)],
)
def test_run_is_judged_by_its_duration(
    assessor: AssessmentService, factor: float, verdict: Verdict
) -> None:
    run = replace(RUN, duration_seconds=factor * EXPECTED)

    [assessment] = assessor.assess(DEFAULT_PROJECT, [run])

    assert assessment.verdict is verdict
    assert assessment.ratio == pytest.approx(factor, rel=0.1)
    assert assessment.p_value is not None
    assert (assessment.p_value < 0.05) == (verdict is not Verdict.AS_EXPECTED)
    assert assessment.expected_lower_seconds is not None
    assert assessment.expected_upper_seconds is not None
    assert assessment.expected_lower_seconds < EXPECTED < assessment.expected_upper_seconds


def test_what_cannot_be_judged_is_unknown_with_its_reason(assessor: AssessmentService) -> None:
    failed = replace(RUN, status=RunStatus.FAILED)
    strange = replace(RUN, scenario=Scenario(Configuration(gpu_type="X9000")))
    elsewhere = replace(RUN, workload=Slug("nobody"))

    assessments = assessor.assess(DEFAULT_PROJECT, [failed, RUN, strange, elsewhere])

    verdicts = [assessment.verdict for assessment in assessments]
    assert verdicts == [Verdict.UNKNOWN, Verdict.AS_EXPECTED, Verdict.UNKNOWN, Verdict.UNKNOWN]
    assert "failed" in (assessments[0].reason or "")
    assert "X9000" in (assessments[2].reason or "")
    assert "nobody" in (assessments[3].reason or "")


def test_only_runs_without_success_are_all_unknown(assessor: AssessmentService) -> None:
    [assessment] = assessor.assess(DEFAULT_PROJECT, [replace(RUN, status=RunStatus.PREEMPTED)])

    assert assessment.verdict is Verdict.UNKNOWN
