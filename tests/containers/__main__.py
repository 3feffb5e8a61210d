"""The image, and the compose file as the guide says to use it, on a real engine.

``python -m tests.containers [--ray] [--no-build]``. It needs Docker with its compose plugin, and
registries that hold the base images. A project of its own is started on a free port and removed
at the end, with its data. Exit code 1 tells that a promise was broken; the last line names it.
"""

import argparse
import sys

from tests.containers.composed import Composed
from tests.containers.trial import try_out


def main() -> None:
    """Run the trial that the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.containers", description=__doc__)
    parser.add_argument("--ray", action="store_true", help="the profile ray as well")
    parser.add_argument("--no-build", action="store_true", help="take the images that are there")
    arguments = parser.parse_args()
    with Composed.started() as project:
        try:
            for line in try_out(project, build=not arguments.no_build, with_ray=arguments.ray):
                print(line, flush=True)  # noqa: T201 - a script that speaks
        except AssertionError as broken:
            print(project.logs(), file=sys.stderr)  # noqa: T201 - as above
            sys.exit(f"broken: {broken}")


if __name__ == "__main__":
    main()
