"""The interval of a run in a CI report agrees with the probability that decides its verdict."""

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.api.test_ci_reports import report, run, usual
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor


@pytest.mark.parametrize("workers", [4, 3])
def test_a_run_at_the_upper_end_of_its_interval_is_exceeded_as_often_as_it_should(
    client: TestClient, services: Services, clock: FakeClock, workers: int
) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)

    def judged(seconds: float) -> dict[str, float]:
        runs = report(client, run(seconds, workers), branch="try", base_branch="main")["runs"]
        return {**runs[0]["expected_seconds"], "p_value": runs[0]["p_value"]}

    expected = judged(usual(workers))
    ends = [judged(expected[name]) for name in ("lower", "median", "upper")]

    assert [end["p_value"] for end in ends] == pytest.approx([0.95, 0.5, 0.05], rel=1e-3)
