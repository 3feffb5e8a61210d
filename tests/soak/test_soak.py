"""A short soak test: acknowledged data stays, and each accepted fit ends exactly once."""

import pytest

from tests.conftest import POSTGRESQL_URL
from tests.soak.faults import ALL
from tests.soak.rounds import many_fits, mixed_load

pytestmark = [
    pytest.mark.slow,
    pytest.mark.postgresql,
    pytest.mark.skipif(POSTGRESQL_URL is None, reason="`make test` runs PostgreSQL too"),
]


def test_mixed_load_survives_every_fault() -> None:
    verdict = mixed_load(300.0, every_s=10.0)

    assert not verdict.faults, verdict.describe()
    # All but the Ray node, since a cluster takes more memory than all other processes together.
    assert len(verdict.injected) + len(verdict.left_out) == len(ALL), verdict.describe()
    assert "a Ray node is lost" in verdict.left_out
    assert min(verdict.counts.values()) > 0, verdict.describe()


def test_every_fit_is_published_once_and_in_order() -> None:
    verdict = many_fits(30, n_workloads=10, every_s=3.0)

    assert not verdict.faults, verdict.describe()
    assert verdict.counts["fits accepted"] == 30
