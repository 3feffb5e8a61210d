"""`trainfare refit`: queues fits for many workloads in the database itself."""

from typing import Annotated, Final

import typer

from app.cli.ages import parse_age
from app.cli.failures import UsageError
from app.cli.operator import Json, read_settings
from app.domain.wording import say_count

REFIT_EXAMPLES: Final = (
    "trainfare refit --all",
    "trainfare refit --all --older-than 7d --project vision",
)


def refit(
    *,
    every: Annotated[
        bool,
        typer.Option("--all", help="All workloads; for a single one: `trainfare fit WORKLOAD`."),
    ] = False,
    older_than: Annotated[
        str,
        typer.Option(help="Only regressors computed longer ago than this (90s, 12h, 7d, 2w)."),
    ] = "0s",
    project: Annotated[
        str | None, typer.Option(help="Only workloads of this project; default: of all.")
    ] = None,
    at_most: Annotated[
        int | None,
        typer.Option(min=1, help="Queue no more fits than this: others wait behind them."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Queue fits of workloads whose regressor is old or missing.

    Fitters compute them. Workloads without a usable run or with an active fit are skipped.
    """
    if not every:
        raise UsageError(
            "Which workloads?", "Pass --all, or fit one with `trainfare fit WORKLOAD`."
        )
    age = parse_age(older_than)
    from app.cli.output import print_json
    from app.cli.surroundings import open_migrated_context
    from app.services.refitting.refits import RefitService

    with open_migrated_context(read_settings()) as context:
        count = RefitService(context).request_all(age, project=project, at_most=at_most)
    if as_json:
        print_json({"queued": count})
    else:
        typer.echo(f"{say_count(count, 'fit')} queued.")
