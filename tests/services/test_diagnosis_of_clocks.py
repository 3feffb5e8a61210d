"""The diagnosis tells of records that a clock wrote which was ahead."""

from app.domain.health import Check
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor

_DAY_S = 86_400.0


def _clock(services: Services) -> Check:
    return next(check for check in services.diagnosis.diagnose() if check.name == "clock")


def test_clock_that_was_ahead_is_told_until_its_time_has_come(
    services: Services, clock: FakeClock
) -> None:
    publish_regressor(services, "resnet")
    assert "ahead" not in _clock(services).detail

    clock.advance(-3 * _DAY_S)

    found = _clock(services)
    assert not found.is_ok
    assert "2026-11-01 12:00 UTC" in found.detail
    assert "ask for fits" in found.remedy

    clock.advance(4 * _DAY_S)

    assert "ahead" not in _clock(services).detail
