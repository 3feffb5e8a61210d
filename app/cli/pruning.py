"""`trainfare prune`: removes old forecasts, regressor artefacts and CI reports."""

from typing import Annotated, Final

import typer

from app.cli.ages import parse_age
from app.cli.failures import UsageError
from app.cli.operator import Json, read_settings
from app.domain.wording import say_count

PRUNE_EXAMPLES: Final = (
    "trainfare prune --forecasts-older-than 90d --regressors-older-than 180d --dry-run",
    "trainfare prune --forecasts-older-than 90d --project vision",
)
_NOUNS: Final = {
    "forecasts": "recorded forecast",
    "regressors": "artefact",
    "reports": "CI report",
    "answers": "lapsed answer",
}


def prune(
    *,
    forecasts_older_than: Annotated[
        str | None,
        typer.Option(help="Recorded forecasts made longer ago than this (12h, 90d, 26w)."),
    ] = None,
    regressors_older_than: Annotated[
        str | None,
        typer.Option(help="Artefacts of regressors computed and used longer ago than this."),
    ] = None,
    reports_older_than: Annotated[
        str | None, typer.Option(help="CI reports made longer ago than this.")
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="Only what belongs to this project; default: to any.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how many there are, and remove none.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove old forecasts, regressor artefacts and CI reports.

    Forecasts that a run names by its forecast_id are kept: they show how accurate forecasts were.
    A regressor version without artefact keeps its record, but cannot answer or be published again;
    versions that answer, and the newest of each workload, keep their artefact. The runs of a
    removed CI report are kept, and so is the baseline acknowledged with it, but the report can no
    longer be promoted. Stored answers to repeated requests are removed once they have expired. The
    service may be running.
    """
    spans = {
        "forecasts": forecasts_older_than,
        "regressors": regressors_older_than,
        "reports": reports_older_than,
    }
    ages = {kind: parse_age(text) for kind, text in spans.items() if text is not None}
    if not ages:
        raise UsageError(
            "Remove what?",
            "Pass --forecasts-older-than, --regressors-older-than or --reports-older-than.",
        )
    from app.cli.output import print_json
    from app.cli.surroundings import open_migrated_context
    from app.services.idempotency import IdempotencyService
    from app.services.retention import RetentionService

    with open_migrated_context(read_settings()) as context:
        service = RetentionService(context)
        actions = {
            "forecasts": service.count_forecasts if dry_run else service.prune_forecasts,
            "regressors": service.count_regressors if dry_run else service.prune_regressors,
            "reports": service.count_reports if dry_run else service.prune_reports,
        }
        counts = {kind: actions[kind](age, project=project) for kind, age in ages.items()}
        answers = IdempotencyService(context)
        lapsed = answers.count_lapsed if dry_run else answers.purge
        counts["answers"] = lapsed(project=project)
    if as_json:
        print_json({"removable" if dry_run else "removed": counts})
        return
    outcome = "to be removed; none was" if dry_run else "removed"
    for kind, count in counts.items():
        typer.echo(f"{say_count(count, _NOUNS[kind])} {outcome}.")
