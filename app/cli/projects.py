"""`trainfare projects`: their limits and their removal, in the database itself."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.operator import Json, read_settings
from app.domain.quotas import MAX_COUNT, MAX_RUNS, Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.domain.quotas import Quota
    from app.services.quotas import ProjectService

LIMIT_EXAMPLES: Final = (
    "trainfare projects limit vision --runs 1000000 --fits-per-day 200",
    "trainfare projects limit vision --requests-per-minute 6000 --lift runs",
)
DELETE_EXAMPLES: Final = (
    "trainfare projects delete vision  # shows what would be removed",
    "trainfare projects delete vision --yes",
)
projects = typer.Typer(no_args_is_help=True, help="List, limit and delete projects.")


@contextmanager
def _service() -> "Iterator[ProjectService]":
    from app.cli.surroundings import open_migrated_context
    from app.services.quotas import ProjectService

    with open_migrated_context(read_settings()) as context:
        yield ProjectService(context)


def _document(name: str, quota: "Quota", **members: object) -> dict[str, object]:
    return {"project": name, **members, **{limit.value: getattr(quota, limit) for limit in Limit}}


def list_projects(*, as_json: Json = False) -> None:
    """List all projects with their limits; `-` means unlimited."""
    from app.cli.output import print_json, print_table

    with _service() as service:
        documents = [
            _document(project.name, quota, project_id=project.project_id)
            for project, quota in service.list_all()
        ]
    if as_json:
        print_json({"projects": documents})
        return
    print_table(documents)


def _parse_limit(text: str) -> Limit:
    """Return the limit by its option name, or by the name that --json prints."""
    name = text.replace("-", "_")
    if name not in set(Limit):
        known = ", ".join(known_limit.replace("_", "-") for known_limit in Limit)
        raise typer.BadParameter(f"{text!r} is not one of {known}.")
    return Limit(name)


def limit(
    project: Annotated[str, typer.Argument(help="Name of the project.")],
    *,
    runs: Annotated[int | None, typer.Option(min=0, max=MAX_RUNS, help="Most runs stored.")] = None,
    workloads: Annotated[
        int | None, typer.Option(min=0, max=MAX_COUNT, help="Most workloads stored.")
    ] = None,
    fits_per_day: Annotated[
        int | None, typer.Option(min=0, max=MAX_COUNT, help="Most fits requested in 24 hours.")
    ] = None,
    queued_fits: Annotated[
        int | None, typer.Option(min=0, max=MAX_COUNT, help="Most fits waiting.")
    ] = None,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_COUNT, help="Most requests per minute, of all keys to all replicas."
        ),
    ] = None,
    lift: Annotated[
        list[Limit] | None,
        typer.Option(
            parser=_parse_limit,
            metavar="LIMIT",
            help="A limit to lift, by the name of its option; may be repeated.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Set limits of a project; data stored beyond a new limit is kept."""
    from app.cli.output import print_json, print_table

    given = {
        Limit.RUNS: runs,
        Limit.WORKLOADS: workloads,
        Limit.FITS_PER_DAY: fits_per_day,
        Limit.QUEUED_FITS: queued_fits,
        Limit.REQUESTS_PER_MINUTE: requests_per_minute,
    }
    changes: dict[Limit, int | None] = {
        name: value for name, value in given.items() if value is not None
    }
    if conflicting := [name for name in lift or () if name in changes]:
        names = ", ".join(name.replace("_", "-") for name in conflicting)
        raise typer.BadParameter(f"{names}: set it or lift it, not both.", param_hint="--lift")
    changes |= dict.fromkeys(lift or ())
    with _service() as service:
        document = _document(project, service.limit(project, changes))
    if as_json:
        print_json(document)
        return
    print_table([document])


def delete(
    project: Annotated[str, typer.Argument(help="Name of the project.")],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it; without this, only what it has is shown.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove a project and all that belongs to it; the service may run.

    Its keys are revoked first and nothing more is stored for it; then its runs, fits, regressors,
    forecasts, CI reports, prices, exchange rates, grid factors, limits, keys and audit log are
    removed. If this is interrupted, type the command again: it continues. The project `default`,
    which callers without a key use, remains, empty and without limits except that of requests per
    minute. Backups keep what they hold.
    """
    from app.cli.failures import RefusedError
    from app.cli.output import print_json
    from app.cli.surroundings import open_migrated_context
    from app.services.project_removal import ProjectRemovalService

    with open_migrated_context(read_settings()) as context:
        service = ProjectRemovalService(context)
        counts = service.count(project)
        if yes:
            service.remove(project)
    if as_json:
        print_json({"project": project, "removed" if yes else "removable": counts})
    summary = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
    if not yes:
        raise RefusedError(
            f"Project {project} has {summary}; nothing was removed.",
            "Pass --yes to remove all of it for good; `trainfare backup` keeps a copy.",
        )
    if not as_json:
        typer.echo(f"Project {project} is removed: {summary}.")
