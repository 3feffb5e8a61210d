"""`trainfare doctor`: prints each check, and ends with 1 when one found something."""

from rich.markup import escape

from app.cli.failures import RefusedError
from app.cli.output import out, print_json
from app.services.context import ServiceContext
from app.services.health import HealthService
from app.settings import Settings
from app.storage.database import Database


def diagnose(settings: Settings, *, as_json: bool) -> None:
    """Print all checks.

    Raises
    ------
    RefusedError
        If one of them found something.
    """
    database = Database(settings.url, pool_size=1)
    try:
        checks = HealthService(ServiceContext(database, settings)).diagnose()
    finally:
        database.close()
    if as_json:
        print_json({"checks": checks})
    else:
        for check in checks:
            mark = "[green]ok [/green]" if check.is_ok else "[red]bad[/red]"
            out.print(f"{mark} {check.name}: {escape(check.detail)}")
            if not check.is_ok:
                out.print(f"    {escape(check.remedy)}")
    findings = [check.name for check in checks if not check.is_ok]
    if findings:
        raise RefusedError(f"{len(findings)} finding(s): {', '.join(findings)}.")
