"""The client's commands: they talk to a running service over HTTP."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.failures import CommandError, ExitCode, FitFailedError
from app.cli.fields import FORECAST_FIELDS, RECOMMEND_FIELDS, SEARCH
from app.cli.numbers import number_option

UPLOAD_EXAMPLES: Final = (
    "trainfare upload runs.csv more.ndjson.gz",
    "trainfare upload runs.csv --dry-run",
)
FIT_EXAMPLES: Final = (
    "trainfare fit resnet50",
    "trainfare fit resnet50 --time-budget 30 --publish if_better",
)
FORECAST_EXAMPLES: Final = (
    "trainfare forecast resnet50 gpu_type=V100-16GB workers=8 dataset_size=1281167 epochs=90",
    "trainfare forecast resnet50 gpu_type=V100-16GB,T4 workers=1,2,4,8 --json",
)
RECOMMEND_EXAMPLES: Final = (
    "trainfare recommend resnet50 dataset_size=1281167 epochs=90 --deadline 36000",
    "trainfare recommend resnet50 gpu_type=V100-16GB workers=1,2,4,8 --objective duration",
)
KEY_VARIABLES: Final = ["TRAINFARE_API_KEY", "TRAINFARE_KEY"]
"""Environment variables that may hold the key; the second name is an older one."""

Url = Annotated[str, typer.Option(envvar="TRAINFARE_URL", help="Address of the service.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        "--key",
        envvar=KEY_VARIABLES,
        help="API key.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the service's JSON.")]
Workload = Annotated[str, typer.Argument(help="The workload's id.", metavar="WORKLOAD")]
ForecastFields = Annotated[
    list[str] | None,
    typer.Argument(
        help="Flat fields as in CSV; a comma list makes a grid. They are "
        + ", ".join(FORECAST_FIELDS),
        metavar="NAME=VALUE...",
    ),
]
RecommendFields = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"Flat fields as in CSV; comma lists of {', '.join(SEARCH)} name what may be chosen."
        f" The others are {', '.join(name for name in RECOMMEND_FIELDS if name not in SEARCH)}",
        metavar="NAME=VALUE...",
    ),
]
LOCAL: Final = "http://127.0.0.1:8000"


def upload(
    files: Annotated[
        list[Path],
        typer.Argument(exists=True, dir_okay=False, help="CSV, JSON or NDJSON; .gz, .zst."),
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check only.")] = False,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Store the good rows and name the bad.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Upload again what was uploaded before.")
    ] = False,
    url: Url = LOCAL,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Upload files of measured runs, each completely or not at all."""
    from app.cli.asking import show_unsent, show_upload
    from app.cli.connection import connected
    from app.cli.output import name_of, print_json
    from app.cli.uploading import headers_of
    from app.cli.uploading import upload as send

    for file in files:
        headers_of(file)
    parameters = {"dry_run": "true"} if dry_run else {}
    if skip_invalid:
        parameters["on_invalid"] = "skip"
    with connected(url, key) as connection:
        for number, file in enumerate(files, start=1):
            try:
                answer = send(connection, file, parameters, again=again)
            except CommandError:
                show_unsent(file, files[number:])
                raise
            if as_json:
                print_json({"file": name_of(file), **answer})
            else:
                show_upload(str(file), answer)


def fit(
    workload: Workload,
    *,
    time_budget: Annotated[
        float | None,
        number_option(
            "Seconds; default: what the service is set to (TRAINFARE_FIT_TIME_BUDGET_S, 60).",
            minimum=0.001,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="The same seed and runs give the same regressor.  [default: 0]"),
    ] = None,
    publish: Annotated[
        str | None,
        typer.Option(
            help="auto: always; if_better: only if better than the published one; never. "
            " [default: auto]",
            metavar="MODE",
        ),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return at once.")] = False,
    url: Url = LOCAL,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Fit a workload's regressor and show the progress until it ends."""
    from app.cli.asking import show_fit
    from app.cli.connection import connected
    from app.cli.following import describe_wait, fit_all_runs, is_as_asked, request_fit
    from app.cli.output import print_json, print_note

    options = {"time_budget_s": time_budget, "seed": seed, "publish": publish}
    with connected(url, key) as connection:
        request = request_fit if no_wait else fit_all_runs
        document = request(connection, workload, options)
    if as_json:
        print_json(document)
    elif no_wait:
        print_note(describe_wait(document))
        if not is_as_asked(document, options):
            print_note("It was under way already. Request yours when it has ended.")
    if not no_wait:
        check_fit(document)
        if not as_json:
            show_fit(document)


def check_fit(document: dict[str, Any]) -> None:
    """Raise an error if a fit ended without a regressor.

    Raises
    ------
    FitFailedError
        If it failed or was cancelled.
    """
    if document["state"] == "succeeded":
        return
    problem = document.get("problem") or {}
    raise FitFailedError(
        f"Fit {document['fit_id']} {document['state']}: {problem.get('detail', 'no reason given')}",
        "Upload more runs, or ask again.",
    )


def forecast(
    workload: Workload,
    fields: ForecastFields = None,
    *,
    url: Url = LOCAL,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Forecast duration and cost of a configuration or a grid."""
    from app.cli.asking import show_forecasts
    from app.cli.connection import connected, path_of
    from app.cli.fields import split_fields
    from app.cli.output import print_json
    from app.cli.remedies import in_cli_words
    from app.domain.comma_lists import split_list

    question = split_fields(fields or [])
    is_grid = any(len(split_list(value)) > 1 for value in question.values())
    path = path_of(workload, "forecast")
    with connected(url, key) as connection:
        if not is_grid and not as_json:
            typer.echo(in_cli_words(connection.text(path, params=question)), nl=False)
            return
        required = "forecasts" if is_grid else "duration_seconds"
        document = connection.get(path, params=question, required=required)
    if as_json:
        print_json(document)
        return
    show_forecasts(document.get("forecasts", [document]))


def recommend(  # noqa: PLR0913 - each is an option
    workload: Workload,
    fields: RecommendFields = None,
    *,
    objective: Annotated[
        str,
        typer.Option(
            help="cost, duration, cost_duration_product, energy or carbon.", metavar="NAME"
        ),
    ] = "cost",
    deadline: Annotated[float | None, number_option("Seconds.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Money, in `currency`, else the workload's currency.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many to show.")] = 5,
    url: Url = LOCAL,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Recommend the best configuration under a deadline and a budget.

    Exit code 1 if none meets the request.
    """
    from app.cli.asking import show_recommendation
    from app.cli.connection import connected
    from app.cli.fields import recommendation_request, split_fields
    from app.cli.output import print_json

    body = recommendation_request(workload, split_fields(fields or []))
    body |= {"objective": objective, "limit": limit}
    body |= {"deadline_s": deadline} if deadline is not None else {}
    body |= {"budget": budget} if budget is not None else {}
    with connected(url, key) as connection:
        document = connection.post("/v1/recommendations", body, required="recommended")
    if as_json:
        print_json(document)
    else:
        show_recommendation(document)
    if document["recommended"] is None:
        raise typer.Exit(ExitCode.REFUSED)


def workloads(*, url: Url = LOCAL, key: Key = None, as_json: Json = False) -> None:
    """List the workloads of the key's project."""
    from app.cli.asking import show_workloads
    from app.cli.connection import connected
    from app.cli.output import print_json

    with connected(url, key) as connection:
        documents = list(connection.workloads())
    if as_json:
        print_json({"workloads": documents})
    else:
        show_workloads(documents)
