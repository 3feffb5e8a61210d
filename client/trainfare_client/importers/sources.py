"""The sources that runs can be imported from, and the options of each."""

from __future__ import annotations

import argparse
import zoneinfo
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.benchmarks import read_action, read_bencher
from trainfare_client.importers.csv_files import read_csv
from trainfare_client.importers.kubernetes import COMMAND, read_kubernetes
from trainfare_client.importers.mapping import column_map
from trainfare_client.importers.mlflow import read_mlflow
from trainfare_client.importers.options import Options
from trainfare_client.importers.rows import ImportedRow
from trainfare_client.importers.sacct import COLUMNS, read_sacct
from trainfare_client.importers.spark import read_spark
from trainfare_client.importers.units import duration_s
from trainfare_client.importers.wandb import read_wandb

if TYPE_CHECKING:
    from datetime import tzinfo

    from trainfare_client.importers.faults import Report

Reader = Callable[[Sequence[str], "Report", Options], Iterator[ImportedRow]]


@dataclass(frozen=True)
class Source:
    """One kind of source.

    Attributes
    ----------
    help, description, paths, workload
        The texts of the command line.
    read
        Yields its rows.
    nothing
        What to do if it holds no runs.
    arguments
        Its own options: flag and argparse's keywords.
    names
        The fields that one can change there after a run.
    """

    help: str
    description: str
    paths: str
    workload: str
    read: Reader
    nothing: str
    arguments: Sequence[tuple[str, dict[str, Any]]] = ()
    names: frozenset[str] = frozenset()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add this source's own options."""
        for flag, keywords in self.arguments:
            parser.add_argument(flag, **keywords)

    def options(self, given: argparse.Namespace) -> Options:
        """Return the options given on a command line.

        Raises
        ------
        MapError
            If a map is invalid.
        """
        values = {name: value for name, value in vars(given).items() if name in _OPTION_NAMES}
        stated = {name: value for name, value in values.items() if value is not None}
        mapping = column_map(given.map, given.set, workload=given.workload)
        return Options(mapping=mapping, **stated)


_OPTION_NAMES: Final = frozenset({"delimiter", "zone", "key", "measures", "parameters"})


def _one_character(text: str) -> str:
    character = "\t" if text == r"\t" else text
    if len(character) != 1 or character in "\r\n\"'":
        raise argparse.ArgumentTypeError("give one character, \\t for a tab")
    return character


_DELIMITER: Final = (
    "--delimiter",
    {"type": _one_character, "help": "what separates cells (else the header shows it)"},
)


def _zone(name: str) -> tzinfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"there is no time zone {name!r}") from None


_ZONE: Final = (
    "--timezone",
    {
        "dest": "zone",
        "type": _zone,
        "metavar": "NAME",
        "help": "time zone of instants without an offset (Europe/Berlin; else UTC)",
    },
)


def _measure(text: str) -> tuple[str, str]:
    name, equals, unit = text.partition("=")
    if not equals or duration_s(1.0, unit) is None:
        raise argparse.ArgumentTypeError("give NAME=UNIT, such as latency=ns or rate=ops/s")
    return name, unit


_KEY: Final = (
    "--key",
    {
        "metavar": "TEXT",
        "help": "your own id of the measurement, such as that of the CI run; without one the"
        " content is its id",
    },
)
_MEASURES: Final = (
    "--measure",
    {
        "dest": "measures",
        "action": "append",
        "type": _measure,
        "metavar": "NAME=UNIT",
        "help": "the measure to take, and its unit (else latency=ns)",
    },
)
_PARAMETERS: Final = (
    "--params",
    {
        "dest": "parameters",
        "type": lambda text: frozenset(name.strip() for name in text.split(",")),
        "metavar": "NAMES",
        "help": "the parameters to take, separated by commas (else all)",
    },
)
_OPTIONS_AS_PARAMETERS: Final = (
    "--params",
    {
        **_PARAMETERS[1],
        "help": "the options of the command to take as parameters (lr,depth; else none)",
    },
)

