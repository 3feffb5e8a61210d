"""Runs the fitter as this process."""

from app.cli.logs import configure_logging
from app.cli.orphans import end_when_orphaned
from app.settings import Settings


def run_fitter(settings: Settings, *, is_supervised: bool = False) -> None:
    """Fit until a signal ends the process."""
    configure_logging(settings)
    if is_supervised:
        end_when_orphaned()
    from app.fitter import run

    run(settings)
