"""Spark's event logs: each application is a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.faults import Report, SourceError
from trainfare_client.importers.naming import run_key, slug
from trainfare_client.importers.rows import ImportedRow
from trainfare_client.importers.spark_events import mapping_in, read_events, text, whole
from trainfare_client.importers.spark_files import SparkLog, find_logs
from trainfare_client.importers.spark_totals import Executors, Jobs, Scans, Tasks
from trainfare_client.importers.spark_values import (
    count_of,
    executor_memory_bytes,
    outcome,
    shuffle_partitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.options import Options

_SQL_EVENTS: Final = "org.apache.spark.sql.execution.ui.SparkListener"
_TIMES: Final = ("Timestamp", "Submission Time", "Completion Time", "time")
_LOG_REMEDY: Final = "Name event logs (spark.eventLog.enabled=true, spark.eventLog.dir)."
_YEAR_10000_MS: Final = 253_402_300_800_000
_COUNTERS: Final = ("shuffle_read_bytes", "shuffle_write_bytes", "input_records", "output_bytes")


@dataclass
class Application:
    """What is known of an application so far; instants are milliseconds since 1970."""

    name: str = ""
    app_id: str = ""
    attempt: str = ""
    version: str = ""
    started_ms: int = 0
    ended_ms: int | None = None
    last_ms: int = 0
    exit_code: int = 0
    conf: dict[str, str] = field(default_factory=dict)
    executors: Executors = field(default_factory=Executors)
    tasks: Tasks = field(default_factory=Tasks)
    scans: Scans = field(default_factory=Scans)
    jobs: Jobs = field(default_factory=Jobs)

    def take(self, event: Mapping[str, Any]) -> None:
        """Process an event; irrelevant ones are ignored.

        Raises
        ------
        ValueError
            If a value in it is of the wrong type.
        """
        self.last_ms = max(self.last_ms, _latest_ms(event))
        handler = _HANDLERS.get(event["Event"])
        if handler is not None:
            handler(self, event)

    @property
    def seconds(self) -> float:
        """How long it took, or how long it ran as far as the log shows."""
        ended_ms = self.last_ms if self.ended_ms is None else self.ended_ms
        return (ended_ms - self.started_ms) / 1000

    def start(self, event: Mapping[str, Any]) -> None:
        """Process its start."""
        self.name, self.app_id = text(event, "App Name"), text(event, "App ID")
        self.attempt = text(event, "App Attempt ID")
        self.started_ms = whole(event, "Timestamp")

    def end(self, event: Mapping[str, Any]) -> None:
        """Process its end."""
        self.ended_ms = whole(event, "Timestamp")
        self.exit_code = whole(event, "ExitCode")

    def learn_settings(self, event: Mapping[str, Any]) -> None:
        """Process its settings."""
        self.conf.update(_texts(mapping_in(event, "Spark Properties"), "spark."))

    def begin_job(self, event: Mapping[str, Any]) -> None:
        """Process a job's start, with the SQL settings that were changed on the way."""
        self.jobs.begin(event)
        changed = _texts(mapping_in(event, "Properties"), "spark.sql.")
        self.conf.update(
            (name, value)
            for name, value in changed.items()
            if not name.startswith("spark.sql.execution.")
        )


def read_spark(paths: Sequence[str], report: Report, options: Options) -> Iterator[ImportedRow]:
    """Yield the applications of event logs; unreadable ones are reported as bad."""
    del options
    for path in paths:
        for log in _logs(path, report):
            row = _read_log(log, report)
            if row is not None:
                yield row


def _read_log(log: SparkLog, report: Report) -> ImportedRow | None:
    try:
        return _row(log, _read(log))
    except SourceError as error:
        report.add(error.place, error.reason, error.remedy)
        return None


def _logs(path: str, report: Report) -> Iterator[SparkLog]:
    try:
        yield from find_logs(path)
    except SourceError as error:
        report.add(error.place, error.reason, error.remedy)


def _read(log: SparkLog) -> Application:
    application = Application()
    place = log.name
    try:
        for place, event in read_events(log):  # noqa: B007 - the error below names the last one
            application.take(event)
    except ValueError as error:
        raise SourceError(place, f"The event is not understood: {error}.", _LOG_REMEDY) from None
    if not 0 < application.started_ms < _YEAR_10000_MS:
        raise SourceError(log.name, "There is no start of an application in it.", _LOG_REMEDY)
    application.executors.pass_to(application.ended_ms or application.last_ms)
    return application


def _row(log: SparkLog, application: Application) -> ImportedRow:
    started = datetime.fromtimestamp(application.started_ms / 1000, timezone.utc)
    has_ended = application.ended_ms is not None
    fields: dict[str, Cell] = {
        "workload": slug(application.name),
        "external_id": _key(application, has_ended=has_ended),
        "status": outcome(
            application.jobs.failure,
            exit_code=application.exit_code,
            has_ended=has_ended,
            is_running=application.jobs.is_running,
        ),
        "duration_seconds": application.seconds,
        "started_at": started.isoformat(timespec="milliseconds"),
        "nodes": application.executors.most_nodes or None,
        "workers": application.executors.most_nodes or None,
        **_parameters(application),
        "label.spark_version": application.version,
        "label.stages": str(application.jobs.stages),
    }
    if not log.is_compacted:
        # A compacted log has lost the tasks of finished jobs.
        fields |= _work(application) | _phases(application)
    return ImportedRow(log.name, fields, _facts(application, fields))


