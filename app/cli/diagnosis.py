"""`trainfare doctor`: prints all checks; the exit code is 1 if one of them failed."""

from rich.markup import escape

from app.cli.failures import RefusedError
from app.cli.output import out, print_json
from app.cli.surroundings import open_context, open_migrated_context
from app.domain.wording import say_count
from app.services.wiring import Services
from app.settings import Settings


def diagnose(settings: Settings, *, as_json: bool) -> None:
    """Run and print all checks.

    Raises
    ------
    RefusedError
        If a check failed.
    """
    with open_context(settings) as context:
        checks = Services(context).diagnosis.diagnose()
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
        raise RefusedError(f"{say_count(len(findings), 'finding')}: {', '.join(findings)}.")


def recount(settings: Settings) -> None:
    """Correct wrong run counts and print the workloads and projects concerned."""
    with open_migrated_context(settings) as context:
        corrected = Services(context).diagnosis.recount()
    for kind, names in (("workload", corrected.workloads), ("project", corrected.projects)):
        listed = f": {', '.join(names)}" if names else ""
        out.print(f"{say_count(len(names), kind)} counted again{listed}.", markup=False)
