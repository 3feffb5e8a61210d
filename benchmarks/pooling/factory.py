"""Write the factory prior: what public measurements tell about laws and GPU types, as numbers.

Usage: ``python -m benchmarks.pooling.factory --data DIR --out FILE.json [--leave-out DATASET]``.
Each folder of DIR holds ``runs.csv``. No runs are written, only posterior numbers of anonymous
workloads: exponents of the standard columns, and effects of GPU types and precision.
"""

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks.pooling.arms import factory_summaries, summarise_all
from benchmarks.pooling.workloads import read_workloads
from models import FORMAT_OF_SUMMARIES


def main() -> None:
    """Summarise, anonymise, write one workload per line."""
    arguments = _parse()
    workloads = read_workloads(arguments.data)
    console = Console(stderr=True)
    summaries = summarise_all(track(workloads, "summarising", console=console))
    kept = factory_summaries(summaries, arguments.leave_out)
    lines = [
        json.dumps(summary.to_document(), sort_keys=True, separators=(",", ":")) for summary in kept
    ]
    header = f'{{"format": {FORMAT_OF_SUMMARIES}, "workloads": [\n'
    arguments.out.write_text(header + ",\n".join(lines) + "\n]}\n")
    console.print(f"{len(kept)} workloads, {arguments.out.stat().st_size:,} bytes")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pooling.factory", description=__doc__
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of data-set folders")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--leave-out", help="name of a folder whose workloads stay out")
    return parser.parse_args()


if __name__ == "__main__":
    main()
