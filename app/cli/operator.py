"""The operator's commands: serve, fitter, migrate."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from app.settings import Settings

Host = Annotated[
    str | None, typer.Option(help="Address to listen on.  [TRAINFARE_HOST; default: 127.0.0.1]")
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Port; 0: any free one.  [TRAINFARE_PORT; default: 8000]"),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Web processes.  [TRAINFARE_WEB_WORKERS; default: 1]"),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen beyond this machine without keys.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Supervised = Annotated[
    bool, typer.Option("--supervised", hidden=True, help="End when standard input ends.")
]

_PREFIX: Final = "TRAINFARE_"
SERVE_EXAMPLES: Final = (
    "trainfare serve --with-fitter --migrate",
    "trainfare serve --host 0.0.0.0 --port 80 --workers 4",
)
_AS_JSON: Final = (
    """Write a list as '["RS256"]', a map as '{"ops": ["admin"]}', quoted for the shell."""
)
WAIT_EXAMPLES: Final = (
    "trainfare wait serve && trainfare serve --host 0.0.0.0",
    "trainfare wait fitter --timeout-s 60",
)
MIGRATE_EXAMPLES: Final = ("trainfare migrate", "trainfare migrate --to 0003 --overwrite")


def read_settings(*, is_logged: bool = False, **changes: Any) -> "Settings":
    """Return the settings from the environment, overridden by the command line.

    Warns of variables that look like settings but are none, unless `is_logged` says that the log
    will.
    """
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from app.cli.failures import UsageError
    from app.settings import Settings

    try:
        settings = Settings(**{name: value for name, value in changes.items() if value is not None})
    except ValidationError as error:
        # Reversed to keep the first error: an invalid part also causes a later, spurious one.
        faults = {fault["loc"][:1]: _fault_text(fault) for fault in reversed(error.errors())}
        message = "; ".join(reversed(faults.values()))
        raise UsageError(message, "Correct the named settings.") from None
    except SettingsError as error:
        raise UsageError(f"{_sentence(error)}.", _AS_JSON) from None
    if not is_logged:
        _warn_of_unknown_variables()
    return settings


def _warn_of_unknown_variables() -> None:
    from app.settings import unknown_variables

    for name, nearest in unknown_variables(os.environ).items():
        hint = "" if nearest is None else f" Did you mean {nearest}?"
        typer.echo(f"Warning: There is no setting {name}.{hint}", err=True)


def _sentence(error: Exception) -> str:
    """Return an error message that names the variable which is not valid JSON."""
    match = re.search(r'field "(\w+)"', str(error))
    return f"{_PREFIX}{match[1].upper()} is not JSON" if match else str(error)


def _fault_text(fault: "ErrorDetails") -> str:
    names = [_PREFIX + f"{part}".upper().removeprefix(_PREFIX) for part in fault["loc"][:1]]
    return ": ".join([*names, fault["msg"].removeprefix("Value error, ")])


def serve(
    *,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    with_fitter: Annotated[
        bool, typer.Option("--with-fitter", help="Run a fitter beside the service.")
    ] = False,
    migrate_first: Annotated[
        bool, typer.Option("--migrate", help="Bring the schema up to date first.")
    ] = False,
    insecure: Insecure = False,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request.")] = False,
    supervised: Supervised = False,
) -> None:
    """Answer requests; one signal (Ctrl-C) shuts it down cleanly."""
    require_keys = False if insecure else None
    settings = read_settings(
        is_logged=True, host=host, port=port, web_workers=workers, require_keys=require_keys
    )
    if migrate_first:
        from app.cli.schema import migrate_schema

        migrate_schema(settings)
    if supervised:
        from app.cli.processes.orphans import end_when_orphaned

        end_when_orphaned()
    if with_fitter:
        from app.cli.processes.supervisor import serve_with_fitter

        serve_with_fitter(settings, access_log=access_log)
        return
    from app.cli.processes import garbage

    garbage.rest()
    from app.cli.processes import serving

    serving.serve(settings, access_log=access_log)


def fitter(*, supervised: Supervised = False) -> None:
    """Compute the requested fits until a signal ends it.

    Any number of fitters may share a database.
    """
    from app.cli.fitting import run_fitter

    run_fitter(read_settings(is_logged=True), is_supervised=supervised)


def migrate(
    *,
    to: Annotated[str, typer.Option(help="Revision to go to; `base` empties the schema.")] = "head",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Allow a downgrade to remove stored data.")
    ] = False,
) -> None:
    """Migrate the database's schema up (or down) to a revision."""
    from app.cli.schema import migrate_schema

    typer.echo(migrate_schema(read_settings(), to, overwrite=overwrite))


def wait(
    awaited: Annotated[
        str, typer.Argument(metavar="serve|fitter", help="The command that is to start.")
    ],
    *,
    timeout_s: Annotated[
        float, typer.Option(min=0, help="Give up after so many seconds.")
    ] = 3600.0,
) -> None:
    """Wait until `serve` or `fitter` could start on the database.

    Both need the schema of this version; `serve` beyond a loopback address also needs a key.
    For the time before a process starts: an init container, a script of a deployment.
    """
    from app.cli.failures import UsageError
    from app.cli.waiting import Awaited, wait_for

    if awaited not in set(Awaited):
        raise UsageError(f"There is no command {awaited!r} to wait for.", "Name serve or fitter.")
    wait_for(read_settings(), Awaited(awaited), timeout_s=timeout_s)


def doctor(*, as_json: Json = False) -> None:
    """Check the database, its content and its machine.

    The checks include schema, artefacts, leases, clock and disk; exit code 1 if one fails.
    """
    from app.cli.diagnosis import diagnose

    diagnose(read_settings(), as_json=as_json)


def recount() -> None:
    """Correct the run counts that `trainfare doctor` finds wrong."""
    from app.cli import diagnosis

    diagnosis.recount(read_settings())


def demo(
    *,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; default: any free one.")
    ] = None,
    exit_after: Annotated[
        bool, typer.Option("--exit", help="End the service after the tour.")
    ] = False,
    profiles: Annotated[
        Path, typer.Option(help="Folder of measured profiles (CSV).", file_okay=False)
    ] = Path("examples/profiles"),
) -> None:
    """Show all steps from measured runs to recommendations."""
    from app.cli.demo import run_demo

    run_demo(read_settings(), port=port or 0, profiles=profiles, exit_after=exit_after)
