"""Runs the fitter as this process."""

from app.cli.failures import RefusedError, UnreachableError
from app.cli.logs import configure_logging
from app.cli.orphans import end_when_orphaned
from app.settings import Settings


def run_fitter(settings: Settings, *, is_supervised: bool = False) -> None:
    """Fit until a signal ends the process.

    Raises
    ------
    UnreachableError
        If the Ray cluster of the settings does not answer.
    RefusedError
        If one is named but Ray is not installed.
    """
    configure_logging(settings)
    if is_supervised:
        end_when_orphaned()
    from app.fitter import run

    try:
        run(settings)
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise RefusedError(
            "TRAINFARE_RAY_ADDRESS is set, but Ray is not installed.",
            "Install it (pip install 'trainfare[ray]'), or unset the variable.",
        ) from error
    except ConnectionError as error:
        raise UnreachableError(
            f"No Ray cluster answers at {settings.ray_address}.",
            "Start it, or correct TRAINFARE_RAY_ADDRESS (ray://HOST:10001 from outside).",
        ) from error
