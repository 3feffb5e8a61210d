"""A build that fails while durations creep up says both: it is not the only cause."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.api.test_ci_reports import published, report, run, usual
from tests.support.clock import FakeClock

__all__ = ["published"]


@pytest.mark.lengthy
@pytest.mark.usefixtures("published")
def test_failed_build_is_told_that_durations_crept_up_before_it(
    client: TestClient, clock: FakeClock
) -> None:
    rng = np.random.default_rng(1)
    for number in range(50):
        clock.advance(seconds=60)
        factor = 1.0 if number < 30 else 1.04
        crept = report(client, run(usual() * factor * float(np.exp(rng.normal(0, 0.03)))))

    clock.advance(seconds=60)
    failed = report(client, run(1.6 * usual()))

    assert (crept["verdict"], failed["verdict"]) == ("warn", "fail")
    assert failed["summary"].startswith("Slower than forecast")
    _, said, crept_up, *_ = failed["comment_markdown"].split("\n\n")
    assert said == failed["summary"]
    assert crept_up.startswith("The durations of fitted creep up: +")
    assert crept["comment_markdown"].count("creep up") == 1
