"""Adds up the metrics of all web processes of one port, whichever of them is scraped."""

import fcntl
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

_logger = logging.getLogger(__name__)
_WRITE_EVERY_S: Final = 1.0
_CUMULATIVE_TYPES: Final = frozenset({"counter", "histogram"})
"""Types that are kept after a process ends: a decreasing sum would look like a restart."""

_MINIMUM_METRICS: Final = frozenset({"process_start_time_seconds"})
_ENDED: Final = "ended.json"

_Sample: TypeAlias = tuple[str, dict[str, str], float]
_Family: TypeAlias = tuple[str, str, str, list[_Sample]]
"""Name, help text, type and samples: a metric as processes exchange it."""


class SiblingMetrics(Collector):
    """The metrics of this process and its siblings, combined into one set.

    Each process writes its metrics to its own file once a second, and before each scrape that it
    answers, so that no sibling reports less afterwards. Counters and histograms of ended processes
    stay in the sums; their gauges do not.

    Parameters
    ----------
    own
        The metrics of this process.
    folder
        The folder used by this process and its siblings alone.
    """

    def __init__(self, own: CollectorRegistry, folder: Path) -> None:
        self._registry = own
        self._folder = folder
        self._path = folder / f"{os.getpid()}.json"
        self._has_failed = False
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Start writing, and merge the files of ended siblings into one."""
        try:
            with _locked(self._folder):
                self._fold_ended()
        except OSError as error:
            self._log_failure(error)
        self._thread.start()

    def close(self) -> None:
        """End the thread and write the final metrics."""
        self._stop.set()
        self._thread.join()
        self._write()

    @override
    def collect(self) -> Iterator[Metric]:
        for name, documentation, kind, samples in _summed([self._write(), *self._read_others()]):
            metric = Metric(name, documentation, kind)
            for sample in samples:
                metric.add_sample(*sample)
            yield metric

    def _read_others(self) -> list[list[_Family]]:
        try:
            with _locked(self._folder):
                return [
                    _read(path) if _is_alive(path) else _cumulative(_read(path))
                    for path in self._folder.glob("*.json")
                    if path != self._path
                ]
        except OSError as error:
            self._log_failure(error)
            return []

    def _fold_ended(self) -> None:
        """Merge the files of all ended processes into one."""
        # An ended process may have had the same process id as this one.
        files = self._folder.glob("*.json")
        ended = [path for path in files if path == self._path or not _is_alive(path)]
        _write_atomically(
            self._folder / _ENDED, _summed(_cumulative(_read(path)) for path in ended)
        )
        for path in ended:
            if path.name != _ENDED:
                path.unlink()

    def _run(self) -> None:
        self._write()
        while not self._stop.wait(_WRITE_EVERY_S):
            self._write()

    def _write(self) -> list[_Family]:
        """Write this process's metrics for its siblings, and return them."""
        with self._writing:
            families = _families_of(self._registry)
            try:
                _write_atomically(self._path, families)
            except OSError as error:
                self._log_failure(error)
            return families

    def _log_failure(self, error: OSError) -> None:
        """Log once that siblings cannot be reached; metrics are then of this process alone."""
        if not self._has_failed:
            self._has_failed = True
            _logger.warning("metrics are not those of all processes", extra={"reason": str(error)})


def _is_alive(path: Path) -> bool:
    """Whether the process that writes this file is alive."""
    if path.name == _ENDED:
        return False
    try:
        os.kill(int(path.stem), 0)
    except (ProcessLookupError, PermissionError):
        # Siblings run as the same user: another's process got this id later.
        return False
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock that keeps siblings from merging files."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _families_of(registry: CollectorRegistry) -> list[_Family]:
    return [
        (
            metric.name,
            metric.documentation,
            metric.type,
            [(sample.name, sample.labels, sample.value) for sample in metric.samples],
        )
        for metric in registry.collect()
    ]


def _cumulative(families: Iterable[_Family]) -> list[_Family]:
    return [family for family in families if family[2] in _CUMULATIVE_TYPES]


def _read(path: Path) -> list[_Family]:
    families: list[_Family] = orjson.loads(path.read_bytes())
    return families


def _write_atomically(path: Path, families: list[_Family]) -> None:
    """Write the file atomically: siblings read either the old or the new content."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(orjson.dumps(families))
    draft.replace(path)


def _summed(processes: Iterable[Iterable[_Family]]) -> list[_Family]:
    """Return the metric families of all processes with their samples summed.

    Examples
    --------
    >>> one = [("served", "Answers.", "counter", [("served_total", {"route": "/"}, 2.0)])]
    >>> two = [("served", "Answers.", "counter", [("served_total", {"route": "/"}, 3.0)])]
    >>> _summed([one, two])
    [('served', 'Answers.', 'counter', [('served_total', {'route': '/'}, 5.0)])]
    """
    families: dict[str, tuple[str, str]] = {}
    values: defaultdict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]]
    values = defaultdict(dict)
    for name, documentation, kind, samples in (
        family for process in processes for family in process
    ):
        families.setdefault(name, (documentation, kind))
        family_values = values[name]
        for sample, labels, value in samples:
            key = (sample, tuple(labels.items()))
            previous = family_values.get(key)
            if previous is None:
                family_values[key] = value
            else:
                family_values[key] = (
                    min(previous, value) if name in _MINIMUM_METRICS else previous + value
                )
    return [
        (
            name,
            documentation,
            kind,
            [(sample, dict(labels), value) for (sample, labels), value in values[name].items()],
        )
        for name, (documentation, kind) in families.items()
    ]
