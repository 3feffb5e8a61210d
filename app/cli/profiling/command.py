"""The command `profile`: measures the runs of a profiling plan on this machine."""

from pathlib import Path
from typing import Annotated, Final

import typer

from app.cli.client import LOCAL, Json, Key, Url
from app.cli.numbers import number_option

PROFILE_EXAMPLES: Final = (
    "trainfare profile --plan plan.json -- python train.py --workers {workers}",
    "trainfare profile --workload resnet50 -t workers=16 -t epochs=90 --budget 5 -- ./train.sh",
    "trainfare profile --workload resnet50 --target workers=16 --dry-run -- ./train.sh",
)

Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        help="What to become certain about, such as workers=16.",
        metavar="NAME=VALUE",
    ),
]
Search = Annotated[
    list[str] | None,
    typer.Option(
        "--search", "-s", help="What may be measured, such as workers=1,2,4.", metavar="NAME=LIST"
    ),
]


def profile(  # noqa: PLR0913 - each is an option
    command: Annotated[
        list[str], typer.Argument(help="The training command, after --.", metavar="COMMAND")
    ],
    *,
    plan: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A plan as the service returned it."),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="Workload that the service is to plan for.")
    ] = None,
    target: Fields = None,
    search: Search = None,
    budget: Annotated[str | None, typer.Option(help="Money for all runs together.")] = None,
    price_per_hour: Annotated[str | None, typer.Option(help="Price of one worker.")] = None,
    width: Annotated[
        float | None, number_option("Enough when (upper - lower) / median is below.", minimum=0)
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 20,
    timeout: Annotated[float | None, number_option("Seconds per run.", minimum=0.001)] = None,
    max_workers: Annotated[
        int | None,
        typer.Option(min=1, help="Workers this machine hosts. Default: its GPUs, or its cores."),
    ] = None,
    any_hardware: Annotated[
        bool, typer.Option("--any-hardware", help="Do not compare GPU and instance types.")
    ] = False,
    max_failures: Annotated[
        int, typer.Option(min=1, help="End after this many failed runs in a row.")
    ] = 3,
    log: Annotated[
        Path | None, typer.Option(help="Resumable log. Default: profile-WORKLOAD.jsonl.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Start over; discard the log.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show plan and commands.")
    ] = False,
    url: Url = LOCAL,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Run COMMAND in the configurations that narrow a forecast most.

    It runs once per planned configuration. Each run is timed, uploaded and fitted, then the next
    is planned, until the stop rule applies. COMMAND receives its configuration through placeholders
    ({workers}, {nodes}, {gpu_type}, {instance_type}, {dataset_size}, {batch_size}, {epochs},
    {param.NAME}) and environment variables (TRAINFARE_WORKERS, TRAINFARE_DATASET_SIZE, ...,
    TRAINFARE_PARAM_NAME). To resume an interrupted session where its log ends, type the same line
    again.
    """
    from app.cli.connection import connected
    from app.cli.machine import this_machine
    from app.cli.profiling.printing import show_dry_run
    from app.cli.profiling.requests import PlanOptions, read_plan
    from app.cli.profiling.session import Profiler
    from app.cli.profiling.training import CommandRunner

    machine = this_machine(max_workers, is_any=any_hardware)
    options = PlanOptions(target, search, budget, price_per_hour, width)
    with connected(url, key) as connection:
        if plan is not None:
            request = read_plan(plan)
        else:
            request = options.request(workload, machine, connection)
        profiler = Profiler(
            connection,
            request,
            command,
            machine=machine,
            runner=CommandRunner(timeout),
            log_path=log,
            max_runs=runs,
            max_failures=max_failures,
        )
        if dry_run:
            first = profiler.first_plan()
            show_dry_run(first, profiler.commands(first), as_json=as_json)
            return
        profiler.run(is_new=again, as_json=as_json)
