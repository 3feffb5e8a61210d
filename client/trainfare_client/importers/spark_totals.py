"""Sums up what a Spark log says of executors, tasks and jobs; times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.spark_events import mapping_in, objects_in, text, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILES_SIZE: Final = "size of files read"


@dataclass
class Executors:
    """The current executors, and the most at any one time.

    Attributes
    ----------
    most, most_nodes, most_cores
        The most at any one time: executors, their nodes, and their cores.
    largest_cores
        The cores of the largest executor.
    core_ms
        Cores times the time that they existed.
    """

    most: int = 0
    most_nodes: int = 0
    most_cores: int = 0
    largest_cores: int = 0
    core_ms: int = 0
    _alive: dict[str, tuple[str, int]] = field(default_factory=dict)
    _until_ms: int = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a new executor."""
        self.pass_to(whole(event, "Timestamp"))
        info = mapping_in(event, "Executor Info")
        cores = whole(info, "Total Cores")
        self._alive[text(event, "Executor ID")] = text(info, "Host"), cores
        self.most = max(self.most, len(self._alive))
        self.most_nodes = max(self.most_nodes, len({host for host, _ in self._alive.values()}))
        self.most_cores = max(self.most_cores, self._cores())
        self.largest_cores = max(self.largest_cores, cores)

    def remove(self, event: Mapping[str, Any]) -> None:
        """Remove an executor."""
        self.pass_to(whole(event, "Timestamp"))
        self._alive.pop(text(event, "Executor ID"), None)

    def pass_to(self, now_ms: int) -> None:
        """Count the cores until an instant."""
        if now_ms > self._until_ms:
            self.core_ms += self._cores() * (now_ms - self._until_ms)
            self._until_ms = now_ms

    def _cores(self) -> int:
        return sum(cores for _, cores in self._alive.values())


@dataclass
class Tasks:
    """Totals of the tasks: times of all of them, and bytes of those that succeeded."""

    count: int = 0
    failed: int = 0
    run_ms: int = 0
    overhead_ms: int = 0
    collection_ms: int = 0
    fetch_wait_ms: int = 0
    shuffle_write_ns: int = 0
    input_bytes: int = 0
    input_records: int = 0
    output_bytes: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0
    spilled_bytes: int = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a task that has ended."""
        self.count += 1
        metrics = mapping_in(event, "Task Metrics")
        self._add_times(mapping_in(event, "Task Info"), metrics)
        if text(mapping_in(event, "Task End Reason"), "Reason") == "Success":
            self._add_bytes(metrics)
        else:
            self.failed += 1

    def _add_times(self, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        run_ms = whole(metrics, "Executor Run Time")
        read = mapping_in(metrics, "Shuffle Read Metrics")
        write = mapping_in(metrics, "Shuffle Write Metrics")
        self.run_ms += run_ms
        self.collection_ms += whole(metrics, "JVM GC Time")
        self.fetch_wait_ms += whole(read, "Fetch Wait Time")
        self.shuffle_write_ns += whole(write, "Shuffle Write Time")
        total_ms = whole(info, "Finish Time") - whole(info, "Launch Time")
        # Deserialising, serialising the result, fetching it, and scheduler delay.
        self.overhead_ms += max(total_ms - run_ms, 0) if metrics else 0

    def _add_bytes(self, metrics: Mapping[str, Any]) -> None:
        inputs, outputs = (
            mapping_in(metrics, "Input Metrics"),
            mapping_in(metrics, "Output Metrics"),
        )
        read = mapping_in(metrics, "Shuffle Read Metrics")
        write = mapping_in(metrics, "Shuffle Write Metrics")
        self.input_bytes += whole(inputs, "Bytes Read")
        self.input_records += whole(inputs, "Records Read")
        self.output_bytes += whole(outputs, "Bytes Written")
        self.shuffle_read_bytes += whole(read, "Remote Bytes Read") + whole(
            read, "Local Bytes Read"
        )
        self.shuffle_write_bytes += whole(write, "Shuffle Bytes Written")
        self.spilled_bytes += whole(metrics, "Disk Bytes Spilled")


@dataclass
class Scans:
    """The sizes of the files that SQL queries read, by their plans and the driver's counters."""

    _size_counters: set[int] = field(default_factory=set)
    _sizes: dict[int, int] = field(default_factory=dict)

    @property
    def bytes_read(self) -> int:
        """The total size of all files of all scans."""
        return sum(self._sizes.values())

    def plan(self, event: Mapping[str, Any]) -> None:
        """Process a plan: it says which counters hold file sizes."""
        nodes = [mapping_in(event, "sparkPlanInfo")]
        while nodes:
            node = nodes.pop()
            self._size_counters.update(
                whole(metric, "accumulatorId")
                for metric in objects_in(node, "metrics")
                if metric.get("name") == _FILES_SIZE
            )
            nodes.extend(objects_in(node, "children"))

    def update(self, event: Mapping[str, Any]) -> None:
        """Process the driver's counters."""
        updates = event.get("accumUpdates")
        for update in updates if isinstance(updates, list) else ():
            if not (isinstance(update, list) and update):
                continue
            counter = whole({"id": update[0]}, "id")
            if counter in self._size_counters:
                self._sizes[counter] = whole({"size": update[-1]}, "size")


@dataclass
class Jobs:
    """The jobs, how long any of them ran, and whether the last one to end failed.

    Attributes
    ----------
    count, stages
        Jobs started, stages completed.
    first_ms
        When the first job was submitted; None if there was none.
    busy_ms
        How long at least one job ran.
    failure
        Why the last job or query to end failed; None if it did not.
    """

    count: int = 0
    stages: int = 0
    first_ms: int | None = None
    busy_ms: int = 0
    failure: str | None = None
    _running: set[int] = field(default_factory=set)
    _since_ms: int = 0

    @property
    def is_running(self) -> bool:
        """Whether a job has started and not ended."""
        return bool(self._running)

    def begin(self, event: Mapping[str, Any]) -> None:
        """Process a job's start."""
        now_ms = whole(event, "Submission Time")
        self.first_ms = now_ms if self.first_ms is None else self.first_ms
        if not self._running:
            self._since_ms = now_ms
        self._running.add(whole(event, "Job ID"))
        self.count += 1

    def end(self, event: Mapping[str, Any]) -> None:
        """Process a job's end."""
        was_running = self.is_running
        self._running.discard(whole(event, "Job ID"))
        if was_running and not self._running:
            self.busy_ms += max(whole(event, "Completion Time") - self._since_ms, 0)
        result = mapping_in(event, "Job Result")
        has_failed = text(result, "Result") not in {"JobSucceeded", ""}
        message = text(mapping_in(result, "Exception"), "Message")
        self.failure = (message or "the job failed") if has_failed else None

    def end_query(self, event: Mapping[str, Any]) -> None:
        """Process the end of an SQL query: it may fail without a job."""
        if "errorMessage" in event:
            self.failure = text(event, "errorMessage") or None
