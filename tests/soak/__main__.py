"""The trials at full length: ``python -m tests.soak [--minutes 30] [--fits 300]``.

Exit code 1 means that promises were broken; the output names each.
"""

import argparse
import sys

from tests.soak.rounds import many_fits, mixed_load


def main() -> None:
    """Run the trials that the arguments select."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="of mixed load; 0: none")
    parser.add_argument("--every-s", type=float, default=20.0, help="seconds between faults")
    parser.add_argument("--fits", type=int, default=300, help="while fitters are killed; 0: none")
    parser.add_argument("--workloads", type=int, default=100, help="that these fits belong to")
    parser.add_argument("--no-ray", action="store_true", help="leave the Ray cluster out")
    arguments = parser.parse_args()
    verdicts = []
    if arguments.fits:
        verdicts.append(
            many_fits(arguments.fits, n_workloads=arguments.workloads, every_s=arguments.every_s)
        )
        print("many fits:", verdicts[-1].describe(), flush=True)  # noqa: T201 - output of a script
    if arguments.minutes:
        verdicts.append(
            mixed_load(
                60 * arguments.minutes, every_s=arguments.every_s, with_ray=not arguments.no_ray
            )
        )
        print("mixed load:", verdicts[-1].describe(), flush=True)  # noqa: T201 - as above
    sys.exit(int(any(verdict.faults for verdict in verdicts)))


if __name__ == "__main__":
    main()
