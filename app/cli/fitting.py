"""Runs the fitter in this process."""

import threading
from typing import Final

from app.cli.failures import RefusedError
from app.cli.logs import configure_logging
from app.cli.processes.ending import end_within, termination_event
from app.cli.processes.orphans import end_when_orphaned
from app.cli.surroundings import require_database
from app.domain.availability_errors import MissingExtraError
from app.settings import Settings

_GRACE_S: Final = 15.0
"""How long running fits have to return to the queue."""


def run_fitter(settings: Settings, *, is_supervised: bool) -> None:
    """Compute fits until a signal ends the process.

    Raises
    ------
    RefusedError
        If there is no database, if LightGBM cannot be loaded, or if a Ray cluster is configured but
        has another version of Ray.
    MissingExtraError
        If a Ray cluster is configured but Ray is not installed.
    """
    configure_logging(settings)
    require_database(settings)
    with termination_event() as stop:
        has_ended = end_within(_GRACE_S, stop)
        if is_supervised:
            end_when_orphaned()
        try:
            _run(settings, stop)
        finally:
            has_ended.set()


def _run(settings: Settings, stop: threading.Event) -> None:
    from app.fitter import run
    from app.services.computing.task import ComputerRefusedError

    try:
        run(settings, stop)
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise MissingExtraError("ray", "TRAINFARE_RAY_ADDRESS") from error
    except ComputerRefusedError as error:
        raise RefusedError(str(error), error.remedy) from error
