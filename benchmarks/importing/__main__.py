"""CPU time and memory of importing Spark event logs of growing size, each in its own process.

    python -m benchmarks.importing --mib 10 100 1000

The logs are synthetic: the events of an application whose tasks end one after another, just over a
kilobyte each. Printed are the CPU seconds of a dry run and the peak memory of its process, next to
those of the smallest log; gzip is the same log, compressed.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

_START_MS: Final = 1_795_259_000_000
_MIB: Final = 1 << 20
_MEASURE: Final = """
import resource, sys
from trainfare_client.importers.command import main
code = main(["spark", sys.argv[1], "--workload", "large", "--dry-run"])
used = resource.getrusage(resource.RUSAGE_SELF)
sys.stderr.write(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss}")
sys.exit(code)
"""


def _lines(size: int) -> Iterator[bytes]:
    """Yield the lines of a log of about `size` bytes."""
    head = [
        {"Event": "SparkListenerApplicationStart", "Timestamp": _START_MS, "App ID": "large"},
        {"Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": _START_MS + 1000},
    ]
    written = 0
    for event in head:
        yield json.dumps(event).encode() + b"\n"
    for number in count():
        line = json.dumps(_task(number)).encode() + b"\n"
        written += len(line)
        yield line
        if written >= size:
            break
    end = {"Event": "SparkListenerApplicationEnd", "Timestamp": _START_MS + number + 2000}
    yield json.dumps(end).encode() + b"\n"


def _task(number: int) -> dict[str, object]:
    launched = _START_MS + 1000 + number
    accumulables = [
        {"ID": 40 + index, "Name": f"internal.metrics.counter{index}", "Update": number * index}
        for index in range(8)
    ]
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": 0,
        "Task End Reason": {"Reason": "Success"},
        "Task Info": {
            "Task ID": number,
            "Launch Time": launched,
            "Finish Time": launched + 900,
            "Accumulables": accumulables,
        },
        "Task Metrics": {
            "Executor Run Time": 800,
            "JVM GC Time": 3,
            "Input Metrics": {"Bytes Read": 65536 + number, "Records Read": 100},
            "Shuffle Write Metrics": {"Shuffle Bytes Written": 800, "Shuffle Write Time": 90_000},
        },
    }


def _import(log: Path) -> tuple[float, float]:
    """Return the seconds and the largest MiB of an import."""
    answer = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(log)], check=True, capture_output=True, text=True
    )
    seconds, kib = answer.stderr.split()[-2:]
    return float(seconds), float(kib) / 1024


def main() -> None:
    """Measure and print one line per log."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, nargs="+", default=[10, 100, 1000])
    sizes = parser.parse_args().mib
    first_mib = 0.0
    print("log          MiB   seconds   MiB/s   memory MiB   of the first")
    with tempfile.TemporaryDirectory() as folder:
        for size in sorted(sizes):
            log = Path(folder) / "log"
            with log.open("wb") as file:
                file.writelines(_lines(size * _MIB))
            packed = Path(folder) / "log.gz"
            with log.open("rb") as plain, gzip.open(packed, "wb", compresslevel=3) as target:
                shutil.copyfileobj(plain, target)
            for name, source in (("plain", log), ("gzip", packed)):
                seconds, mib = _import(source)
                first_mib = first_mib or mib
                speed, growth = size / seconds, mib / first_mib
                print(f"{name:6}{size:10}{seconds:10.2f}{speed:8.1f}{mib:13.1f}{growth:15.2f}")


if __name__ == "__main__":
    main()
