"""Builds the application of one web process."""

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from fastapi import FastAPI

from app.cli.failures import ExitCode
from app.cli.processes import garbage
from app.cli.processes.ending import end_on_hangup, end_within
from app.cli.processes.orphans import end_with_parent
from app.domain.errors import DomainError
from app.domain.threads import ONE_THREAD
from app.settings import Settings

if TYPE_CHECKING:
    from types import ModuleType

_logger = logging.getLogger(__name__)
_END_S: Final = 20.0
"""Time for the shutdown: pending answers first, then writes that are still due."""

_SWITCH_S: Final = 0.0005
"""Thread switch interval, after which the event loop may continue: Python's default of 5 ms is
as long as many answers take together."""


def build(settings: Settings, siblings: Path | None = None) -> FastAPI:
    """Build the application; the entry point of each web process.

    `siblings` is the folder in which several web processes share their metrics.
    """
    # Otherwise an orphan would go on answering, and hold the address that a restart needs.
    end_with_parent()
    end_on_hangup()
    # Before numpy is imported: the matrix products of an answer are small, so that a second thread
    # costs more than it saves. The operator's own settings take precedence.
    for name, count in ONE_THREAD.items():
        os.environ.setdefault(name, count)
    garbage.rest()
    _leave_out_unused()
    sys.setswitchinterval(_SWITCH_S)
    from app.main import build_app

    app = build_app(settings, siblings=siblings)
    end_within(_END_S, app.state.services.context.stopping)
    garbage.settle()
    return app


def build_among_several(settings: Settings, siblings: Path | None) -> FastAPI:
    """Build the application as `build` does; one line of the log tells why this is impossible."""
    try:
        return build(settings, siblings)
    except DomainError as error:
        _logger.error("web process cannot start: %s %s", error, error.remedy)  # noqa: TRY400
        # Not uvicorn's code for a failed start, which would end the other web processes too.
        sys.exit(ExitCode.REFUSED)


def _leave_out_unused() -> None:
    """Keep FastAPI from importing pydantic's v1 API to check for v1 models.

    FastAPI takes the failed import to mean that there are none, which is true here.
    """
    # A None entry is the import system's way to make an import fail.
    sys.modules.setdefault("pydantic.v1", cast("ModuleType", None))
