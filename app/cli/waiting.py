"""Waits until a command of the service could start."""

import threading
import time
from enum import StrEnum
from typing import Final

import typer

from app.cli.failures import CommandError, ExitCode, RefusedError
from app.cli.processes.ending import termination_event
from app.cli.surroundings import open_current_context
from app.domain.availability_errors import (
    SchemaAheadError,
    SchemaMismatchError,
    StorageUnavailableError,
    StorageUnusableError,
)
from app.domain.errors import DomainError
from app.settings import Settings

_POLL_INTERVAL_S: Final = 1.0


class Awaited(StrEnum):
    """A command that needs a database of this version's schema, and `serve` also a key."""

    SERVE = "serve"
    FITTER = "fitter"


def wait_for(settings: Settings, awaited: Awaited, *, timeout_s: float) -> None:
    """Return once the command could start; say what is missing, each time that it changes.

    Raises
    ------
    CommandError, DomainError
        What is still missing after `timeout_s`, or what waiting cannot mend: a later release's
        schema, a server's database that does not exist or cannot be used safely.
    typer.Exit
        If a signal ended the wait.
    """
    until = time.monotonic() + timeout_s
    told = ""
    with termination_event() as stop:
        while (missing := _missing(settings, awaited)) is not None:
            if time.monotonic() >= until:
                raise missing
            if str(missing) != told:
                told = str(missing)
                typer.echo(f"Waiting: {told}", err=True)
            _pause(stop)


def _pause(stop: threading.Event) -> None:
    if stop.wait(_POLL_INTERVAL_S):
        raise typer.Exit(ExitCode.INTERRUPTED)


def _missing(settings: Settings, awaited: Awaited) -> CommandError | DomainError | None:
    """Return what the command still needs and may come, None if it could start."""
    try:
        with open_current_context(settings) as context:
            if awaited is Awaited.SERVE:
                from app.cli.processes.serving import require_callers

                require_callers(settings, context)
    except (SchemaAheadError, StorageUnusableError):
        raise
    except (RefusedError, SchemaMismatchError, StorageUnavailableError) as error:
        return error
    return None
