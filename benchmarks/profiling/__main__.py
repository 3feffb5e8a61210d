"""Print how many dollars a profiling plan takes, compared with other orders of measuring.

Usage: ``python -m benchmarks.profiling --data DIR [--hardware FILE.csv] [--seeds 20] [--jobs N]
[--only NAME ...] [--members NAME ...] [--held-out] [--stop-rule] [--growth 1.25] [--out FILE]``.
Each folder of DIR holds a ``runs.csv``; workloads with at least 40 configurations are used. From
four random runs on, configurations are measured until the held-out targets are forecast with at
most 1.2 times the error of a regressor of all candidates. They are taken in the order of the plan
(renewed at each fit), of Ernest's design, by expected price, or at random. A new fit is made
whenever the runs have grown by a quarter. ``--stop-rule`` replays the plan once more until its own
stop rule ends it.

All fits, including the final one, are of two members of the portfolio with their prior weights,
which takes a thirtieth of the time of the service's fits; ``--members all`` fits the whole
portfolio, ``--held-out`` learns its weights. Results already in FILE are not measured again.
"""

import argparse
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

# Set before numpy is imported: several threads only slow down small matrices.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from rich.console import Console  # noqa: E402 - see above
from rich.progress import track  # noqa: E402 - see above

from benchmarks.accuracy.traces import SHIPPED_HARDWARE, read_hardware  # noqa: E402 - see above
from benchmarks.profiling.problems import read_workloads  # noqa: E402 - see above
from benchmarks.profiling.reporting import (  # noqa: E402 - see above
    append_reaches,
    print_reaches,
    read_reaches,
)
from benchmarks.profiling.trial import (  # noqa: E402 - see above
    MEMBERS,
    SEEDS_PER_SPLIT,
    Reach,
    Replay,
    Trials,
)

MIN_CONFIGURATIONS = 40


def main() -> None:
    """Try, write, print."""
    arguments = _parse()
    reaches = read_reaches(arguments.out) if arguments.out else []
    known = {(reach.workload, reach.seed) for reach in reaches}
    for part in _run(_trials(arguments, known), arguments.jobs):
        reaches += part
        if arguments.out:
            append_reaches(part, arguments.out)
    if not reaches:
        raise SystemExit(
            f"No workload with {MIN_CONFIGURATIONS} configurations under {arguments.data}."
        )
    print_reaches(reaches)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data-set folders")
    parser.add_argument(
        "--hardware", type=Path, default=SHIPPED_HARDWARE, help="CSV of GPU specifications"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seeds", type=int, default=20, help="starts of each workload")
    parser.add_argument("--only", nargs="*", help="names of workloads")
    parser.add_argument(
        "--members", nargs="+", default=list(MEMBERS), help="of the portfolio, or: all"
    )
    parser.add_argument("--growth", type=float, default=1.25, help="of the runs between fits")
    parser.add_argument("--held-out", action="store_true", help="learn weights")
    parser.add_argument(
        "--stop-rule", action="store_true", help="also until the plan's own stop rule ends it"
    )
    parser.add_argument(
        "--price-power", type=float, default=1.0, help="gain per price to this power"
    )
    parser.add_argument("--out", type=Path, help="CSV of one row per workload, seed and order")
    return parser.parse_args()


def _trials(arguments: argparse.Namespace, known: set[tuple[str, int]]) -> Iterator[Trials]:
    """Yield the remaining trials: the first split of every workload, then the next of every one."""
    members = None if arguments.members == ["all"] else tuple(arguments.members)
    hardware = read_hardware(arguments.hardware)
    replay = Replay(hardware, arguments.growth, members, arguments.held_out, arguments.stop_rule)
    workloads = [
        workload
        for workload in read_workloads(arguments.data, MIN_CONFIGURATIONS)
        if not arguments.only or workload.name in arguments.only
    ]
    for start in range(0, arguments.seeds, SEEDS_PER_SPLIT):
        seeds = range(start, min(start + SEEDS_PER_SPLIT, arguments.seeds))
        for workload in workloads:
            remaining = tuple(seed for seed in seeds if (workload.name, seed) not in known)
            if remaining:
                yield Trials(workload, remaining, replay)


def _run(trials: Iterator[Trials], jobs: int) -> Iterator[list[Reach]]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures = [pool.submit(Trials.run, trial) for trial in trials]
        console = Console(stderr=True)
        for future in track(as_completed(futures), "measuring", len(futures), console=console):
            yield future.result()


if __name__ == "__main__":
    main()