SOURCES: Final[dict[str, Source]] = {
    "spark": Source(
        help="event logs of Spark",
        description="Imports Spark's event logs; each application is a run, with the time of its"
        " phases, its input's bytes and the platform's parameters.",
        paths="event log (plain, gzip, zstd), rolling folder, or folder of logs",
        workload="the application's name",
        read=read_spark,
        nothing="Name event logs (spark.eventLog.enabled=true, spark.eventLog.dir).",
    ),
    "sacct": Source(
        help="jobs of Slurm's accounting",
        description="Imports the ended jobs of `sacct --parsable2`; each is a run, steps are not."
        f" Columns: {COLUMNS.replace(',', ', ')}, of which JobID, State and ElapsedRaw have to be"
        " there; Comment and Restarts are read too, others by --map.",
        paths="output of sacct --parsable2, also .gz or .zst; - for standard input",
        workload="the job's name",
        read=read_sacct,
        nothing="Export ended jobs, such as with --starttime now-30days.",
        arguments=(_ZONE, _DELIMITER),
    ),
    "kubernetes": Source(
        help="jobs of Kubernetes",
        description="Imports the ended jobs of Kubernetes (Jobs, JobSets, those of Kubeflow and"
        f" Volcano), with the time, GPUs and nodes of their pods. Export with: {COMMAND}",
        paths="output of kubectl get -o json, also .gz or .zst; - for standard input",
        workload="TRAINFARE_WORKLOAD of the container, else the job's name",
        read=read_kubernetes,
        nothing="Have the jobs ended, and are jobs, pods and nodes exported together?",
        arguments=(_OPTIONS_AS_PARAMETERS,),
    ),
    "mlflow": Source(
        help="runs of MLflow",
        description="Imports the ended runs of MLflow. Parameters such as batch_size, epochs and"
        " world_size become the work and the configuration, others param.NAME.",
        paths="folder mlruns, database mlflow.db, or an answer of runs/search (JSON)",
        workload="the experiment's name",
        read=read_mlflow,
        nothing="Have the runs ended? Those still running are left out.",
        arguments=(_PARAMETERS,),
        names=frozenset({"label.run_name"}),
    ),
    "wandb": Source(
        help="local folders of Weights & Biases",
        description="Imports the ended runs in the folders that Weights & Biases writes beside a"
        " training, online or offline. Members of the config such as batch_size, epochs and"
        " world_size become the work and the configuration, others param.NAME.",
        paths="folder wandb, a run in it, or a file run-ID.wandb",
        workload="the project's name",
        read=read_wandb,
        nothing="Have the runs ended? Those that run, or were killed, are left out.",
        arguments=(_PARAMETERS,),
    ),
    "github-action-benchmark": Source(
        help="history or results of github-action-benchmark",
        description="Imports benchmarks that github-action-benchmark keeps (data.js) or reads."
        " Benchmarks whose unit is not a time are left out.",
        paths="data.js, its JSON, or a list of results (JSON)",
        workload="the benchmark's name",
        read=read_action,
        nothing="Its units are times (ns/iter, ms, s) or rates (ops/sec).",
        arguments=(_KEY,),
    ),
    "bencher": Source(
        help="results in Bencher Metric Format",
        description="Imports benchmarks in Bencher Metric Format (JSON).",
        paths="JSON file, also .gz or .zst; - for standard input",
        workload="the benchmark's name",
        read=read_bencher,
        nothing="Say which measure is the duration: --measure NAME=UNIT.",
        arguments=(_KEY, _MEASURES),
    ),
    "csv": Source(
        help="plain tables with a column map",
        description="Imports CSV files. Columns with the names of an upload are taken as they are.",
        paths="CSV file, also .gz or .zst; - for standard input",
        workload="the column workload",
        read=read_csv,
        nothing="The files hold a header and no rows.",
        arguments=(_DELIMITER,),
    ),
}
