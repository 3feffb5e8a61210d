"""The Kubernetes manifests as the guides say to use them, on the cluster of the current context.

``python -m tests.cluster --image IMAGE:TAG --database-url URL [--ray-image IMAGE:TAG]``. It needs
kubectl (1.27 or newer), an empty PostgreSQL database that the cluster's pods reach, and images that
its nodes can pull. A namespace of its own is created, and removed at the end. Exit code 1 tells
that a promise was broken; the last line names it.
"""

import argparse
import sys

from tests.cluster.installation import Images, Installation
from tests.cluster.trial import try_out


def main() -> None:
    """Run the trial that the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--image", required=True, help="built from the Dockerfile")
    parser.add_argument("--ray-image", help="tries the layer ray with this image too")
    parser.add_argument("--database-url", required=True, help="as the cluster's pods reach it")
    arguments = parser.parse_args()
    images = Images(arguments.image, arguments.ray_image)
    with Installation.started(images, arguments.database_url) as installation:
        try:
            for line in try_out(installation):
                print(line, flush=True)  # noqa: T201 - a script that speaks
        except AssertionError as broken:
            print(installation.state(), file=sys.stderr)  # noqa: T201 - as above
            sys.exit(f"broken: {broken}")


if __name__ == "__main__":
    main()