def _key(application: Application, *, has_ended: bool) -> str:
    parts = [part for part in (application.app_id, application.attempt) if part]
    # What an unfinished run has written is another lower bound each time.
    return run_key("spark", *parts, *([] if has_ended else [f"until-{application.last_ms}"]))


def _parameters(application: Application) -> dict[str, Cell]:
    conf, executors = application.conf, application.executors
    return {
        "param.executors": executors.most or None,
        "param.executor_cores": executors.largest_cores or None,
        "param.executor_memory_bytes": executor_memory_bytes(conf),
        "param.parallelism": count_of(conf.get("spark.default.parallelism", ""))
        or executors.most_cores
        or None,
        "param.shuffle_partitions": shuffle_partitions(conf),
        "param.scheduler_mode": conf.get("spark.scheduler.mode", "FIFO").upper(),
    }


def _work(application: Application) -> dict[str, Cell]:
    tasks = application.tasks
    labels: dict[str, Cell] = {
        f"label.{name}": str(getattr(tasks, name)) for name in _COUNTERS if getattr(tasks, name)
    }
    counts: dict[str, Cell] = {
        "label.tasks": str(tasks.count),
        "label.failed_tasks": str(tasks.failed),
    }
    return {"dataset_size": _input_bytes(application) or None, **counts, **labels}


def _input_bytes(application: Application) -> int:
    # Tasks do not count bytes read by Parquet's vectored reader; queries know their files' sizes.
    return max(application.tasks.input_bytes, application.scans.bytes_read)


def _phases(application: Application) -> dict[str, Cell]:
    tasks, jobs, elapsed_s = application.tasks, application.jobs, application.seconds
    first_ms = jobs.first_ms
    phases: dict[str, Cell] = {}
    if first_ms is not None:
        setup_s = max(first_ms - application.started_ms, 0) / 1000
        phases["phase.setup_seconds"] = setup_s
        if not jobs.is_running:
            phases["phase.driver_seconds"] = max(elapsed_s - setup_s - jobs.busy_ms / 1000, 0.0)
    slot_s = _slot_seconds(application)
    if not slot_s or elapsed_s <= 0:
        return phases
    communication_ms = tasks.fetch_wait_ms + tasks.shuffle_write_ns / 1e6
    compute_ms = max(tasks.run_ms - communication_ms - tasks.collection_ms, 0)
    # Converts seconds over all tasks to wall-clock seconds, in proportion to the slots' time.
    per_ms = elapsed_s / slot_s / 1000
    return {
        **phases,
        "phase.compute_seconds": compute_ms * per_ms,
        "phase.communication_seconds": communication_ms * per_ms,
        "phase.garbage_collection_seconds": tasks.collection_ms * per_ms,
        "phase.task_overhead_seconds": tasks.overhead_ms * per_ms,
    }


def _slot_seconds(application: Application) -> float:
    cpus = count_of(application.conf.get("spark.task.cpus", "1")) or 1
    return application.executors.core_ms / 1000 / cpus


def _facts(application: Application, fields: Mapping[str, Cell]) -> dict[str, Cell]:
    tasks, jobs, executors = application.tasks, application.jobs, application.executors
    return {
        "app_name": application.name,
        "app_id": application.app_id,
        "elapsed_s": application.seconds,
        "executors": executors.most,
        "nodes": executors.most_nodes,
        "cores": executors.most_cores,
        **{name.partition(".")[2]: cell for name, cell in fields.items() if name[:6] == "param."},
        "jobs": jobs.count,
        "stages": jobs.stages,
        **vars(tasks),
        "input_bytes": _input_bytes(application),
        **{f"conf.{name}": value for name, value in application.conf.items()},
    }


def _latest_ms(event: Mapping[str, Any]) -> int:
    info = event.get("Task Info")
    if isinstance(info, dict):
        return max(whole(info, "Finish Time"), whole(info, "Launch Time"))
    return max(whole(event, name) for name in _TIMES)


def _texts(properties: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {
        name: value
        for name, value in properties.items()
        if name.startswith(prefix) and isinstance(value, str)
    }


def _complete_stage(application: Application, _event: Mapping[str, Any]) -> None:
    application.jobs.stages += 1


def _learn_version(application: Application, event: Mapping[str, Any]) -> None:
    application.version = text(event, "Spark Version")


_HANDLERS: Final[dict[str, Callable[[Application, Mapping[str, Any]], None]]] = {
    "SparkListenerLogStart": _learn_version,
    "SparkListenerApplicationStart": Application.start,
    "SparkListenerApplicationEnd": Application.end,
    "SparkListenerEnvironmentUpdate": Application.learn_settings,
    "SparkListenerExecutorAdded": lambda application, event: application.executors.add(event),
    "SparkListenerExecutorRemoved": lambda application, event: application.executors.remove(event),
    "SparkListenerJobStart": Application.begin_job,
    "SparkListenerJobEnd": lambda application, event: application.jobs.end(event),
    "SparkListenerStageCompleted": _complete_stage,
    "SparkListenerTaskEnd": lambda application, event: application.tasks.add(event),
    f"{_SQL_EVENTS}SQLExecutionStart": lambda application, event: application.scans.plan(event),
    f"{_SQL_EVENTS}SQLAdaptiveExecutionUpdate": lambda application, event: application.scans.plan(
        event
    ),
    f"{_SQL_EVENTS}DriverAccumUpdates": lambda application, event: application.scans.update(event),
    f"{_SQL_EVENTS}SQLExecutionEnd": lambda application, event: application.jobs.end_query(event),
}
